"""What is said about texts is measured as it is by hand."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from manyheads.metrics.labels import (
    accuracy,
    macro_f1,
    marks_spans,
    pearson,
    rank_values,
    rmse,
    roc_auc,
    span_f1,
    spearman,
    tag_spans,
)


def test_accuracy_is_the_share_of_what_is_right() -> None:
    assert accuracy(["a", "b", "a", "c"], ["a", "b", "c", "c"]).value == 75


def test_macro_f1_is_the_mean_over_labels_whatever_their_number() -> None:
    # a: 1 right of 2 given and 1 wanted; b: 1 of 1 and 1; c: 1 of 1 and 2.
    by_hand = 100 * (2 / 3 + 1 + 2 / 3) / 3
    assert macro_f1(["a", "b", "a", "c"], ["a", "b", "c", "c"]).value == pytest.approx(by_hand)


def test_a_label_that_is_never_met_is_no_part_of_the_mean() -> None:
    measured = macro_f1(["a", "a", "b"], ["a", "a", "c"])
    assert measured.value == pytest.approx(100 / 3)
    assert measured.over(np.array([1.0, 1.0, 0.0])) == 100


def test_spans_are_those_of_conlleval() -> None:
    assert tag_spans(["B-PER", "I-PER", "O", "B-LOC"]) == {("PER", 0, 2), ("LOC", 3, 4)}
    assert tag_spans(["B-PER", "B-PER", "I-LOC"]) == {("PER", 0, 1), ("PER", 1, 2), ("LOC", 2, 3)}
    assert tag_spans(["O", "I-PER", "I-PER"]) == {("PER", 1, 3)}
    assert tag_spans(["S-PER", "B-LOC", "E-LOC", "I-LOC"]) == {
        ("PER", 0, 1),
        ("LOC", 1, 3),
        ("LOC", 3, 4),
    }
    assert tag_spans(["O", "O"]) == tag_spans([]) == set()


def test_span_f1_wants_the_type_and_both_ends() -> None:
    wanted = [["B-PER", "I-PER", "O"], ["B-LOC", "O", "B-ORG"]]
    given = [["B-PER", "O", "O"], ["B-LOC", "O", "B-PER"]]
    assert span_f1(given, wanted).value == pytest.approx(100 * 2 * 1 / (3 + 3))
    assert span_f1(wanted, wanted).value == 100
    assert span_f1([["O"]], [["O"]]).value == 0
    with pytest.raises(ValueError, match="2 tags cannot be held against 1; each word has one"):
        span_f1([["O", "O"]], [["O"]])


def test_tags_that_mark_spans_are_told_from_those_that_do_not() -> None:
    assert marks_spans(["O", "B-PER", "I-PER"])
    assert not marks_spans(["NOUN", "VERB", "O"])
    assert not marks_spans(["O", "O"])


def test_pearson_by_hand() -> None:
    # Apart from their means: -1 0 1 and -4/3 -1/3 5/3.
    by_hand = 3 / np.sqrt(2 * 42 / 9)
    assert pearson([1, 2, 3], [1, 2, 4]).value == pytest.approx(by_hand)
    assert pearson([1, 2, 3], [3, 2, 1]).value == pytest.approx(-1)
    assert pearson([1e9 + 1, 1e9 + 2, 1e9 + 3], [1, 2, 4]).value == pytest.approx(by_hand)


def test_spearman_sees_only_the_order() -> None:
    assert spearman([1, 10, 100], [0.1, 0.2, 0.9]).value == pytest.approx(1)
    # Ranks 1 2.5 2.5 4 and 1 2 3 4.
    assert spearman([0, 1, 1, 2], [1, 2, 3, 4]).value == pytest.approx(4.5 / np.sqrt(4.5 * 5))
    assert rank_values([30, 10, 30]).tolist() == [2.5, 1, 2.5]


@pytest.mark.parametrize("of", [pearson, spearman])
def test_what_never_changes_goes_with_nothing(of: Callable[..., Any]) -> None:
    assert of([0.1, 0.1, 0.1], [1, 2, 3]).value == 0
    assert of([7], [7]).value == 0


def test_an_auc_of_resampled_examples_is_near_that_measured_again() -> None:
    chance = np.random.default_rng(0)
    wanted = (chance.random(400) < 0.3).astype(float)
    said = np.round(wanted + chance.normal(size=400), 1)  # with ties
    whole = roc_auc(said, wanted)
    for _ in range(20):
        drawn = chance.integers(400, size=200)
        again = whole.over(np.bincount(drawn, minlength=400).astype(float))
        assert again == pytest.approx(roc_auc(said[drawn], wanted[drawn]).value, abs=0.01)


def test_rmse_by_hand() -> None:
    assert rmse([1, 2, 3], [1, 4, 7]).value == pytest.approx(np.sqrt(20 / 3))


@pytest.mark.parametrize("of", [accuracy, macro_f1, span_f1, pearson, spearman, rmse])
def test_what_cannot_be_measured_is_refused(of: Callable[..., Any]) -> None:
    with pytest.raises(
        ValueError, match="1 outputs cannot be held against 2 references; each output needs its own"
    ):
        of(["a"], ["a", "b"])
    with pytest.raises(ValueError, match="nothing can be measured on 0 outputs"):
        of([], [])
