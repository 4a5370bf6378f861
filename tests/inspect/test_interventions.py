"""A head switched off, a row of attention changed: what follows is what was said."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from manyheads import (
    Causal,
    Everything,
    Growing,
    Pattern,
    Stack,
    TransformerConfig,
    grid,
    line,
    off,
    overwritten,
)
from manyheads.inspect.heads import HeadName, cost_each_head
from manyheads.inspect.interventions import Forbidden, Forced, Overwritten, name_layers
from manyheads.inspect.record import recording

WIDTH, HEADS, CHANNELS = 12, 3, 4


def stack(depth: int = 1, pattern: Pattern = Everything()) -> Stack:
    config = TransformerConfig(width=WIDTH, depth=depth, heads=HEADS, dropout=0.0)
    return Stack.of(config, pattern).eval()


def attended(model: Stack, x: Tensor) -> Tensor:
    """What the first layer's attention takes before heads are mixed, (T, heads, channels)."""
    taken: list[Tensor] = []
    part = model.blocks[0].self_attention.part
    hook = part.out.register_forward_pre_hook(lambda module, given: taken.append(given[0]))
    with torch.no_grad():
        model(x, line(x.shape[1]))
    hook.remove()
    return taken[0][0].unflatten(-1, (HEADS, CHANNELS))


def values(model: Stack, x: Tensor) -> Tensor:
    sublayer = model.blocks[0].self_attention
    with torch.no_grad():
        return (
            sublayer.part.inward(sublayer.norm(x))
            .split(WIDTH, -1)[2][0]
            .unflatten(-1, (HEADS, CHANNELS))
        )


def test_a_head_that_is_off_adds_nothing_and_others_stay() -> None:
    model, x = stack(), torch.randn(1, 5, WIDTH)
    whole = attended(model, x)
    with off(model, "blocks.0.self", head=1):
        found = attended(model, x)
    assert not found[:, 1].any()
    torch.testing.assert_close(found[:, [0, 2]], whole[:, [0, 2]])
    assert torch.equal(attended(model, x), whole), "it is on again"


def test_a_head_that_is_off_by_mean_takes_alike_of_what_it_may_see() -> None:
    model, x = stack(pattern=Causal()), torch.randn(1, 4, WIDTH)
    value = values(model, x)[:, 2]
    with off(model, "blocks.0.self", head=2, by="mean"):
        found = attended(model, x)[:, 2]
    means = torch.stack([value[: i + 1].mean(0) for i in range(4)])
    torch.testing.assert_close(found, means)


def test_the_other_heads_of_a_layer_keep_their_dropout_while_it_trains() -> None:
    config = TransformerConfig(width=WIDTH, heads=HEADS, dropout=0.0, attention_dropout=0.5)
    model, x = Stack.of(config).train(), torch.randn(1, 5, WIDTH)
    with off(model, "blocks.0.self", head=1):
        once, again = attended(model, x), attended(model, x)
    assert not torch.equal(once, again)
    assert not once[:, 1].any()


def test_an_overwritten_row_takes_what_it_is_told_and_is_recorded_so() -> None:
    model, x = stack(pattern=Causal()), torch.randn(1, 4, WIDTH)
    value, whole = values(model, x), attended(model, x)
    told = {0: 0.25, 1: 0.75, 3: 1.0}  # the last is later than place 2, and stays unseen
    with overwritten(model, "blocks.0.self", 0, place=2, weights=told):
        found = attended(model, x)
        with recording(model) as seen:
            model(x, line(4))
    torch.testing.assert_close(found[2, 0], 0.25 * value[0, 0] + 0.75 * value[1, 0])
    torch.testing.assert_close(found[[0, 1, 3]], whole[[0, 1, 3]])
    assert seen[0].weights[0, 0, 2].tolist() == [0.25, 0.75, 0.0, 0.0]


@torch.no_grad()
def test_the_place_of_a_pixel_is_its_number_and_not_its_row() -> None:
    model, x = stack(pattern=Causal()), torch.randn(1, 6, WIDTH)
    told = overwritten(model, "blocks.0.self", 0, place=4, weights={2: 1.0})
    with told, recording(model) as seen:
        model(x, grid(2, 3))
    assert seen[0].weights[0, 0, 4].tolist() == [0.0, 0.0, 1.0, 0.0, 0.0, 0.0]
    assert (seen[0].weights[0, 0, 3] > 0).tolist() == [True] * 4 + [False] * 2


@torch.no_grad()
def test_with_a_cache_places_stay_the_same() -> None:
    model, x, cache = stack(2, Causal()), torch.randn(1, 4, WIDTH), Growing()
    with overwritten(model, "blocks.1.self", 1, place=2, weights={0: 1.0}):
        whole = model(x, line(4))
        steps = [model(x[:, t : t + 1], line(1, start=t), cache=cache) for t in range(4)]
    torch.testing.assert_close(torch.cat(steps, 1), whole)


@torch.no_grad()
def test_the_cost_of_each_head_is_that_of_switching_it_off_alone() -> None:
    model, x = stack(2), torch.randn(1, 5, WIDTH)
    score = lambda copies: model(x.expand(copies, -1, -1), line(5)).sum(-1)  # noqa: E731
    heads = [HeadName(n, h) for n, (_, count) in name_layers(model).items() for h in range(count)]
    costs = cost_each_head(model, heads, score, copies=4)  # more than one batch of copies
    assert costs.shape == (6, 5)
    for one, cost in zip(heads, costs, strict=True):
        with off(model, one.layer, one.head):
            without = score(1)[0]
        torch.testing.assert_close(cost, score(1)[0] - without, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize(
    ("layer", "head", "by", "sentence"),
    [
        ("blocks.7.self", 0, "zero", "there is no layer 'blocks.7.self'; there are blocks.0.self"),
        ("blocks.0.self", 3, "zero", "heads of blocks.0.self are numbered 0 to 2, 3 was asked"),
        ("blocks.0.self", 0, "half", "a head is switched off by zero or mean, got 'half'"),
    ],
)
def test_what_is_not_there_is_refused(layer: str, head: int, by: str, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence), off(stack(), layer, head, by):  # type: ignore[arg-type]
        pass


@pytest.mark.parametrize(
    "make",
    [
        lambda: Overwritten("blocks.0.self", 0, place=-1, weights={0: 1.0}),
        lambda: Overwritten("blocks.0.self", 0, place=1, weights={-1: 1.0}),
        lambda: Forced(place=-1, token=3),
        lambda: Forbidden(place=-1, token=3),
    ],
)
def test_a_place_that_no_token_has_is_refused(make: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="places are numbered from 0 on, got -1"):
        make()
