"""Many processes share a validation, and come to the last digit to what one does.

Run by torchrun, this file is one of those processes.
"""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from small import begun, recipe_in
from test_learn import alone, classification_in, language_in, masked_in, music_in

from manyheads.learn import open_task
from manyheads.tasks.table import load_recipe
from manyheads.training.distributed import World, join_processes, leave_processes
from manyheads.training.run import RECIPE, Run

FEW = 100  # tokens at once, so that there are several batches


def validate_all(folders: list[Path], world: World) -> dict[str, Any]:
    """What each run's network is worth before its first step, and after an error in one process."""
    found: dict[str, Any] = {}
    for folder in folders:
        task = open_task(load_recipe(folder / RECIPE), Run(folder))
        task.world, task.at_once = world, FEW
        torch.manual_seed(1)
        network = task.network()
        found[folder.name] = task.validate(network)
        if folder.name == "pairs":
            loss = task.loss

            def short_of_memory(network: Any, batch: Any, loss: Any = loss) -> Any:
                if world.rank == world.size - 1 and batch.wanted.numel() > FEW // 2:
                    raise torch.OutOfMemoryError
                return loss(network, batch)

            task.loss = short_of_memory  # type: ignore[method-assign]
            found[f"{folder.name}, less"] = [task.validate(network).scores, task.at_once]
    with pytest.raises(ValueError) as error:
        world.map(lambda number: 1 // number if number else refuse(), [*range(5)][::-1])
    found["refused"] = str(error.value)
    with pytest.raises((RuntimeError, ZeroDivisionError), match="by zero"):
        world.map(lambda number: 1 // number, [3, 2, 1, 0])
    return found


def refuse() -> int:
    raise ValueError("0 is not among them")


def test_two_processes_validate_as_one_does(tmp_path: Path) -> None:
    rooms = {
        "pairs": recipe_in(tmp_path),
        "language": language_in(tmp_path),
        "masked": masked_in(tmp_path),
        "classification": classification_in(tmp_path),
        "tunes": music_in(tmp_path),
    }
    folders = [begun(recipe, tmp_path / name).folder for name, recipe in rooms.items()]
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*torchrun, "--nproc-per-node=2", __file__, tmp_path / "found", *folders],
        env=alone(),
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    one = json.loads(json.dumps(validate_all(folders, World())))
    assert len(one) == 7
    assert one["refused"] == "0 is not among them"
    for rank in range(2):
        assert json.loads((tmp_path / f"found{rank}").read_text(encoding="utf-8")) == one


if __name__ == "__main__":
    world = join_processes("cpu")
    found = validate_all([*map(Path, sys.argv[2:])], world)
    Path(f"{sys.argv[1]}{world.rank}").write_text(json.dumps(found), encoding="utf-8")
    leave_processes()
