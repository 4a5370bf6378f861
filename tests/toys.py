"""Little models with weights as they fall, of every kind that a command meets."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from designs import network_of

from manyheads.codecs.text import Text
from manyheads.tasks.classification.labels import Labels
from manyheads.tasks.classification.model import Classifier
from manyheads.tasks.classification.settings import ClassificationRecipe, LabelledData
from manyheads.tasks.classification.task import ClassificationTask
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.language.settings import LanguageRecipe, TextData
from manyheads.tasks.language.task import LanguageTask
from manyheads.tasks.masked.model import MaskedLM
from manyheads.tasks.masked.settings import MaskedRecipe
from manyheads.tasks.masked.task import MaskedTask
from manyheads.tasks.seq2seq.corpus import Codecs
from manyheads.tasks.seq2seq.model import Translator
from manyheads.tasks.seq2seq.settings import PairData, Seq2SeqRecipe
from manyheads.tasks.seq2seq.task import Seq2Seq

LINES = ["a dog runs", "Ein Hund rennt über die Wiese", "the film was long", "0123456789 .,;"]
SMALL: dict[str, Any] = {"width": 16, "depth": 2, "heads": 2, "ffn_width": 32, "dropout": 0.1}


def codec(masked: bool = False) -> Text:
    return Text.train(LINES, "byte", masked=masked)


def translating(**settings: Any) -> Translator:
    torch.manual_seed(0)
    words = codec()
    network, data = network_of(**{**SMALL, **settings}), PairData(pairs=Path("a.tsv"))
    recipe = Seq2SeqRecipe("translation", data, network=network, layout="padded")
    task = Seq2Seq(recipe, Codecs(words, words))
    return Translator(task, task.network(), "toy")


def speaking(**settings: Any) -> LanguageModel:
    torch.manual_seed(0)
    llama: dict[str, Any] = {
        "feed_forward": "swiglu",
        "norm": "rms",
        "bias": False,
        "scale_embeddings": False,
        "position": "Rotary()",
    }
    network, data = (
        network_of(**{**SMALL, **llama, **settings}),
        TextData((Path("a.txt"),), context=48),
    )
    task = LanguageTask(LanguageRecipe("language", data, network=network, layout="padded"), codec())
    return LanguageModel(task, task.network(), "toy")


def guessing(**settings: Any) -> MaskedLM:
    torch.manual_seed(0)
    network = network_of(**{**SMALL, "position": "Rotary()", **settings})
    recipe = MaskedRecipe("masked", TextData((Path("a.txt"),)), network=network)
    task = MaskedTask(recipe, codec(masked=True))
    return MaskedLM(task, task.network(), "toy")


def classifying(**settings: Any) -> Classifier:
    torch.manual_seed(0)
    labels = Labels(("bad", "good"))
    network, data = (
        network_of(**{**SMALL, **settings}),
        LabelledData(Path("a.tsv"), longest_tokens=512),
    )
    recipe = ClassificationRecipe("classification", data, network=network)
    task = ClassificationTask(recipe, codec(masked=True), labels)
    return Classifier(task, task.network(), "toy")
