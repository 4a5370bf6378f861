"""Experiments: what each leaves in its folder, and what their measurements mean."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from manyheads import lab
from manyheads.lab.experiment import Claim, Experiment, format_spread
from manyheads.lab.report import NUMBERS, QUICK, format_lab, round_numbers
from manyheads.lab.residuals import (
    CASES,
    CONTROL,
    TIMED,
    WITH,
    WITHOUT,
    Residuals,
    probe_places,
)
from manyheads.lab.table import EXPERIMENTS, find_experiment

KEPT = Path(__file__).parents[2] / "results" / "lab"
KEYS = {"experiment", "about", "quick", "settings", "seconds", "cpu_seconds", "machine"}
KEYS |= {"claims", "measured"}


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_an_experiment_leaves_a_figure_a_table_and_all_numbers(name: str, tmp_path: Path) -> None:
    said: list[str] = []
    report = lab.run(name, tmp_path, seeds=2, seed=3, quick=True, say=said.append)
    folder = tmp_path / name
    kept = json.loads((folder / NUMBERS).read_text())
    assert kept == json.loads(json.dumps(report))
    assert {*kept} == KEYS
    assert [*kept["measured"]] == ["3", "4"]
    assert (folder / "figure.png").read_bytes()[:4] == b"\x89PNG"
    told = (folder / "table.md").read_text()
    assert format_lab(kept) in told, "the table is made from the numbers that are kept"
    assert QUICK in told
    assert QUICK in said[-1]
    assert find_experiment(name).limits
    if name != "cost":  # of which times are measured
        again = find_experiment(name)(**kept["settings"]).measure(3)
        assert round_numbers(again) == report["measured"]["3"] != report["measured"]["4"]


def test_a_claim_that_the_numbers_do_not_bear_out_is_told_as_not_shown() -> None:
    class Two(Experiment):
        limits = "Of one kind of sheep."

        def claims(self, seeds: object) -> list[Claim]:
            return [Claim("sheep are white", True), Claim("sheep can fly", False)]

    assert Two().paragraph([]) == (
        "Shown: sheep are white. Not shown: sheep can fly. Of one kind of sheep."
    )


def test_a_spread_has_a_deviation_where_there_are_several_seeds() -> None:
    assert format_spread([0.5, 0.6, 0.7]) == "0.60 ± 0.10"
    assert format_spread([0.5]) == "0.50"


# ---- what was measured -----------------------------------------------------------------------


def test_whole_runs_of_all_experiments_are_kept() -> None:
    assert {path.stem for path in KEPT.glob("*.json")} == {*EXPERIMENTS}
    for name in EXPERIMENTS:
        report = json.loads((KEPT / f"{name}.json").read_text())
        assert not report["quick"]
        assert len(report["measured"]) == 3
        assert report["cpu_seconds"] < 300
        assert report["claims"][0]["shown"], name
        kind = find_experiment(name)
        assert report["settings"] == json.loads(json.dumps(asdict(kind()))), "as they are now"


def test_position_is_carried_by_residuals_in_every_run_that_is_kept() -> None:
    measured = json.loads((KEPT / "residuals.json").read_text())["measured"]
    for cases in measured.values():
        assert cases[WITH]["probe"][3] >= 0.5
        assert cases[WITH]["mass"] >= 0.45
        assert cases[WITHOUT]["probe"][3] <= cases[CONTROL]["probe"][3] + 0.05
        assert cases[WITHOUT]["mass"] <= 0.22


# ---- residuals -------------------------------------------------------------------------------


def test_the_probe_reads_places_that_are_there_and_none_that_are_not() -> None:
    torch.manual_seed(0)
    noise, places = torch.randn(2, 64, 10, 16), torch.randn(10, 16)
    there = 0.3 * noise + places
    assert probe_places(there[0], there[1]) > 0.95
    assert probe_places(noise[0], noise[1]) < 0.2, "of ten places chance tells one"


def test_timing_in_every_layer_reaches_a_layer_that_nothing_else_goes_around() -> None:
    experiment = Residuals(**Residuals.quick)
    words = torch.ones(1, experiment.length).long()  # one word everywhere: only places differ
    spread = {}
    for name in (WITHOUT, TIMED):
        torch.manual_seed(0)
        network = experiment.build(CASES[name]).eval()
        with torch.no_grad():
            spread[name] = network.encode(words).states.std(1).mean()
    assert spread[TIMED] > 3 * spread[WITHOUT]


# ---- what is refused -------------------------------------------------------------------------


def test_a_quick_run_does_not_take_the_place_of_a_whole_one(tmp_path: Path) -> None:
    (tmp_path / "scale").mkdir()
    (tmp_path / "scale" / "lab.json").write_text('{"quick": false}')
    with pytest.raises(ValueError, match="scale holds a whole run, and a quick one would take its"):
        lab.run("scale", tmp_path, quick=True)


def test_what_cannot_be_run_is_answered_with_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="an experiment has 1 seed or more, got 0"):
        lab.run("residuals", tmp_path, seeds=0)
    with pytest.raises(ValueError, match="there is no experiment 'residual'; there are residuals"):
        lab.run("residual", tmp_path)
