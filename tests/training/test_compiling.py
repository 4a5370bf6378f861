"""Compiled is equal to plain, and other documents compile nothing anew."""

import copy
import random
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads import (
    CachedStep,
    Causal,
    Decoder,
    Embedding,
    Encoder,
    EncoderDecoder,
    Sinusoidal,
    Stack,
    Tied,
    Tokens,
    TransformerConfig,
    line,
)
from manyheads.attention import layer
from manyheads.attention.intervals import Verdict
from manyheads.attention.kernels import varlen
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Pair
from manyheads.training.compiling import compile_network


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    torch._dynamo.reset()


class Counting:
    """A backend that runs what it is given and counts how often it is given something."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: Any, _: Any) -> Callable[..., Any]:
        self.graphs += 1
        return graph.forward


def translator(kernel: str | None = None) -> EncoderDecoder:
    shape = TransformerConfig(width=16, depth=2, heads=2, dropout=0.0)
    words, at = Embedding(20, 16), Sinusoidal()
    reads = Stack.of(shape, position=at, kernel=kernel)
    writes = Stack.of(shape, Causal(), position=at, cross=True, kernel=kernel)
    return EncoderDecoder(Encoder(words, reads), Decoder(words, writes, Tied(words)))


def plain() -> tuple[Tokens, Tokens]:
    return Tokens(torch.randint(20, (2, 6)), line(6)), Tokens(torch.randint(20, (2, 5)), line(5))


def documents(seed: int, longest: int = 9) -> tuple[Tokens, Tokens]:
    """Two rows of sources and targets, of other numbers and lengths for every seed."""
    chance = random.Random(seed)
    counts = [chance.randint(2, 6) for _ in range(2)]

    def side() -> Tokens:
        rows = [[[3] * chance.randint(1, longest) for _ in range(count)] for count in counts]
        return Tokens.packed(rows, 64)

    return side(), side()


def learned(network: EncoderDecoder, batch: tuple[Tokens, Tokens]) -> list[Tensor]:
    """The scores, and the gradient of every weight."""
    scores = network(*batch)
    return [scores, *torch.autograd.grad(scores.square().mean(), list(network.parameters()))]


@pytest.mark.parametrize(("whole", "batch"), [(True, plain), (False, lambda: documents(0))])
def test_compiled_is_equal_to_plain(
    whole: bool, batch: Callable[[], tuple[Tokens, Tokens]]
) -> None:
    network, asked = translator(), batch()
    expected = learned(network, asked)
    compile_network(network, whole=whole, backend="eager")
    for ours, theirs in zip(learned(network, asked), expected, strict=True):
        torch.testing.assert_close(ours, theirs)


class Table(Pattern):
    """A pattern of one's own that no interval can look up."""

    kept: Tensor = field(compare=False)

    def allows(self, pair: Pair) -> Verdict:
        return self.kept[pair.q.order, pair.k.order]


class Strided(Pattern):
    step: int

    def allows(self, pair: Pair) -> Verdict:
        return (pair.q.order - pair.k.order) % self.step == 0


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("length", [12, 600])
@pytest.mark.parametrize(
    "pattern", [Table(torch.rand(600, 600) > 0.5), Strided(3) | Causal()], ids=["table", "strided"]
)
def test_a_pattern_of_ones_own_is_compiled_as_it_is_run(
    pattern: Pattern, length: int, whole: bool
) -> None:
    words, shape = Embedding(20, 16), TransformerConfig(width=16, depth=2, heads=2, dropout=0.0)
    network = Encoder(words, Stack.of(shape, pattern, position=Sinusoidal()))
    tokens = Tokens(torch.randint(20, (2, length)), line(length))
    expected = network(tokens)
    compile_network(network, whole=whole, backend="eager")
    torch.testing.assert_close(network(tokens), expected)


@pytest.mark.parametrize("whole", [True, False])
@pytest.mark.parametrize("layout", ["equal", "padded", "packed"])
def test_a_compiled_decoder_with_dropout_does_not_see_ahead(whole: bool, layout: str) -> None:
    words, shape = (
        Embedding(20, 16),
        TransformerConfig(width=16, depth=2, heads=2, attention_dropout=0.5),
    )
    network = Decoder(words, Stack.of(shape, Causal(), position=Sinusoidal()), Tied(words))
    compile_network(network, whole=whole, backend="eager")
    scores = []
    for last in (3, 4):
        rows = [[5, 6, 7, 8, last], [9, 10, 11, *[12, 13] * (layout == "equal")]]
        packs = layout == "packed"
        tokens = Tokens.packed([[row] for row in rows], 6) if packs else Tokens.padded(rows)
        torch.manual_seed(0)
        scores.append(network(tokens))
    torch.testing.assert_close(scores[0][:, :4], scores[1][:, :4])
    assert (scores[0][0, 4] != scores[1][0, 4]).any()


def test_a_plain_batch_is_one_graph_and_the_next_one_the_same() -> None:
    network, backend = translator(), Counting()
    compile_network(network, whole=True, backend=backend, fullgraph=True)
    for _ in range(3):
        network(*plain())
    assert backend.graphs == 1


def test_documents_of_other_lengths_run_what_was_compiled_for_the_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # What CUDA runs, on tensors without numbers: its operator says there what shape it returns.
    monkeypatch.setattr(varlen, "one_by_one", varlen.flash)
    monkeypatch.setattr(layer, "computed_in", lambda x: x.dtype)
    network, backend = translator("varlen").to("meta"), Counting()
    compile_network(network, backend=backend, fullgraph=True)
    for seed in range(6):
        source, target = (side.to("meta") for side in documents(seed))
        network(source, target).mean().backward()
    assert backend.graphs == 2  # a block that reads and one that writes, however many of each


def test_documents_beyond_all_steps_compile_once_more_and_then_no_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(varlen, "one_by_one", varlen.flash)
    monkeypatch.setattr(layer, "computed_in", lambda x: x.dtype)
    monkeypatch.setattr(varlen, "round_up", lambda count, least: count)
    network, backend = translator("varlen").to("meta"), Counting()
    compile_network(network, backend=backend, fullgraph=True)
    for seed in range(6):
        source, target = (side.to("meta") for side in documents(seed))
        network(source, target)
    assert backend.graphs == 4


def test_writing_compiles_nothing() -> None:
    network, backend = translator(), Counting()
    compile_network(network, backend=backend)
    network.eval()
    step = CachedStep(network.decoder, network.encode(plain()[0]))
    for _ in range(3):
        step(torch.ones(2, 1, dtype=torch.long))
    assert backend.graphs == 0


def test_a_copy_of_a_compiled_network_runs_its_own_weights() -> None:
    network, batch = translator(), plain()
    compile_network(network, backend="eager")
    twin, before = copy.deepcopy(network), network(*batch)
    for parameter in network.parameters():
        nn.init.zeros_(parameter)
    torch.testing.assert_close(twin(*batch), before)


def test_what_has_no_blocks_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="a Linear has no blocks that could be compiled one by"):
        compile_network(nn.Linear(2, 2))
