"""One new token over the filled slots of a cache."""

import os
from typing import Any

import pytest
import torch

from manyheads import Causal, Everything, Grid, Pairs, Window, Work, line, plan
from manyheads.attention.kernels import single
from manyheads.attention.kernels.base import TRITON
from manyheads.attention.kernels.single import Single

SLOTS = 300


def work(place: Any = (5,), pattern: Any = Causal(), heads: int = 4, **options: Any) -> Work:
    order = torch.as_tensor(place, device=options.pop("device", "cpu"))
    at = Grid(order, (order,), (SLOTS,))
    return Work(pattern, Pairs(2, heads, at, line(SLOTS, device=order.device)), **options)


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (work(), "it runs on CUDA, not on cpu"),
        (work(pattern=Causal() & Window(4)), r"it computes Causal\(\) alone"),
        (work(pattern=Everything()), r"it computes Causal\(\) alone"),
        (work(place=(4, 5)), "it takes one query, over slots in their order from the first on"),
        (work(features=frozenset({"distance bias"})), "it has no distance bias"),
        (work(features=frozenset({"dropout"})), "it has no dropout"),
        (work(device="meta"), "it runs on CUDA, not on meta"),
        (work(dtype=torch.float64), "it computes in 32 bits, these tensors have 64"),
    ],
)
def test_what_it_does_not_do_it_refuses(asked: Work, sentence: str) -> None:
    with pytest.raises(ValueError, match=f"the single kernel refuses .*: {sentence}"):
        plan(Single(), asked)


def test_what_is_compiled_knows_its_shape() -> None:
    query, slots = torch.empty(2, 4, 1, 8, device="meta"), torch.empty(2, 2, 9, 8, device="meta")
    found = single.one_query(query, slots, slots, torch.empty(1, device="meta"), None, 1.0)
    assert found.shape == query.shape


cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="it runs on CUDA")


@cuda
@pytest.mark.parametrize("channels", [16, 48, 64, 128])
@pytest.mark.parametrize("key_heads", [4, 2, 1])
@pytest.mark.parametrize(
    "place", [[0], [127], [128], [299], [[3], [290]]], ids=lambda place: f"at {place}"
)
def test_it_is_equal_to_the_definition(channels: int, key_heads: int, place: Any) -> None:
    asked = work(place, channels=channels, key_heads=key_heads, device="cuda")
    query = torch.randn(2, 1, 4, channels, device="cuda").transpose(1, 2)
    # Slots beyond the filled ones may hold anything.
    key, value = (torch.randn(2, key_heads, SLOTS, channels, device="cuda") for _ in range(2))
    for row, last in enumerate(torch.tensor(place).expand(2, 1)[:, 0].tolist()):
        key[row, :, last + 1 :] = 1e4
    found = plan(Single(), asked)(query, key, value)
    torch.testing.assert_close(found, plan("reference", asked)(query, key, value))


DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def beams() -> tuple[Any, ...]:
    """Queries, keys, values, the place of the token, and in whose row each slot is held."""
    query = torch.randn(3, 4, 1, 16, device=DEVICE)
    key, value = torch.randn(2, 3, 2, 40, 16, device=DEVICE)
    place = torch.tensor([30], device=DEVICE)
    return query, key, value, place, torch.randint(3, (3, 40), device=DEVICE)


def test_beams_find_their_tokens_in_the_rows_of_others() -> None:
    query, key, value, place, rows = beams()
    index = rows[:, None, :, None].expand_as(key)
    moved = [x.gather(0, index) for x in (key, value)]
    found = single.one_query(query, key, value, place, rows, 0.25)
    torch.testing.assert_close(found, single.one_query(query, *moved, place, None, 0.25))
    assert not torch.allclose(found, single.one_query(query, key, value, place, None, 0.25))


def test_new_keys_are_written_before_they_are_read() -> None:
    query, key, value, place, _ = beams()
    new = torch.randn(2, 3, 2, 1, 16, device=DEVICE)
    held = [x.clone().index_copy_(2, place, one) for x, one in zip((key, value), new, strict=True)]
    wanted = single.one_query(query, *held, place, None, 0.25)
    found = single.write_and_ask(query, key, value, place, None, 0.25, (new[0], new[1]))
    torch.testing.assert_close(found, wanted)
    assert torch.equal(key, held[0])
    assert torch.equal(value, held[1])


@pytest.mark.skipif(
    not TRITON or os.environ.get("TRITON_INTERPRET") != "1", reason="needs Triton's interpreter"
)
@pytest.mark.parametrize("elsewhere", [True, False])
def test_the_interpreted_program_does_as_the_plain_way(elsewhere: bool) -> None:
    from manyheads.attention.kernels.triton.single import launch

    *inputs, rows = (x.cpu() for x in beams())
    asked = *inputs, rows if elsewhere else None, 0.25
    torch.testing.assert_close(launch(*asked), single.one_query_plainly(*asked))


@pytest.mark.skipif(
    not TRITON or os.environ.get("TRITON_INTERPRET") != "1", reason="needs Triton's interpreter"
)
@pytest.mark.parametrize("place", [0, 30, 39])
@pytest.mark.parametrize("step", [1, 2])
def test_the_interpreted_program_writes_new_keys_however_they_lie(place: int, step: int) -> None:
    from manyheads.attention.kernels.triton.single import launch

    query, key, value, at, _ = (x.cpu() for x in beams())
    at.fill_(place)
    new = torch.randn(2, 3, 2, 1, 16 * step)[..., ::step]  # as a rotation of one's own may return
    held = [x.clone().index_copy_(2, at, one) for x, one in zip((key, value), new, strict=True)]
    wanted = single.one_query_plainly(query, *held, at, None, 0.25)
    found = launch(query, key, value, at, None, 0.25, (new[0], new[1]))
    torch.testing.assert_close(found, wanted)
    assert torch.equal(key, held[0])
    assert torch.equal(value, held[1])


@cuda
def test_in_16_bits_it_is_as_exact_as_they_are() -> None:
    asked = work([200], dtype=torch.bfloat16, device="cuda")
    query, key, value = (
        torch.randn(2, 4, count, 64, device="cuda", dtype=torch.bfloat16)
        for count in (1, SLOTS, SLOTS)
    )
    wanted = plan("reference", asked)(query.float(), key.float(), value.float())
    found = plan(Single(), asked)(query, key, value).float()
    assert (found - wanted).norm() < 5e-3 * wanted.norm()
