"""Measure how long a step and a validation take on this machine, and in how much memory."""

from __future__ import annotations

import math
import os
import sys
import time
from contextlib import closing, suppress
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import nn

from manyheads.devices import send, use_threads
from manyheads.training.config import Training
from manyheads.training.trainer import Trainer, prefetch

STEPS = 3  # to time at least; then as many again
LEAST_SECONDS = 2.0  # until this much time has passed
PATIENCE_SECONDS = 30.0  # for a validation: an untrained network writes long texts
VALIDATING = 0.25  # largest share of a time budget for validation
MARGIN = 0.95  # share of a time budget to plan with: speed varies
FITTED = "steps", "warmup_steps", "validate_every", "checkpoint_every", "log_every"


class Pace(NamedTuple):
    """The time of a step and of a validation, the memory, and the time before the first step."""

    step_seconds: float
    validation_seconds: float  # at most: an untrained network writes the longest texts
    memory_bytes: int
    begin_seconds: float = 0.0  # to choose threads, to record, to check that no token looks ahead

    def seconds(self, training: Training) -> float:
        validations = math.ceil(training.steps / training.validate_every)
        working = training.steps * self.step_seconds + validations * self.validation_seconds
        return self.begin_seconds + working


def measure_pace(trainer: Trainer) -> Pace:
    """Time some real steps and a validation of a trainer, which is of no use afterwards."""
    plan, learner, device = trainer.plan, trainer.learner, trainer.world.device
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    began = time.perf_counter()
    trainer.probe_memory()
    trainer.record()
    with use_threads(trainer.threads()):
        learner.refuse_leaks(send(next(iter(trainer.batches())).parts[0], device))
        begin_seconds = time.perf_counter() - began
        worst = max(plan.epoch(0), key=plan.area)
        learner.probe_memory(send(plan.batch(worst[:: trainer.state.parts]), device))
        step_seconds, validation_seconds = step_of(trainer), validation_of(trainer)
        return Pace(step_seconds, validation_seconds, peak_memory(device), begin_seconds)


def step_of(trainer: Trainer) -> float:
    """Return the seconds of a step, while a thread makes the batches as in training."""
    with closing(prefetch(trainer.batches())) as batches:
        trainer.step(next(batches))  # the first is slower than others
        wait_for(trainer)
        began, steps = time.perf_counter(), 0
        while steps < STEPS or time.perf_counter() - began < LEAST_SECONDS:
            for batch in islice(batches, STEPS):
                trainer.step(batch)
            wait_for(trainer)
            steps += STEPS
        return (time.perf_counter() - began) / steps


def wait_for(trainer: Trainer) -> None:
    """Wait until the device has done its work."""
    for summed in trainer.summed.values():
        summed.item()


def validation_of(trainer: Trainer) -> float:
    """Return the seconds of a validation, which is cut off at PATIENCE_SECONDS."""
    began, network = time.perf_counter(), trainer.learner.network

    def look_at_the_clock(module: nn.Module, given: Any) -> None:
        if time.perf_counter() - began > PATIENCE_SECONDS:
            raise TimeoutError

    # A hook would make compiled blocks compile again.
    parts = [] if trainer.training.compile else [*network.modules()]
    hooks = [part.register_forward_pre_hook(look_at_the_clock) for part in parts]
    with suppress(TimeoutError):
        trainer.task.validate(network)
    for hook in hooks:
        hook.remove()
    return time.perf_counter() - began


def peak_memory(device: torch.device) -> int:
    """The most memory in use so far, in bytes."""
    if device.type == "cuda":
        return torch.cuda.max_memory_reserved(device)
    try:
        import resource
    except ImportError:  # not on every system
        return 0
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def memory_of(device: torch.device) -> int:
    """Return the memory of the device, or what this process may use of it; 0 where unknown."""
    if device.type == "cuda":
        return int(torch.cuda.get_device_properties(device).total_memory)
    try:
        total = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return 0
    with suppress(OSError, ValueError):
        total = min(total, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return total


def fit_steps(seconds: float, training: Training, pace: Pace) -> Training:
    """Return the same schedule with as many steps as fit into the time, but never more."""
    left = max(0.0, MARGIN * max(0.0, seconds) - pace.begin_seconds)
    meant = math.ceil(training.steps / training.validate_every)
    most = int(VALIDATING * left / max(1e-9, pace.validation_seconds))
    validations = max(1, min(meant, most))
    steps = int((left - validations * pace.validation_seconds) / max(1e-9, pace.step_seconds))
    if steps >= training.steps:
        return training
    steps = max(1, steps)
    every = math.ceil(steps / validations)
    return replace(
        training,
        steps=steps,
        warmup_steps=training.warmup_steps * steps // training.steps,
        validate_every=every,
        checkpoint_every=min(training.checkpoint_every, every),
        log_every=max(1, min(training.log_every, every // 2)),
    )
