"""Compare networks on one corpus: the cost of a layer, how far it carries, and the scores.

N tokens of a sequence.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from manyheads.attention.kernels import KERNELS
from manyheads.attention.places import line
from manyheads.config import load
from manyheads.learn import open_task, prepare_run, resume_run
from manyheads.metrics.report import format_table
from manyheads.modules.build import build_encoder_decoder
from manyheads.modules.config import ConvolutionalConfig, NetworkConfig, TransformerConfig
from manyheads.modules.transformer import Tokens
from manyheads.training.distributed import World
from manyheads.training.files import WEIGHTS, read_note
from manyheads.training.run import METRICS, RECIPE, TIMES, Run
from manyheads.training.trainer import Callback
from manyheads.training.weights import count_parameters

SPEED = "_per_second"  # ending of the name of a speed in a log
WORDS = 64  # size of the small vocabulary that a layer is measured with


@dataclass(frozen=True)
class MeasuredLayer:
    """One layer of an encoder over a sequence of N tokens."""

    operations: int  # multiplications and additions
    reaches: tuple[int, ...]  # how many tokens far a token has an effect; one for each kind
    steps: int  # that must follow each other, on any machine

    def path(self, length: int) -> int:
        """Return the steps from the first token to the last, in one layer or through several.

        Layers are used in order, and from the first again where there are too few.
        """
        way = layers = 0
        while way < length - 1:
            way += self.reaches[layers % len(self.reaches)]
            layers += 1
        return max(self.steps, layers)


def layer_of(network: NetworkConfig, length: int) -> MeasuredLayer:
    """Count the operations of a layer as it runs; measure its reach by changing a token."""
    layers = single_layers(network)
    reaches = {layer: measure_reach(layer, length) for layer in dict.fromkeys(layers)}
    if not any(reaches.values()):
        steps = getattr(network, "dilations", (0,))
        raise ValueError(
            f"convolutions with dilations of {', '.join(map(str, steps))} carry nothing "
            f"between {length} tokens; --length {min(steps) + 1} would do"
            if network.kind == "convolutional"
            else f"layers that see {layers[0].pattern} carry nothing between {length} tokens"
        )
    one = count_operations(layers[0], length)
    return MeasuredLayer(
        operations=count_operations(double_depth(layers[0]), length)
        - one,  # without what is outside layers
        reaches=tuple(reaches[layer] for layer in layers),
        steps=length if network.kind == "recurrent" else 1,
    )


def single_layers(network: NetworkConfig) -> list[Any]:
    """Return networks of one layer: a single one, or one for each dilation or pattern."""
    if isinstance(network, ConvolutionalConfig):
        return [replace(network, depth=1, dilations=(d,)) for d in network.dilations or (1,)]
    if isinstance(network, TransformerConfig):
        return [
            replace(network, depth=1, pattern=pattern, value_embeddings=0)
            for pattern in network.patterns
        ]
    return [replace(network, depth=1)]


def double_depth(network: Any) -> Any:
    """Return the network with its one layer twice."""
    more = {"dilations": network.dilations * 2} if network.kind == "convolutional" else {}
    return replace(network, depth=2, **more)


def count_operations(network: NetworkConfig, length: int) -> int:
    """Count the operations of a forward pass of the encoder."""
    encoder, tokens = plain_encoder(network), Tokens(torch.zeros(1, length).long(), line(length))
    counter = FlopCounterMode(display=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about a GPU setting that the flag below touches
        # Without mkldnn a recurrent layer runs as matrix products, which are counted.
        with torch.no_grad(), torch.backends.mkldnn.flags(enabled=False), counter:
            encoder(tokens)
    return counter.get_total_flops()


def measure_reach(network: NetworkConfig, length: int) -> int:
    """Return the index of the farthest token whose output changes with the first token."""
    encoder = plain_encoder(network).double()
    ids = torch.zeros(2, length).long()
    ids[1, 0] = 1
    with torch.no_grad():
        one, other = encoder(Tokens(ids, line(length)))
    return int((one != other).any(-1).nonzero().max())


def plain_encoder(network: NetworkConfig) -> nn.Module:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        whole = build_encoder_decoder(replace(network, dropout=0.0), WORDS, WORDS, joint=True)
    for part in whole.modules():
        if hasattr(part, "kernel"):
            cast(Any, part).kernel = KERNELS["reference"]  # plain products, which are counted
    encoder: nn.Module = whole.encoder
    return encoder.eval()


# ---- the same corpus and budget for each ------------------------------------------------------


@dataclass(frozen=True)
class Compared:
    """The measurements of one trained network."""

    kind: str
    parameters: int
    per_second: float
    unit: str  # of what is counted: tokens, texts, questions
    scores: dict[str, float]
    layer: MeasuredLayer
    length: int

    def row(self) -> dict[str, Any]:
        return {
            "network": self.kind,
            "parameters": self.parameters,
            f"{self.unit}_per_second": round(self.per_second),
            **{name: round(value, 2) for name, value in self.scores.items()},
            "path": self.layer.path(self.length),
            "sequential_steps": self.layer.steps,
            "operations_a_layer": self.layer.operations,
        }


class Planned(NamedTuple):
    """A network to be trained."""

    recipe: Any
    run: Run
    layer: MeasuredLayer


def plan_runs(recipes: Sequence[Any], out: Path, length: int) -> list[Planned]:
    """Plan a run for each recipe; refuse what cannot work before the first is trained."""
    plans = []
    for recipe in recipes:
        # Padded for all: only a transformer can pack, and all need the same budget.
        own = replace(recipe, layout="padded") if hasattr(recipe, "layout") else recipe
        run = Run(out / own.network.kind)
        if (run / RECIPE).exists() and load(type(own), run / RECIPE) != own:
            raise ValueError(
                f"{run.folder} holds a run with other settings; those would go on with it, "
                "another --out begins anew"
            )
        plans.append(Planned(own, run, layer_of(own.network, length)))
    return plans


def compare(
    recipes: Sequence[Any],
    gathered: Any,
    out: Path,
    world: World = World(),
    callback: Callback = Callback(),
    *,
    length: int = 32,
    asked_to_stop: Callable[[], bool] = lambda: False,
) -> list[Compared]:
    """Train a network for each recipe, on the same corpus; return those that came to their end.

    Runs that are in the folder already are resumed. A network that fails is reported and left out,
    so that it does not cost the others.
    """
    rows = []
    for own, run, layer in plan_runs(recipes, out, length):
        kind = own.network.kind
        if world.broadcast(int(asked_to_stop())):
            break
        callback.say(f"== {kind}")
        if not world.broadcast(int((run / RECIPE).exists())):  # all processes prepare it, or none
            prepare_run(own, run, gathered, world)
        try:
            ended = resume_run(run, world, callback, asked_to_stop)
        except ValueError as error:
            callback.say(f"{kind} is left out: {error}")
            continue
        if not ended:
            break
        rows.append(measure_run(own, run, layer, length))
    else:
        if not rows:
            raise ValueError("none of the networks could be trained; why is told above")
        return rows
    there = ", ".join(row.kind for row in rows) or "none"
    callback.say(f"stopped; trained so far: {there}; the same command goes on from here")
    return rows


def measure_run(recipe: Any, run: Run, layer: MeasuredLayer, length: int) -> Compared:
    found = {line["step"]: line["valid"] for line in run.lines(METRICS) if "valid" in line}
    _, step = read_note(run / WEIGHTS)["moments"][0]  # the best: of equal scores, one is kept
    noted = [one for line in run.lines(TIMES) for one in line.items()]
    speeds = sorted((speed, name) for name, speed in noted if name.endswith(SPEED))
    speed, name = speeds[len(speeds) // 2]
    return Compared(
        recipe.network.kind,
        count_parameters(open_task(recipe, run).network()),
        speed,
        name.removesuffix(SPEED),
        found[step],
        layer,
        length,
    )


def format_comparison(rows: list[Compared]) -> str:
    """Format the comparison as Markdown, for a terminal and a file."""
    cells = [
        {
            "network": row.kind,
            "parameters": f"{row.parameters:,}",
            f"{row.unit}/s": f"{row.per_second:,.0f}",
            **{name: f"{value:.2f}" for name, value in row.scores.items()},
            f"path, N = {row.length}": str(row.layer.path(row.length)),
            "one after another": str(row.layer.steps),
            "operations a layer": f"{row.layer.operations:,}",
        }
        for row in rows
    ]
    return format_table(cells)
