"""Text in, text out: translations, summaries, answers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import torch

from manyheads.codecs.text import Signs, Text
from manyheads.data.sources import whole
from manyheads.decoding.beam import Beam
from manyheads.inspect.drawing import AttentionMap
from manyheads.inspect.record import recording
from manyheads.model.networks import EncoderDecoder, Tokens
from manyheads.tasks.texts import Texts
from manyheads.tasks.words import links
from manyheads.tasks.writing import Ids, Writing, write

FIRST, AT_ONCE = 16, 1024  # texts held in memory while a long file passes through
MOST_TOKENS = 4096  # of one text to be read


class Written(NamedTuple):
    """A text, and how likely the model finds it."""

    text: str
    score: float  # the logarithm of its probability
    ids: list[int]
    finished: bool  # whether it came to an end, or to the most tokens it may have
    worth: float = 0.0  # by which several are ranked: score / length ** penalty


class Translator:
    """A trained network with its vocabularies."""

    def __init__(self, task: Texts, network: EncoderDecoder, name: str = ""):
        self.task, self.network, self.name = task, network.eval(), name
        self.kind, self.signs = task.kind, task.codecs.signs

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
        at_once: int = AT_ONCE,
        ready: Callable[[], bool] = lambda: True,
    ) -> Iterator[list[Written]]:
        """For each text the best that can be written, in order, however long the input is.

        Where the next text is not `ready`, those before it are written first. A text that cannot be
        read is refused after those before it were written.
        """
        source, target = self.task.codecs.source, self.task.codecs.target
        worth = Beam(length_penalty=how.length_penalty).worth
        first, forced = 0, target.encode(whole(prefix, "the prefix"))
        for some in together(readable(texts), at_once, ready):
            ids = source.encode_all(some)
            fit = next((i for i, row in enumerate(ids) if len(row) > MOST_TOKENS), len(ids))
            begin = [forced] * fit if forced else []
            written = write(
                self.network, ids[:fit], how, prefixes=begin, signs=self.signs, first=first
            )
            for text, best in zip(some, written, strict=False):
                if not text.strip():  # nothing to read is nothing to write
                    yield [Written("", 0.0, [], True)]
                else:
                    yield [
                        Written(target.render(h.ids), h.score, h.ids, h.finished, worth(h))
                        for h in best
                    ]
            if fit < len(ids):
                raise ValueError(
                    f"line {first + fit + 1} has {len(ids[fit]):,} tokens, {MOST_TOKENS:,} are the "
                    "most that are read at once; cut it into sentences"
                )
            first += len(some)

    @torch.no_grad()
    def attention(self, text: str, written: str | None = None, layer: int = -1) -> AttentionMap:
        """What each head looked at while it wrote."""
        source, target = self.task.codecs.source, self.task.codecs.target
        read = source.encode(text)
        ids = target.encode(written) if written is not None else self.best(read)
        layers = looked(self.network, read, ids, self.signs)
        if not layers:
            raise ValueError("this network writes without attention: there is nothing to look at")
        rows = [*target.pieces(ids), "■"]
        return AttentionMap(layers[layer], rows, [*source.pieces(read), "■"], text)

    def best(self, ids: Ids) -> list[int]:
        ((best, *_),) = write(self.network, [ids], signs=self.signs)
        return best.ids

    @torch.no_grad()
    def alignment(self, text: str, written: Written) -> list[tuple[int, int]]:
        """Which word of the text each word written was read from: [(0, 0), (1, 2)]

        None of them where the network writes without attention.
        """
        source, target = self.task.codecs.source, self.task.codecs.target
        read = source.encode(text)
        if not read or not written.ids:
            return []
        weights = looked(self.network, read, written.ids, self.signs)
        if not weights:
            return []
        return links(weights, added(source, read), added(target, written.ids))


def added(codec: Text, ids: Ids) -> list[str]:
    """What each number adds to the text, spaces too, which a whole word by itself has none of."""
    decode = codec.tokenizer.decode
    grown = [decode(ids[:i], skip_special_tokens=False) for i in range(len(ids) + 1)]
    return [after[len(before) :] for before, after in pairwise(grown)]


def looked(
    network: EncoderDecoder, read: Ids, written: Ids, signs: tuple[Signs, Signs]
) -> list[torch.Tensor]:
    """The attention of each layer of the decoder to what was read: (heads, written, read).

    Both end with a sign, and those before the first word are left out.
    """
    device = next(network.parameters()).device
    reads, writes = signs
    rows = [*reads.opens, *read, reads.stop], [*writes.starts, *written]
    source, target = (Tokens.padded([row]).to(device) for row in rows)
    with recording(network) as seen:
        network(source, target)
    own = "self_attention"
    across = [
        one for one in seen if one.layer.startswith("decoder") and not one.layer.endswith(own)
    ]
    first, opened = len(writes.starts) - 1, len(reads.opens)
    return [one.weights[0][:, first:, opened:] for one in across]


def readable(texts: Iterable[str]) -> Iterator[str]:
    for number, text in enumerate(texts, start=1):
        if not isinstance(text, str):
            raise ValueError(f"texts are str, number {number} is a {type(text).__name__}")
        yield whole(text, f"line {number}")


def together(
    texts: Iterable[str], at_once: int, ready: Callable[[], bool] = lambda: True
) -> Iterator[list[str]]:
    """Few texts at first, so that something is soon to be seen, then up to so many.

    None waits here for one that is not yet ready.

    What goes wrong with a text is raised after those before it were handed out.
    """
    some: list[str] = []
    few = min(FIRST, at_once)
    try:
        for text in texts:
            some.append(text)
            if len(some) == few:
                yield some
                some, few = [], min(4 * few, at_once)
            elif not ready():
                yield some
                some = []
    except ValueError:
        if some:
            yield some
        raise
    if some:
        yield some
