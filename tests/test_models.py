"""A model is found, loaded as what its task offers, and only asked what it is for."""

from collections.abc import Callable
from pathlib import Path
from shutil import copytree
from typing import Any

import books
import pytest
import torch
from typed import learned

from manyheads.cli.verbs import find_verb
from manyheads.models import load
from manyheads.tasks.classification.model import Classifier
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.masked.model import EncoderModel, MaskedLM
from manyheads.tasks.seq2seq.model import Translator
from manyheads.training.files import read_tensors, write_tensors
from manyheads.training.run import WEIGHTS
from manyheads.training.weights import weights_of

Run = Callable[[Path], Path]
KINDS: list[tuple[Run, type, str, str]] = [
    (learned, Translator, "translation", "translate"),
    (books.language, LanguageModel, "language", "generate"),
    (books.masked, MaskedLM, "masked", "embed"),
    (books.classification, Classifier, "classification", "classify"),
    (books.labelling, Classifier, "labelling", "classify"),
]


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.getbasetemp()


@pytest.mark.parametrize(("run", "kind", "task", "use"), KINDS)
def test_a_run_is_loaded_as_what_its_task_offers(
    run: Run, kind: type, task: str, use: str, base: Path
) -> None:
    folder = run(base)
    loaded = load(folder, "cpu")
    assert type(loaded) is kind
    assert (loaded.kind, loaded.name) == (task, str(folder))
    assert not loaded.network.training
    held, _ = read_tensors(folder / WEIGHTS)
    own = weights_of(loaded.network)
    assert own.keys() == held.keys()
    assert all(torch.equal(weight, held[name]) for name, weight in own.items())


@pytest.mark.parametrize(("run", "kind", "task", "use"), KINDS)
@pytest.mark.parametrize("asked", ["translate", "generate", "classify", "embed"])
def test_a_model_of_one_task_given_to_another_command_says_what_it_is_for(
    run: Run, kind: type, task: str, use: str, asked: str, base: Path
) -> None:
    folder = str(run(base))
    if asked == use or (asked == "embed" and issubclass(kind, EncoderModel)):
        find_verb(asked, folder)
        return
    with pytest.raises(ValueError) as error:
        find_verb(asked, folder)
    assert str(error.value) == (
        f"{folder} is a model for {task}; `manyheads {use} --model {folder}` is what it is for"
    )


@pytest.mark.parametrize("run", [run for run, *_ in KINDS])
def test_a_smaller_folder_is_a_model_too(run: Run, base: Path, tmp_path: Path) -> None:
    whole, small = run(base), tmp_path / "small"
    small.mkdir()
    for path in whole.iterdir():
        if path.name.startswith(("recipe", "tokenizer", "labels", "weights")):
            (small / path.name).write_bytes(path.read_bytes())
    one, other = (weights_of(load(folder, "cpu").network) for folder in (whole, small))
    assert all(torch.equal(weight, other[name]) for name, weight in one.items())


@pytest.mark.parametrize("run", [run for run, *_ in KINDS])
def test_a_model_that_is_saved_is_the_model_that_is_loaded(
    run: Run, base: Path, tmp_path: Path
) -> None:
    model, folder = load(run(base), "cpu"), tmp_path / "a" / "b"
    with torch.no_grad():
        next(model.network.parameters()).add_(1)  # what is saved is what it is now
    model.to("cpu").save(folder)
    back = load(folder, "cpu")
    assert (type(back), back.kind, back.device) == (type(model), model.kind, model.device)
    assert back.task.recipe == model.task.recipe
    one, other = weights_of(model.network), weights_of(back.network)
    assert all(torch.equal(weight, other[name]) for name, weight in one.items())
    with pytest.raises(ValueError) as error:
        model.save(folder)
    assert str(error.value) == f"a model is saved into a new folder, {folder} is there already"


def test_a_model_goes_to_a_device_or_a_precision_and_nowhere_else(
    base: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    model = load(books.language(base), "cpu")
    with pytest.raises(ValueError, match="cuda was asked for and torch finds no GPU here; cpu"):
        model.to("cuda")
    with pytest.raises(ValueError, match="a device is cpu or cuda, got 'bfloat16'"):
        model.to("bfloat16")
    half: Any = torch.bfloat16
    assert next(model.to(half).network.parameters()).dtype == half


@pytest.mark.parametrize("run", [run for run, *_ in KINDS])
def test_a_folder_without_weights_is_refused(run: Run, base: Path, tmp_path: Path) -> None:
    folder = copytree(run(base), tmp_path / "run")
    (folder / WEIGHTS).unlink()
    with pytest.raises(ValueError) as error:
        load(folder, "cpu")
    assert str(error.value) == (
        f"{folder} has no weights.safetensors yet; they are written at the first validation"
    )


def test_weights_of_another_network_are_refused(base: Path, tmp_path: Path) -> None:
    folder = copytree(books.language(base), tmp_path / "run")
    write_tensors(folder / WEIGHTS, {"embedding.table.weight": torch.zeros(2, 64)}, {})
    with pytest.raises(ValueError, match=r"belongs to another network: its embedding\.table\.weig"):
        load(folder, "cpu")


def test_a_judge_without_its_labels_is_refused(base: Path, tmp_path: Path) -> None:
    folder = copytree(books.classification(base), tmp_path / "run")
    (folder / "labels.json").unlink()
    with pytest.raises(ValueError) as error:
        load(folder, "cpu")
    assert str(error.value) == (
        f"there is no {folder / 'labels.json'}: it says what the labels are"
    )


def test_what_is_no_model_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("manyheads.catalog.BUILT_IN", tmp_path / "none")
    for model, sentence in (
        ("nope", "there is no model 'nope': it is no folder; built in: none"),
        (tmp_path, f"{tmp_path} holds no recipe.yaml: it is not the folder of a run"),
    ):
        with pytest.raises(ValueError) as error:
            load(model)
        assert str(error.value) == sentence
