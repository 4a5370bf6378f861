"""How fast to learn where a run starts from another."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from manyheads.modules.config import TransformerConfig
from manyheads.tasks.classification.settings import LabelledData
from manyheads.tasks.language.settings import LanguageRecipe, TextData
from manyheads.tasks.masked.settings import MaskedRecipe
from manyheads.tasks.music.settings import MusicData, MusicRecipe
from manyheads.tasks.pointing.settings import QuestionData
from manyheads.tasks.recipe import Choice
from manyheads.tasks.seq2seq import settings as pairs
from manyheads.tasks.seq2seq.settings import PairData
from manyheads.tasks.table import TASKS, find_recipe

PAIRS, TEXT = PairData(Path("a.de"), Path("a.en")), TextData((Path("book.txt"),))
LABELS, MUSIC = LabelledData(Path("a.tsv")), MusicData((Path("songs"),))
STARTS: dict[str, tuple[Any, Any]] = {
    "translation": (PAIRS, pairs.Seq2SeqRecipe("translation", PAIRS)),
    "summarization": (PAIRS, pairs.Seq2SeqRecipe("translation", PAIRS)),
    "answering": (PAIRS, pairs.Seq2SeqRecipe("translation", PAIRS)),
    "language": (TEXT, LanguageRecipe("language", TEXT)),
    "masked": (TEXT, MaskedRecipe("masked", TEXT)),
    "music": (MUSIC, MusicRecipe("music", MUSIC)),
    "pointing": (QuestionData(Path("q.jsonl")), MaskedRecipe("masked", TEXT)),
    "classification": (LABELS, MaskedRecipe("masked", TEXT)),
    "regression": (LABELS, MaskedRecipe("masked", TEXT)),
    "labelling": (LABELS, MaskedRecipe("masked", TEXT)),
}


def test_every_task_that_is_trained_is_asked_here() -> None:
    assert set(STARTS) == set(TASKS) - {"embedding", "graph", "image"}


JUDGED = ("classification", "regression", "labelling", "pointing")  # with a head that begins anew


@pytest.mark.parametrize("task", STARTS)
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize(
    ("width", "rate", "judged"), [(64, 3e-4, 8e-4), (256, 1.6e-4, 2e-4), (768, 5.2e-5, 2.2e-5)]
)
def test_what_was_learned_before_is_changed_slowly_the_wider_the_slower(
    task: str, device: str, width: int, rate: float, judged: float
) -> None:
    data, start = STARTS[task]
    asked = Choice(device, start=replace(start, network=TransformerConfig(width=width)))
    training = find_recipe(task).choose(task, data, 10**6, asked).training
    assert training.learning_rate == (judged if task in JUDGED else rate)
    assert training.weight_decay <= 0.01
    anew = find_recipe(task).choose(task, data, 10**6, Choice(device)).training
    assert anew.learning_rate > 3e-4
