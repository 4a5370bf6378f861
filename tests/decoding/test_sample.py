"""Tokens drawn by chance."""

import math
from math import inf
from random import Random
from typing import Any

import pytest
import torch
from writers import SOURCES, STOP, Chain, Fixed, begin, translator

from manyheads import Bounds, CachedStep, Sampling, greedy, sample
from manyheads.decoding.sample import FEW, draw_key, make_noise, pick, weigh_tokens

CHANCES = [0.1, 0.4, 0.2, 0.3]


def weights(how: Sampling, chances: list[float] = CHANCES) -> list[float]:
    found = weigh_tokens(torch.tensor([chances]).log(), how)[0]
    return (found / found.sum()).tolist()


@pytest.mark.parametrize(
    ("how", "wanted"),
    [
        (Sampling(), CHANCES),
        (Sampling(temperature=0.5), [1 / 30, 16 / 30, 4 / 30, 9 / 30]),
        (Sampling(temperature=1e-3), [0, 1, 0, 0]),
        (Sampling(top_k=1), [0, 1, 0, 0]),
        (Sampling(top_k=3), [0, 4 / 9, 2 / 9, 3 / 9]),
        (Sampling(top_k=9), CHANCES),
        (Sampling(top_p=0.01), [0, 1, 0, 0]),
        (Sampling(top_p=0.65), [0, 4 / 7, 0, 3 / 7]),
        (Sampling(top_p=0.75), [0, 4 / 9, 2 / 9, 3 / 9]),
        (Sampling(min_p=0.3), [0, 4 / 9, 2 / 9, 3 / 9]),
        (Sampling(min_p=1), [0, 1, 0, 0]),
        (Sampling(top_k=2, top_p=0.5), [0, 1, 0, 0]),  # of the two, the first has more than half
        (Sampling(temperature=0.5, min_p=0.3), [0, 16 / 25, 0, 9 / 25]),
    ],
    ids=str,
)
def test_each_setting_leaves_what_it_says(how: Sampling, wanted: list[float]) -> None:
    assert weights(how) == pytest.approx(wanted, abs=1e-6)


@pytest.mark.parametrize("sharpness", [0.1, 5.0], ids=["many share it", "few have it"])
def test_a_share_of_a_large_vocabulary_is_the_fewest_tokens_that_make_it_up(
    sharpness: float,
) -> None:
    chances = (sharpness * torch.randn(3, 4 * FEW)).softmax(-1)
    found = weigh_tokens(chances.log(), Sampling(top_p=0.7))
    for row, kept in zip(chances, found, strict=True):
        count = int((kept > 0).sum())
        assert torch.equal(kept > 0, row >= row.topk(count).values[-1])
        assert row.topk(count).values.sum() > 0.7 - 1e-5
        assert row.topk(count - 1).values.sum() < 0.7 + 1e-5
        assert (count > FEW) == (sharpness < 1)  # both ways are taken


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    draws = 4000
    found = sample(Fixed(CHANCES, draws), begin(draws), Bounds(None, longest=2), Sampling(seed=1))
    for place in range(2):
        counts = [sum(one.ids[place] == token for one in found) for token in range(4)]
        apart = [(n - draws * p) ** 2 / (draws * p) for n, p in zip(counts, CHANCES, strict=True)]
        assert sum(apart) < 16.3  # chi-square of 3 degrees: 1 in 1000 is over this
    pairs = sum(one.ids == [1, 1] for one in found)  # one draw says nothing about the next
    assert abs(pairs - draws * 0.16) < 4 * math.sqrt(draws * 0.16 * 0.84)


def test_a_token_without_weight_is_never_picked() -> None:
    keys = torch.randint(-(2**31), 2**31, (1000,), dtype=torch.int32)
    found = pick(torch.tensor([[0.0, 0.5, 0.0, 0.5, 0.0]]).expand(1000, -1), keys)
    assert {*found.tolist()} == {1, 3}


def test_noise_is_exponential_and_of_each_token_its_own() -> None:
    keys = torch.arange(-10_000, 10_000, dtype=torch.int32)  # neighbours: the worst keys
    noise = make_noise(keys, 50)
    assert noise.min() > 0
    shares = noise.neg().exp().double()  # uniform, where noise is exponential
    assert (shares.mean(0) - 1 / 2).abs().max() < 4.5 * math.sqrt(1 / 12 / len(keys))
    assert (12 * shares.var(0) - 1).abs().max() < 0.05
    each = torch.cat([shares[1:], shares[:-1]], 1)  # of a place, and of the place before it
    related = torch.corrcoef(each.T).fill_diagonal_(0).abs()
    assert related.max() < 5.5 / math.sqrt(len(keys))
    assert torch.equal(make_noise(keys[7:8], 50), noise[7:8])
    assert torch.equal(make_noise(keys, 20), noise[:, :20])


def test_rare_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    chances = torch.tensor([0.9, *[0.1 / 4000] * 4000])
    keys = torch.tensor([draw_key(dice) for dice in [Random(3)] for _ in range(20_000)])
    found = torch.cat([pick(chances.expand(500, -1), some) for some in keys.int().split(500)])
    rare = int((found > 0).sum())
    assert abs(rare - 2000) < 4 * math.sqrt(20_000 * 0.1 * 0.9)
    # 2,000 draws from 4,000 tokens: about 4000 * (1 - exp(-1/2)) different ones.
    assert abs(len({*found[found > 0].tolist()}) - 1574) < 100


def test_what_is_drawn_for_a_sequence_does_not_depend_on_its_batch() -> None:
    how, bounds = Sampling(top_p=0.9, seed=5), Bounds(STOP, longest=8)
    together = sample(Chain([*range(9)], 6), begin(9), bounds, how)
    for n in range(9):
        assert sample(Chain([n], 6), begin(1), bounds, how, numbers=[n]) == [together[n]]
    backwards = [*range(8, -1, -1)]
    found = sample(Chain(backwards, 6), begin(9), bounds, how, numbers=backwards)
    assert found[::-1] == together


def test_another_seed_or_number_draws_another_sequence() -> None:
    bounds = Bounds(None, longest=20)

    def draw(seed: int, number: int) -> list[int]:
        how = Sampling(seed=seed)
        return sample(Fixed(CHANCES), begin(1), bounds, how, numbers=[number])[0].ids

    assert draw(0, 0) == draw(0, 0)
    assert len({tuple(draw(*pair)) for pair in [(0, 0), (0, 1), (1, 0), (1, 1), (0, 11)]}) == 5


def test_the_score_is_the_models_own_whatever_was_drawn_from() -> None:
    (found,) = sample(
        Fixed(CHANCES), begin(1), Bounds(None, longest=5), Sampling(temperature=0.3, top_k=2)
    )
    assert set(found.ids) <= {1, 3}
    assert found.logs == pytest.approx([math.log(CHANCES[token]) for token in found.ids])


@torch.no_grad()
def test_the_coldest_sample_of_a_transformer_is_greedy() -> None:
    model, bounds = translator(4), Bounds(2, longest=8)
    step = CachedStep(model.decoder, model.encode(SOURCES))
    wanted = greedy(step, begin(6), bounds)
    step = CachedStep(model.decoder, model.encode(SOURCES))
    assert sample(step, begin(6), bounds, Sampling(temperature=1e-4)) == wanted


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temperature": inf}, r"a temperature is a finite number from 0 \(greedy\) up, got inf"),
        ({"top_k": -1}, "top_k is 0 or more, got -1"),
        ({"top_p": 0.0}, "top_p is above 0, got 0.0"),
        ({"top_p": 1.1}, "top_p is 1 at most, got 1.1"),
        ({"min_p": -0.1}, "min_p is 0 or more, got -0.1"),
    ],
)
def test_sampling_that_cannot_be_is_refused(settings: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Sampling(**settings)


def test_at_temperature_0_nothing_is_drawn() -> None:
    with pytest.raises(ValueError, match="at a temperature over 0, got 0, whose limit is greedy"):
        sample(Chain([0], 4), begin(1), Bounds(STOP, 3), Sampling(temperature=0))


def test_each_sequence_has_a_number() -> None:
    with pytest.raises(ValueError, match="3 numbers came for 2 sequences"):
        sample(Chain([0, 1], 4), begin(2), Bounds(STOP, 3), numbers=[0, 1, 2])
