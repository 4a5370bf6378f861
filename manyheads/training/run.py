"""The folder of a run: what the user reads, and what is needed to resume.

recipe.yaml             what was asked for, every setting resolved
corpus.txt              what was read, kept and left out, and why
tokenizer.json          text to numbers (source.json and target.json where they are two)
codec.json              other data to numbers, where that is learned
data/                   the corpus as numbers
start.safetensors       the weights it started from, if it is fine-tuned
weights.safetensors     the result: the best weights so far, or the mean of the best
checkpoint.safetensors  all that is needed to resume exactly
kept/                   the weights of the best validations
metrics.jsonl           a line for each measurement: the same however often the run was stopped
times.jsonl             seconds and tokens per second, which are never the same
samples.txt             the same sentences at every validation
loss.png                the curves
.manyheads.lock         there while a process trains, or after it was killed
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from torch import Tensor

from manyheads.training.files import CORPUS as CORPUS
from manyheads.training.files import RECIPE as RECIPE
from manyheads.training.files import WEIGHTS as WEIGHTS
from manyheads.training.files import read_note, read_tensors, write_tensors
from manyheads.training.learner import Learner

try:
    import fcntl
except ImportError:  # a system without it: runs are not locked there
    fcntl = None  # type: ignore[assignment]

CHECKPOINT, START = "checkpoint.safetensors", "start.safetensors"
METRICS, TIMES, SAMPLES = "metrics.jsonl", "times.jsonl", "samples.txt"
LOCK = ".manyheads.lock"
LOGS = (METRICS, TIMES, SAMPLES)


@dataclass
class TrainerState:
    """The progress of a run: the numbers of a checkpoint beside its tensors."""

    epoch: int = 0
    batch: int = 0  # the next one of this epoch
    tokens: int = 0  # trained on so far
    # The terms of the loss, summed since the last line of the log,
    terms: dict[str, float] = field(default_factory=dict)
    counted: int = 0  # and the number of tokens in that sum
    best: list[tuple[float, int]] = field(default_factory=list)  # scores and steps, best first
    worse: int = 0  # validations since the best
    parts: int = 1  # that a batch is cut into to fit into memory
    threads: int = 0  # on a CPU: the last bits of sums depend on them; 0: not chosen
    seconds: float = 0.0  # of training, with those before a stop

    @property
    def best_step(self) -> int | None:
        return self.best[0][1] if self.best else None


class Run:
    """A folder that holds one run."""

    def __init__(self, folder: Path):
        self.folder = folder
        self.locked = False

    def __truediv__(self, name: str) -> Path:
        return self.folder / name

    def create(self) -> bool:
        """Make the folder and return whether it is new; refuse a folder that holds something."""
        if self.folder.exists() and not self.folder.is_dir():
            raise ValueError(f"{self.folder} is a file; a run needs a folder of its own")
        if (self / RECIPE).exists():
            raise ValueError(
                f"{self.folder} already holds a run; `manyheads resume {self.folder}` goes on "
                "with it, another --out begins a new one"
            )
        if self.folder.exists() and any(self.folder.iterdir()) and not (self / LOCK).exists():
            raise ValueError(
                f"{self.folder} is not empty and holds no run; give --out a new folder"
            )
        try:
            self.folder.mkdir(parents=True)
        except FileExistsError:
            return False
        return True

    @contextmanager
    def make_folder(self) -> Iterator[None]:
        """Make the folder; remove it again if the `with` block fails.

        Files of a process that was killed before it wrote its recipe are removed first.
        """
        made = self.create()
        with self.hold_lock():
            self.create()  # again: another process may have made a run there before we had the lock
            self.clear()
            try:
                yield
            except BaseException:
                self.clear()
                (self / LOCK).unlink(missing_ok=True)
                if made:  # else it was there before
                    with suppress(OSError):
                        self.folder.rmdir()
                raise

    def clear(self) -> None:
        """Remove everything in the folder except the lock."""
        for path in self.folder.iterdir():
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path, ignore_errors=True)
            elif path.name != LOCK:
                path.unlink(missing_ok=True)

    @contextmanager
    def hold_lock(self) -> Iterator[None]:
        """Keep other processes out of the folder; a killed process releases the lock too."""
        if self.locked or fcntl is None:
            yield
            return
        lock = self.take_lock()
        self.locked = True
        try:
            yield
        finally:
            self.locked = False
            if (self / RECIPE).exists():  # else it marks a folder that is not yet a run
                (self / LOCK).unlink(missing_ok=True)
            os.close(lock)

    def take_lock(self) -> int:
        """Return the open file that holds the lock."""
        while True:
            file = os.open(self / LOCK, os.O_RDWR | os.O_CREAT, 0o644)
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                number = os.read(file, 32).decode() or "another"
                os.close(file)
                raise ValueError(
                    f"{self.folder} is at work in another process ({number}); when that has ended "
                    f"or was stopped, `manyheads resume {self.folder}` goes on"
                ) from None
            except OSError:  # a file system without locks
                return file
            with suppress(FileNotFoundError):  # the last holder may have removed it meanwhile
                if os.path.samestat(os.fstat(file), os.stat(self / LOCK)):
                    os.truncate(file, 0)
                    os.write(file, str(os.getpid()).encode())
                    return file
            os.close(file)

    # ---- the logs ----------------------------------------------------------------------------

    def log(self, name: str, line: dict[str, Any]) -> None:
        self.write(name, json.dumps(line) + "\n")

    def write(self, name: str, text: str) -> None:
        with (self / name).open("a", encoding="utf-8", newline="\n") as file:
            file.write(text)

    def lines(self, name: str) -> Iterator[dict[str, Any]]:
        if (self / name).exists():
            for line in (self / name).read_text(encoding="utf-8").splitlines():
                yield json.loads(line)

    # ---- checkpoints -------------------------------------------------------------------------

    def save(self, learner: Learner, state: TrainerState) -> None:
        """Write a checkpoint; then delete what only the checkpoint before needed."""
        sizes = {name: (self / name).stat().st_size for name in LOGS if (self / name).exists()}
        note = {"step": learner.taken, "state": vars(state), "sizes": sizes}
        write_tensors(self / CHECKPOINT, learner.state(), note)
        self.tidy(state)

    def tidy(self, state: TrainerState) -> None:
        wanted = {self.moment(step) for _, step in state.best}
        for path in (self / "kept").glob("*.safetensors"):
            if path not in wanted:
                path.unlink(missing_ok=True)

    def steps_taken(self) -> int:
        """Return the step of the checkpoint, without reading a tensor."""
        path = self / CHECKPOINT
        return int(read_note(path).get("step", 0)) if path.exists() else 0

    def restore(self, learner: Learner) -> TrainerState:
        """Load the last checkpoint into the learner, and cut the logs to what they were then."""
        path = self / CHECKPOINT
        # Remove what a killed process was writing; .tmp files are from safetensors.
        for folder in (self.folder, self / "kept"):
            for unfinished in [*folder.glob(".tmp*"), *folder.glob(".*.part")]:
                unfinished.unlink(missing_ok=True)
        if not path.exists():  # it stopped before its first checkpoint: drop the logs
            for name in LOGS:
                cut_to(self / name, 0)
            return TrainerState()
        held, note = read_tensors(path)
        if missing := {"step", "state", "sizes"} - set(note):
            raise ValueError(f"{path} is no checkpoint of a run: it has no {min(missing)}")
        state = TrainerState(**note["state"])
        state.best = [(score, step) for score, step in state.best]
        learner.restore(held, note["step"], path)
        for name in LOGS:
            cut_to(self / name, note["sizes"].get(name, 0))
        self.tidy(state)
        return state

    def moment(self, step: int) -> Path:
        return self / "kept" / f"step-{step:07d}.safetensors"

    def keep(self, step: int, weights: dict[str, Tensor]) -> None:
        """Write the weights of this step, which are among the best so far."""
        (self / "kept").mkdir(exist_ok=True)
        write_tensors(self.moment(step), weights, {"step": step})


def cut_to(path: Path, size: int) -> None:
    """Cut a log to its size at the checkpoint; a log that is shorter stays as it is."""
    if path.exists() and path.stat().st_size > size:
        os.truncate(path, size)


def draw_curves(run: Run) -> None:
    """Draw the losses and the score to loss.png."""
    from matplotlib.figure import Figure

    lines = list(run.lines(METRICS))
    trained = [(line["step"], line["loss"]) for line in lines if "loss" in line]
    valid = [(line["step"], line["valid"]) for line in lines if "valid" in line]
    if not trained:
        return
    figure = Figure(figsize=(8, 4.5), layout="constrained")
    left = figure.subplots()
    left.plot(*zip(*trained, strict=True), color="#4477aa", label="training loss")
    if valid:
        steps = [step for step, _ in valid]
        left.plot(
            steps, [scores["loss"] for _, scores in valid], color="#ee6677", label="validation loss"
        )
        name = next(iter(valid[0][1]))
        right = left.twinx()
        right.plot(steps, [scores[name] for _, scores in valid], color="#228833", label=name)
        right.set_ylabel(name)
    left.set_xlabel("step")
    left.set_ylabel("loss of a token")
    figure.legend(loc="outside upper center", ncols=3, frameon=False)  # outside, over no curve
    figure.savefig(run / "loss.png", dpi=120)
