"""The smallest tasks that need attention: rewriting a word, and asking one's neighbours.

B batch, T tokens, N nodes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Generator, Tensor

from manyheads.attention.patterns import Causal, Window
from manyheads.attention.places import Graph, graph
from manyheads.attention.positions import RelativeBias, Sinusoidal
from manyheads.attention.rules import Clipped
from manyheads.decoding.bounds import Bounds
from manyheads.decoding.greedy import greedy
from manyheads.decoding.step import CachedStep
from manyheads.modules.stack import Stack, TransformerConfig
from manyheads.modules.transformer import Decoder, Embedding, Encoder, EncoderDecoder, Tied, Tokens

LETTERS = "abcdefghijklmnopqrstuvwxyz"
PAD, START, STOP = range(len(LETTERS), len(LETTERS) + 3)


class Words(NamedTuple):
    """A batch of words and what is to be made of them."""

    source: Tokens
    target: Tokens  # begins with START
    wanted: Tensor  # (B, T) the target one step on, PAD where nothing is wanted


def spelled(word: str) -> list[int]:
    """ "abc" -> [0, 1, 2]"""
    return [LETTERS.index(letter) for letter in word]


def read(ids: Sequence[int]) -> str:
    """[0, 1, 2] -> "abc"; a sign that is no letter shows as a dot"""
    return "".join(LETTERS[i] if i < len(LETTERS) else "·" for i in ids)


@dataclass(frozen=True)
class Rewriting:
    """Write a word by a rule: the smallest translation there is."""

    rule: Callable[[str], str]
    shortest: int = 2
    longest: int = 8
    shape: TransformerConfig = TransformerConfig(
        width=64, depth=1, heads=4, ffn_width=128, dropout=0.0
    )

    def examples(self, count: int, generator: Generator) -> list[str]:
        lengths = torch.randint(self.shortest, self.longest + 1, (count,), generator=generator)
        draw = lambda n: torch.randint(len(LETTERS), (n,), generator=generator)  # noqa: E731
        return [read(draw(n).tolist()) for n in lengths.tolist()]

    def batch(self, examples: Sequence[str]) -> Words:
        source = [[*spelled(word), STOP] for word in examples]
        target = [[START, *spelled(self.rule(word)), STOP] for word in examples]
        wanted = Tokens.padded([row[1:] for row in target], PAD).ids
        return Words(
            Tokens.padded(source, PAD), Tokens.padded([row[:-1] for row in target], PAD), wanted
        )

    def network(self) -> EncoderDecoder:
        embedding = Embedding(len(LETTERS) + 3, self.shape.width)
        read = Stack.of(self.shape, position=Sinusoidal())
        write = Stack.of(self.shape, Causal(), position=Sinusoidal(), cross=True)
        return EncoderDecoder(Encoder(embedding, read), Decoder(embedding, write, Tied(embedding)))

    def loss(self, network: EncoderDecoder, batch: Words) -> dict[str, Tensor]:
        scores = network(batch.source, batch.target)
        return {"loss": F.cross_entropy(scores.mT, batch.wanted, ignore_index=PAD)}

    @torch.no_grad()
    def decode(self, network: EncoderDecoder, batch: Words) -> list[str]:
        step = CachedStep(network.decoder, network.encode(batch.source))
        start = torch.full((len(batch.source.ids), 1), START)
        bounds = Bounds(STOP, longest=self.longest + 1)
        return [read(each.ids) for each in greedy(step, start, bounds)]

    def measure(self, outputs: list[str], examples: Sequence[str]) -> dict[str, float]:
        right = [output == self.rule(word) for output, word in zip(outputs, examples, strict=True)]
        return {"exact": sum(right) / len(right)}


def reversed_word(word: str) -> str:
    return word[::-1]


REVERSAL = Rewriting(reversed_word)
COPY = Rewriting(str)


class Neighbourhood(NamedTuple):
    """A graph, a colour for each node, and the colour most of its neighbourhood has."""

    colours: Tensor  # (N,)
    graph: Graph
    majority: Tensor  # (N,)


@dataclass(frozen=True)
class Majority:
    """Colour each node as most of its neighbours and itself: attention over a graph."""

    nodes: int = 9
    density: float = 0.3

    def examples(self, count: int, generator: Generator) -> list[Neighbourhood]:
        return [self.example(generator) for _ in range(count)]

    def example(self, generator: Generator) -> Neighbourhood:
        joined = torch.rand(self.nodes, self.nodes, generator=generator) < self.density
        at = graph(joined.triu(1).nonzero().tolist(), self.nodes)
        colours = torch.randint(2, (self.nodes,), generator=generator)
        near = (at.hops[0] <= 1).float()
        return Neighbourhood(colours, at, (near @ colours.float() > near.sum(1) / 2).long())

    def batch(self, examples: Sequence[Neighbourhood]) -> tuple[Tokens, Tensor]:
        colours = torch.stack([e.colours for e in examples])
        hops = torch.cat([e.graph.hops for e in examples])
        return Tokens(colours, Graph(hops)), torch.stack([e.majority for e in examples])

    def network(self) -> Encoder:
        shape = TransformerConfig(width=32, depth=2, heads=4, dropout=0.0)
        stack = Stack.of(shape, Window(1), relative=RelativeBias(shape.heads, Clipped(2)))
        return Encoder(Embedding(2, shape.width), stack, torch.nn.Linear(shape.width, 2))

    def loss(self, network: Encoder, batch: tuple[Tokens, Tensor]) -> dict[str, Tensor]:
        nodes, majority = batch
        return {"loss": F.cross_entropy(network(nodes).mT, majority)}

    @torch.no_grad()
    def decode(self, network: Encoder, batch: tuple[Tokens, Tensor]) -> list[Tensor]:
        return list(network(batch[0]).argmax(-1))

    def measure(self, outputs: list[Tensor], examples: Sequence[Neighbourhood]) -> dict[str, float]:
        right = torch.stack([o == e.majority for o, e in zip(outputs, examples, strict=True)])
        return {"nodes": right.float().mean().item(), "graphs": right.all(1).float().mean().item()}
