"""Exact match and word F1 of answers: the two metrics of SQuAD v1.1.

Case, ASCII punctuation, English articles and spacing are ignored; of several references the best
one counts. If nothing is left of both answers, they match exactly but have an F1 of 0, as in v1.1.
"""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from manyheads.metrics.measured import Measured, Reference, best_of_references, f1

SIGNATURE = "nrefs:{}|norm:squad-1.1|refs:best"
WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def exact_match(outputs: Sequence[str], references: Sequence[Reference]) -> Measured:
    """The percentage of outputs that equal one of their references."""

    def agree(output: str, reference: str) -> float:
        return float(normalize_answer(output) == normalize_answer(reference))

    return best_of_references(agree, outputs, references, f"exact match|{SIGNATURE}")


def word_f1(outputs: Sequence[str], references: Sequence[Reference]) -> Measured:
    """The F1 of the words that output and reference share, in any order."""

    def agree(output: str, reference: str) -> float:
        one, other = normalize_answer(output).split(), normalize_answer(reference).split()
        return f1((Counter(one) & Counter(other)).total(), len(one), len(other))

    return best_of_references(agree, outputs, references, f"word F1|{SIGNATURE}")


def normalize_answer(answer: str) -> str:
    """ "The  Eiffel-Tower!" -> "eiffeltower" """
    text = re.sub(r"\b(a|an|the)\b", " ", answer.lower().translate(WITHOUT_PUNCTUATION))
    return " ".join(text.split())
