"""A line of several sentences, one by one."""

import pytest

from manyheads.tasks.seq2seq.sentences import cut_at_spaces, join_texts, split_sentences

LINES = {
    "Er kam. Sie ging! Und du?": ["Er kam.", "Sie ging!", "Und du?"],
    "Dr. Smith kam am 3. Mai. Er blieb.": ["Dr. Smith kam am 3. Mai.", "Er blieb."],
    "Es kostet 3.50 Euro. 20 kamen.": ["Es kostet 3.50 Euro.", "20 kamen."],
    'Er rief: "Komm!" und ging. "Ja." Gut.': ['Er rief: "Komm!" und ging.', '"Ja."', "Gut."],
    "Nein… doch, z. B. so. Ja?! Gut.": ["Nein… doch, z. B. so.", "Ja?!", "Gut."],
    "猫がいる。犬も！「はい。」と言った。": ["猫がいる。", "犬も！", "「はい。」と言った。"],
    "eins\nzwei. drei\n\nVier": ["eins", "zwei. drei", "Vier"],
    "  Hallo.  ": ["Hallo."],
    "... ... !": ["... ... !"],
    " \t": [],
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_is_cut_where_sentences_end(line: str) -> None:
    assert [one.text for one in split_sentences(line)] == LINES[line]


@pytest.mark.parametrize("line", LINES)
def test_nothing_of_a_line_is_lost(line: str) -> None:
    assert "".join(one.text + one.after for one in split_sentences(line)) == line.strip()


def test_what_has_no_end_is_cut_at_spaces_and_else_anywhere() -> None:
    fits = lambda text: len(text) <= 5  # noqa: E731
    assert list(cut_at_spaces("aa bb cc dd", fits)) == ["aa bb", "cc dd"]
    assert list(cut_at_spaces("a" * 20, fits)) == ["a" * 5] * 4
    assert list(cut_at_spaces("", fits)) == [""]


def test_what_was_written_is_joined_as_its_script_and_its_lines_have_it() -> None:
    assert join_texts("He came.", " ", "She left.") == "He came. She left."
    assert join_texts("He came.", "", "She left.") == "He came. She left.", "read without a space"
    assert join_texts("He came.", "\n\n", "She left.") == "He came.\nShe left."
    assert join_texts("猫がいる。", " ", "犬もいる。") == "猫がいる。犬もいる。"
    assert join_texts("", " ", "She left.") == "She left."
