"""The lecture's table: what is measured is what the books say."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from manyheads.cli import app
from manyheads.comparing import layer_of
from manyheads.model.build import Network


def of(kind: str) -> Network:
    return Network(kind=kind, width=32, depth=3, heads=4, inner=64)  # type: ignore[arg-type]


def test_attention_reaches_everything_in_one_step() -> None:
    layer = layer_of(of("transformer"), 20)
    assert layer.path(20) == 1
    assert layer.steps == 1


def test_recurrence_takes_a_step_for_every_token() -> None:
    layer = layer_of(of("recurrent"), 20)
    assert layer.path(20) == layer.steps == 20


def test_a_convolution_reaches_its_neighbours_and_needs_layers_for_the_rest() -> None:
    layer = layer_of(of("convolutional"), 20)
    assert layer.reach == 1
    assert layer.path(20) == 19
    assert layer.steps == 1


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


def test_all_three_are_trained_and_shown_in_one_table(tmp_path: Path) -> None:
    words = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht"]
    pairs = [f"{a} {b}\t{b} {a}\n" for a in words for b in words]
    (tmp_path / "pairs.tsv").write_text("".join(pairs), encoding="utf-8")
    small = "network.width=16 network.depth=1 network.heads=2 network.inner=16 codec.size=300"
    settings = f"{small} training.steps=2 training.validate_every=2 training.tokens_per_batch=256"
    files = ["--pairs", str(tmp_path / "pairs.tsv"), "--out", str(tmp_path / "out")]
    asked = ["compare", "translation", *files, "--device", "cpu", *settings.split()]
    done = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert done.exit_code == 0
    assert all(f"| {kind} " in done.stdout for kind in ("transformer", "recurrent"))
    rows = json.loads((tmp_path / "out" / "compared.json").read_text())
    assert [row["network"] for row in rows] == ["transformer", "recurrent", "convolutional"]
    assert all(row["tokens_per_second"] > 0 for row in rows)
    with pytest.raises(ValueError, match="is there already; give --out a new folder"):
        CliRunner().invoke(app, asked, catch_exceptions=False)
