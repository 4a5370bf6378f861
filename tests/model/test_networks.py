"""The three shapes, packed and padded."""

import pytest
import torch

from manyheads import (
    Causal,
    Clipped,
    Decoder,
    Embedding,
    Encoder,
    EncoderDecoder,
    Everything,
    Lengths,
    RelativeBias,
    Segments,
    Shape,
    Sinusoidal,
    Stack,
    Tied,
    Tokens,
)
from manyheads.model.networks import towards

SHAPE = Shape(width=24, depth=2, heads=4, dropout=0.0)
SOURCES, TARGETS = [[3, 4, 5], [6, 7, 8, 9, 3], [4]], [[1, 2], [5, 6, 7, 8], [9, 9, 9]]


def translator() -> EncoderDecoder:
    embedding, relative = Embedding(10, 24), RelativeBias(4, Clipped(3))
    reads = Stack.of(SHAPE, position=Sinusoidal(), relative=relative)
    writes = Stack.of(SHAPE, Causal(), position=Sinusoidal(), relative=relative, cross=True)
    model = EncoderDecoder(Encoder(embedding, reads), Decoder(embedding, writes, Tied(embedding)))
    return model.double().eval()


def test_padded_rows_know_their_lengths() -> None:
    batch = Tokens.padded([[5, 6, 7], [8]])
    assert batch.ids.tolist() == [[5, 6, 7], [8, 0, 0]]
    assert batch.seen == Lengths([3, 1])
    assert Tokens.padded([[5, 6], [8, 9]]).seen == Everything()


def test_packed_rows_know_their_documents() -> None:
    batch = Tokens.packed([[[5, 6], [8]]], 4)
    assert batch.ids.tolist() == [[5, 6, 8, 0]]
    assert batch.seen == Segments([[0, 0, 1, -1]])
    assert batch.at.axes[0].tolist() == [[0, 1, 0, 0]]


@torch.no_grad()
def test_packed_and_padded_translations_are_the_same() -> None:
    model = translator()
    alone = [
        model(Tokens.padded([s]), Tokens.padded([t]))[0]
        for s, t in zip(SOURCES, TARGETS, strict=True)
    ]
    padded = model(Tokens.padded(SOURCES), Tokens.padded(TARGETS))
    packed = model(Tokens.packed([SOURCES], 12), Tokens.packed([TARGETS], 10))[0]
    start = 0
    for row, wanted in enumerate(alone):
        length = len(wanted)
        torch.testing.assert_close(padded[row, :length], wanted, atol=1e-10, rtol=0)
        torch.testing.assert_close(packed[start : start + length], wanted, atol=1e-10, rtol=0)
        start += length


@torch.no_grad()
def test_a_language_model_sees_only_the_past() -> None:
    embedding = Embedding(10, 24)
    model = Decoder(embedding, Stack.of(SHAPE, Causal(), position=Sinusoidal()), Tied(embedding))
    one, other = (model.eval()(Tokens.padded([ids])) for ids in ([1, 2, 3, 4], [1, 2, 9, 9]))
    assert torch.equal(one[:, :2], other[:, :2])
    assert one.shape == (1, 4, 10)


def test_an_encoder_sees_both_ways_and_may_have_a_head() -> None:
    model = Encoder(
        Embedding(10, 24), Stack.of(SHAPE, position=Sinusoidal()), torch.nn.Linear(24, 3)
    )
    one, other = (model.eval()(Tokens.padded([ids])) for ids in ([1, 2, 3], [1, 2, 9]))
    assert one.shape == (1, 3, 3)
    assert (one[:, 0] != other[:, 0]).any()


def test_tied_weights_are_one_parameter() -> None:
    names = [name for name, _ in translator().named_parameters() if "table" in name]
    assert [name for name in names if "relative" not in name] == ["encoder.embedding.table.weight"]


def test_what_a_packed_target_sees_of_its_source() -> None:
    target, source = Segments([[0, 1]]), Segments([[0, 0, 1]])
    assert towards(target, source) == Segments([[0, 1]], [[0, 0, 1]])
    assert towards(Everything(), Lengths([3])) == Lengths([3])


def test_places_and_patterns_move_with_their_tokens() -> None:
    moved = Tokens.packed([[[5, 6], [8]]], 4).to("meta")
    assert moved.ids.is_meta
    assert moved.at.axes[0].is_meta
    assert moved.seen.ids.is_meta  # type: ignore[attr-defined]


def test_a_packed_target_refuses_an_unpacked_source() -> None:
    with pytest.raises(ValueError, match="only the target is packed; pack both"):
        translator()(Tokens.padded([[1, 2]]), Tokens.packed([[[1], [2]]], 2))


def test_a_word_outside_the_vocabulary_is_named() -> None:
    with pytest.raises(ValueError, match="words are numbered 0 to 9, 12 arrived"):
        Embedding(10, 24)(torch.tensor([[1, 12]]))


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (
            lambda: translator().encoder(torch.zeros(1, 2)),
            "a network reads Tokens, a Tensor arrived",
        ),
        (
            lambda: translator().decoder(Tokens.padded([[1]]), torch.zeros(1, 2, 24)),
            r"a memory is Memory\(states, places\), a Tensor arrived; EncoderDecoder.encode makes",
        ),
        (lambda: Tokens.padded([5, 6]), r"tokens come as \[\[5, 6, 7\], \[8\]\], got \[5, 6\]"),
        (lambda: Tokens.packed([[5, 6]], 4), "rows of sequences of numbers, got"),
        (
            lambda: Decoder(Embedding(10, 24), Stack.of(SHAPE), torch.nn.Identity()),
            r"a decoder that sees Everything\(\) sees what it is to write",
        ),
        (
            lambda: Encoder(Embedding(10, 8), Stack.of(SHAPE)),
            "of width 8 came with a stack of width 24",
        ),
    ],
)
def test_mistakes_get_one_sentence(act: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        act()  # type: ignore[operator]


def test_a_memory_is_selected_with_its_places() -> None:
    model, source = translator(), Tokens.packed([[[3, 4]], [[5], [6]]], 3)
    chosen = model.encode(source).select(torch.tensor([1, 1, 0]))
    assert chosen.states.shape[0] == 3
    assert chosen.at.axes[0].tolist() == [[0, 0, 0], [0, 0, 0], [0, 1, 0]]


def test_a_tied_weight_is_saved_once() -> None:
    embedding = Embedding(10, 24)
    model = Decoder(embedding, Stack.of(SHAPE, Causal()), Tied(embedding))
    assert [name for name in model.state_dict() if "table" in name] == ["embedding.table.weight"]
