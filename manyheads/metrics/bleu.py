"""How many n-grams of words (BLEU) or of characters (chrF) a translation shares with references.

Counted by sacrebleu, whose signature says all that a number depends on.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest
from typing import Any

import numpy as np

from manyheads.metrics.measured import Measured, Numbers, Reference, several
from manyheads.metrics.scripts import check_tokenizer


def bleu(
    outputs: Sequence[str],
    references: Sequence[Reference],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Measured:
    """Of the whole corpus. `tokenize="none"` is for outputs and references already tokenised."""
    from sacrebleu.metrics.bleu import BLEU

    check_tokenizer(tokenize)
    # Forced where the text is meant to be tokenised: sacrebleu would warn that it is.
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    return measure_corpus(metric, outputs, references)


def chrf(
    outputs: Sequence[str],
    references: Sequence[Reference],
    word_order: int = 0,
    lowercase: bool = False,
) -> Measured:
    """Of the whole corpus. `word_order=2` is chrF++."""
    from sacrebleu.metrics.chrf import CHRF

    if word_order < 0:
        raise ValueError(f"chrF cannot count {word_order} words in a row; 0 is chrF, 2 is chrF++")
    metric = CHRF(word_order=word_order, lowercase=lowercase)
    return measure_corpus(metric, outputs, references)


def measure_corpus(
    metric: Any, outputs: Sequence[str], references: Sequence[Reference]
) -> Measured:
    """What sacrebleu counts for each sentence, as its own significance tests take it."""
    # One list for the first references, one for the second; None where there are fewer.
    streams = list(zip_longest(*several(outputs, references)))
    counts = np.asarray(metric._extract_corpus_statistics(outputs, streams), dtype=np.float64)

    def finish(sums: Numbers) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score)

    name = metric._compute_score_from_stats(counts.sum(0).tolist()).name
    return Measured(f"{name}|{metric.get_signature()}", counts, finish)
