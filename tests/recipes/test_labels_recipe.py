"""Good settings for judging texts, and which texts are held out."""

from pathlib import Path
from typing import Any

import pytest

from manyheads.config import read, write
from manyheads.data.labelled import Columns
from manyheads.modules.config import TransformerConfig
from manyheads.tasks.classification.corpus import gather
from manyheads.tasks.classification.settings import (
    PRESETS,
    ClassificationRecipe,
    LabelledData,
)
from manyheads.tasks.language.settings import LanguageRecipe, TextCodec, TextData
from manyheads.tasks.masked.settings import MaskedRecipe
from manyheads.tasks.recipe import Choice

DATA, TEXT = LabelledData(Path("judged.tsv")), TextData((Path("book.txt"),))
KINDS: Any = ["classification", "regression", "labelling"]


def rows_in(folder: Path, labels: list[str]) -> Path:
    path = folder / "rows.tsv"
    lines = [f"text {i}\t{label}\n" for i, label in enumerate(labels)]
    path.write_text("text\tlabel\n" + "".join(lines), encoding="utf-8")
    return path


def held(path: Path, task: Any = "classification", seed: int = 0) -> tuple[list[str], list[str]]:
    """The labels of what is learned from, and of what is held out."""
    recipe = ClassificationRecipe.choose(task, LabelledData(path), 99)
    gathered = gather(
        read(ClassificationRecipe, write(recipe), "r.yaml", [f"training.seed={seed}"])
    )
    train, valid = (
        [tag for one in some for tag in one.tags] for some in (gathered.train, gathered.valid)
    )
    return train, valid


# ---- presets ---------------------------------------------------------------------------------


def test_a_preset_follows_from_the_machine() -> None:
    for device, preset in (("cpu", "tiny"), ("cuda", "small")):
        asked = Choice(device), Choice(device, preset=preset)
        one, other = (
            ClassificationRecipe.choose("classification", DATA, 10**6, each) for each in asked
        )
        assert one == other


@pytest.mark.parametrize("task", KINDS)
@pytest.mark.parametrize("preset", PRESETS)
@pytest.mark.parametrize("network", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("device", ["cpu", "cuda"])
@pytest.mark.parametrize("tokens", [0, 10**7])
def test_every_preset_is_a_recipe_that_writes_and_reads_back(
    task: Any, preset: str, network: str, device: str, tokens: int
) -> None:
    recipe = ClassificationRecipe.choose(task, DATA, tokens, Choice(device, network, preset))
    assert read(ClassificationRecipe, write(recipe), "recipe.yaml") == recipe
    training = recipe.training
    assert training.warmup_steps < training.steps
    assert training.log_every <= training.validate_every <= training.steps
    assert training.tokens_per_batch >= recipe.data.longest_tokens
    assert (training.label_smoothing == 0) == (task == "regression")


def test_what_it_starts_from_says_the_network_and_the_vocabulary_and_is_changed_slowly() -> None:
    start = MaskedRecipe("masked", TEXT, TextCodec("byte"), network=TransformerConfig(width=64))
    anew = ClassificationRecipe.choose("classification", DATA, 10**6)
    recipe = ClassificationRecipe.choose("classification", DATA, 10**6, Choice(start=start))
    assert (recipe.network, recipe.codec) == (start.network, start.codec)
    assert recipe.training.learning_rate < anew.training.learning_rate
    assert recipe.training.steps < anew.training.steps


def test_one_judge_of_texts_starts_from_another_and_pools_as_it_did() -> None:
    start = ClassificationRecipe("classification", DATA, pooling="first")
    assert (
        ClassificationRecipe.choose("labelling", DATA, 99, Choice(start=start)).pooling == "first"
    )


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (Choice(preset="base"), "there is no preset 'base'; there are tiny, small"),
        (
            Choice(network="mlp"),
            "classification is learned by transformer or recurrent or convolutional, not by mlp",
        ),
        (
            Choice(start=LanguageRecipe.choose("language", TEXT, 99)),
            "classification starts from a run of masked, embedding, classification, regression, "
            "labelling; "
            "the run to start from learned language",
        ),
    ],
)
def test_what_there_is_not_is_refused(asked: Choice, sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        ClassificationRecipe.choose("classification", DATA, 99, asked)
    assert str(error.value) == sentence


# ---- what is held out ------------------------------------------------------------------------


def test_a_tenth_is_held_out_and_no_text_is_in_both(tmp_path: Path) -> None:
    path = rows_in(tmp_path, ["good", "poor"] * 20)
    gathered = gather(ClassificationRecipe.choose("classification", LabelledData(path), 99))
    assert str(gathered) == "36 texts to train on, 4 to validate on"
    both = {one.line for one in gathered.train} | {one.line for one in gathered.valid}
    assert both == set(range(2, 42))


@pytest.mark.parametrize("seed", range(8))
def test_a_label_that_is_met_once_is_learned_not_held_out(tmp_path: Path, seed: int) -> None:
    path = rows_in(tmp_path, ["good", "poor"] * 8 + ["odd", "rare", "rare"])
    train, valid = held(path, seed=seed)
    assert valid
    assert set(valid) <= set(train) == {"good", "poor", "odd", "rare"}


@pytest.mark.parametrize("seed", range(8))
def test_a_tag_that_is_met_in_one_sentence_is_learned_not_held_out(
    tmp_path: Path, seed: int
) -> None:
    path = tmp_path / "tagged.conll"
    path.write_text("a O\nb O\n\n" * 9 + "a ODD\nb ODD\n", encoding="utf-8")
    train, valid = held(path, "labelling", seed)
    assert valid == ["O", "O"]
    assert set(train) == {"O", "ODD"}


def test_numbers_are_held_out_however_different_they_are(tmp_path: Path) -> None:
    train, valid = held(rows_in(tmp_path, [str(i / 4) for i in range(30)]), "regression")
    assert (len(train), len(valid)) == (27, 3)


@pytest.mark.parametrize(
    ("labels", "sentence"),
    [
        (
            ["good", "poor"],
            "{0} has 2 texts, too few to hold some out for validation; "
            "give --valid-data, or 10 texts at least",
        ),
        (
            [f"label {i}" for i in range(12)],
            "{0}: no label is met twice, none can be held out for validation; give --valid-data",
        ),
    ],
)
def test_where_nothing_can_be_held_out_a_file_is_asked_for(
    labels: list[str], sentence: str, tmp_path: Path
) -> None:
    path = rows_in(tmp_path, labels)
    with pytest.raises(ValueError) as error:
        held(path)
    assert str(error.value) == sentence.format(path)


def test_sentences_that_no_blank_line_parts_are_one(tmp_path: Path) -> None:
    path = tmp_path / "tagged.conll"
    path.write_text("a O\nb O\n" * 20, encoding="utf-8")
    with pytest.raises(ValueError, match=r"has 1 text \(a blank line ends one\), too few to hold"):
        held(path, "labelling")


def test_empty_texts_are_counted_and_nothing_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "films.tsv"
    for texts, told in ((5, ", 15 of both are empty"), (20, "")):
        rows = [f"{f'film {i}' * (i < texts)}\t{i % 2}\n" for i in range(20)]
        path.write_text("text\tlabel\n" + "".join(rows), encoding="utf-8")
        gathered = gather(ClassificationRecipe.choose("classification", LabelledData(path), 99))
        assert str(gathered).partition(" to validate on")[2].endswith(told)
    path.write_text("text\tlabel\n" + "\t0\n \t1\n" * 9, encoding="utf-8")
    with pytest.raises(ValueError, match="all texts are empty; the name of another column would"):
        held(path)


def test_smoothing_over_classes_is_refused_for_numbers() -> None:
    recipe = ClassificationRecipe.choose("regression", DATA, 99)
    smooth = read(ClassificationRecipe, write(recipe), "r", ["training.label_smoothing=0.1"])
    with pytest.raises(ValueError, match="label smoothing is for classes, and regression learns"):
        gather(smooth)


def test_a_short_file_without_names_is_read_as_the_training_file_was(tmp_path: Path) -> None:
    path, few = tmp_path / "scored.tsv", tmp_path / "few.tsv"
    path.write_text("".join(f"{i}\tfilm of {i % 9}\t{i % 9}.0\n" for i in range(200)))
    few.write_text("7\tfilm of 2\t2.0\n8\tfilm of 3\t3.0\n9\tfilm of 5\t5.0\n")
    recipe = ClassificationRecipe.choose("regression", LabelledData(path, few), 99)
    gathered = gather(recipe)
    assert [one.label for one in gathered.valid] == ["2.0", "3.0", "5.0"], "not 7, 8, 9"
    few.write_text("score\ttext\tid\n2.0\tfilm of 2\t7\n")
    assert [one.label for one in gather(recipe).valid] == ["2.0"], "names count more"


def test_a_first_line_of_other_names_is_not_learned_as_a_class(tmp_path: Path) -> None:
    path = tmp_path / "films.csv"
    rows = "".join(f"a film of {i} hours,{'good' if i % 2 else 'bad'}\n" for i in range(20))
    path.write_text("The review,sentiment\n" + rows, encoding="utf-8")
    with pytest.raises(
        ValueError,
        match=r"films.csv:1: no other line has the label 'sentiment'; if it names a column, "
        r"data.columns.text='The review' data.columns.label=sentiment says so",
    ):
        held(path)
    path.write_text(f"review,sentiment\n{rows}a comedy,comedy\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"films.csv:1: no other line has the label 'sentiment'"):
        held(path)
    path.write_text("a western,western\na comedy,comedy\n" + rows, encoding="utf-8")
    assert {*held(path)[0]} == {"bad", "good", "western", "comedy"}  # rare classes are no names
    path.write_text("a film of old,good\n" + rows, encoding="utf-8")
    train, valid = held(path)
    assert (len(train), len(valid), {*train}) == (19, 2, {"bad", "good"})
    rare = f"hello,greeting\n{rows}a comedy,comedy\n"
    path.write_text(rare, encoding="utf-8")
    with pytest.raises(ValueError, match=r"films.csv:1: no other line has the label 'greeting'"):
        held(path)
    data = LabelledData(path, columns=Columns("1", "2"))  # by number: no line names them
    gathered = gather(ClassificationRecipe.choose("classification", data, 99))
    assert len(gathered.train) + len(gathered.valid) == 22
