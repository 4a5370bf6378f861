"""What is validated on and trained on too is told."""

from pathlib import Path

import pytest

from manyheads.data.filters import tell_seen
from manyheads.data.labelled import Labelled, Tagged
from manyheads.tasks.classification.corpus import LabelledCorpus
from manyheads.tasks.language.corpus import TextCorpus
from manyheads.tasks.pointing.questions import Question, QuestionCorpus

FILE = Path("x")


def test_what_is_seen_again_is_counted() -> None:
    assert tell_seen("abc", "xy") == ""
    assert tell_seen("abc", "xbb") == ", 2 of them trained on too"
    assert tell_seen(["abc", "d"], ["abc", "e"], len) == ", 3 of them trained on too"


@pytest.mark.parametrize(
    "corpus",
    [
        LabelledCorpus([Labelled("a", "x", 1)], [Labelled("a", "y", 1)], FILE, FILE),
        LabelledCorpus([Tagged(["a"], ["x"], 1)], [Tagged(["a"], ["x"], 1)], FILE, FILE),
        QuestionCorpus([Question("a", (), (), 1)], [Question("a", (), (), 2)], 0),
        TextCorpus(["a"], ["a"]),
    ],
)
def test_each_corpus_tells_it(corpus: object) -> None:
    assert str(corpus).endswith(" to validate on, 1 of them trained on too")
