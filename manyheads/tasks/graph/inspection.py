"""The attention page of a graph model: which nodes each node attends to.

T nodes, K targets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.attention.places import graph as join_nodes
from manyheads.inspect.attention_page import AttentionPage, TokenRow
from manyheads.inspect.interventions import Intervention, intervening
from manyheads.inspect.long import MOST_TOKENS
from manyheads.tasks.graph.batches import GraphBatches
from manyheads.tasks.graph.picture import place_nodes
from manyheads.tasks.graph.records import is_smiles, parse_graph
from manyheads.tasks.graph.schema import RawGraph
from manyheads.tasks.inspection import AnyPass, NumberPass, Pass, describe_page, inspect_pass

if TYPE_CHECKING:
    from manyheads.tasks.graph.model import GraphModel

PARTS = {"encoder": ["the nodes read each other", "nodes", "who reads", "what is read"]}
HUB = "◎"  # the node that stands for the whole graph
ANSWERS = ("no", "yes")


def inspect_graph(
    model: GraphModel, given: str | RawGraph, what_if: Sequence[Intervention] = ()
) -> AttentionPage:
    """Inspect one forward pass over a graph; of an ensemble, by its first network."""
    task = model.task
    if task.of_nodes:
        raise ValueError(
            f"{model.name} knows one large graph, which no page holds; `inspect` shows the graphs "
            "of a model for many, as molecules"
        )
    graph = parse_graph(given)
    if len(graph) > MOST_TOKENS:
        raise ValueError(f"a page holds {MOST_TOKENS} nodes at most, this graph has {len(graph)}")
    batches, member = task.encode([graph]), model.network.members[0]

    def run(copies: int) -> Tensor:
        """Return the outputs (copies, K)."""
        return member(batches.lay_out([0] * copies).to(model.device)).float()

    with intervening(member, what_if):
        said = run(1)
    hops = count_hops(graph, batches)
    kind = next(iter(graph.columns))
    about = describe_page(
        model,
        read=given if isinstance(given, str) else graph.name,
        wrote=tell_answers(model, said[None]),
        parts=PARTS,
        unit="node",
        apart="edges between the node that reads and those it reads, on average",
        graph={
            "title": "The molecule" if isinstance(given, str) and is_smiles(given) else "The graph",
            "labels": graph.columns[kind],
            "spots": place_nodes(given, hops.numpy()).round(3).tolist(),
            "edges": graph.edges,
        },
    )
    notes = [f"{HUB} is a node that stands for the whole graph"] if batches.hub else []
    if (count := len(model.network.members)) > 1:
        together = tell_answers(model, model.network(batches.lay_out([0]).to(model.device)).float())
        notes.append(f"the first of {count} networks; together they say {together}")
    if notes:
        about["note"] = "; ".join(notes)
    one = choose_graph_pass(model, member, run, said, len(hops))
    rows = [name_nodes(graph.columns[kind], batches.hub)]
    page = inspect_pass(
        one, rows, lambda layer: ("encoder", "nodes", "nodes", 0), about, what_if, hops.float()
    )
    for target, each in zip(task.schema.targets, page.about.get("candidates", []), strict=False):
        each["of"] = target
    return page


def choose_graph_pass(
    model: GraphModel, member: Any, run: Any, said: Tensor, tokens: int
) -> AnyPass:
    """Choose the pass by the goal: numbers, yes or no for each target, or one class."""
    schema = model.task.schema
    if schema.goal == "numbers":
        return NumberPass(member, run, schema.targets, tokens)
    if schema.goal == "classes":
        wanted = [int(said[0].argmax())]
        return Pass(
            member,
            lambda copies: run(copies).log_softmax(-1)[:, None],
            wanted,
            lambda number: schema.classes[number],
            tokens,
        )

    def weigh(copies: int) -> Tensor:
        found = run(copies)
        return torch.stack([F.logsigmoid(-found), F.logsigmoid(found)], -1)

    wanted = (said[0] > 0).long().tolist()
    return Pass(member, weigh, wanted, lambda number: ANSWERS[number], tokens)


def tell_answers(model: GraphModel, said: Tensor) -> str:
    """Return the answer of an ensemble as text: (M, 1, K) -> "solubility -0.7716" """
    schema, (answer,) = model.task.schema, model.task.combine(said)
    if schema.goal == "labels":
        yes = [name for name, one in zip(schema.targets, answer.tolist(), strict=True) if one > 0.5]
        return ", ".join(yes) or f"not {' nor '.join(schema.targets)}"
    named = zip(schema.targets, model.task.format(answer), strict=True)
    return ", ".join(f"{name} {value}" for name, value in named)


def count_hops(graph: RawGraph, batches: GraphBatches) -> Tensor:
    """Return the hops between all nodes, (T, T). Unconnected nodes are one hop further apart than
    any connected ones; the node that stands for the graph is one hop from all.
    """
    size = len(graph)
    found = join_nodes([(i, j) for i, j, _ in graph.edges], size).hops
    assert isinstance(found, Tensor)
    inside = found[0][found[0] < size]
    hops = found[0].clamp(max=int(inside.max()) + 1)
    if not batches.hub:
        return hops
    whole = torch.ones(size + 1, size + 1, dtype=hops.dtype)
    whole[:size, :size], whole[size, size] = hops, 0
    return whole


def name_nodes(labels: Sequence[str], hub: int) -> TokenRow:
    """["C", "O"] -> C0 O1"""
    count = len(labels)
    names = [*(f"{label or 'node '}{i}" for i, label in enumerate(labels)), *[HUB] * hub]
    return TokenRow("nodes", names, range(count + hub), [i >= count for i in range(count + hub)])
