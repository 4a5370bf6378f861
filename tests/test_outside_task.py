"""A family of models that is written outside the package, in one short file."""

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

OUTSIDE = Path(__file__).parent / "outside"
SAME = ("metrics.jsonl", "weights.safetensors")
SHORT = ("training.steps=4", "--length", "4")


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What pip would leave of such a package: a module, and its line among the entry points."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "sorting.py").write_text((OUTSIDE / "sorting.py").read_text())
    about = folder / "sorting-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: sorting\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[manyheads.tasks]\nsorting = sorting:SortingRecipe\n")
    paths = [str(folder), str(Path(__file__).parent.parent), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


# Commands as they are typed, one after another: each start of Python would load torch anew.
COMMANDS = """
import json, sys
from manyheads.cli.app import main
for words in json.loads(sys.argv[1]):
    sys.argv = ["manyheads", *words]
    try:
        main()
    except SystemExit as ended:
        assert not ended.code, (words, ended.code)
    print(end="\\0")
"""


def manyheads(installed: dict[str, str], *commands: tuple[object, ...]) -> list[str]:
    """What each of the commands printed."""
    words = json.dumps([[*map(str, one)] for one in commands])
    command = [sys.executable, "-c", COMMANDS, words]
    done = subprocess.run(command, env=installed, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\0")[:-1]


def rows(path: Path, count: int, seed: int) -> Path:
    drawn = random.Random(seed)
    lines = (" ".join(str(drawn.randrange(50)) for _ in range(4)) for _ in range(count))
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_it_has_no_more_than_sixty_lines() -> None:
    lines = (OUTSIDE / "sorting.py").read_text().splitlines()
    assert sum(bool(line.strip()) for line in lines) <= 60


def test_it_trains_goes_on_after_a_kill_is_used_evaluated_and_compared(
    installed: dict[str, str], tmp_path: Path
) -> None:
    learned, test = rows(tmp_path / "rows.txt", 300, 1), rows(tmp_path / "test.txt", 20, 2)
    often = ("--rows", learned, "--device", "cpu", "training.checkpoint_every=7")
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    command = [sys.executable, "-m", "manyheads", "train", "sorting", *map(str, often)]
    running = subprocess.Popen(
        [*command, "--out", str(killed), "training.steps=120"],
        env=installed,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    while not (killed / "checkpoint.safetensors").exists():
        assert running.poll() is None
        time.sleep(0.01)
    running.send_signal(signal.SIGKILL)
    running.wait()

    on_cpu = ("--model", whole, "--device", "cpu")
    told, _, _, predicted, evaluated, compared = manyheads(
        installed,
        ("train", "--help"),
        ("train", "sorting", *often, "--out", whole, "training.steps=120"),
        ("resume", killed, "--device", "cpu"),
        ("predict", *on_cpu, "3 1 2 7"),
        ("evaluate", *on_cpu, "--data", test),
        ("compare", "sorting", *often, "--out", tmp_path / "compared", *SHORT),
    )
    for name in SAME:
        assert (killed / name).read_bytes() == (whole / name).read_bytes(), name
    assert "sorting" in told
    assert len(predicted.split()) == 4
    assert "sorted" in evaluated
    assert "transformer" in compared
    assert "recurrent" in compared
