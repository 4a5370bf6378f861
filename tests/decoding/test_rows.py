"""A sequence that is put into a row of a batch goes on as it would alone."""

import pytest
import torch
from torch import Tensor
from writers import KINDS, SOURCES, TRANSFORMERS, begin, model_of

from manyheads import (
    Bounds,
    CachedStep,
    Causal,
    Clipped,
    Decoder,
    Embedding,
    Everything,
    Memory,
    RelativeBias,
    RowStep,
    Segments,
    Sinusoidal,
    Stack,
    Tied,
    Tokens,
    TransformerConfig,
    Window,
    greedy,
    grid,
    line,
)

EACH_KIND = pytest.mark.parametrize("kind", KINDS)
EACH_TRANSFORMER = pytest.mark.parametrize("kind", TRANSFORMERS)


def rows_of(kind: str, rows: int = 3) -> RowStep:
    return RowStep(model_of(kind).decoder, rows, line(12), memory_tokens=5)


def memory_of(kind: str, number: int) -> Memory:
    """Of one of the sources, padded as all of them are."""
    return model_of(kind).encode(SOURCES).select(torch.tensor([number]))


def alone_of(kind: str, number: int) -> CachedStep:
    return CachedStep(model_of(kind).decoder, memory_of(kind, number))


def tokens() -> Tensor:
    return torch.randint(12, (6, 10), generator=torch.Generator().manual_seed(1))


@torch.no_grad()
@EACH_KIND
def test_rows_at_places_of_their_own_go_on_as_alone(kind: str) -> None:
    """One came in with a longer beginning, one later, one in the place of another."""
    ids, step = tokens(), rows_of(kind)
    held: list[tuple[int, int]] = []  # (the row, the number of its source)
    alone = {number: alone_of(kind, number) for number in range(4)}
    read = dict.fromkeys(alone, 0)

    def put(row: int, number: int, length: int) -> None:
        found = step.put(row, ids[number : number + 1, :length], memory_of(kind, number))
        wanted = alone[number](ids[number : number + 1, :length])
        torch.testing.assert_close(found, wanted, atol=1e-10, rtol=0)
        held.append((row, number))
        read[number] = length

    def go_on(count: int) -> None:
        new = torch.zeros(3, count, dtype=torch.long)
        for row, number in held:
            new[row] = ids[number, read[number] : read[number] + count]
        found = step.read(new)
        for row, number in held:
            wanted = alone[number].read(new[row : row + 1])[0]
            torch.testing.assert_close(found[row], wanted, atol=1e-10, rtol=0)
            read[number] += count

    put(0, 0, 4)
    go_on(1)
    put(2, 1, 1)
    go_on(1)
    go_on(2)
    step.remove(0)
    held.remove((0, 0))
    put(0, 2, 2)
    go_on(1)
    put(1, 3, 3)
    go_on(2)
    go_on(1)


@torch.no_grad()
@EACH_KIND
def test_a_row_put_in_touches_no_other(kind: str) -> None:
    """Not by a bit: the other rows give what they give where the row stays empty."""
    ids, changed, still = tokens(), rows_of(kind), rows_of(kind)
    for step in (changed, still):
        step.put(0, ids[:1, :2], memory_of(kind, 0))
        step.put(1, ids[1:2, :4], memory_of(kind, 1))
        step(ids[:3, 4:5])
    changed.remove(1)
    changed.put(1, ids[2:3, :3], memory_of(kind, 2))
    changed.put(2, ids[3:4, :1], memory_of(kind, 3))
    for i in range(5, 8):
        found, wanted = (step(ids[:3, i : i + 1]) for step in (changed, still))
        assert torch.equal(found[0], wanted[0])
        assert not torch.equal(found[1], wanted[1])


@torch.no_grad()
@EACH_KIND
def test_a_row_with_an_empty_source_goes_on_as_in_a_batch(kind: str) -> None:
    model, ids = model_of(kind), tokens()[:1, :3]
    memory = model.encode(Tokens.padded([[5, 6], []]))
    wanted = model.decoder(Tokens(ids.expand(2, -1), line(3)), memory)[1:, -1]
    found = rows_of(kind).put(0, ids, memory.select(torch.tensor([1])))
    torch.testing.assert_close(found, wanted)


@torch.no_grad()
@EACH_TRANSFORMER
def test_each_row_goes_back_by_itself(kind: str) -> None:
    """As drafts are accepted: two tokens of the first row's, none of the second's."""
    ids, step = tokens(), rows_of(kind, 2)
    for row in (0, 1):
        step.put(row, ids[row : row + 1, : row + 2], memory_of(kind, row))
    step.read(ids[:2, 4:7])
    step.crop(0, 4)
    step.crop(1, 3)
    found = step.read(ids[:2, 8:])
    for row, kept in ((0, [0, 1, 4, 5]), (1, [0, 1, 2])):
        alone = alone_of(kind, row)
        alone.read(ids[row : row + 1, kept])
        wanted = alone.read(ids[row : row + 1, 8:])[0]
        torch.testing.assert_close(found[row], wanted, atol=1e-10, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("kind", ["rotary", "gru", "convolutional"])
def test_a_queue_of_sentences_through_two_rows_is_written_as_each_alone(kind: str) -> None:
    longest, starts = [3, 8, 1, 5, 8, 2], tokens()[:, :1]
    wanted = [
        greedy(alone_of(kind, number), starts[number : number + 1], Bounds(0, longest=limit))[0]
        for number, limit in enumerate(longest)
    ]
    step, waiting, going, found = rows_of(kind, 2), [*range(6)], {}, {}
    last = torch.zeros(2, 1, dtype=torch.long)
    logits = torch.zeros(2, 12).double()
    while waiting or going:
        for row in {0, 1} - {*going}:
            if waiting:
                going[row] = number = waiting.pop(0)
                found[number] = []
                logits[row] = step.put(row, starts[number : number + 1], memory_of(kind, number))[0]
        for row, number in [*going.items()]:
            last[row] = token = int(logits[row].argmax())
            if token:
                found[number].append(token)
            if not token or len(found[number]) == longest[number]:
                step.remove(row)
                del going[row]
        if going:
            logits = step(last)
    assert [found[number] for number in range(6)] == [one.ids for one in wanted]
    assert len({tuple(ids) for ids in found.values()}) > 1


@torch.no_grad()
def test_images_are_written_side_by_side_at_pixels_of_their_own() -> None:
    words, shape = Embedding(12, 16), TransformerConfig(width=16, depth=2, heads=2, dropout=0.0)
    relative = RelativeBias(2, Clipped(2), axes=2)
    stack = Stack.of(shape, Causal() & Window(2), position=Sinusoidal(), relative=relative)
    model, places = Decoder(words, stack, Tied(words)).double().eval(), grid(3, 4, blocks=(2, 2))
    ids, step = tokens(), RowStep(model, 2, places)
    for row, length in enumerate((2, 5)):
        step.put(row, ids[row : row + 1, :length])
    found = step.read(ids[:2, 7:])
    for row, length in enumerate((2, 5)):
        alone = CachedStep(model, places=places)
        alone.read(ids[row : row + 1, :length])
        wanted = alone.read(ids[row : row + 1, 7:])[0]
        torch.testing.assert_close(found[row], wanted, atol=1e-10, rtol=0)


# ---- what is refused -------------------------------------------------------------------------


def test_what_does_not_fit_a_row_is_refused() -> None:
    ids, memory = tokens(), memory_of("rotary", 0)
    with pytest.raises(ValueError, match="a batch has 1 row or more, got 0"):
        rows_of("rotary", 0)
    step = rows_of("rotary")
    with pytest.raises(ValueError, match="3 sequences came to 3 rows, 0 of them taken; each row"):
        step(ids[:3, :1])
    with pytest.raises(ValueError, match="rows are numbered 0 to 2, got 3"):
        step.put(3, ids[:1, :2], memory)
    with pytest.raises(ValueError, match="one sequence is put into a row, 2 came"):
        step.put(0, ids[:2, :2], memory)
    with pytest.raises(ValueError, match="goes on from one token or more a sequence, 1 x 0 came"):
        step.put(0, ids[:1, :0], memory)
    with pytest.raises(ValueError, match="one sequence came with the memory of 6"):
        step.put(0, ids[:1, :2], model_of("rotary").encode(SOURCES))
    with pytest.raises(ValueError, match="row 0 holds no sequence"):
        step.remove(0)
    small = RowStep(model_of("rotary").decoder, 3, line(12), memory_tokens=2)
    with pytest.raises(
        ValueError,
        match=r"room for a memory of 2 tokens, 3 came; RowStep\(..., memory_tokens=3\) would do",
    ):
        small.put(0, ids[:1, :2], memory)
    with pytest.raises(ValueError, match="the memory of a row hides nothing but padding, Segments"):
        step.put(0, ids[:1, :2], memory._replace(seen=Segments([[0, 0, 0, 1, 1]])))
    step.put(0, ids[:1, :2], memory)
    with pytest.raises(ValueError, match=r"row 0 holds a sequence; remove\(0\) lets it out first"):
        step.put(0, ids[:1, :2], memory)
    with pytest.raises(ValueError, match="2 sequences came to 3 rows, 1 of them taken"):
        step(ids[:2, :1])
    with pytest.raises(
        ValueError, match="there are 12 places to write, a sequence of 13 tokens was asked for"
    ):
        step.read(torch.zeros(3, 11, dtype=torch.long))
    with pytest.raises(ValueError, match="a cache of 2 tokens goes back to 0 to 2 of them, not 3"):
        step.crop(0, 3)


@pytest.mark.parametrize(("kind", "cache"), [("lstm", "Carried"), ("convolutional", "Recent")])
def test_rows_that_hold_one_state_together_do_not_go_back_alone(kind: str, cache: str) -> None:
    step = rows_of(kind)
    step.put(0, tokens()[:1, :4], memory_of(kind, 0))
    with pytest.raises(ValueError, match=f"goes back by itself in a Static cache, a {cache} holds"):
        step.crop(0, 3)


def test_a_decoder_that_sees_everything_is_not_written_with_in_rows() -> None:
    words, shape = Embedding(12, 16), TransformerConfig(width=16, depth=1, heads=2, dropout=0.0)
    model = Decoder(words, Stack.of(shape, Everything()), Tied(words), causal=False).eval()
    step = RowStep(model, 2, line(12))
    with pytest.raises(ValueError, match=r"Everything\(\) needs tokens that a cache does not have"):
        step.put(0, begin(1))
    assert step.lengths == [None, None]
