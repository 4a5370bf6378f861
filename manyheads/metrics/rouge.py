"""ROUGE, as F1: the words, n-grams and order that a summary shares with its references.

It computes what the rouge-score package does without stemming: the whole text is one sequence, and
of several references the best counts for each example and metric. But words are letters, digits and
marks of any script, while that package keeps only a-z and 0-9. Scripts without spaces between words
must be split into words before.
"""

from __future__ import annotations

import unicodedata
from collections import Counter
from collections.abc import Sequence
from functools import cache

from manyheads.metrics.measured import Measured, Reference, best_of_references, f1

SIGNATURE = "nrefs:{}|case:lc|tok:words|stem:no|refs:best|f1"


def rouge_n(outputs: Sequence[str], references: Sequence[Reference], n: int) -> Measured:
    """Shared n-grams of words: ROUGE-1 ignores order, ROUGE-2 counts pairs of neighbours."""
    if n < 1:
        raise ValueError(f"ROUGE counts runs of 1 word or more, got {n}")

    def agree(output: str, reference: str) -> float:
        one, other = count_ngrams(split_words(output), n), count_ngrams(split_words(reference), n)
        return f1((one & other).total(), one.total(), other.total())

    return best_of_references(agree, outputs, references, f"ROUGE-{n}|{SIGNATURE}")


def rouge_l(outputs: Sequence[str], references: Sequence[Reference]) -> Measured:
    """The longest common subsequence: shared words in the same order, with or without gaps."""

    def agree(output: str, reference: str) -> float:
        one, other = split_words(output), split_words(reference)
        return f1(longest_common(one, other), len(one), len(other))

    return best_of_references(agree, outputs, references, f"ROUGE-L|{SIGNATURE}")


def split_words(text: str) -> list[str]:
    """ "The cat's café, 2nd floor" -> ["the", "cat", "s", "café", "2nd", "floor"]"""
    text = unicodedata.normalize("NFC", text.lower())
    return "".join(c if in_a_word(c) else " " for c in text).split()


@cache
def in_a_word(character: str) -> bool:
    # Marks too: without them a Hindi word falls apart at its vowels.
    return unicodedata.category(character)[0] in "LNM"


def count_ngrams(tokens: list[str], n: int) -> Counter[tuple[str, ...]]:
    return Counter(zip(*(tokens[i:] for i in range(n)), strict=False))


def longest_common(one: list[str], other: list[str]) -> int:
    """Return the length of the longest common subsequence.

    It uses a bit for each word of `one` and an addition for each word of `other` (Hyyrö 2004): the
    zeros of `open_bits` mark where a column of the usual table of lengths goes up.
    """
    places: dict[str, int] = {}
    for i, word in enumerate(one):
        places[word] = places.get(word, 0) | 1 << i
    full = (1 << len(one)) - 1
    open_bits = full
    for word in other:
        hits = open_bits & places.get(word, 0)
        open_bits = ((open_bits + hits) | (open_bits - hits)) & full
    return len(one) - open_bits.bit_count()
