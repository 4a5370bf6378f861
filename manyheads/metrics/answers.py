"""Whether an answer is one of those wanted, wholly or in part: the two metrics of SQuAD v1.1.

Case, ASCII punctuation, English articles and spacing do not count; of several answers the best
does. Two answers of which nothing is left agree exactly but have an F1 of 0, as in v1.1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from manyheads.metrics.measured import Measured, Reference, best, how_many, percent

WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def exact_match(outputs: Sequence[str], references: Sequence[Reference]) -> Measured:
    """The percentage of outputs that are one of their answers."""
    values = best(lambda one, other: float(plain(one) == plain(other)), outputs, references)
    return percent(values, signature("exact match", references))


def word_f1(outputs: Sequence[str], references: Sequence[Reference]) -> Measured:
    """How well the words of an output and of its answer cover each other, in any order."""

    def agree(output: str, reference: str) -> float:
        one, other = plain(output).split(), plain(reference).split()
        shared = (Counter(one) & Counter(other)).total()
        return 2 * shared / (len(one) + len(other)) if shared else 0.0

    return percent(best(agree, outputs, references), signature("word F1", references))


def plain(answer: str) -> str:
    """ "The  Eiffel-Tower!" -> "eiffeltower" """
    text = re.sub(r"\b(a|an|the)\b", " ", answer.lower().translate(WITHOUT_PUNCTUATION))
    return " ".join(text.split())


def signature(name: str, references: Sequence[Reference]) -> str:
    return f"{name}|nrefs:{how_many(references)}|norm:squad-1.1|refs:best"
