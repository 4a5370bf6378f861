"""A corpus is looked at before training."""

import pytest

from manyheads.data.filters import Filters, Report, filter_pairs, some_left
from manyheads.data.sources import Example

GOOD = Example("Ein Hund rennt.", "A dog runs.", 1)


def reasons(*pairs: tuple[str, str], held_out: tuple[Example, ...] = ()) -> dict[str, list[int]]:
    report = Report()
    examples = [Example(*pair, line) for line, pair in enumerate(pairs, start=1)]
    list(filter_pairs(examples, report, Filters(longest_characters=100), held_out=held_out))
    return {
        why: [int(each.split()[1].rstrip(":")) for each in some]
        for why, some in report.left_out.first.items()
    }


def test_each_fault_is_named_with_its_lines() -> None:
    assert reasons(
        ("Ein Hund.", "A dog."),
        ("", "A cat."),
        ("", "  "),
        ("x" * 101, "y" * 90),
        ("Ja.", "Yes, and a great deal more than that."),
        ("Ein  Hund.", "A dog. "),
    ) == {
        "empty on one side": [2],
        "empty on both sides": [3],
        "longer than 100 characters": [4],
        "one side over 6 times as long as the other": [5],
        "met before": [6],
    }


def test_what_is_held_out_is_not_trained_on() -> None:
    found = reasons(("Ein Hund rennt.", "A dog runs."), ("Ja.", "Yes."), held_out=(GOOD,))
    assert found == {"also held out for validation": [1]}


def test_short_pairs_may_differ_in_length() -> None:
    assert reasons(("Ja.", "Yes, of course.")) == {}


def test_the_report_counts_and_shows_a_few() -> None:
    report = Report()
    examples = [GOOD, *(Example("", "A cat.", line) for line in range(2, 9))]
    assert list(filter_pairs(examples, report)) == [GOOD]
    assert str(report).splitlines() == [
        "8 pairs read, 1 kept",
        "  7 left out: empty on one side",
        "    line 2:  | A cat.",
        "    line 3:  | A cat.",
        "    line 4:  | A cat.",
    ]


def test_a_line_of_a_million_characters_is_left_out_and_shown_short() -> None:
    report = Report()
    list(filter_pairs([Example("x" * 1_000_000, "y", 7), GOOD], report))
    assert report.kept == 1
    assert max(map(len, str(report).splitlines())) < 100


def test_nothing_left_is_refused() -> None:
    report = Report()
    list(filter_pairs([Example("", "", 1)], report))
    with pytest.raises(ValueError, match="nothing is left of the corpus: 1 pairs read, 0 kept"):
        some_left(report)
