"""Train one run from where it stands to its end: step, log, validate, save."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from typing import Any, NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from manyheads.devices import find_fastest_threads, send, threads_are_set, use_threads
from manyheads.tasks.task import Sample, Task
from manyheads.training.compiling import compile_network
from manyheads.training.distributed import World
from manyheads.training.files import WEIGHTS, read_tensors, write_tensors
from manyheads.training.learner import Learner
from manyheads.training.recorded import shape_of
from manyheads.training.run import CHECKPOINT, METRICS, SAMPLES, START, TIMES, Run
from manyheads.training.weights import adopt, count_parameters, load_weights, mean_of, weights_of

T = TypeVar("T")

AHEAD = 4  # batches that are made in advance
PEEK = 8  # batches that show which layout is the most common
FEW = 3  # validations after which an unchanged score is reported


class StepLog(NamedTuple):
    """The numbers of a log line."""

    step: int
    steps: int
    epoch: int
    loss: float
    rate: float
    tokens_per_second: float
    seconds: float
    unit: str = "tokens"  # what is counted

    @property
    def seconds_left(self) -> float:
        return self.seconds / max(1, self.step) * (self.steps - self.step)


class Callback:
    """Receives what happens in training; this base class ignores it."""

    def say(self, text: str) -> None: ...
    def on_start(self, step: int, steps: int) -> None: ...
    def on_log(self, note: StepLog) -> None: ...
    def on_validate(
        self, step: int, scores: dict[str, float], samples: Sequence[Sample]
    ) -> None: ...


class StepBatch(NamedTuple):
    """The batch of a step, and where the run stands after it."""

    parts: list[Any]
    tokens: int  # over all processes
    after: tuple[int, int]  # epoch, batch


class Trainer:
    """Trains one run."""

    def __init__(
        self,
        task: Task,
        run: Run,
        world: World = World(),
        callback: Callback = Callback(),
    ):
        self.task, self.run, self.world, self.callback = task, run, world, callback
        task.world = world
        self.training, self.plan = task.recipe.training, task.batches()
        torch.manual_seed(self.training.seed % 2**63)  # the largest that torch takes
        network = task.network()
        # Whether it is a whole model before its first step: it starts from all weights of another.
        self.begun_whole = (run / START).exists() and adopt(network, run / START)
        self.learner = Learner(network, task.loss, self.training, world)
        self.state = run.restore(self.learner)
        if self.training.compile:
            compile_network(self.learner.network)
        self.zero = torch.zeros((), dtype=torch.float64, device=world.device)
        # The sums of a checkpoint are over all processes; each one has every name, to add them up.
        terms = self.state.terms.items()
        self.summed = {name: self.zero + (value if world.first else 0.0) for name, value in terms}
        self.began = time.perf_counter() - self.state.seconds
        self.noted = time.perf_counter(), self.state.counted

    def fit(self, asked_to_stop: Callable[[], bool] = lambda: False) -> bool:
        """Train to the end, or until asked to stop; return whether the end was reached."""
        if self.is_over():
            self.validate_last()
            self.callback.say(f"nothing is left to do: it {self.describe_end()}")
            return True
        size = count_parameters(self.learner.network)
        self.callback.say(f"{size:,} parameters on {self.world.device}")
        self.callback.on_start(self.learner.taken, self.training.steps)
        self.probe_memory()
        self.record()
        with use_threads(self.threads()), closing(prefetch(self.batches())) as batches:
            if (self.run / START).exists() and self.learner.taken == 0:
                self.validate(counted=self.begun_whole)
            for i, batch in enumerate(batches):
                # Tested as it is trained: compiled, with its precision, on a batch with its layout.
                if i == 0 and self.learner.refuse_leaks(send(batch.parts[0], self.world.device)):
                    self.callback.say("checked: no token sees a later one, no document another")
                self.step(batch)
                if self.due(self.training.log_every):
                    self.note()
                if self.due(self.training.validate_every):
                    self.validate()
                # Several processes ask only when they log: the first one tells the others.
                heard = self.world.size == 1 or self.due(self.training.log_every)
                stopping = (
                    not self.is_over() and heard and bool(self.world.broadcast(asked_to_stop()))
                )
                if self.is_over() or stopping or self.due(self.training.checkpoint_every):
                    self.save()
                if self.is_over() or stopping:
                    break
        if self.is_stuck():
            self.callback.say(self.describe_end())
        if self.is_over() and self.state.best_step == 0:
            self.callback.say(
                "no validation was better than before the first step: the result is it"
            )
        return self.is_over()

    def is_over(self) -> bool:
        """Whether it is at the last step, or has validated often enough without a better score."""
        return self.learner.taken >= self.training.steps or self.is_stuck()

    def is_stuck(self) -> bool:
        """Whether patience ends it before its last step."""
        steps_left = self.training.steps - self.learner.taken
        return steps_left > 0 and 0 < self.training.patience <= self.state.worse

    def describe_end(self) -> str:
        why = f": training.patience={self.training.patience}, and none of the last validations "
        why += "was better; `manyheads resume` with training.patience=0 goes on"
        return f"ended at step {self.learner.taken:,}{why if self.is_stuck() else ''}"

    def validate_last(self) -> None:
        """Log and validate the last step, where `steps` was lowered to those already taken."""
        validated = {line["step"] for line in self.run.lines(METRICS) if "valid" in line}
        left = not self.is_stuck() and self.learner.taken not in validated
        if self.world.broadcast(int(left)):
            if self.state.counted:
                self.note()
            self.validate()
            self.save()

    def step(self, batch: StepBatch) -> None:
        parts = [send(part, self.world.device) for part in batch.parts]
        for name, mean in self.learner.step(parts, batch.tokens).items():
            self.summed[name] = self.summed.get(name, self.zero) + mean * batch.tokens
        self.state.epoch, self.state.batch = batch.after
        self.state.tokens += batch.tokens
        self.state.counted += batch.tokens

    def due(self, every: int) -> bool:
        return self.learner.taken % every == 0 or self.learner.taken == self.training.steps

    # ---- before the first step ---------------------------------------------------------------

    def probe_memory(self) -> None:
        """Cut batches into as many parts as memory requires: try the largest batch first."""
        parts = max(self.state.parts, self.training.accumulate)
        while self.world.limited:
            worst = max(self.plan.epoch(0), key=self.plan.area)
            mine = self.plan.share(worst, self.world.rank, self.world.size)
            try:
                part = self.plan.batch(mine[::parts])
                self.learner.probe_memory(send(part, self.world.device))
                break
            except torch.OutOfMemoryError:
                if parts >= len(mine):
                    raise ValueError(
                        "one row of a batch does not fit into the GPU's memory; "
                        "a smaller network, or data.longest_tokens, would do"
                    ) from None
                parts = min(2 * parts, len(mine))
                if self.world.device.type == "cuda":
                    torch.cuda.empty_cache()
                self.callback.say(f"a batch does not fit into memory at once: cut into {parts}")
        self.state.parts = parts

    def record(self) -> None:
        """Record a CUDA graph for the layout that most batches have, if possible. The first batches
        of all decide, so that a resumed run does the same.
        """
        if self.state.parts > 1 or self.world.device.type != "cuda":
            return
        planned = self.plan.epoch(0)[:PEEK]
        made = [self.plan.batch(self.plan.share(rows, 0, 1)) for rows in planned]
        alike = max(([b for b in made if shape_of(b) == shape_of(a)] for a in made), key=len)
        if len(alike) > 1 and self.learner.can_record(alike[0]):
            began = time.perf_counter()
            first, other = (send(batch, self.world.device) for batch in alike[:2])
            try:
                self.learner.record(first, other, self.plan.count(planned[0]))
            except torch.OutOfMemoryError:
                torch.cuda.empty_cache()
                self.callback.say("steps are not recorded: that takes more memory than there is")
                return
            seconds = time.perf_counter() - began
            self.callback.say(f"recorded a step in {seconds:.1f} s, the same as the plain one")

    def threads(self) -> int:
        """Return the user's number of threads, else the run's: the fastest on its first batch.

        It is timed only once: the last bits of sums depend on it, and resuming must change nothing.
        """
        most = torch.get_num_threads()
        if self.world.device.type != "cpu":
            return most
        chosen = 0 if threads_are_set() else min(self.state.threads, most)
        if not chosen and (
            threads_are_set() or most == 1 or self.world.size > 1 or self.training.compile
        ):
            chosen = most
        elif not chosen:
            first = next(iter(self.batches())).parts[0]
            chosen, took = find_fastest_threads(lambda: self.learner.probe_memory(first))
            one, all_of_them = took[1], took[most]
            self.callback.say(
                f"{chosen} of {most} threads: a batch takes {one:.2g} s with one and "
                f"{all_of_them:.2g} s with all"
            )
        self.state.threads = chosen
        return chosen

    def batches(self) -> Iterator[StepBatch]:
        """Yield batches without end from where the run stands: epoch and batch number suffice."""
        plan, parts, begin = self.plan, self.state.parts, self.state.batch
        for epoch in count(self.state.epoch):
            planned = plan.epoch(epoch)
            for i in range(begin, len(planned)):
                mine = plan.share(planned[i], self.world.rank, self.world.size)
                made = [plan.batch(mine[part::parts]) for part in range(parts)]
                after = (epoch, i + 1) if i + 1 < len(planned) else (epoch + 1, 0)
                yield StepBatch(made, plan.count(planned[i]), after)
            begin = 0

    # ---- after a step ------------------------------------------------------------------------

    def note(self) -> None:
        state, step = self.state, self.learner.taken
        terms = {  # sorted: the same order in a resumed run
            name: self.world.sum_over(self.summed[name].item()) / state.counted
            for name in sorted(self.summed)
        }
        loss = sum(terms.values())
        if not math.isfinite(loss):
            raise self.loss_error(loss)
        now = time.perf_counter()
        state.seconds = now - self.began
        started, before = self.noted
        speed = (state.counted - before) / max(1e-9, now - started)
        rate = self.training.learning_rate * self.training.rate(step - 1)
        unit = getattr(self.plan, "unit", "tokens")
        note = StepLog(
            step, self.training.steps, state.epoch, loss, rate, speed, state.seconds, unit
        )
        if self.world.first:
            told = {"step": step, "epoch": state.epoch, "loss": loss, "rate": rate}
            told |= {"terms": terms} if len(terms) > 1 else {}
            self.run.log(METRICS, {**told, "tokens": state.tokens})
            self.log_time(**{f"{unit.replace(' ', '_')}_per_second": round(speed)})
            self.callback.on_log(note)
        for summed in self.summed.values():
            summed.zero_()
        state.counted, self.noted = 0, (now, 0)

    def check(self) -> None:
        """Refuse a loss or weights that are not finite: they are neither validated nor saved."""
        numbers = [*self.summed.values(), *weights_of(self.learner.network).values()]
        if not all(bool(one.isfinite().all()) for one in numbers):
            raise self.loss_error(math.nan)

    def loss_error(self, loss: float) -> ValueError:
        lower = self.training.learning_rate / 3
        checkpoint = self.run / CHECKPOINT
        return ValueError(
            f"the loss is {loss} by step {self.learner.taken}; a lower learning rate "
            f"(training.learning_rate={lower:.2g}) or a longer warm-up may hold it"
            + (f"; {checkpoint} was written before and is sound" if checkpoint.exists() else "")
        )

    def log_time(self, **what: Any) -> None:
        seconds = round(time.perf_counter() - self.began, 3)
        clock = round(time.time(), 3)
        self.run.log(
            TIMES, {"step": self.learner.taken, "seconds": seconds, "clock": clock, **what}
        )

    def validate(self, counted: bool = True) -> None:
        """Validate; only if `counted` can the weights be among the best: not with an untrained
        head.
        """
        self.check()
        with swap_weights(self.learner.network, self.learner.weights()):
            scores, samples = self.task.validate(self.learner.network)
        if self.world.first:
            self.run.log(METRICS, {"step": self.learner.taken, "valid": scores})
            self.log_time(validated=scores)
            self.run.write(SAMPLES, format_validation(self.learner.taken, scores, samples))
            lines = [line for line in self.run.lines(METRICS) if "valid" in line]
            so_far = {line["step"]: line["valid"] for line in lines}
            if counted:
                self.rank(so_far)
            self.callback.on_validate(self.learner.taken, scores, samples)
            tried = [*so_far.values()] if self.training.best_by != "last" else []
            if len(tried) == FEW and (stuck := describe_stuck_score(tried)):
                self.callback.say(stuck)
            if self.state.best_step == 0 and self.state.worse == 1:
                lower = self.training.learning_rate / 3
                self.callback.say(
                    "that is worse than before the first step; a lower rate "
                    f"(training.learning_rate={lower:.2g}) keeps more of what it started from"
                )
        self.state.worse = self.world.broadcast(self.state.worse)
        self.noted = time.perf_counter(), self.state.counted

    def rank(self, validations: dict[int, dict[str, float]]) -> None:
        """Keep these weights if they are among the best, by the scores of each step so far; the
        result is the mean of the best.
        """
        step = self.learner.taken
        this = (self.training.judge(validations[step], step), step)
        # Judge the kept ones anew: a resumed run may use another measure.
        best = [
            (self.training.judge(validations[at], at) if at in validations else score, at)
            for score, at in self.state.best
        ]
        # Of equal scores the lower loss is the better, then the later: a score that stays at 0
        # says nothing, and the first weights are the worst.
        losses = {one: scores["loss"] for one, scores in validations.items()}
        ranked = sorted(
            [*best, this],
            key=lambda one: (-one[0], losses.get(one[1], math.inf), -one[1]),
        )
        kept = ranked[: self.training.average]
        # Counted anew, for the same reason.
        self.state.worse = sum(at > kept[0][1] for at in validations)
        if this in kept:
            self.state.best = kept
            self.run.keep(step, self.learner.weights())
            several = [read_tensors(self.run.moment(one))[0] for _, one in kept]
            write_tensors(self.run / WEIGHTS, mean_of(several), {"moments": kept})

    def save(self) -> None:
        self.check()
        for name, summed in self.summed.items():
            self.state.terms[name] = self.world.sum_over(summed.item())
            summed.fill_(self.state.terms[name] if self.world.first else 0.0)
        self.state.seconds = time.perf_counter() - self.began
        if self.world.first:
            self.run.save(self.learner, self.state)
        self.world.wait()


@contextmanager
def swap_weights(network: nn.Module, weights: dict[str, Tensor]) -> Iterator[None]:
    """Use other weights inside the `with` block."""
    own = {name: tensor.clone() for name, tensor in weights_of(network).items()}
    load_weights(network, weights)
    try:
        yield
    finally:
        load_weights(network, own)


def describe_stuck_score(validations: Sequence[dict[str, float]]) -> str:
    """Say that the score has not moved while the loss fell, and what that means; "" if it has."""
    name = next(iter(validations[0]))
    first, last = validations[0]["loss"], validations[-1]["loss"]
    if name == "loss" or len({scores[name] for scores in validations}) > 1 or last >= first:
        return ""
    return (
        f"{name} was {validations[0][name]:.2f} at each of {FEW} validations while their loss fell "
        f"from {first:.2f} to {last:.2f}: until it moves, the weights of the lowest loss are kept"
    )


def format_validation(step: int, scores: dict[str, float], samples: Sequence[Sample]) -> str:
    """Format a validation for samples.txt."""
    named = "  ".join(f"{name} {value:.2f}" for name, value in scores.items())
    lines = [f"== step {step}  {named}"]
    for sample in samples:
        lines.append(f"   read     {sample.source}")
        lines.append(f"   wanted   {sample.reference}")
        lines.append(f"   written  {sample.output}\n")
    return "\n".join(lines) + "\n"


def prefetch(made: Iterator[T]) -> Generator[T]:
    """Yield the same items in the same order, made in a thread while the device computes; errors of
    the thread are raised here.

    Closing the generator ends the thread.
    """
    over: Any = object()
    with ThreadPoolExecutor(1) as maker:
        coming = deque(maker.submit(next, made, over) for _ in range(AHEAD))
        try:
            while (one := coming.popleft().result()) is not over:
                coming.append(maker.submit(next, made, over))
                yield one
        finally:
            maker.shutdown(cancel_futures=True)
