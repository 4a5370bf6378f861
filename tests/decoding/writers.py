"""Little models that write: one made up, whose every sequence can be listed, and Transformers."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import torch
from torch import Tensor

from manyheads import (
    Bounds,
    Causal,
    Clipped,
    Decoder,
    Dot,
    Embedding,
    Encoder,
    EncoderDecoder,
    Hypothesis,
    Learned,
    RelativeContent,
    Rotary,
    Sinusoidal,
    Stack,
    Tied,
    Tokens,
    TransformerConfig,
    Window,
)
from manyheads.attention.patterns import Pattern
from manyheads.attention.positions import Position, Relative
from manyheads.modules.convolutional import ConvolutionalDecoder, ConvolutionalEncoder
from manyheads.modules.recurrent import RecurrentDecoder, RecurrentEncoder

STOP = 0


class Chain:
    """Scores by the number of the source and by everything written so far."""

    def __init__(self, sources: list[int], vocabulary: int):
        self.sources, self.vocabulary = torch.tensor(sources), vocabulary
        self.history = torch.empty(len(sources), 0, dtype=torch.long)
        self.batches: list[int] = []

    def __call__(self, ids: Tensor) -> Tensor:
        return self.read(ids)[:, -1]

    def read(self, ids: Tensor) -> Tensor:
        self.batches.append(len(ids))
        self.history = torch.cat([self.history, ids], 1)
        pairs = [*zip(self.sources.tolist(), self.history.tolist(), strict=True)]
        ends = range(self.history.shape[1] - ids.shape[1] + 1, self.history.shape[1] + 1)
        each = [torch.stack([self.scores(n, ids[:end]) for n, ids in pairs]) for end in ends]
        return torch.stack(each, 1)

    def crop(self, length: int) -> None:
        self.history = self.history[:, :length]

    def scores(self, source: int, history: list[int]) -> Tensor:
        generator = torch.Generator().manual_seed(hash((source, *history)) % 2**31)
        return 2 * torch.randn(self.vocabulary, generator=generator)

    def select(self, rows: Tensor) -> None:
        self.sources, self.history = self.sources[rows], self.history[rows]

    def reorder(self, rows: Tensor) -> None:
        self.history = self.history[rows]


class Scripted(Chain):
    """Writes these tokens whatever it reads: log-probability about 0 each."""

    def __init__(self, *rows: list[int]):
        super().__init__([*range(len(rows))], 10)
        self.rows = rows

    def scores(self, source: int, history: list[int]) -> Tensor:
        return 100 * torch.eye(10)[self.rows[source][len(history) - 1]]


class Fixed(Chain):
    """The same probabilities at every step."""

    def __init__(self, probabilities: list[float], batch: int = 1):
        super().__init__([0] * batch, len(probabilities))
        self.probabilities = torch.tensor(probabilities)

    def scores(self, source: int, history: list[int]) -> Tensor:
        return self.probabilities.log()


def begin(batch: int) -> Tensor:
    return torch.full((batch, 1), 1)


def all_sequences(chain: Chain, source: int, bounds: Bounds) -> list[Hypothesis]:
    """Every sequence there is, by trying each token after each."""
    (limit,) = bounds.limits(1)
    done, open_ = [], [Hypothesis([], 0.0, [], False)]
    for count in range(limit):
        longer = []
        for one in open_:
            logs = chain.scores(source, [1, *one.ids]).log_softmax(-1)
            for token, log in enumerate(bounds.rule_out(logs[None], count, [0])[0].tolist()):
                if log == -torch.inf:
                    continue
                grown = [*one.ids, token], [*one.logs, log]
                longer.append(Hypothesis.of(*grown, bounds.stops))
        done += [one for one in longer if one.finished]
        open_ = [one for one in longer if not one.finished]
    return done + open_


def translator(
    seed: int,
    vocabulary: int = 12,
    *,
    pattern: Pattern = Causal(),
    position: Position | None = None,
    relative: Relative | None = None,
) -> EncoderDecoder:
    torch.manual_seed(seed)
    shape, words = (
        TransformerConfig(width=16, depth=2, heads=2, dropout=0.0),
        Embedding(vocabulary, 16),
    )
    encoder = Encoder(words, Stack.of(shape, position=Sinusoidal()))
    below = Sinusoidal() if position is None and relative is None else position
    stack = Stack.of(shape, pattern, position=below, relative=relative, cross=True)
    return EncoderDecoder(encoder, Decoder(words, stack, Tied(words))).double().eval()


def recurrent(cell: str) -> EncoderDecoder:
    torch.manual_seed(0)
    words = Embedding(12, 16)
    reads = RecurrentEncoder(words, 16, 2, cell=cell, dropout=0.0)
    writes = RecurrentDecoder(words, Tied(words), 16, 2, cell=cell, attention=Dot(), dropout=0.0)
    return EncoderDecoder(reads, writes).double().eval()


def convolutional() -> EncoderDecoder:
    torch.manual_seed(0)
    words, layers = Embedding(12, 16), (1, 2)
    reads = ConvolutionalEncoder(words, 16, layers, position=Sinusoidal(), dropout=0.0)
    writes = ConvolutionalDecoder(words, Tied(words), 16, layers, position=Sinusoidal())
    return EncoderDecoder(reads, writes).double().eval()


TRANSFORMERS: dict[str, Callable[[], EncoderDecoder]] = {
    "sinusoidal": lambda: translator(0),
    "learned": lambda: translator(0, position=Learned(16, 12)),
    "rotary": lambda: translator(0, relative=Rotary()),
    "content": lambda: translator(0, relative=RelativeContent(8, Clipped(3), values=True)),
    "window": lambda: translator(0, pattern=Causal() & Window(2), relative=Rotary()),
}
KINDS: dict[str, Callable[[], EncoderDecoder]] = {
    **TRANSFORMERS,
    "lstm": lambda: recurrent("lstm"),
    "gru": lambda: recurrent("gru"),
    "convolutional": convolutional,
}


@cache
def model_of(kind: str) -> EncoderDecoder:
    """One of KINDS, the same whenever it is asked for."""
    return KINDS[kind]()


SOURCES = Tokens.padded([[3, 4, 5], [6, 7, 8, 9, 10], [11], [2, 2, 3, 2], [9, 4], [5]])
