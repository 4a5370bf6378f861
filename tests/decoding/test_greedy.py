"""Writing until the end."""

import pytest
import torch

from manyheads import (
    Causal,
    Decoder,
    Embedding,
    Shape,
    Sinusoidal,
    Stack,
    Static,
    Tied,
    Tokens,
    grid,
    line,
)
from manyheads.decoding.greedy import greedy
from manyheads.decoding.step import CachedStep

STOP = 9


def scripted(*rows: list[int]) -> object:
    """A step that writes these tokens whatever it reads."""
    left = iter(zip(*rows, strict=True))

    def step(ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.one_hot(torch.tensor(next(left)), 10).float()

    return step


def test_each_sequence_ends_at_its_own_stop() -> None:
    step = scripted([3, STOP, 5, 5], [4, 4, 4, STOP])
    start = torch.zeros(2, 1, dtype=torch.long)
    assert greedy(step, start, stop=STOP, limit=10) == [[3], [4, 4, 4]]  # type: ignore[arg-type]


def test_writing_ends_at_the_limit() -> None:
    start = torch.zeros(1, 1, dtype=torch.long)
    assert greedy(scripted([1, 2, 3]), start, stop=STOP, limit=2) == [[1, 2]]  # type: ignore[arg-type]
    assert greedy(scripted([1]), start, stop=STOP, limit=0) == [[]]  # type: ignore[arg-type]


@torch.no_grad()
def test_cached_greedy_writing_equals_reading_everything_anew() -> None:
    embedding = Embedding(10, 24)
    stack = Stack.of(
        Shape(width=24, depth=2, heads=4, dropout=0.0), Causal(), position=Sinusoidal()
    )
    model = Decoder(embedding, stack, Tied(embedding)).double().eval()
    prompt = torch.tensor([[1, 2, 3], [4, 5, 6]])
    anew = prompt
    for _ in range(6):
        scores = model(Tokens(anew, line(anew.shape[1])))
        anew = torch.cat([anew, scores[:, -1:].argmax(-1)], 1)
    for cache in (None, Static(line(12))):
        written = greedy(CachedStep(model, cache=cache), prompt, stop=-1, limit=6)
        assert written == anew[:, 3:].tolist()


def image_writer() -> Decoder:
    embedding = Embedding(10, 24)
    stack = Stack.of(
        Shape(width=24, depth=1, heads=4, dropout=0.0), Causal(), position=Sinusoidal()
    )
    return Decoder(embedding, stack, Tied(embedding)).double().eval()


@torch.no_grad()
def test_an_image_is_written_along_its_own_places() -> None:
    model, at, ids = image_writer(), grid(3, 4, blocks=(2, 2)), torch.randint(10, (1, 12))
    full = model(Tokens(ids, at))
    step = CachedStep(model, places=at)
    found = torch.stack([step(ids[:, i : i + 1]) for i in range(12)], 1)
    torch.testing.assert_close(found, full, atol=1e-10, rtol=0)
    with pytest.raises(ValueError, match="there are 12 places to write, one more was asked for"):
        step(ids[:, :1])


@torch.no_grad()
def test_a_step_that_was_refused_has_read_nothing() -> None:
    model = image_writer()
    step = CachedStep(model)
    with pytest.raises(ValueError, match="words are numbered 0 to 9, 25 arrived"):
        step(torch.tensor([[25]]))
    torch.testing.assert_close(step(torch.tensor([[2]])), CachedStep(model)(torch.tensor([[2]])))
