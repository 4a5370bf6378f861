"""Labels are counted and kept, and those that cannot be learned are refused."""

from pathlib import Path

import pytest
from films import examples

from manyheads.data.labelled import Columns, Labelled
from manyheads.tasks.classification.corpus import read_examples
from manyheads.tasks.classification.labels import Labels


def test_classes_are_numbered_in_sorted_order_and_kept(tmp_path: Path) -> None:
    labels = Labels.of("classification", examples("classification"), "train.tsv")
    assert labels.names == ("bad", "good")
    assert [labels.number(name, "") for name in labels.names] == [0, 1]
    labels.save(tmp_path / "labels.json")
    assert Labels.load(tmp_path / "labels.json") == labels


def test_numbers_are_kept_by_their_mean_and_spread(tmp_path: Path) -> None:
    labels = Labels.of("regression", examples("regression"), "train.tsv")
    assert (labels.mean, labels.spread) == (8, 2)
    assert labels.scale_number("10", "") == 1
    assert labels.value(-1) == 6
    labels.save(tmp_path / "labels.json")
    assert Labels.load(tmp_path / "labels.json") == labels


def test_labels_that_cannot_be_learned_are_refused(tmp_path: Path) -> None:
    labels = Labels(("negative", "positive"))
    with pytest.raises(
        ValueError,
        match=r"dev.tsv:7: label 'sarcastic' was never seen in training; there are negative, posi",
    ):
        labels.number("sarcastic", "dev.tsv:7")
    with pytest.raises(ValueError, match=r"a.tsv:2: a number was asked for, 'good' is here"):
        Labels.of("regression", [Labelled("a", "1", 1), Labelled("b", "good", 2)], "a.tsv")
    with pytest.raises(ValueError, match=r"a.tsv:1: a number was asked for, 'nan' is here"):
        Labels.of("regression", [Labelled("a", "nan", 1)], "a.tsv")
    with pytest.raises(ValueError, match=r"a.tsv: every text has the number 3; nothing can be"):
        Labels.of("regression", [Labelled("a", "3", 1), Labelled("b", "3.0", 2)], "a.tsv")
    with pytest.raises(ValueError, match="'x' is the only label; two or more are needed"):
        Labels.of("classification", [Labelled("a", "x", 1)], "a.tsv")
    with pytest.raises(ValueError, match="labelling is learned from words with a tag each, a Lab"):
        Labels.of("labelling", [Labelled("a", "x", 1)], "a.tsv")
    (tmp_path / "labels.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"labels.json does not say what the labels are"):
        Labels.load(tmp_path / "labels.json")
    with pytest.raises(ValueError, match=r"there is no .*it says what the labels are"):
        Labels.load(tmp_path / "none.json")


@pytest.mark.parametrize("label", ["nan", "inf", "5,5", "1_000", "good"])
def test_a_file_to_measure_numbers_on_has_numbers(label: str, tmp_path: Path) -> None:
    path = tmp_path / "test.tsv"
    path.write_text(f"text\tscore\na\t1\nb\t{label}\n")
    with pytest.raises(ValueError, match=rf"test.tsv:3: a number was asked for, '{label}' is here"):
        read_examples("regression", path)
    assert len(read_examples("classification", path)) == 2


def test_tags_are_read_from_the_column_that_a_recipe_names(tmp_path: Path) -> None:
    path = tmp_path / "a.conll"
    path.write_text("Anna NN B-PER\nsleeps VB O\n", encoding="utf-8")
    (one,) = read_examples("labelling", path, Columns("1", "2"))
    assert one.tags == ["NN", "VB"]
