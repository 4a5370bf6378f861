"""From Python as from the command line: the same runs, the same sentences."""

from pathlib import Path
from typing import Any

import books
import pytest
from typed import SETTINGS, texts, trained

import manyheads
from manyheads import Causal, Everything, TransformerConfig, Window
from manyheads.api import flatten_setting, sort_arguments
from manyheads.learn import Request
from manyheads.tasks.seq2seq.model import Translator
from manyheads.tasks.table import find_recipe, trained_tasks
from manyheads.training.run import METRICS, RECIPE, WEIGHTS
from manyheads.training.trainer import Callback

NETWORK = {"width": 16, "heads": 2, "depth": 1, "ffn_width": 32}
CODEC = {"kind": "word", "size": 40}
TRAINING = {"steps": 20, "warmup_steps": 4, "tokens_per_batch": 64, "validate_every": 10}
OFTEN = {"checkpoint_every": 10, "log_every": 5}


class Told(Callback):
    def __init__(self) -> None:
        self.words: list[str] = []

    def say(self, text: str) -> None:
        self.words.append(text)


def test_a_run_from_python_is_the_run_of_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = texts(tmp_path)
    typed = trained(
        tmp_path / "typed", "translation", "--source", source, "--target", target, settings=SETTINGS
    )
    capsys.readouterr()
    told = Told()
    model = manyheads.train(
        "translation",
        source=str(source),
        target=target,
        out=str(tmp_path / "called"),
        codec=CODEC,
        network=NETWORK,
        training={**TRAINING, **OFTEN},
        device="cpu",
        callback=told,
    )
    assert isinstance(model, Translator)
    assert model.name == str(tmp_path / "called")
    assert isinstance(model.translate("ba du"), str)
    for name in (RECIPE, METRICS, WEIGHTS):
        assert (tmp_path / "called" / name).read_bytes() == (typed / name).read_bytes()
    assert capsys.readouterr() == ("", "")
    assert told.words[0].startswith("60 pairs read")


def test_a_recipe_in_a_file_is_trained_too_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = books.classification(tmp_path)
    few: dict[str, Any] = {"training": {"steps": 2}, "device": "cpu"}
    model = manyheads.train(first / RECIPE, out=tmp_path / "again", **few)
    assert (model.kind, model.task.recipe.training.steps) == ("classification", 2)
    assert "step 2 of 2" in capsys.readouterr().err
    data = books.judged(tmp_path)
    other = manyheads.train(first / RECIPE, data=data, out=tmp_path / "other", **few)
    assert other.task.recipe.data.data == data


def test_settings_are_written_as_the_command_line_has_them() -> None:
    nested = {"width": 512, "dilations": [1, 2], "cell": "lstm", "tied": True, "key_heads": None}
    assert [*flatten_setting("network", nested)] == [
        "network.width=512",
        "network.dilations=[1, 2]",
        "network.cell=lstm",
        "network.tied=true",
        "network.key_heads=null",
    ]
    files, settings = sort_arguments("classification", {"data": "a.tsv", "pooling": "first"})
    assert (files, settings) == ({"data": Path("a.tsv")}, ["pooling=first"])
    files, settings = sort_arguments("language", {"text": "a.txt", "data": {"context": 64}})
    assert (files, settings) == ({"text": (Path("a.txt"),)}, ["data.context=64"])


def test_files_may_stand_among_the_settings_of_data() -> None:
    """As they must beside others where a file and the settings share a name."""
    columns = {"text": "review", "label": "stars"}
    files, settings = sort_arguments(
        "classification", {"data": {"data": "a.csv", "columns": columns}}
    )
    assert files == {"data": Path("a.csv")}
    assert settings == ["data.columns.text=review", "data.columns.label=stars"]
    files, settings = sort_arguments("language", {"data": {"text": "a.txt", "context": 64}})
    assert (files, settings) == ({"text": (Path("a.txt"),)}, ["data.context=64"])


@pytest.mark.parametrize("text", ["b.txt", Path("b.txt"), ["b.txt"], [Path("b.txt")]])
def test_one_file_replaces_those_of_a_recipe(tmp_path: Path, text: Any) -> None:
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("task: language\ndata:\n  text: [a.txt]\n", encoding="utf-8")
    _, settings = sort_arguments(str(recipe), {"text": text})
    source = Request(str(recipe), settings).recipe_source()
    assert source.data.text == (Path("b.txt"),)


def test_values_are_written_as_a_recipe_has_them() -> None:
    local = Causal() & Window(64)
    assert [*flatten_setting("network", {"pattern": local, "depth": 2})] == [
        "network.pattern=Causal() & Window(64)",
        "network.depth=2",
    ]
    listed = [*flatten_setting("network.pattern", [local, Everything()])]
    assert listed == ["network.pattern=[Causal() & Window(64), Everything()]"]
    written = [*flatten_setting("network", TransformerConfig(width=32, pattern=local))]
    assert {"network.kind=transformer", "network.width=32", "network.ffn_width=128"} <= {*written}
    assert "network.pattern=Causal() & Window(64)" in written


def test_a_network_may_be_given_as_its_config(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("ba du\n" * 40, encoding="utf-8")
    config = TransformerConfig(**NETWORK, dropout=0.0, pattern=[Causal() & Window(3)])
    model = manyheads.train(
        "language",
        text=tmp_path / "a.txt",
        out=tmp_path / "run",
        network=config,
        training={"steps": 1, "tokens_per_batch": 256},
        device="cpu",
        callback=Told(),
    )
    assert model.task.recipe.network == config


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (
            {"network": {"widht": 512}},
            "network.widht=512: network has no field 'widht'; did you mean width?",
        ),
        (
            {"training": {"steps": "many"}},
            "training.steps=many: training.steps is a whole number, got 'many'",
        ),
        ({"sorce": "a.de"}, "translation has no field 'sorce'; did you mean source?"),
        (
            {"rate": 0.1},
            "translation has no field 'rate'; its fields are source, target, pairs, valid_source, "
            "valid_target, valid_pairs, teacher, data, codec, network, training, layout, ",
        ),
        ({"layout": object}, f"layout: settings hold no type, got {object!r}"),
        ({"network": 5}, "network=5: network is a group"),
        ({"network": "recurent"}, "translation is learned by transformer or recurrent"),
        ({"minutes": 0}, "--minutes is above 0, got 0"),
    ],
)
def test_mistakes_are_told_as_those_of_a_recipe(
    given: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    source, target = texts(tmp_path)
    out = tmp_path / "run"
    with pytest.raises(ValueError) as error:
        manyheads.train("translation", source=source, target=target, out=out, **given)
    assert str(error.value).startswith(sentence)
    assert not out.exists()


def test_a_size_that_is_no_number_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"data.size is a whole number or null, got 'large'"):
        manyheads.train("image", images=tmp_path, size="large", out=tmp_path / "run")


def test_what_is_no_task_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no task 'translaton'; there are translation, "):
        manyheads.train("translaton", out=tmp_path / "run", source="a", target="b")
    with pytest.raises(ValueError, match=r"says which network; network.kind=recurrent changes it"):
        manyheads.train("a.yaml", out=tmp_path / "run", network="recurrent")


@pytest.mark.parametrize("name", trained_tasks())
def test_no_file_of_a_task_is_called_as_an_argument_of_train(name: str) -> None:
    taken = {"task", "out", "network", "preset", "start_from", "device", "minutes", "callback"}
    assert not taken & set(find_recipe(name).files)
