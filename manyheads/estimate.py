"""Estimate the memory and time of a run before it begins: prepare it in a temporary folder, and
time some steps and a validation on the device that it would use.
"""

from __future__ import annotations

import math
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from manyheads.learn import open_task, prepare_run
from manyheads.tasks.table import find_task
from manyheads.training.distributed import World
from manyheads.training.pace import measure_pace, memory_of
from manyheads.training.run import Run
from manyheads.training.trainer import Trainer
from manyheads.training.weights import count_parameters


def estimate(recipe: Any, gathered: Any, device: torch.device) -> str:
    """Return the parameters, epochs, memory and time of a run, as text."""
    recipe, training = find_task(recipe.task).shorten(recipe), recipe.training
    with TemporaryDirectory() as folder:
        run = Run(Path(folder) / "run")
        prepare_run(recipe, run, gathered)
        world = World(device=device, limited=device.type == "cuda")
        trainer = Trainer(open_task(recipe, run), run, world)
        pace = measure_pace(trainer)
    validations = math.ceil(training.steps / training.validate_every)
    tokens, epoch = training.steps * training.tokens_per_batch, gathered.tokens
    has = memory_of(device)
    return "\n".join(
        [
            f"# {gathered}",
            f"# {count_parameters(trainer.learner.network):,} parameters",
            f"# {training.steps:,} steps, about {tokens / max(1, epoch):.0f} epochs",
            f"# memory: about {format_gigabytes(pace.memory_bytes)}"
            + (f" of the {format_gigabytes(has)} there are on {device}" if has else ""),
            f"# time: about {format_minutes(pace.seconds(training))} on {device}, by steps of "
            f"{pace.step_seconds:.2g} s each and {validations} x {pace.validation_seconds:.2g} s "
            "to validate, at most",
        ]
    )


def format_gigabytes(size: int) -> str:
    return f"{size / 2**30:.1f} GiB"


def format_minutes(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 600:
        return f"{seconds / 60:.1f} minutes"
    return f"{seconds / 60:.0f} minutes" if seconds < 5400 else f"{seconds / 3600:.1f} hours"
