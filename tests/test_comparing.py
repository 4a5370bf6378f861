"""The lecture's table: what is measured is what the books say."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result
from designs import network_of
from small import contents, recipe_in
from typer.testing import CliRunner

from manyheads.cli.app import app
from manyheads.cli.compare import settings_for
from manyheads.comparing import Compared, MeasuredLayer, compare, format_comparison, layer_of
from manyheads.config import load
from manyheads.modules.config import NETWORK_KINDS, NetworkConfig, change_kind
from manyheads.tasks.seq2seq.corpus import gather
from manyheads.tasks.seq2seq.settings import Seq2SeqRecipe
from manyheads.training.run import Run
from manyheads.training.trainer import Callback

KINDS = list(NETWORK_KINDS)


def of(kind: str) -> NetworkConfig:
    return network_of(kind=kind, width=32, depth=3, heads=4, ffn_width=64)


def test_attention_reaches_everything_in_one_step() -> None:
    layer = layer_of(of("transformer"), 20)
    assert layer.path(20) == 1
    assert layer.steps == 1


def test_recurrence_takes_a_step_for_every_token() -> None:
    layer = layer_of(of("recurrent"), 20)
    assert layer.path(20) == layer.steps == 20


def test_a_convolution_reaches_its_neighbours_and_needs_layers_for_the_rest() -> None:
    layer = layer_of(of("convolutional"), 20)
    assert layer.reaches == (1,)
    assert layer.path(20) == 19
    assert layer.steps == 1
    assert layer_of(of("convolutional"), 3).path(3) == 2


@pytest.mark.parametrize(
    ("dilations", "length", "path"),
    [((1, 2, 4), 8, 3), ((1, 2, 4), 9, 4), ((4, 2, 1), 12, 4), ((1, 2, 4), 16, 7), ((16,), 32, 2)],
)
def test_a_path_goes_through_the_dilations_as_they_come(
    dilations: tuple[int, ...], length: int, path: int
) -> None:
    network = replace(of("convolutional"), depth=len(dilations), dilations=dilations)
    layer = layer_of(network, length)
    assert layer.path(length) == path
    assert layer.operations == layer_of(of("convolutional"), length).operations


def test_dilations_that_step_over_the_whole_sequence_are_refused() -> None:
    network = replace(of("convolutional"), depth=2, dilations=(64, 32))
    with pytest.raises(ValueError) as error:
        layer_of(network, 32)
    assert str(error.value) == (
        "convolutions with dilations of 64, 32 carry nothing between 32 tokens; "
        "--length 33 would do"
    )
    assert layer_of(network, 33).path(33) == 2


@pytest.mark.parametrize("length", [10, 30])
def test_the_operations_of_a_layer_are_those_of_the_formula(length: int) -> None:
    width, inner = 32, 64
    attention = 2 * length * 4 * width**2 + 4 * length**2 * width
    assert layer_of(of("transformer"), length).operations == (
        attention + 2 * length * 2 * width * inner
    )
    half = width // 2  # of each direction
    gates = 4 * half * (width + half)
    assert layer_of(of("recurrent"), length).operations == 2 * length * 2 * gates
    assert layer_of(of("convolutional"), length).operations == 2 * length * 3 * width * 2 * width


# ---- the three, trained ------------------------------------------------------------------------


def asked(folder: Path, *more: str) -> list[str]:
    words = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht"]
    pairs = [f"{a} {b}\t{b} {a}\n" for a in words for b in words]
    (folder / "pairs.tsv").write_text("".join(pairs), encoding="utf-8")
    small = "network.width=16 network.depth=1 network.heads=2 network.ffn_width=16 codec.size=300"
    settings = f"{small} training.steps=2 training.validate_every=2 training.tokens_per_batch=256"
    files = ["--pairs", str(folder / "pairs.tsv"), "--out", str(folder / "out")]
    return ["compare", "translation", *files, "--device", "cpu", *settings.split(), *more]


def typed(folder: Path, *more: str) -> Result:
    return CliRunner().invoke(app, asked(folder, *more), catch_exceptions=False)


def of_each(recipe: Seq2SeqRecipe, **rates: float) -> list[Seq2SeqRecipe]:
    """The recipe for each kind of network, some with a learning rate of their own."""
    return [
        replace(
            recipe,
            network=change_kind(recipe.network, kind),
            training=replace(
                recipe.training, learning_rate=rates.get(kind, recipe.training.learning_rate)
            ),
        )
        for kind in KINDS
    ]


def rates_in(out: Path) -> list[float]:
    return [
        load(Seq2SeqRecipe, out / kind / "recipe.yaml").training.learning_rate for kind in KINDS
    ]


class Said(Callback):
    """Keeps what is said, and asks for a stop at a note of a network."""

    def __init__(self, stop_in: str = ""):
        self.lines: list[str] = []
        self.stop_in, self.asked = stop_in, False

    def say(self, text: str) -> None:
        self.lines.append(text)

    def on_log(self, note: Any) -> None:
        headings = [line for line in self.lines if line.startswith("== ")]
        self.asked = self.asked or headings[-1] == f"== {self.stop_in}"


def test_all_three_are_trained_and_shown_in_one_table(tmp_path: Path) -> None:
    done = typed(tmp_path)
    assert done.exit_code == 0
    assert all(f"| {kind} " in done.stdout for kind in KINDS)
    rows = json.loads((tmp_path / "out" / "compared.json").read_text())
    assert [row["network"] for row in rows] == KINDS
    assert all(row["tokens_per_second"] > 0 for row in rows)

    before = contents(Run(tmp_path / "out" / "recurrent"))
    again = typed(tmp_path)
    assert again.stderr.count("nothing is left to do: it ended at step 2") == 3
    assert again.stdout == done.stdout
    assert contents(Run(tmp_path / "out" / "recurrent")) == before
    with pytest.raises(ValueError) as error:
        typed(tmp_path, "training.steps=3")
    assert str(error.value) == (
        f"{tmp_path}/out/transformer holds a run with other settings; those would go on with it, "
        "another --out begins anew"
    )


def test_the_scores_of_a_network_are_those_of_the_weights_that_are_kept(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path, steps=3, validate_every=1)
    gathered = gather(recipe.task, recipe.data)
    (row,) = compare([recipe], gathered, tmp_path / "out", length=8)
    lines = [*Run(tmp_path / "out" / "transformer").lines("metrics.jsonl")]
    found = [line["valid"] for line in lines if "valid" in line]
    assert len({one["bleu"] for one in found}) == 1, "of equal scores the lowest loss is kept"
    assert row.scores == min(found, key=lambda one: one["loss"]) != found[0]


@pytest.mark.parametrize("settings", [(), ("training.learning_rate=0.001",)])
def test_each_network_is_compared_as_it_is_trained(
    settings: tuple[str, ...], tmp_path: Path
) -> None:
    assert typed(tmp_path, *settings).exit_code == 0
    _, _, *shared = asked(tmp_path, *settings)
    for kind in KINDS:
        train = [
            "train",
            "translation",
            *settings_for(kind, shared),
            "--network",
            kind,
            "--dry-run",
        ]
        printed = CliRunner().invoke(app, train, catch_exceptions=False).stdout
        own = (tmp_path / "out" / kind / "recipe.yaml").read_text(encoding="utf-8")
        assert printed.startswith(own)
    assert (set(rates_in(tmp_path / "out")) == {0.001}) == bool(settings)


def test_a_kind_of_network_is_not_a_setting_of_a_comparison(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as error:
        typed(tmp_path, "network.kind=recurrent")
    assert str(error.value) == "all kinds of networks are compared; leave out network.kind"


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "letter").touch()
    with pytest.raises(ValueError) as error:
        typed(tmp_path)
    assert str(error.value) == (
        f"{tmp_path}/out is there already and holds no runs; give --out a new folder"
    )


def test_a_stopped_comparison_keeps_what_there_is_and_goes_on(tmp_path: Path) -> None:
    recipe = recipe_in(tmp_path, steps=6, log_every=2)
    gathered, out, watch = gather(recipe.task, recipe.data), tmp_path / "out", Said("recurrent")
    recipes = of_each(recipe)
    rows = compare(recipes, gathered, out, callback=watch, asked_to_stop=lambda: watch.asked)
    assert [row.kind for row in rows] == ["transformer"]
    assert watch.lines[-1] == (
        "stopped; trained so far: transformer; the same command goes on from here"
    )
    assert not (out / "convolutional").exists()
    assert max(line["step"] for line in Run(out / "recurrent").lines("metrics.jsonl")) == 2

    again = Said()
    assert [row.kind for row in compare(recipes, gathered, out, callback=again)] == KINDS
    assert again.lines[1] == "nothing is left to do: it ended at step 6"
    steps = [line["step"] for line in Run(out / "recurrent").lines("metrics.jsonl")]
    assert steps == [2, 4, 6, 6], "it went on and did not begin anew"


def test_a_network_whose_loss_is_no_number_is_told_and_left_out(
    tmp_path: Path,
) -> None:
    recipe = recipe_in(tmp_path, steps=4, log_every=1, warmup_steps=0, ema=0.0)
    gathered, watch = gather(recipe.task, recipe.data), Said()
    rows = compare(of_each(recipe, recurrent=1e38), gathered, tmp_path / "out", callback=watch)
    assert [row.kind for row in rows] == ["transformer", "convolutional"]
    (told,) = [line for line in watch.lines if "left out" in line]
    assert told.startswith("recurrent is left out: the loss is nan by step ")
    with pytest.raises(
        ValueError, match=r"^none of the networks could be trained; why is told above$"
    ):
        compare(of_each(recipe, **dict.fromkeys(KINDS, 1e38)), gathered, tmp_path / "none")


def test_two_processes_make_one_comparison(tmp_path: Path) -> None:
    rate = "training.learning_rate=0.001"
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", "-m", "manyheads", *asked(tmp_path, rate)],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("| transformer ") == 1
    assert done.stdout == (tmp_path / "out" / "compared.md").read_text(encoding="utf-8")
    assert rates_in(tmp_path / "out") == [0.001] * 3


def test_a_speed_is_told_in_what_a_task_counts() -> None:
    layer = MeasuredLayer(operations=8, reaches=(7,), steps=1)
    row = Compared("recurrent", 5, 12.0, "texts", {"accuracy": 50.0}, layer, 8)
    assert row.row()["texts_per_second"] == 12
    assert "| texts/s |" in format_comparison([row])
