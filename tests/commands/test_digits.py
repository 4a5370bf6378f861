"""The built-in model of digits: what it draws is what was asked for."""

from pathlib import Path

import numpy as np
import pytest
from typed import Command

from manyheads.catalog import BUILT_IN
from manyheads.models import load
from manyheads.tasks.image.judge import load_judge
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.image.sheet import encode_png
from manyheads.tasks.image.sources import read_picture

DIGITS = BUILT_IN / "digits"
pytestmark = pytest.mark.skipif(not DIGITS.exists(), reason="the model of digits is not built in")


@pytest.fixture(scope="module")
def model() -> ImageModel:
    return load("digits", "cpu")  # type: ignore[return-value]


@pytest.fixture(scope="module")
def threes(model: ImageModel) -> np.ndarray:
    return model.generate(4, of_class="3", seed=1)


def test_a_three_is_taken_for_a_three(model: ImageModel, threes: np.ndarray) -> None:
    judge, right = load_judge(DIGITS, model.device)
    assert right > 0.95
    assert judge.read(threes)[1].count("3") >= 3
    assert len({three.tobytes() for three in threes}) == 4
    assert {*np.unique(threes)} == {0, 255}


def test_it_finds_a_digit_likelier_as_itself_than_as_another(
    model: ImageModel, threes: np.ndarray
) -> None:
    itself, other = (model.score(threes, [label] * 4) for label in "31")
    assert (itself < other - 10).all()  # nats
    assert itself.mean() < 120  # of 543 that a coin would take


def test_a_half_drawn_digit_is_completed(
    manyheads: Command, threes: np.ndarray, tmp_path: Path
) -> None:
    (tmp_path / "half.png").write_bytes(encode_png(threes[0][:14]))
    ask = ("--complete", tmp_path / "half.png", "--class", "3", "--count", 1, "--device", "cpu")
    done = manyheads("generate", "--model", DIGITS, *ask, "--out", tmp_path / "whole.png")
    assert done.code == 0, done.err
    large = read_picture(tmp_path / "whole.png")
    whole = large[:: len(large) // 28, :: len(large) // 28]
    assert np.array_equal(whole[:14], threes[0][:14])
    assert whole[14:].mean() > 5  # something is drawn below, too


def test_what_is_completed_is_of_the_class_that_its_rows_are_likeliest_of(
    model: ImageModel, threes: np.ndarray
) -> None:
    assert [model.find_class(one[:20]) for one in threes[:2]] == ["3"] * 2
    begun = model.generate(1, begin=threes[0][:24], seed=1)
    assert np.array_equal(begun, model.generate(1, "3", begin=threes[0][:24], seed=1))


def test_it_is_small() -> None:
    assert sum(path.stat().st_size for path in DIGITS.iterdir()) < 6e6
