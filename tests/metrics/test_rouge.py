"""ROUGE: values worked out by hand, words of any script, the longest common subsequence."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.metrics.rouge import longest_common, rouge_l, rouge_n, split_words


def test_rouge_of_a_small_example_is_what_it_is_by_hand() -> None:
    outputs, references = ["The cat was under the bed."], ["the cat was found under the big bed"]
    # 6 words and 8: all 6 shared; of 5 pairs and 7, "the cat", "cat was" and "under the".
    assert rouge_n(outputs, references, n=1).value == pytest.approx(100 * 2 * 6 / (6 + 8))
    assert rouge_n(outputs, references, n=2).value == pytest.approx(100 * 2 * 3 / (5 + 7))
    assert rouge_l(outputs, references).value == pytest.approx(100 * 2 * 6 / (6 + 8))


def test_rouge_1_alone_does_not_mind_the_order_of_words() -> None:
    outputs, references = ["gunman the killed police"], ["police killed the gunman"]
    assert rouge_n(outputs, references, n=1).value == 100
    assert rouge_n(outputs, references, n=2).value == 0
    assert rouge_l(outputs, references).value == 25


def test_a_word_counts_no_more_often_than_the_reference_has_it() -> None:
    assert rouge_n(["the the the the"], ["the cat"], n=1).value == pytest.approx(100 * 2 / 6)


def test_the_value_is_the_mean_of_the_examples() -> None:
    outputs, references = ["one two", "three", "four"], ["one two", "three", "five"]
    assert rouge_n(outputs, references, n=1).value == pytest.approx(200 / 3)


def test_the_best_reference_is_chosen_for_each_metric_by_itself() -> None:
    output = ["a b c d"]
    scrambled, cut = "d c b a", "a b x y"
    assert rouge_n(output, [[scrambled, cut]], n=1).value == 100
    assert rouge_n(output, [[scrambled, cut]], n=2).value == rouge_n(output, [cut], n=2).value > 0
    assert rouge_l(output, [[scrambled, cut]]).value == 50


def test_words_are_letters_digits_and_marks_of_any_script() -> None:
    assert split_words("The cat's café_bar, 2nd!") == ["the", "cat", "s", "café", "bar", "2nd"]
    assert split_words("Привет, мир") == ["привет", "мир"]
    assert split_words("हिन्दी में") == ["हिन्दी", "में"]
    assert split_words("cafe\u0301") == split_words("café")
    assert split_words(" ... ") == []


def longest_by_table(one: list[str], other: list[str]) -> int:
    """The usual table of lengths, row by row: slow and plain."""
    row = [0] * (len(other) + 1)
    for word in one:
        above, row = row, [0]
        for j, also in enumerate(other):
            row.append(above[j] + 1 if word == also else max(above[j + 1], row[j]))
    return row[-1]


@given(one=st.lists(st.sampled_from("abcd")), other=st.lists(st.sampled_from("abcd")))
def test_bits_find_the_same_longest_subsequence_as_the_table(
    one: list[str], other: list[str]
) -> None:
    assert longest_common(one, other) == longest_by_table(one, other)


def test_the_signature_tells_it_apart_from_other_rouges() -> None:
    signature = rouge_n(["a b"], ["a b"], n=2).signature
    assert signature == "ROUGE-2|nrefs:1|case:lc|tok:words|stem:no|refs:best|f1"
    with pytest.raises(ValueError, match="ROUGE counts runs of 1 word or more, got 0"):
        rouge_n(["a"], ["a"], 0)
