"""Several tokens are read in one pass, and those that were not wanted are read no more."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from writers import KINDS, SOURCES, TRANSFORMERS, begin, model_of

from manyheads import (
    Blocks,
    Bounds,
    CachedStep,
    Causal,
    Clipped,
    Decoder,
    Embedding,
    Every,
    Everything,
    Growing,
    Prefix,
    RelativeBias,
    RelativeContent,
    Rotary,
    Sinusoidal,
    Stack,
    Static,
    Tied,
    Together,
    TransformerConfig,
    Window,
    greedy,
    grid,
    line,
)
from manyheads.attention.cache import Cache
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Grid
from manyheads.modules.recurrent import RecurrentWriter

CACHES: dict[str, Callable[[], Cache]] = {"growing": Growing, "static": lambda: Static(line(12))}
# Transformers with each cache, and the others with their own.
EACH = pytest.mark.parametrize(
    ("kind", "cache"),
    [(kind, cache) for kind in TRANSFORMERS for cache in CACHES]
    + [(kind, "own") for kind in KINDS if kind not in TRANSFORMERS],
)


def step_of(kind: str, cache: str = "own") -> CachedStep:
    model = model_of(kind)
    return CachedStep(
        model.decoder, model.encode(SOURCES), CACHES[cache]() if cache in CACHES else None
    )


def tokens() -> Tensor:
    return torch.randint(12, (6, 10), generator=torch.Generator().manual_seed(0))


@torch.no_grad()
@EACH
def test_all_positions_are_as_one_by_one(kind: str, cache: str) -> None:
    ids, together, single = tokens(), step_of(kind, cache), step_of(kind, cache)
    one_by_one = torch.stack([single(ids[:, i : i + 1]) for i in range(10)], 1)
    found = torch.cat(
        [together.read(ids[:, :1]), together.read(ids[:, 1:7]), together.read(ids[:, 7:])], 1
    )
    torch.testing.assert_close(found, one_by_one, atol=1e-10, rtol=0)
    assert torch.equal(step_of(kind, cache)(ids), step_of(kind, cache).read(ids)[:, -1])


@torch.no_grad()
@EACH
def test_what_was_rolled_back_was_never_read(kind: str, cache: str) -> None:
    """To the last bit, however many drafts there were."""
    ids, drafted, never = tokens(), step_of(kind, cache), step_of(kind, cache)
    for step in (drafted, never):
        step(ids[:, :3])
        step(ids[:, 3:4])
    for draft in (ids[:, 4:9], ids[:, 2:4]):
        drafted.read(draft)
        drafted.crop(4)
    assert drafted.length == never.length == 4
    assert torch.equal(drafted.read(ids[:, 6:9]), never.read(ids[:, 6:9]))


@torch.no_grad()
@EACH
def test_of_a_draft_only_what_is_kept_was_read(kind: str, cache: str) -> None:
    """Nothing of the rest is left; kept tokens of a pass are what a shorter pass makes of them."""
    ids, other, steps = tokens(), tokens().flip(0), [step_of(kind, cache) for _ in range(3)]
    drafts = ids[:, 4:9], torch.cat([ids[:, 4:6], other[:, 6:9]], 1), ids[:, 4:6]
    for step, draft in zip(steps, drafts, strict=True):
        step(ids[:, :4])
        step.read(draft)
        step.crop(6)
    found = [step(ids[:, 9:]) for step in steps]
    assert torch.equal(found[0], found[1])
    torch.testing.assert_close(found[0], found[2], atol=1e-10, rtol=0)


@torch.no_grad()
@EACH
def test_a_step_rolled_back_to_nothing_begins_anew(kind: str, cache: str) -> None:
    ids, step = tokens(), step_of(kind, cache)
    step(ids[:, :5])
    step.crop(0)
    assert torch.equal(step(ids[:, 5:8]), step_of(kind, cache)(ids[:, 5:8]))


@torch.no_grad()
@EACH
def test_what_goes_back_keeps_its_sequences_apart(kind: str, cache: str) -> None:
    """Chosen among in between, as a beam does."""
    ids, rows = tokens(), torch.tensor([1, 1, 0, 5, 4, 4])
    drafted, never = step_of(kind, cache), step_of(kind, cache)
    drafted(ids[:, :6])
    drafted.read(ids[:, 6:8])
    drafted.reorder(rows)
    drafted.crop(6)
    drafted.select(rows)
    never(ids[:, :6])
    never.reorder(rows)
    never.select(rows)
    assert torch.equal(drafted(ids[:, 9:]), never(ids[:, 9:]))


@torch.no_grad()
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize(
    "pattern",
    [Causal(), Causal() & Window(3), Causal() & Blocks(4, 2), Causal() & ~Window(0) | Prefix(1)],
    ids=str,
)
@pytest.mark.parametrize(
    "relative",
    [Rotary(), RelativeBias(4, Clipped(3)), RelativeContent(8, Every(12), heads=4)],
    ids=["rotary", "bias", "every"],
)
def test_every_pattern_and_position_forgets_what_was_rolled_back(
    pattern: Pattern, relative: Rotary, cache: str
) -> None:
    shape = TransformerConfig(width=32, depth=2, heads=4, key_heads=2, dropout=0.0)
    stack = Stack.of(shape, pattern, relative=relative).double().eval()
    x, drafted, never = torch.randn(2, 12, 32).double(), CACHES[cache](), CACHES[cache]()
    for kept in (drafted, never):
        stack(x[:, :3], line(3), cache=kept)
        stack(x[:, 3:5], line(2, 3), cache=kept)
    for t in range(5, 9):
        stack(x[:, t : t + 1], line(1, t), cache=drafted)
    drafted.crop(5)
    found, wanted = (stack(x[:, 9:], line(3, 5), cache=kept) for kept in (drafted, never))
    assert torch.equal(found, wanted)


@torch.no_grad()
@pytest.mark.parametrize(
    "places", [grid(3, 4), grid(3, 4, blocks=(2, 2))], ids=["raster", "blocks"]
)
def test_an_image_goes_back_along_its_own_places(places: Grid) -> None:
    words, shape = Embedding(10, 24), TransformerConfig(width=24, depth=2, heads=4, dropout=0.0)
    relative = Together(Rotary(), RelativeBias(4, Clipped(2), axes=2))
    stack = Stack.of(shape, Causal() & Window(2), position=Sinusoidal(), relative=relative)
    model, ids = Decoder(words, stack, Tied(words)).double().eval(), torch.randint(10, (2, 12))
    for make in (Growing, lambda: Static(places)):
        drafted, never = (CachedStep(model, cache=make(), places=places) for _ in range(2))
        for step in (drafted, never):
            step.read(ids[:, :6])
        drafted.read(ids[:, 3:6])
        drafted.crop(6)
        found = drafted.read(ids[:, 6:])
        assert torch.equal(found, never.read(ids[:, 6:]))
    assert drafted.length == 12


def test_gradients_pass_through_a_cache_that_went_back() -> None:
    shape = TransformerConfig(width=16, depth=2, heads=2, dropout=0.0)
    stack, kept = Stack.of(shape, Causal(), relative=Rotary()).double(), Growing()
    x = torch.randn(2, 6, 16, dtype=torch.float64, requires_grad=True)
    stack(x[:, :5], line(5), cache=kept)
    kept.crop(3)
    found = stack(x[:, 3:], line(3, 3), cache=kept)
    (one, other) = (
        torch.autograd.grad(y.square().sum(), x)[0] for y in (found, stack(x, line(6))[:, 3:])
    )
    torch.testing.assert_close(one, other, atol=1e-10, rtol=0)


@torch.no_grad()
def test_a_writer_without_a_source_goes_back_as_well() -> None:
    torch.manual_seed(0)
    words, ids = Embedding(12, 16), tokens()
    model = RecurrentWriter(words, Tied(words), 16, 2, dropout=0.0).double().eval()
    drafted, never = CachedStep(model), CachedStep(model)
    drafted.read(ids[:, :6])
    drafted.crop(2)
    never.read(ids[:, :2])
    assert torch.equal(drafted(ids[:, 6:]), never(ids[:, 6:]))


# ---- what is refused -------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "sentence"),
    [
        (
            "lstm",
            "holds one state and the 2 tokens that came in last: of 6 it goes back to 4 or more, "
            "or to 0, not to 3",
        ),
        (
            "convolutional",
            "holds what its last 2 tokens saw: of 6 it goes back to 4 or more, or to 0, not to 3",
        ),
    ],
)
def test_what_holds_little_says_how_far_it_goes_back(kind: str, sentence: str) -> None:
    ids, step, never = tokens(), step_of(kind), step_of(kind)
    for one in (step, never):
        one(ids[:, :4])
        one.read(ids[:, 4:6])
    with pytest.raises(ValueError, match=sentence):
        step.crop(3)
    assert torch.equal(step(ids[:, 6:7]), never(ids[:, 6:7]))  # and nothing has changed


@torch.no_grad()
@EACH
@pytest.mark.parametrize("length", [-1, 5])
def test_a_step_goes_back_to_what_it_has_read(kind: str, cache: str, length: int) -> None:
    step = step_of(kind, cache)
    step(tokens()[:, :4])
    with pytest.raises(
        ValueError, match=f"4 tokens were read: a step goes back to 0 to 4 of them, not {length}"
    ):
        step.crop(length)


@torch.no_grad()
@pytest.mark.parametrize("cache", CACHES)
def test_tokens_that_see_each_other_are_kept_or_forgotten_together(cache: str) -> None:
    words, shape = Embedding(12, 16), TransformerConfig(width=16, depth=2, heads=2, dropout=0.0)
    stack = Stack.of(shape, Everything(), relative=Rotary())
    model = Decoder(words, stack, Tied(words), causal=False).double().eval()
    ids, prefix = tokens(), Prefix([3, 4, 1, 2, 4, 4])
    step, never = (CachedStep(model, cache=CACHES[cache](), seen=prefix) for _ in range(2))
    found = step.read(ids[:, :7])
    with pytest.raises(
        ValueError,
        match="the first 4 tokens see each other: a cache goes back to 4 of them or more, or to "
        "none, not to 3",
    ):
        step.crop(3)
    step.crop(5)
    torch.testing.assert_close(step.read(ids[:, 5:7]), found[:, 5:], atol=1e-10, rtol=0)
    step.crop(5)
    never.read(ids[:, :5])
    wanted = never(ids[:, 7:8])
    torch.testing.assert_close(step(ids[:, 7:8]), wanted, atol=1e-10, rtol=0)
    step.crop(0)
    fresh = CachedStep(model, cache=CACHES[cache](), seen=prefix)
    assert torch.equal(step.read(ids[:, :5]), fresh.read(ids[:, :5]))


@torch.no_grad()
def test_a_decoder_that_sees_everything_does_not_write_token_by_token() -> None:
    words, shape = Embedding(12, 16), TransformerConfig(width=16, depth=1, heads=2, dropout=0.0)
    model = Decoder(words, Stack.of(shape, Everything()), Tied(words), causal=False).eval()
    for cache in CACHES.values():
        step = CachedStep(model, cache=cache())
        with pytest.raises(
            ValueError,
            match=r"^Everything\(\) needs tokens that a cache does not have yet: token 0 sees "
            r"token 1; read them all at once, or write with Causal\(\)$",
        ):
            greedy(step, begin(1), Bounds(0, longest=3))
        assert step.length == 0
