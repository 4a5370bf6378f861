"""Trained models: found by name or folder, loaded, and asked.

A model is a run's folder, or a smaller one with its recipe.yaml, tokenizer.json and
weights.safetensors alone; those that come with the package are called by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch

from manyheads.codecs.text import START, STOP
from manyheads.inspect.drawing import AttentionMap
from manyheads.inspect.record import recording
from manyheads.model.networks import EncoderDecoder, Tokens
from manyheads.recipe import Recipe
from manyheads.settings import load as load_settings
from manyheads.tasks.prepare import load_codecs
from manyheads.tasks.texts import Texts
from manyheads.tasks.words import links
from manyheads.tasks.writing import Ids, Writing, write
from manyheads.training.averages import load_weights, weights_of
from manyheads.training.files import fitting, read_tensors
from manyheads.training.runs import RECIPE, WEIGHTS
from manyheads.training.world import chosen

BUILT_IN = Path(__file__).parent / "builtin"
AT_ONCE = 1024  # texts held in memory while a long file passes through
MOST_TOKENS = 4096  # of one text to be read


class Written(NamedTuple):
    """A text, and how likely the model finds it."""

    text: str
    score: float  # the logarithm of its probability
    ids: list[int]
    finished: bool  # whether it came to an end, or to the most tokens it may have


class Model:
    """A trained network with its vocabulary: text in, text out."""

    def __init__(self, task: Texts, network: EncoderDecoder, name: str = ""):
        self.task, self.network, self.name = task, network.eval(), name

    def translate(self, texts: Sequence[str], **how: Any) -> list[str]:
        """model.translate(["Ein Hund rennt."], beam=5) -> ["A dog is running."]"""
        if isinstance(texts, str):
            raise ValueError('texts come as a list, got a str; ["..."] is a list of one')
        return [best.text for best, *_ in self.write(texts, Writing(**how))]

    def write(
        self,
        texts: Iterable[str],
        how: Writing = Writing(),
        *,
        prefix: str = "",
    ) -> Iterator[list[Written]]:
        """For each text the best that can be written, in order, however long the input is."""
        source, target = self.task.codecs.source, self.task.codecs.target
        first, remaining, forced = 0, iter(texts), target.encode(prefix)
        while some := list(islice(remaining, AT_ONCE)):
            ids = source.encode_all(some)
            readable(ids, first)
            begin = [forced] * len(some) if forced else []
            for best in write(self.network, ids, how, prefixes=begin, first=first):
                yield [Written(target.render(h.ids), h.score, h.ids, h.finished) for h in best]
            first += len(some)

    @torch.no_grad()
    def attention(self, text: str, written: str | None = None, layer: int = -1) -> AttentionMap:
        """What each head looked at while it wrote."""
        source, target = self.task.codecs.source, self.task.codecs.target
        read = source.encode(text)
        ids = target.encode(written) if written is not None else self.best(read)
        weights = looked(self.network, read, ids)[layer]
        rows = [*target.pieces(ids), "■"]
        return AttentionMap(weights, rows, [*source.pieces(read), "■"], text)

    def best(self, ids: Ids) -> list[int]:
        ((best, *_),) = write(self.network, [ids])
        return best.ids

    @torch.no_grad()
    def alignment(self, text: str, written: Written) -> list[tuple[int, int]]:
        """Which word of the text each word written was read from: [(0, 0), (1, 2)]"""
        source, target = self.task.codecs.source, self.task.codecs.target
        read = source.encode(text)
        if not read or not written.ids:
            return []
        weights = looked(self.network, read, written.ids)
        return links(weights, source.pieces(read), target.pieces(written.ids))


def looked(network: EncoderDecoder, read: Ids, written: Ids) -> list[torch.Tensor]:
    """The attention of each layer of the decoder to what was read: (heads, written, read)."""
    device = next(network.parameters()).device
    source, target = (Tokens.padded([row]).to(device) for row in ([*read, STOP], [START, *written]))
    with recording(network) as seen:
        network(source, target)
    own = "self_attention"
    across = [
        one for one in seen if one.layer.startswith("decoder") and not one.layer.endswith(own)
    ]
    if not across:
        raise ValueError("this network writes without attention: there is nothing to look at")
    return [one.weights[0] for one in across]


def readable(ids: Sequence[Ids], first: int) -> None:
    for number, row in enumerate(ids, start=first + 1):
        if len(row) > MOST_TOKENS:
            raise ValueError(
                f"line {number} has {len(row):,} tokens, {MOST_TOKENS:,} are the most that are "
                "read at once; cut it into sentences"
            )


# ---- finding and loading ---------------------------------------------------------------------


def load(model: str | Path, device: str | None = None) -> Model:
    """manyheads.load("de-en"), manyheads.load("runs/de-en")"""
    folder = found(model)
    recipe = load_settings(Recipe, folder / RECIPE)
    task = Texts(recipe.task, load_codecs(folder), recipe.network)
    if not (folder / WEIGHTS).exists():
        raise ValueError(f"{folder} has no {WEIGHTS} yet; they are written at the first validation")
    weights, _ = read_tensors(folder / WEIGHTS)
    network = task.network()
    fitting(weights, weights_of(network), folder / WEIGHTS)
    load_weights(network, weights)
    return Model(task, network.to(chosen(device)), str(model))


def found(model: str | Path) -> Path:
    """The folder of a model."""
    for folder in (Path(model), BUILT_IN / str(model)):
        if (folder / RECIPE).exists():
            return folder
    names = ", ".join(built_in())
    if Path(model).is_dir():
        raise ValueError(f"{model} holds no {RECIPE}: it is not the folder of a run")
    raise ValueError(f"there is no model {str(model)!r}: neither a folder nor one of {names}")


def built_in() -> list[str]:
    """The names of the models that come with the package."""
    return sorted(path.parent.name for path in BUILT_IN.glob(f"*/{RECIPE}"))
