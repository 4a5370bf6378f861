"""Decoding with a cache equals the full pass, for every pattern and position."""

import pytest
import torch

from manyheads import (
    Blocks,
    Bucketed,
    Causal,
    Clipped,
    Every,
    Growing,
    Learned,
    Lengths,
    Prefix,
    RelativeBias,
    RelativeContent,
    Rotary,
    Sinusoidal,
    Stack,
    Static,
    Together,
    TransformerConfig,
    Window,
    graph,
    grid,
    line,
)
from manyheads.attention.cache import LEAST_ROOM, Ring
from manyheads.attention.patterns import Pattern
from manyheads.attention.places import Grid
from manyheads.attention.positions import Position, Relative
from manyheads.modules.stack import Memory

B, T, D, H = 2, 12, 32, 4
C = D // H

PATTERNS = [
    Causal(),
    Causal() & Window(3),
    Causal() & Blocks(4, 2),
    Causal() & (Window(1) | Prefix(2)),
    Causal() & ~Window(0) | Prefix(1),
]
POSITIONS: dict[str, tuple[Position | None, Relative | None]] = {
    "none": (None, None),
    "sinusoidal": (Sinusoidal(), None),
    "learned": (Learned(D, T), None),
    "rotary": (None, Rotary()),
    "bias": (None, RelativeBias(H, Clipped(3))),
    "buckets": (None, RelativeBias(H, Bucketed(8, 16))),
    "shaw": (None, RelativeContent(C, Clipped(3), values=True)),
    "music": (Sinusoidal(), RelativeContent(C, Every(20), heads=H)),
    "together": (None, Together(Rotary(), RelativeBias(H, Clipped(2)))),
}
CACHES = {"growing": Growing, "static": lambda: Static(line(T)), "roomy": lambda: Static(line(20))}


def stack_of(pattern: Pattern, position: str, cross: bool = False) -> Stack:
    below, within = POSITIONS[position]
    shape = TransformerConfig(width=D, depth=2, heads=H, key_heads=2, dropout=0.0)
    stack = Stack.of(shape, pattern, position=below, relative=within, cross=cross)
    return stack.double().eval()


@torch.no_grad()
@pytest.mark.parametrize("cache", CACHES)
@pytest.mark.parametrize("position", POSITIONS)
@pytest.mark.parametrize("pattern", PATTERNS, ids=str)
def test_cached_decoding_equals_the_full_pass(pattern: Pattern, position: str, cache: str) -> None:
    if position == "music" and cache == "roomy":
        pattern = (
            pattern & Causal()
        )  # its table ends where the sequence does, and so must the cache
        kept = Static(line(T))
    else:
        kept = CACHES[cache]()
    stack, x = stack_of(pattern, position), torch.randn(B, T, D, dtype=torch.float64)
    full = stack(x, line(T))
    # A prompt at once, then token by token, then a few together.
    cuts = [(0, 5), *((t, t + 1) for t in range(5, 9)), (9, T)]
    steps = [stack(x[:, a:b], line(T)[a:b], cache=kept) for a, b in cuts]
    torch.testing.assert_close(torch.cat(steps, 1), full, atol=1e-10, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize(
    "places", [grid(3, 4), grid(3, 4, blocks=(2, 2))], ids=["raster", "blocks"]
)
@pytest.mark.parametrize(
    "pattern", [Causal(), Causal() & Window(1), Causal() & Blocks((2, 2), (1, 1))], ids=str
)
def test_an_image_is_generated_pixel_by_pixel_as_in_the_full_pass(
    pattern: Pattern, places: Grid
) -> None:
    shape = TransformerConfig(width=D, depth=2, heads=H, dropout=0.0)
    relative = Together(Rotary(), RelativeBias(H, Clipped(2), axes=2))
    stack = Stack.of(shape, pattern, position=Sinusoidal(), relative=relative).double().eval()
    x = torch.randn(B, len(places), D, dtype=torch.float64)
    full = stack(x, places)
    for cache in (Growing(), Static(places)):
        steps = [stack(x[:, t : t + 1], places[t : t + 1], cache=cache) for t in range(len(places))]
        torch.testing.assert_close(torch.cat(steps, 1), full, atol=1e-10, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize(("pattern", "slots"), [(Window(3), 4), (Blocks(4, 2), 6)], ids=str)
@pytest.mark.parametrize("position", POSITIONS)
def test_a_ring_of_what_can_still_be_seen_equals_the_full_pass(
    pattern: Pattern, slots: int, position: str
) -> None:
    stack, ring = stack_of(Causal() & pattern, position), Ring(line(T), slots)
    x = torch.randn(B, T, D, dtype=torch.float64)
    steps = [stack(x[:, t : t + 1], line(T)[t : t + 1], cache=ring) for t in range(T)]
    torch.testing.assert_close(torch.cat(steps, 1), stack(x, line(T)), atol=1e-10, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("cache", CACHES)
def test_a_memory_is_read_once_and_gives_the_same(cache: str) -> None:
    stack = stack_of(Causal(), "sinusoidal", cross=True)
    x, memory = (
        torch.randn(B, T, D, dtype=torch.float64),
        Memory(torch.randn(B, 6, D).double(), line(6)),
    )
    full, kept = stack(x, line(T), memory=memory), CACHES[cache]()
    reads = []
    for block in stack.blocks:
        attention = block.cross_attention.part
        plain = attention.remember
        attention.remember = lambda *a, plain=plain: reads.append(1) or plain(*a)
    steps = [stack(x[:, t : t + 1], line(1, t), memory=memory, cache=kept) for t in range(T)]
    torch.testing.assert_close(torch.cat(steps, 1), full, atol=1e-10, rtol=0)
    assert len(reads) == len(stack.blocks)


@torch.no_grad()
@pytest.mark.parametrize("cache", ["growing", "static"])
def test_a_beam_may_choose_among_the_sequences_it_keeps(cache: str) -> None:
    stack, kept = stack_of(Causal(), "rotary"), CACHES[cache]()
    x, rows = torch.randn(B, T, D, dtype=torch.float64), torch.tensor([1, 1])
    stack(x[:, :6], line(6), cache=kept)
    kept.select(rows)
    found = stack(x[:, 6:7], line(1, 6), cache=kept)
    wanted = stack(torch.cat([x[rows, :6], x[:, 6:7]], 1), line(7))[:, -1:]
    torch.testing.assert_close(found, wanted, atol=1e-10, rtol=0)


@pytest.mark.parametrize("relative", ["none", "rotary", "bias"])
def test_gradients_pass_through_a_growing_cache(relative: str) -> None:
    """Token by token and with its sequences swapped in between, as in one pass."""
    stack, kept = stack_of(Causal(), relative), Growing()
    x = torch.randn(B, 6, D, dtype=torch.float64, requires_grad=True)
    swap = torch.tensor([1, 0])
    found = [stack(x[:, t : t + 1], line(1, t), cache=kept) for t in range(3)]
    kept.select(swap)
    found = [y[swap] for y in found]
    found += [stack(x[swap][:, t : t + 1], line(1, t), cache=kept) for t in range(3, 6)]
    weights = [x, *stack.parameters()]
    (one, other) = (
        torch.autograd.grad(y.square().sum(), weights)
        for y in (torch.cat(found, 1), stack(x, line(6))[swap])
    )
    for cached, whole in zip(one, other, strict=True):
        torch.testing.assert_close(cached, whole, atol=1e-10, rtol=0)


@torch.no_grad()
def test_a_growing_cache_chooses_among_its_sequences_again_and_again() -> None:
    """Past the room that it began with, with more sequences and with fewer."""
    stack, kept = stack_of(Causal(), "rotary"), Growing()
    x = torch.randn(B, 3, D, dtype=torch.float64)
    stack(x, line(3), cache=kept)
    for t in range(3, 3 * LEAST_ROOM):
        if t % 3:
            rows = torch.randint(len(x), (4 if t % 2 else 2,))
            kept.select(rows)
            x = x[rows]
        x = torch.cat([x, torch.randn(len(x), 1, D, dtype=torch.float64)], 1)
        found = stack(x[:, t:], line(1, t), cache=kept)
        wanted = stack(x, line(t + 1))[:, -1:]
        torch.testing.assert_close(found, wanted, atol=1e-10, rtol=0)


@torch.no_grad()
def test_sequences_at_steps_of_their_own_share_a_static_cache() -> None:
    """The second sequence is two tokens shorter; each goes on from where it is."""
    stack, kept = stack_of(Causal(), "rotary"), Static(line(T))
    x = torch.randn(B, T, D, dtype=torch.float64)
    stack(x[:, :6], line(6), cache=kept)
    new = torch.stack([x[0, 6:7], x[1, 4:5]])
    found = stack(new, line(1, start=torch.tensor([6, 4])), cache=kept)
    torch.testing.assert_close(found[0], stack(x[:1, :7], line(7))[0, -1:], atol=1e-10, rtol=0)
    torch.testing.assert_close(found[1], stack(x[1:, :5], line(5))[0, -1:], atol=1e-10, rtol=0)


def test_a_cache_overrun_is_refused_in_words() -> None:
    stack, kept = stack_of(Causal(), "none"), Static(line(8))
    x = torch.randn(B, 9, D, dtype=torch.float64)
    stack(x[:, :8], line(8), cache=kept)
    with pytest.raises(
        ValueError, match="the cache ends after token 8, a sequence of 9 arrived; make it"
    ):
        stack(x[:, 8:], line(1, 8), cache=kept)


def test_a_ring_goes_on_by_one_token_and_never_back() -> None:
    stack, ring = stack_of(Causal() & Window(2), "rotary"), Ring(line(T), 3)
    with pytest.raises(ValueError, match="a Ring takes tokens one at a time, 2 came"):
        stack(torch.randn(B, 2, D), line(2), cache=ring)
    with pytest.raises(ValueError, match="a Ring does not go back"):
        ring.crop(1)


def test_a_graph_does_not_come_one_after_another() -> None:
    stack = Stack.of(TransformerConfig(width=D, depth=1, heads=H, dropout=0.0), Window(1))
    with pytest.raises(ValueError, match="tokens that come one after another, but a graph arrived"):
        stack(torch.randn(1, 3, D), graph([(0, 1)], 3), cache=Growing())


def test_a_growing_cache_refuses_what_does_not_follow() -> None:
    stack, kept = stack_of(Causal(), "none"), Growing()
    x = torch.randn(B, 4, D, dtype=torch.float64)
    stack(x, line(4), cache=kept)
    with pytest.raises(ValueError, match="goes on with token 4, number 2 came"):
        stack(x[:, :1], line(1, 2), cache=kept)
    with pytest.raises(
        ValueError, match="places of their own came; a Static cache takes tokens at"
    ):
        stack(x[:, :1], line(1, start=torch.tensor([4, 2])), cache=kept)


@torch.no_grad()
@pytest.mark.parametrize("cache", CACHES)
def test_a_forgetful_cache_begins_anew_with_another_memory(cache: str) -> None:
    stack, kept = stack_of(Causal(), "rotary", cross=True), CACHES[cache]()
    x = torch.randn(B, 5, D, dtype=torch.float64)
    for _ in range(2):
        memory = Memory(torch.randn(B, 6, D).double(), line(6))
        found = [stack(x[:, t : t + 1], line(1, t), memory=memory, cache=kept) for t in range(5)]
        wanted = stack(x, line(5), memory=memory)
        torch.testing.assert_close(torch.cat(found, 1), wanted, atol=1e-10, rtol=0)
        kept.forget()


def test_sequences_of_different_lengths_do_not_go_on_in_a_growing_cache() -> None:
    stack, x = stack_of(Causal(), "none"), torch.randn(B, 4, D, dtype=torch.float64)
    with pytest.raises(ValueError, match="of different lengths do not go on together in a Growing"):
        stack(x, line(4), Lengths([4, 2]), cache=Growing())
    stack(x, line(4), Lengths([4, 2]), cache=Static(line(6)))


def test_a_cache_of_another_batch_is_refused_and_goes_on_with_its_own() -> None:
    stack = stack_of(Causal(), "none")
    x = torch.randn(B, 4, D, dtype=torch.float64)
    for kept in (Growing(), Static(line(8))):
        stack(x, line(4), cache=kept)
        with pytest.raises(ValueError, match="the cache holds 2 sequences, 1 came; make another"):
            stack(x[:1, :1], line(1, 4), cache=kept)
        stack(x[:, :1], line(1, 4), cache=kept)
    with pytest.raises(ValueError, match="a Static cache keeps 2 sequences, 1 were selected"):
        kept.select(torch.tensor([0]))


@torch.no_grad()
def test_a_refused_step_leaves_a_growing_cache_as_it_was() -> None:
    shape = TransformerConfig(width=D, depth=2, heads=H, dropout=0.0)
    stack = Stack.of(shape, Causal(), relative=RelativeContent(C, Every(4))).double().eval()
    x, cache = torch.randn(B, 4, D, dtype=torch.float64), Growing()
    stack(x[:, :3], line(3), cache=cache)
    with pytest.raises(ValueError, match=r"Every\(length=4\) has a distance for sequences of 4"):
        stack(x[:, 2:], line(2, start=3), cache=cache)
    last = stack(x[:, 3:], line(1, start=3), cache=cache)
    torch.testing.assert_close(last, stack(x, line(4))[:, 3:])
