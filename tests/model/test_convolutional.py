"""Neighbours together: cached as in full, padded as alone, as far as its layers reach."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor
from toy_tasks import LETTERS, Rewriting, reversed_word

from manyheads import (
    Embedding,
    EncoderDecoder,
    Growing,
    Learned,
    Lengths,
    Memory,
    Position,
    Recorded,
    Rotary,
    Sinusoidal,
    Tied,
    Tokens,
    kernel,
    line,
)
from manyheads.modules.convolutional import (
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    Gated,
    Recent,
)

WIDTH = 12
SOURCES, TARGETS = [[3, 4, 5], [6, 7, 8, 9, 3], [4]], [[1, 2], [5, 6, 7, 8], [9, 9, 9]]
POSITIONS: dict[str, Callable[[], Position | None]] = {
    "none": lambda: None,
    "sinusoidal": Sinusoidal,
    "learned": lambda: Learned(WIDTH, 10),
}
EACH_POSITION = pytest.mark.parametrize("position", POSITIONS)
EACH_REACH = pytest.mark.parametrize("dilations", [(1, 1), (1, 2, 4)])


def translator(
    dilations: tuple[int, ...] = (1, 2),
    position: str = "sinusoidal",
    *,
    words: int = 10,
    width: int = WIDTH,
    heads: int = 2,
    span: int = 3,
) -> EncoderDecoder:
    table, alike = Embedding(words, width), {"dropout": 0.0, "span": span}
    places = [POSITIONS[position]() for _ in range(2)]
    reads = ConvolutionalEncoder(table, width, dilations, position=places[0], **alike)
    writes = ConvolutionalDecoder(
        table, Tied(table), width, dilations, heads=heads, position=places[1], **alike
    )
    return EncoderDecoder(reads, writes)


def part(ids: Tensor, start: int, stop: int) -> Tokens:
    return Tokens(ids[:, start:stop], line(stop - start, start))


# ---- what is read ----------------------------------------------------------------------------


@torch.no_grad()
@EACH_POSITION
@EACH_REACH
def test_a_padded_sentence_is_translated_as_alone(
    dilations: tuple[int, ...], position: str
) -> None:
    model = translator(dilations, position).double().eval()
    padded = model(Tokens.padded(SOURCES), Tokens.padded(TARGETS))
    for row, (source, target) in enumerate(zip(SOURCES, TARGETS, strict=True)):
        alone = model(Tokens.padded([source]), Tokens.padded([target]))[0]
        torch.testing.assert_close(padded[row, : len(target)], alone, atol=1e-10, rtol=0)


@torch.no_grad()
def test_an_encoder_sees_as_far_as_its_layers_reach_and_leaves_padding_empty() -> None:
    encoder, ids = translator((1, 2), "none").encoder.eval(), list(range(9))
    one, other = (encoder(Tokens.padded([[*ids[:8], last], [1]])) for last in (8, 0))
    changed = (one[0] != other[0]).any(-1)
    assert changed.tolist() == [False] * 5 + [True] * 4  # 1 + 2 to the left, and itself
    assert not one[1, 1:].any()


@torch.no_grad()
@EACH_REACH
def test_a_future_token_changes_nothing_before_it(dilations: tuple[int, ...]) -> None:
    model, source = translator(dilations).eval(), Tokens.padded([[3, 4, 5]])
    one, other = (model(source, Tokens.padded([ids])) for ids in ([1, 2, 3, 4], [1, 2, 9, 9]))
    assert torch.equal(one[:, :2], other[:, :2])
    assert (one[:, 2:] != other[:, 2:]).all()


@torch.no_grad()
@pytest.mark.parametrize(("dilations", "reach"), [((1, 1, 1), 6), ((1, 2, 4), 14)])
def test_dilations_widen_what_a_decoder_sees(dilations: tuple[int, ...], reach: int) -> None:
    model, source = translator(dilations, "none").eval(), Tokens.padded([[3, 4, 5]])
    ids = torch.randint(1, 10, (1, 20))
    changed = ids.clone()
    changed[0, 0] = 0
    one, other = (model(source, Tokens(each, line(20))) for each in (ids, changed))
    assert (one != other).any(-1)[0].nonzero().max() == reach


@torch.no_grad()
def test_an_empty_source_is_as_no_source() -> None:
    model, sources = translator().eval(), Tokens.padded([[3, 4], []])
    assert not model.encode(sources).states[1].any()
    assert model(sources, Tokens.padded([[1, 2], [1, 2]])).isfinite().all()


# ---- writing ---------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize(("kind", "near"), [(torch.float32, 1e-5), (torch.float64, 1e-10)])
@pytest.mark.parametrize("span", [1, 3])
@EACH_POSITION
@EACH_REACH
def test_step_by_step_is_as_all_at_once(
    dilations: tuple[int, ...], position: str, span: int, kind: torch.dtype, near: float
) -> None:
    model = translator(dilations, position, span=span).to(kind).eval()
    memory, ids = model.encode(Tokens.padded(SOURCES)), torch.randint(10, (3, 10))
    wanted, cache = model.decoder(Tokens(ids, line(10)), memory), model.decoder.new_cache()
    steps = [(0, 3), (3, 4), (4, 9), (9, 10)]
    found = [model.decoder(part(ids, *step), memory, cache) for step in steps]
    torch.testing.assert_close(torch.cat(found, 1), wanted, atol=near, rtol=0)
    kept = [held.shape[1] for held in cache.inputs.values()]
    assert kept == [(span - 1) * dilation + 1 for dilation in dilations], "and what came in last"


@torch.no_grad()
def test_selected_sequences_go_on_with_their_memories() -> None:
    decoder, rows = translator().decoder.eval(), torch.tensor([2, 0, 0, 1])
    memory = Memory(torch.randn(3, 5, WIDTH), line(5), Lengths([5, 2, 4]))
    ids, cache = torch.randint(10, (3, 4)), decoder.new_cache()
    wanted = decoder(Tokens(ids, line(4)), memory)[rows, 3:]
    decoder(part(ids, 0, 3), memory, cache)
    cache.select(rows)
    found = decoder(part(ids[rows], 3, 4), memory.select(rows), cache)
    torch.testing.assert_close(found, wanted)


@torch.no_grad()
def test_reordered_sequences_go_on_from_other_rows_of_their_source() -> None:
    decoder, rows = translator().decoder.eval(), torch.tensor([1, 1, 3, 2])
    memory = Memory(torch.randn(2, 5, WIDTH).repeat_interleave(2, 0), line(5))
    ids, cache = torch.randint(10, (4, 4)), decoder.new_cache()
    wanted = decoder(Tokens(ids, line(4)), memory)[rows, 3:]
    decoder(part(ids, 0, 3), memory, cache)
    keys = dict(cache.memory.memory)
    cache.reorder(rows)
    torch.testing.assert_close(decoder(part(ids[rows], 3, 4), memory, cache), wanted)
    assert all(cache.memory.memory[layer] is kept for layer, kept in keys.items())


@torch.no_grad()
def test_a_cache_that_forgot_begins_anew() -> None:
    decoder, cache = translator().decoder.eval(), Recent()
    first, second = (Memory(torch.randn(n, 3, WIDTH), line(3)) for n in (2, 1))
    cache.select(torch.tensor([0]))  # nothing was read, nothing is there to select
    decoder(Tokens(torch.tensor([[1], [2]]), line(1)), first, cache)
    cache.forget()
    tokens = Tokens(torch.tensor([[4, 5]]), line(2))
    torch.testing.assert_close(decoder(tokens, second, cache), decoder(tokens, second))


# ---- looking inside, training ----------------------------------------------------------------


@torch.no_grad()
def test_what_it_looks_at_can_be_seen() -> None:
    model = translator().eval()
    plain = model(Tokens.padded(SOURCES), Tokens.padded(TARGETS))
    model.decoder.kernel = recorder = Recorded(model.decoder.kernel)
    assert torch.equal(model(Tokens.padded(SOURCES), Tokens.padded(TARGETS)), plain)
    assert [tuple(seen.weights.shape) for seen in recorder.seen] == [(3, 2, 4, 5)] * 2
    assert not recorder.seen[0].weights[2, :, :, 1:].any(), "padding is not looked at"


@torch.no_grad()
def test_kernels_agree_on_the_lookup() -> None:
    model = translator().double().eval()
    found = []
    for name in ("reference", "sdpa"):
        model.decoder.kernel = kernel(name)
        found.append(model(Tokens.padded(SOURCES), Tokens.padded(TARGETS)))
    torch.testing.assert_close(*found, atol=1e-10, rtol=0)


@EACH_POSITION
def test_a_gradient_reaches_every_parameter(position: str) -> None:
    model = translator(position=position)
    model(Tokens.padded(SOURCES), Tokens.padded(TARGETS)).square().sum().backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


@torch.no_grad()
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_gate_keeps_the_size_of_what_passes(dropout: float) -> None:
    gate = Gated(256, 3, 1, dropout)
    thinned = torch.nn.functional.dropout(torch.randn(4, 256, 64), dropout)
    assert 0.8 < gate(thinned).std() < 1.25


@pytest.mark.parametrize("heads", [1, 4])
def test_it_learns_to_write_backwards(heads: int) -> None:
    task, generator = Rewriting(reversed_word, longest=4), torch.Generator().manual_seed(0)
    model = translator((1, 1), words=len(LETTERS) + 3, width=32, heads=heads)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    losses = []
    for _ in range(30):
        loss = task.loss(model, task.batch(task.examples(32, generator)))["loss"]
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert sum(losses[-5:]) / 5 < 0.7 * losses[0]


# ---- refusals --------------------------------------------------------------------------------


def writer(dilations: Any = (1,), **options: Any) -> ConvolutionalDecoder:
    table = Embedding(10, WIDTH)
    return ConvolutionalDecoder(table, Tied(table), WIDTH, dilations, **options)


def reader(dilations: Any = (1,), **options: Any) -> ConvolutionalEncoder:
    return ConvolutionalEncoder(Embedding(10, WIDTH), WIDTH, dilations, **options)


def stepped(first: Tokens, then: Tokens) -> None:
    decoder, cache = writer(), Recent()
    for tokens in (first, then):
        decoder(tokens, Memory(torch.randn(len(tokens.ids), 3, WIDTH), line(3)), cache)


ONE, MEMORY = Tokens.padded([[1]]), Memory(torch.zeros(1, 3, WIDTH), line(3))
PACKED = Tokens.packed([[[1], [2]]], 2)


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (
            lambda: reader()(PACKED),
            "a convolutional network reads one sequence a row and these are packed; Tokens.padded",
        ),
        (lambda: writer()(PACKED, MEMORY), "reads one sequence a row and these are packed"),
        (lambda: reader()(Tokens.padded([[]])), "reads one token or more, none arrived"),
        (lambda: writer()(ONE), r"looks at a Memory\(states, places\), none came"),
        (
            lambda: writer()(ONE, MEMORY, Growing()),
            r"keeps what it sees in a Recent, a Growing arrived; its new_cache\(\) makes one",
        ),
        (lambda: stepped(ONE, ONE), "goes on with token 1, number 0 came"),
        (
            lambda: stepped(ONE, Tokens(torch.tensor([[1], [2]]), line(1, 1))),
            "the cache holds 1 sequences, 2 came; make another cache",
        ),
        (
            lambda: stepped(Tokens.padded([[1, 2], [3]]), ONE),
            "sequences of different lengths do not go on together",
        ),
        (
            lambda: reader(span=4),
            "an encoder sees as far left as right, so its span is odd, got 4; 3 or 5 would do",
        ),
        (
            lambda: reader(()),
            r"dilations are a whole number from 1 up for each layer, as in \(1, 2, 4\), got \(\)",
        ),
        (lambda: reader(2), "dilations are a whole number from 1 up for each layer.* got 2"),
        (lambda: writer((1, 0)), r"dilations are a whole number from 1 up.* got \(1, 0\)"),
        (lambda: writer(span=0), "the span of a network is a whole number from 1 up, got 0"),
        (lambda: writer(dropout=-0.1), "dropout is a share from 0 to below 1, got -0.1"),
        (lambda: writer(heads=5), "5 heads do not divide a width of 12; 3, 4, 6 heads would"),
        (
            lambda: writer(position=Rotary()),
            r"takes a part that changes embeddings, like Sinusoidal\(\), got Rotary\(",
        ),
        (
            lambda: ConvolutionalEncoder(Embedding(10, 8), WIDTH),
            "an embedding of width 8 came with a network of width 12",
        ),
    ],
)
def test_mistakes_get_one_sentence(act: Callable[[], object], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        act()
