"""Text in pieces is the text."""

import random
from collections.abc import Sequence

import pytest

from manyheads.codecs.text import Text
from manyheads.decoding.detokenize import BROKEN, Detokenizer, count_stop_begun

LINES = ["Der Hund läuft schnell.", "日本語 und 🙂🙃", "naïve café — ja, ja", "a b c a b"]
CODECS = {
    kind: Text.train(LINES, kind, 300) for kind in ("bpe", "unigram", "word", "character", "byte")
}


def pieces(
    codec: Text, prompt: Sequence[int], ids: Sequence[int], stops: Sequence[str]
) -> list[str]:
    detokenizer = Detokenizer(codec, prompt, stops)
    return [*map(detokenizer.add, ids), detokenizer.end()]


@pytest.mark.parametrize("kind", CODECS)
def test_what_follows_a_prompt_is_the_rest_of_the_whole_text(kind: str) -> None:
    codec = CODECS[kind]
    for line in LINES:
        ids = codec.encode(line)
        for cut in range(1, len(ids)):
            before = codec.render(ids[:cut])
            if before.endswith(BROKEN):
                continue  # no text ends within a character
            assert before + Detokenizer(codec, ids[:cut]).all(ids[cut:]) == codec.render(ids)


@pytest.mark.parametrize("seed", range(20))
def test_any_bytes_are_told_as_they_are_rendered(seed: int) -> None:
    codec, chance = CODECS["byte"], random.Random(seed)
    good = codec.encode("日🙂é a")
    ids = [chance.choice(good) for _ in range(60)]
    prompt = codec.encode("ä")
    assert Detokenizer(codec, prompt).all(ids) == codec.render(ids)


def test_no_piece_holds_half_a_character() -> None:
    codec = CODECS["byte"]
    found = pieces(codec, codec.encode("x"), codec.encode("日🙂é"), ())
    assert [piece for piece in found if piece] == ["日", "🙂", "é"]


def test_half_a_character_at_the_end_is_told_at_the_end() -> None:
    codec = CODECS["byte"]
    found = pieces(codec, codec.encode("x"), codec.encode("a日")[:-1], ())
    assert found == ["a", "", "", BROKEN]


def test_what_may_begin_a_stop_waits_until_it_is_none() -> None:
    codec = CODECS["character"]
    found = pieces(codec, codec.encode("a"), codec.encode("abc ab"), ["bcd", "abx"])
    assert found == ["", "", "a", "bc ", "", "", "ab"]


@pytest.mark.parametrize("kind", ["character", "byte", "bpe"])
@pytest.mark.parametrize(
    ("stops", "wanted"),
    [
        (("ja",), "café — "),
        (("ja, ja",), "café — "),
        (("—", "ja"), "café "),
        (("ja, ju", ", j"), "café — ja"),
        (("é — é",), "café — ja, ja"),
        (("c",), ""),
    ],
)
def test_text_ends_before_the_first_stop(kind: str, stops: tuple[str, ...], wanted: str) -> None:
    codec = CODECS[kind]
    detokenizer = Detokenizer(codec, codec.encode("naïve "), stops)
    found = []
    for token in codec.encode("café — ja, ja"):
        found.append(detokenizer.add(token))
        assert not any(stop in "".join(found) for stop in stops)
    found.append(detokenizer.end())
    assert "".join(found) == wanted
    assert detokenizer.stopped == (wanted != "café — ja, ja")


def test_the_prompt_is_no_part_of_a_stop() -> None:
    codec = CODECS["character"]
    assert Detokenizer(codec, codec.encode("a b"), ["bc"]).all(codec.encode("c a b")) == "c a b"


def test_only_the_longest_beginning_of_a_stop_waits() -> None:
    assert count_stop_begun("and th", ["the end"]) == 2
    assert count_stop_begun("abab", ["abac", "b"]) == 2
    assert count_stop_begun("abc", ["x"]) == 0
    assert count_stop_begun("", ["x"]) == 0
    assert count_stop_begun("x", []) == 0
