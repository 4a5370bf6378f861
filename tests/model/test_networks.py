"""The three shapes, packed and padded."""

import pytest
import torch

from manyheads import (
    Blocks,
    CachedStep,
    Causal,
    Clipped,
    Decoder,
    Embedding,
    Encoder,
    EncoderDecoder,
    Everything,
    Lengths,
    Prefix,
    RelativeBias,
    Segments,
    Sinusoidal,
    Stack,
    Static,
    Tied,
    Tokens,
    TransformerConfig,
    Window,
    line,
)
from manyheads.attention.intervals import Verdict
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Pair
from manyheads.modules.transformer import cross_pattern

SHAPE = TransformerConfig(width=24, depth=2, heads=4, dropout=0.0)
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
    assert cross_pattern(target, source) == Segments([[0, 1]], [[0, 0, 1]])
    assert cross_pattern(Everything(), Lengths([3])) == Lengths([3])


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
            lambda: translator().encoder([[1, 2]]),
            r"a network reads ids of \(B, T\) or Tokens, a list arrived; Tokens.padded\(\[\[5, 6",
        ),
        (
            lambda: translator().encoder(torch.zeros(2)),
            r"a network reads ids of \(B, T\) or Tokens, a tensor of \(2,\) arrived",
        ),
        (
            lambda: translator().encoder(Tokens.padded([[1]]), lengths=[1]),
            "lengths came with Tokens, which say what counts; with ids they would do",
        ),
        (
            lambda: translator().decoder(Tokens.padded([[1]]), torch.zeros(1, 2, 24)),
            r"a memory is Memory\(states, places\), a Tensor arrived; EncoderDecoder.encode makes",
        ),
        (lambda: Tokens.padded([5, 6]), r"tokens come as \[\[5, 6, 7\], \[8\]\], got \[5, 6\]"),
        (lambda: Tokens.packed([[5, 6]], 4), "rows of sequences of numbers, got"),
        (
            lambda: Decoder(Embedding(10, 24), Stack.of(SHAPE), torch.nn.Identity()),
            r"a decoder that sees Everything\(\) sees what it is to write: token 0 sees token 1; "
            r"Causal\(\) would do, or Decoder\(..., causal=False\) for one that is meant to",
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


def writing(pattern: Pattern, causal: bool = True) -> Decoder:
    words = Embedding(10, 24)
    stack = Stack.of(SHAPE, [Causal(), pattern], position=Sinusoidal())
    return Decoder(words, stack, Tied(words), causal=causal).eval()


class Strided(Pattern):
    step: int

    def allows(self, pair: Pair) -> Verdict:
        return (pair.q.order - pair.k.order) % self.step == 0


class Before(Pattern):
    """Earlier tokens alone: known only by trying."""

    def allows(self, pair: Pair) -> Verdict:
        return pair.k.order < pair.q.order


class Turned(Causal):
    """Made from what never looks ahead, and looks ahead."""

    def allows(self, pair: Pair) -> Verdict:
        return pair.k.order >= pair.q.order


class ByRow(Pattern):
    def allows(self, pair: Pair) -> Verdict:
        return (pair.q.row - pair.k.row < 3) & (pair.k.order <= pair.q.order)


@torch.no_grad()
def test_a_pattern_that_counts_rows_is_refused_where_rows_are_only_the_new_tokens() -> None:
    network, ids = writing(Causal() & ByRow()), torch.randint(10, (1, 5))
    assert network(ids).shape == (1, 5, 10)
    with pytest.raises(ValueError, match=r"ByRow\(\) counts rows, and with a cache they are those"):
        CachedStep(network).read(ids)


class Steps(Pattern):
    """Steps from query to key, those back being negative."""

    steps: int | list[int]

    def allows(self, pair: Pair) -> Verdict:
        steps = self.steps if isinstance(self.steps, list) else [self.steps]
        return torch.isin(pair.k.order - pair.q.order, torch.tensor([0, *steps]))


class Looked(Pattern):
    """A table of as many tokens as there are."""

    table: tuple[tuple[bool, ...], ...]

    def allows(self, pair: Pair) -> Verdict:
        return torch.tensor(self.table)[pair.q.order, pair.k.order]


class ByHead(Pattern):
    def allows(self, pair: Pair) -> Verdict:
        return (pair.k.order <= pair.q.order) | (pair.h > 0)


@pytest.mark.parametrize(
    "pattern",
    [
        Window(2),
        Window((0, 3)),
        Blocks(4, 0),
        Blocks((8, 8), (4, 4)),
        Causal() | Window(1),
        Everything() | Causal(),
        ~Window(100),
        ~Window(10**6),
        ~Causal(),
        Prefix(4),
        Strided(3),
        Strided(40),
        Turned(),
        ByHead(),
        Steps(90),
        Steps([-1, 90]),
        Looked(((True,) * 12,) * 12),
    ],
    ids=lambda pattern: str(pattern)[:20],
)
def test_a_decoder_whose_pattern_looks_ahead_is_refused_unless_it_is_meant_to(
    pattern: Pattern,
) -> None:
    with pytest.raises(ValueError, match=r"what it is to write: token \d+ sees token \d+; .*&"):
        writing(pattern)
    assert not writing(pattern, causal=False).causal


@pytest.mark.parametrize(
    "pattern",
    [
        Causal(),
        Causal() & Window(2),
        Window(0),
        Causal() & (Window(1) | Prefix(2)),
        (Causal() & Window(1)) | (Causal() & Blocks(4, 0)),
        Causal() & ~Window(2),
        Causal() & Strided(3),
        Before(),
        Steps(-90),
        Looked(tuple((True,) * row + (False,) * (12 - row) for row in range(1, 13))),
    ],
    ids=lambda pattern: str(pattern)[:20],
)
@torch.no_grad()
def test_a_decoder_whose_pattern_never_looks_ahead_is_taken_and_does_not(pattern: Pattern) -> None:
    network, rows = writing(pattern), torch.randint(10, (2, 12))
    before = network(Tokens(rows, line(12)))
    rows[:, 7:] = (rows[:, 7:] + 1) % 10
    assert torch.equal(network(Tokens(rows, line(12)))[:, :7], before[:, :7])


@torch.no_grad()
@pytest.mark.parametrize("static", [False, True])
def test_a_prefix_for_each_sequence_is_written_on_from_as_in_the_full_pass(static: bool) -> None:
    words = Embedding(10, 24)
    network = Decoder(words, Stack.of(SHAPE, position=Sinusoidal()), Tied(words), causal=False)
    network, ids = network.double().eval(), torch.randint(10, (2, 9))
    seen = Prefix(torch.tensor([4, 2]))
    full = network(Tokens(ids, line(9), seen))
    changed = network(Tokens(torch.cat([ids[:, :3], 9 - ids[:, 3:]], 1), line(9), seen))
    assert (changed[0, 0] - full[0, 0]).abs().max() > 1e-3  # token 3 is in its prefix
    assert torch.equal(changed[1, :3], full[1, :3])
    step = CachedStep(network.eval(), None, Static(line(9)) if static else None, seen=seen)
    steps = [step(ids[:, :5]), *(step(ids[:, t : t + 1]) for t in range(5, 9))]
    torch.testing.assert_close(torch.stack(steps, 1), full[:, 4:])
    if not static:
        step.select(torch.tensor([1]))
        assert step.seen == Prefix(torch.tensor([2]))


def test_a_prefix_that_would_change_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match=r"and layers that see Causal\(\) do not; a prefix lang"):
        writing(Causal())(Tokens(torch.ones(2, 6, dtype=torch.long), line(6), Prefix([4, 2])))


def test_tokens_that_would_see_what_a_cache_does_not_have_are_refused() -> None:
    one = torch.ones(2, 1, dtype=torch.long)
    step = CachedStep(writing(Prefix(4), causal=False))
    with pytest.raises(
        ValueError, match="the first 4 tokens see each other and 1 came to the cache"
    ):
        step(one)
    step(one.expand(-1, 4))  # what was refused left nothing behind
    step(one)
    with pytest.raises(ValueError, match=r"Window\(2\) needs tokens that a cache does not have"):
        CachedStep(writing(Window(2), causal=False))(one)


@pytest.mark.parametrize("rows", [[], [[], []]], ids=str)
def test_nothing_in_is_nothing_out(rows: list[list[int]]) -> None:
    tokens = Tokens.padded(rows)
    assert writing(Causal())(tokens).shape == (len(rows), 0, 10)
    assert translator()(tokens, Tokens.padded([[1]] * len(rows))).shape[0] == len(rows)
    assert translator()(Tokens.padded([[1]] * len(rows)), tokens).shape[:2] == (len(rows), 0)
