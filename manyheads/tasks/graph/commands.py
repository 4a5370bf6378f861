"""predict, evaluate and look, for models of graphs.

L layers, H heads, T nodes.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from manyheads.cli.incoming import read_chunks
from manyheads.cli.screen import print_picture, print_report, tell_warnings
from manyheads.inspect.record import recording
from manyheads.metrics.report import make_report, sign_values
from manyheads.tasks.graph.inspection import count_hops
from manyheads.tasks.graph.picture import GraphPicture, place_nodes
from manyheads.tasks.graph.records import is_smiles, parse_graph
from manyheads.tasks.graph.sources import import_rdkit
from manyheads.tasks.graph.verbs import LookGraphOptions
from manyheads.tasks.inspection import choose_numbers
from manyheads.tasks.model import Predictor
from manyheads.tasks.verbs import ExamplesOptions, PredictOptions


def predict_graphs(model: Predictor, options: PredictOptions) -> None:
    """Print a line for each line; a wrong line of stdin prints an error and an empty line."""
    read = 0
    for some in read_chunks(options.texts):
        wrong = {} if options.texts else find_wrong(model, some)
        for i, sentence in wrong.items():
            print(f"manyheads: line {read + i + 1}: {sentence}", file=sys.stderr)
        sound = [line for i, line in enumerate(some) if i not in wrong]
        with tell_warnings():
            said = iter(model.predict(sound) if sound else [])
        for i in range(len(some)):
            print("" if i in wrong else next(said), flush=True)
        read += len(some)


def find_wrong(model: Predictor, lines: Sequence[str]) -> dict[int, str]:
    """Return {index: reason} of the lines that are no graph."""
    found: dict[int, str] = {}
    if any(map(is_smiles, lines)):
        import_rdkit()  # refuses all at once: without it each line would be wrong
    for i, line in enumerate(lines):
        try:
            model.task.check_line(line)
        except ValueError as error:
            found[i] = str(error)
    return found


def evaluate_graphs(model: Predictor, options: ExamplesOptions) -> None:
    began = time.perf_counter()
    with tell_warnings():
        found = model.task.examine(model.network, options.file)
    if found.left_out.counts:
        print(found.left_out, file=sys.stderr)
    report = make_report(model.name, found.examples, began, sign_values(found.scores))
    print_report(report, options.as_json)


def look(model: Predictor, options: LookGraphOptions) -> None:
    with tell_warnings():
        picture = draw_graph(model, options)
    print_picture(picture, options.out, picture.save)


@torch.no_grad()
def draw_graph(model: Predictor, options: LookGraphOptions) -> GraphPicture:
    """Draw a graph with the attention of a layer and a head, or the mean over all."""
    task, (text,) = model.task, options.graph
    if task.of_nodes:
        raise ValueError(
            f"{model.name} knows one large graph, which no picture holds; `look` draws the graphs "
            "of a model for many, as molecules"
        )
    graph = parse_graph(text)
    batches, member = task.encode([graph]), model.network.members[0]
    with recording(member) as seen:
        member(batches.lay_out([0]).to(model.device))
    if not seen:
        raise ValueError(f"{model.name} has rounds in the place of layers: they look at all alike")
    weights = choose_weights(torch.cat([one.weights for one in seen]), options)
    size = len(graph)
    said = ", ".join(
        f"{name} {value}"
        for name, value in zip(task.schema.targets, model.predict(text).split("\t"), strict=False)
    )
    which = [
        f"{n} {i}" for n, i in (("layer", options.layer), ("head", options.head)) if i is not None
    ]
    if (count := len(model.network.members)) > 1:
        which = [f"attention of the first of {count} networks", *which]
    return GraphPicture(
        next(iter(graph.columns.values())),
        place_nodes(text, count_hops(graph, batches).numpy())[:size],
        [(i, j) for i, j, _ in graph.edges],
        weights[:size, :size].float().cpu(),
        "\n".join([text if len(text) < 60 else f"{text[:57]}...", ", ".join([said, *which])]),
    )


def choose_weights(weights: Tensor, options: LookGraphOptions) -> Tensor:
    """Choose or average layers and heads: (L, H, T, T) -> (T, T)"""
    layers = choose_numbers("layer", options.layer, weights.shape[0])
    heads = choose_numbers("head", options.head, weights.shape[1])
    return weights[layers][:, heads].mean((0, 1))
