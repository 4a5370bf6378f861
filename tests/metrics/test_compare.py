"""Comparing: a difference that is there is found, one that is not is not."""

from functools import partial

import numpy as np
import pytest

from manyheads.metrics.bleu import bleu
from manyheads.metrics.compare import by_length, paired_bootstrap
from manyheads.metrics.measured import percent
from manyheads.metrics.rouge import rouge_n

rouge_1 = partial(rouge_n, n=1)

REFERENCES = [" ".join(f"w{(i * j) % 11}" for j in range(1, 8)) for i in range(40)]


def spoilt(share: float, seed: int) -> list[str]:
    """The references with this share of their words replaced."""
    random = np.random.default_rng(seed)
    return [
        " ".join("x" if random.random() < share else word for word in reference.split())
        for reference in REFERENCES
    ]


@pytest.mark.parametrize("metric", [bleu, rouge_1])
def test_a_clear_difference_is_found_and_lies_in_its_interval(metric) -> None:
    ours, theirs = metric(spoilt(0.1, 0), REFERENCES), metric(spoilt(0.5, 1), REFERENCES)
    found = paired_bootstrap(ours, theirs, resamples=200)
    assert found.difference == ours.value - theirs.value
    assert 0 < found.low < found.difference < found.high
    assert found.p == 1 / 201
    other_way = paired_bootstrap(theirs, ours, resamples=200)
    assert (other_way.difference, other_way.low) == pytest.approx((-found.difference, -found.high))
    assert other_way.p == found.p


def test_a_system_does_not_differ_from_itself() -> None:
    one = bleu(spoilt(0.3, 0), REFERENCES)
    found = paired_bootstrap(one, one, resamples=50)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_p_is_below_a_twentieth_once_in_twenty_where_there_is_no_difference() -> None:
    random = np.random.default_rng(0)
    found = []
    for _ in range(200):
        ours, theirs = (percent(random.random(60).tolist(), "noise") for _ in range(2))
        found.append(paired_bootstrap(ours, theirs, resamples=200).p)
    assert 0.01 < np.mean(np.array(found) < 0.05) < 0.1
    assert np.mean(found) == pytest.approx(0.5, abs=0.06)


def test_the_interval_of_a_mean_is_as_wide_as_its_error() -> None:
    random = np.random.default_rng(0)
    gains = random.normal(0.1, 0.2, 400)
    ours, theirs = percent((0.5 + gains).tolist(), "same"), percent([0.5] * 400, "same")
    found = paired_bootstrap(ours, theirs)
    error = 100 * gains.std() / np.sqrt(400)
    assert found.high - found.low == pytest.approx(2 * 1.96 * error, rel=0.1)


def test_pairing_sees_a_gain_that_is_small_beside_the_spread_of_examples() -> None:
    random = np.random.default_rng(0)
    hard = random.random(100)
    ours, theirs = percent((hard + 0.01).tolist(), "same"), percent(hard.tolist(), "same")
    assert paired_bootstrap(ours, theirs, resamples=200).p < 0.01


def test_the_same_seed_draws_the_same_resamples() -> None:
    ours, theirs = (rouge_1(spoilt(0.3, seed), REFERENCES) for seed in (0, 1))
    one = paired_bootstrap(ours, theirs, resamples=100, seed=5)
    assert paired_bootstrap(ours, theirs, resamples=100, seed=5) == one
    assert paired_bootstrap(ours, theirs, resamples=100, seed=6) != one


def test_a_difference_prints_as_a_sentence() -> None:
    ours, theirs = percent([1.0, 1.0], "same"), percent([0.5, 0.5], "same")
    assert str(paired_bootstrap(ours, theirs, resamples=99)) == (
        "+50.00, 95% within +50.00 and +50.00, p = 0.010 (99 resamples)"
    )


def test_what_cannot_be_compared_is_refused() -> None:
    one = rouge_1(REFERENCES, REFERENCES)
    with pytest.raises(
        ValueError, match=r"must be measured alike .*these are ROUGE-1\|.* and BLEU"
    ):
        paired_bootstrap(one, bleu(REFERENCES, REFERENCES))
    with pytest.raises(
        ValueError, match="on the same examples to be compared, these have 40 and 3"
    ):
        paired_bootstrap(one, rouge_1(REFERENCES[:3], REFERENCES[:3]))
    with pytest.raises(ValueError, match="a bootstrap needs 1 resample or more, got 0"):
        paired_bootstrap(one, one, resamples=0)


# ---- by length -------------------------------------------------------------------------------


def test_buckets_hold_the_examples_of_their_length_measured_alone() -> None:
    sources = ["w " * count for count in range(40)]  # 0 to 39 words
    outputs = spoilt(0.3, 0)
    rows = by_length(bleu(outputs, REFERENCES), sources, edges=(10, 20, 30))
    assert [(row.words, row.count) for row in rows] == [
        ("under 10", 10),
        ("10 to 19", 10),
        ("20 to 29", 10),
        ("30 and more", 10),
    ]
    assert rows[1].value == bleu(outputs[10:20], REFERENCES[10:20]).value


def test_a_bucket_of_nothing_has_no_row() -> None:
    measured = rouge_1(REFERENCES[:2], REFERENCES[:2])
    rows = by_length(measured, ["w", "w " * 60])
    assert [(row.words, row.count, row.value) for row in rows] == [
        ("under 10", 1, 100),
        ("50 and more", 1, 100),
    ]


def test_sources_and_edges_that_do_not_sort_are_refused() -> None:
    measured = rouge_1(REFERENCES, REFERENCES)
    with pytest.raises(ValueError, match="40 examples were measured, 2 sources cannot sort them"):
        by_length(measured, ["a", "b"])
    for edges in [(), (0, 10), (20, 10), (10, 10)]:
        with pytest.raises(ValueError, match="edges must be rising numbers of words from 1, got"):
            by_length(measured, REFERENCES, edges=edges)
