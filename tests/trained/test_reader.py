"""What understands, asked from Python."""

from pathlib import Path

import books
import numpy as np
import pytest
from typed import trained

from manyheads.models import load
from manyheads.tasks.classification.model import Classifier
from manyheads.tasks.classification.predictions import Prediction, Tags, Value
from manyheads.tasks.masked.model import MaskedLM


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp()


@pytest.fixture(scope="module")
def guesser(base: Path) -> MaskedLM:
    return load(books.masked(base), "cpu")


@pytest.fixture(scope="module")
def classifier(base: Path) -> Classifier:
    return load(books.classification(base), "cpu")


def test_a_classifier_says_what_each_text_is_in_their_order(classifier: Classifier) -> None:
    texts = ["the bad cat sees a small red dog", "fine", "a fine old dog", "bad"]
    given = classifier.classify(texts)
    assert [one.label for one in given if isinstance(one, Prediction)] == [
        "poor",
        "good",
        "good",
        "poor",
    ]
    for text, one in zip(texts, given, strict=True):
        alone = classifier.classify(text)
        assert isinstance(alone, Prediction)
        assert isinstance(one, Prediction)
        assert alone.probability == pytest.approx(one.probability, abs=1e-5)


def test_a_tagger_gives_each_word_a_tag(base: Path) -> None:
    tagger = load(books.labelling(base), "cpu")
    one, other = tagger.classify(["the old dog", ["the", "old", "dog"]])
    assert isinstance(one, Tags)
    assert one == other
    assert len(one.tags) == len(one.probabilities) == 3
    assert set(one.tags) <= {"O", "LONG"}


def test_numbers_are_said_in_the_measure_of_the_texts(base: Path, tmp_path: Path) -> None:
    given = ("regression", "--data", books.numbered(tmp_path))
    model = load(trained(tmp_path / "run", *given, settings=books.BY_HEART), "cpu")
    few, many = model.classify([" ".join(books.WORDS[:2]), " ".join(books.WORDS[:8])])
    assert isinstance(few, Value)
    assert few.value == pytest.approx(2, abs=1)
    assert many.value == pytest.approx(8, abs=1)


def test_equal_texts_have_equal_vectors_whatever_is_beside_them(guesser: MaskedLM) -> None:
    vectors = guesser.embed(["the old dog", "a", "the old dog", "the old dog sleeps near a cat"])
    assert vectors.shape == (4, 16)
    assert vectors[0] == pytest.approx(vectors[2], abs=1e-6)
    assert guesser.embed("a") == pytest.approx(vectors[1], abs=1e-5)
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(4), abs=1e-5)
    assert vectors[0] @ vectors[1] < 0.999


def test_vectors_are_pooled_as_the_model_was_made_unless_told(base: Path, tmp_path: Path) -> None:
    data = books.judged(tmp_path)
    settings = [*books.JUDGING, "pooling=first", "training.steps=3"]
    run = trained(tmp_path / "run", "classification", "--data", data, settings=settings)
    model = load(run, "cpu")
    own, first, mean = (model.embed(["a fine dog"], pooling=how) for how in (None, "first", "mean"))
    assert (own == first).all()
    assert abs(own - mean).max() > 0.01


def test_mistakes_are_told(guesser: MaskedLM, classifier: Classifier) -> None:
    for asked in (guesser.embed, classifier.embed, classifier.classify):
        with pytest.raises(ValueError, match=r"text 2: '\\udc00' is half of a character"):
            asked(["a", "b\udc00"])
        with pytest.raises(ValueError, match="text 2 is a float, a str would do"):
            asked(["a", float("nan")])  # what pandas has for an empty cell
    with pytest.raises(ValueError, match=r"text 1: '\\udc00' is half of a character"):
        classifier.classify([("a", "b\udc00")])
