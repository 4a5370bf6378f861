"""Answers: as SQuAD v1.1 counts them."""

import pytest

from manyheads.metrics.answers import exact_match, normalize_answer, word_f1


def test_case_punctuation_articles_and_spacing_do_not_count() -> None:
    assert normalize_answer("The  Eiffel-Tower!") == "eiffeltower"
    assert normalize_answer("An apple, a day; theatre") == "apple day theatre"
    outputs, references = ["the Denver Broncos!", "Carolina"], ["denver  broncos", "Denver"]
    assert exact_match(outputs, references).value == 50


def test_f1_of_a_small_example_is_what_it_is_by_hand() -> None:
    # 2 of 3 words are right, 2 of 4 are found.
    value = word_f1(["in northern France"], ["northern France, near Paris"]).value
    assert value == pytest.approx(100 * 2 * (2 / 3) * (2 / 4) / (2 / 3 + 2 / 4))


def test_f1_counts_a_word_as_often_as_both_have_it() -> None:
    assert word_f1(["ha ha ha"], ["ha ha no"]).value == pytest.approx(100 * 2 / 3)


def test_the_best_of_several_answers_counts() -> None:
    answers = [["Paris, France", "Paris"]]
    assert exact_match(["paris"], answers).value == 100
    assert word_f1(["France"], answers).value == pytest.approx(100 * 2 / 3)


def test_answers_of_nothing_agree_exactly_and_have_no_f1() -> None:
    assert exact_match(["the"], ["A."]).value == 100
    assert word_f1(["the"], ["A."]).value == 0


def test_the_signatures_name_the_rules() -> None:
    assert exact_match(["a"], ["a"]).signature == "exact match|nrefs:1|norm:squad-1.1|refs:best"
    assert word_f1(["a"], ["a"]).signature == "word F1|nrefs:1|norm:squad-1.1|refs:best"
