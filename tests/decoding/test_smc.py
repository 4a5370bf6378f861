"""Tokens drawn around those that are given, against a posterior that can be listed."""

import math
from collections import Counter
from itertools import product

import pytest
import torch
from torch import Tensor
from writers import Chain, Fixed, begin

from manyheads import Bounds, Sampling, sample
from manyheads.decoding.smc import FREE, count_effective, resample_systematically, sample_around

GIVEN = [FREE, 2, FREE, 0, FREE, 1]
VOCABULARY = 3


class Pairs:
    """Scores by the last two tokens, looked up: quick enough to draw a thousand times."""

    table = 2 * torch.randn(VOCABULARY, VOCABULARY, VOCABULARY, generator=torch.manual_seed(3))

    def __init__(self) -> None:
        self.last = torch.zeros(1, 2, dtype=torch.long)

    def __call__(self, ids: Tensor) -> Tensor:
        self.last = torch.cat([self.last, ids], 1)[:, -2:]
        return self.table[self.last[:, 0], self.last[:, 1]]

    def select(self, rows: Tensor) -> None:
        self.last = self.last[rows]

    reorder = select


class Forced:
    """Another step, one sequence, in which the given tokens are certain."""

    def __init__(self, step: Chain, given: list[int]):
        self.step, self.given = step, iter(given)

    def __call__(self, ids: Tensor) -> Tensor:
        scores, known = self.step(ids), next(self.given)
        if known == FREE:
            return scores
        return torch.full_like(scores, -torch.inf).index_fill(1, torch.tensor([known]), 0.0)

    def select(self, rows: Tensor) -> None:
        self.step.select(rows)

    def reorder(self, rows: Tensor) -> None:
        self.step.reorder(rows)


def posterior(given: list[int]) -> dict[tuple[int, ...], float]:
    """How likely each sequence is that has the given tokens, all others ruled out."""
    logs, found = Pairs.table.log_softmax(-1), {}
    for tokens in product(*(range(VOCABULARY) if known == FREE else [known] for known in given)):
        read = [0, 1, *tokens]
        found[tokens] = math.exp(
            sum(logs[read[i], read[i + 1], token].item() for i, token in enumerate(tokens))
        )
    total = sum(found.values())
    return {tokens: chance / total for tokens, chance in found.items()}


def far(particles: int, count: int = 500) -> float:
    """Half the sum of the differences between how often sequences came and should have come."""

    def one(seed: int) -> tuple[int, ...]:
        how = Sampling(seed=seed)
        return tuple(sample_around(Pairs(), begin(1), GIVEN, how, particles=particles).ids)

    came, wanted = Counter(map(one, range(count))), posterior(GIVEN)
    assert set(came) <= set(wanted)
    return sum(abs(came[tokens] / count - chance) for tokens, chance in wanted.items()) / 2


def test_many_particles_draw_as_the_model_would_that_knew_what_is_given() -> None:
    assert far(16) < 0.08  # chance alone makes about 0.05
    assert far(1) > 0.2


def test_one_particle_is_plain_drawing_with_the_tokens_forced() -> None:
    for seed in range(9):
        how = Sampling(seed=seed, top_p=0.9)
        alone = sample_around(Chain([4], 6), begin(1), [FREE, 3, FREE, FREE, 5], how, particles=1)
        step = Forced(Chain([4], 6), [FREE, 3, FREE, FREE, 5])
        (forced,) = sample(step, begin(1), Bounds(None, longest=5), how)
        assert alone.ids == forced.ids


def test_the_logs_are_the_models_own_for_the_given_tokens_too() -> None:
    found = sample_around(Chain([2], 5), begin(1), [3, FREE, 0], particles=8)
    step = Chain([2], 5)
    wanted = [
        step.scores(2, [1, *found.ids[:i]]).log_softmax(-1)[token].item()
        for i, token in enumerate(found.ids)
    ]
    assert found.logs == pytest.approx(wanted, abs=1e-5)
    assert (found.ids[0], found.ids[2]) == (3, 0)


def test_the_same_seed_draws_the_same_and_another_does_not() -> None:
    def drawn(seed: int) -> list[int]:
        return sample_around(Chain([2], 9), begin(1), [FREE] * 8, Sampling(seed=seed)).ids

    assert drawn(1) == drawn(1) != drawn(2)


def test_what_is_never_drawn_may_be_given() -> None:
    for seed in range(20):
        found = sample_around(
            Fixed([0.9, 0.05, 0.05]), begin(1), [FREE, FREE, 0], Sampling(seed=seed), never=[0]
        )
        assert 0 not in found.ids[:2]
        assert found.ids[2] == 0


def test_a_token_that_the_model_rules_out_can_be_given() -> None:
    found = sample_around(Fixed([1.0, 0.0]), begin(1), [FREE, 1, FREE], particles=4)
    assert found.ids == [0, 1, 0]
    assert found.logs[1] == -1e4


def test_particles_go_on_as_often_as_their_weights_say() -> None:
    weights = torch.tensor([0.5, 0.25, 0.25, 0.0]).double().log()
    assert resample_systematically(weights, 0.5).tolist() == [0, 0, 1, 2]
    assert count_effective(weights) == pytest.approx(1 / 0.375)
    assert count_effective(torch.zeros(7).double()) == pytest.approx(7)


def test_what_cannot_be_drawn_is_refused() -> None:
    with pytest.raises(ValueError, match="1 particle or more is drawn, got 0"):
        sample_around(Fixed([1.0]), begin(1), [FREE], particles=0)
    with pytest.raises(ValueError, match="around one sequence at a time, 2 came"):
        sample_around(Fixed([1.0], batch=2), begin(2), [FREE])
    with pytest.raises(ValueError, match="sequence 0 can write nothing after 1 tokens"):
        sample_around(Fixed([0.5, 0.5]), begin(1), [0, FREE], never=[0, 1])
