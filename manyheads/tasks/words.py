"""Map the tokens of a text to its words."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, pairwise

from manyheads.codecs.text import Text
from manyheads.metrics.bleu import fitting_tokenizer

HALF = "\ufffd"  # shown for a part of a character
SPACED = "13a"  # the tokenizer for texts with spaces between words
Ids = Sequence[int]


def words_of_pieces(codec: Text, ids: Ids) -> tuple[list[int], list[str]]:
    """Return the word number of each token, and the words."""
    text = codec.tokenizer.decode(list(ids), skip_special_tokens=False)
    if fitting_tokenizer([text]).tokenizer == SPACED:
        return words_of(text_of_each(codec, ids)), text.split()
    return pieces_of(text_of_each(codec, ids, HALF))


def text_of_each(codec: Text, ids: Ids, without: str = "") -> list[str]:
    """Return what each token adds to the text, with its spaces, which it loses if decoded alone."""
    decode = codec.tokenizer.decode
    grown = [
        decode(list(ids[:i]), skip_special_tokens=False).rstrip(without or "\0")
        for i in range(len(ids) + 1)
    ]
    return [after[len(before) :] for before, after in pairwise(grown)]


def words_of(pieces: Sequence[str]) -> list[int]:
    """Return the number of the word in which each piece ends: ["Ein", " Hu", "nd"] -> [0, 1, 1]

    Words are split at spaces, as by `str.split`; a piece before the first word gets -1.
    """
    ends = accumulate(pieces)
    return [len(text.split()) - 1 for text in ends]


def pieces_of(pieces: Sequence[str]) -> tuple[list[int], list[str]]:
    """Take pieces as words, for a script without spaces: an empty piece is a part of a character
    that the next one completes. ["猫", "", "が"] -> [0, 1, 1], ["猫", "が"]
    """
    names = [piece for piece in pieces if piece]
    before = [*accumulate((1 if piece else 0 for piece in pieces), initial=0)][:-1]
    return [number if number < len(names) else -1 for number in before], names
