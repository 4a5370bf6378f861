"""The course of one run, from where it stands to its end: train, note, validate, keep."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import count
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from manyheads.tasks.task import Sample, Task
from manyheads.threads import fastest, said, using
from manyheads.training.averages import load_weights, mean_of, weights_of
from manyheads.training.compiling import compiled
from manyheads.training.distributed import World
from manyheads.training.files import read_tensors
from manyheads.training.learner import Learner
from manyheads.training.prefetch import ahead
from manyheads.training.run import CHECKPOINT, METRICS, SAMPLES, START, TIMES, Run
from manyheads.training.start import adopt

FEW = 3  # validations after which a score that has not moved is told


class Note(NamedTuple):
    """Where training stands."""

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


class Watch:
    """Someone who looks on; this one keeps silent."""

    def say(self, text: str) -> None: ...
    def begun(self, step: int, steps: int) -> None: ...
    def note(self, note: Note) -> None: ...
    def validated(self, step: int, scores: dict[str, float], samples: Sequence[Sample]) -> None: ...


class Load(NamedTuple):
    """What a step trains on, and where the run stands after it."""

    parts: list[Any]
    tokens: int  # over all processes
    after: tuple[int, int]  # epoch, batch


class Course:
    """One run in motion."""

    def __init__(
        self,
        task: Task,
        run: Run,
        world: World = World(),
        watch: Watch = Watch(),
    ):
        self.task, self.run, self.world, self.watch = task, run, world, watch
        self.training, self.plan = task.recipe.training, task.batches()
        torch.manual_seed(self.training.seed)
        network = task.network()
        # Whether it is a model before its first step: it begins as another ended, head and all.
        self.begun_whole = (run / START).exists() and adopt(network, run / START)
        self.learner = Learner(network, task.loss, self.training, world)
        self.standing = run.restore(self.learner)
        if self.training.compile:
            compiled(self.learner.network)
        start = self.standing.terms if world.first else {}
        self.summed = {name: self.sum_from(value) for name, value in start.items()}
        self.began = time.perf_counter() - self.standing.seconds
        self.noted = time.perf_counter(), self.standing.counted

    def go(self, asked_to_stop: Callable[[], bool] = lambda: False) -> bool:
        """Train to the end, or until asked to stop; whether the end was reached."""
        if self.over():
            self.watch.say(f"nothing is left to do: it ended at step {self.learner.taken:,}")
            return True
        self.watch.say(f"{self.size():,} parameters on {self.world.device}")
        self.watch.begun(self.learner.taken, self.training.steps)
        self.rehearse()
        with using(self.threads()), closing(ahead(self.batches())) as batches:
            if (self.run / START).exists() and self.learner.taken == 0:
                self.validate(counted=self.begun_whole)
            for i, batch in enumerate(batches):
                if i == 0:
                    self.look(batch)
                self.step(batch)
                if self.due(self.training.log_every):
                    self.note()
                if self.due(self.training.validate_every):
                    self.validate()
                stopping = not self.over() and self.agreed(asked_to_stop())
                if self.over() or stopping or self.due(self.training.checkpoint_every):
                    self.save()
                if self.over() or stopping:
                    break
        if self.over() and self.standing.best_step == 0:
            self.watch.say("no validation was better than before the first step: the result is it")
        return self.over()

    def over(self) -> bool:
        return self.learner.taken >= self.training.steps or self.tired()

    def step(self, batch: Load) -> None:
        parts = [part.to(self.world.device) for part in batch.parts]
        for name, mean in self.learner.step(parts, batch.tokens).items():
            if name not in self.summed:
                self.summed[name] = self.sum_from(0.0)
            self.summed[name] += mean * batch.tokens
        self.standing.epoch, self.standing.batch = batch.after
        self.standing.tokens += batch.tokens
        self.standing.counted += batch.tokens

    def sum_from(self, start: float) -> Tensor:
        return torch.tensor(start, dtype=torch.float64, device=self.world.device)

    def due(self, every: int) -> bool:
        return self.learner.taken % every == 0 or self.learner.taken == self.training.steps

    def tired(self) -> bool:
        """Whether it has been validated often enough without a better score."""
        return 0 < self.training.patience <= self.standing.worse

    def agreed(self, asked: bool) -> bool:
        """Alone, at once; among many, when the first process has said so to all."""
        if self.world.size == 1:
            return asked
        return self.due(self.training.log_every) and bool(self.world.told(int(asked)))

    # ---- before the first step ---------------------------------------------------------------

    def size(self) -> int:
        return sum(p.numel() for p in self.learner.network.parameters())

    def rehearse(self) -> None:
        """Cut batches into as many parts as memory asks for: the largest is tried first."""
        parts = max(self.standing.parts, self.training.accumulate)
        while self.world.limited:
            worst = max(self.plan.epoch(0), key=self.plan.area)
            mine = self.plan.share(worst, self.world.rank, self.world.size)
            try:
                part = self.plan.batch(mine[::parts])
                self.learner.rehearse(part.to(self.world.device))
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
                self.watch.say(f"a batch does not fit into memory at once: cut into {parts}")
        self.standing.parts = parts

    def threads(self) -> int:
        """As many as a person said; else as the run began with, the fastest on its first batch.

        Timing may choose once: sums depend on it to the last bit, and a run goes on unchanged.
        """
        most = torch.get_num_threads()
        if self.world.device.type != "cpu":
            return most
        chosen = 0 if said() else min(self.standing.threads, most)
        if not chosen and (said() or most == 1 or self.world.size > 1 or self.training.compile):
            chosen = most
        elif not chosen:
            first = next(iter(self.batches())).parts[0]
            chosen, took = fastest(lambda: self.learner.rehearse(first))
            one, all_of_them = took[1], took[most]
            self.watch.say(
                f"{chosen} of {most} threads: a batch takes {one:.2g} s with one and "
                f"{all_of_them:.2g} s with all"
            )
        self.standing.threads = chosen
        return chosen

    def look(self, batch: Load) -> None:
        """Before the first step, the network as it is trained is tried: compiled, in its precision,
        on a batch as it is laid out."""
        if self.learner.refuse_leaks(batch.parts[0].to(self.world.device)):
            self.watch.say("checked: no token sees a later one, no document another")

    def batches(self) -> Iterator[Load]:
        """Without end, from where the run stands: nothing but two numbers is needed."""
        plan, parts, begin = self.plan, self.standing.parts, self.standing.batch
        for epoch in count(self.standing.epoch):
            planned = plan.epoch(epoch)
            for i in range(begin, len(planned)):
                mine = plan.share(planned[i], self.world.rank, self.world.size)
                made = [plan.batch(mine[part::parts]) for part in range(parts)]
                after = (epoch, i + 1) if i + 1 < len(planned) else (epoch + 1, 0)
                yield Load(made, plan.count(planned[i]), after)
            begin = 0

    # ---- after a step ------------------------------------------------------------------------

    def note(self) -> None:
        standing, step = self.standing, self.learner.taken
        terms = {
            name: self.world.together(summed.item()) / standing.counted
            for name, summed in self.summed.items()
        }
        loss = sum(terms.values())
        if not math.isfinite(loss):
            raise self.lost(loss)
        now = time.perf_counter()
        standing.seconds = now - self.began
        started, before = self.noted
        speed = (standing.counted - before) / max(1e-9, now - started)
        rate = self.training.learning_rate * self.training.rate(step - 1)
        unit = getattr(self.plan, "unit", "tokens")
        note = Note(
            step, self.training.steps, standing.epoch, loss, rate, speed, standing.seconds, unit
        )
        if self.world.first:
            told = {"step": step, "epoch": standing.epoch, "loss": loss, "rate": rate}
            told |= {"terms": terms} if len(terms) > 1 else {}
            self.run.log(METRICS, {**told, "tokens": standing.tokens})
            self.timed(**{f"{unit.replace(' ', '_')}_per_second": round(speed)})
            self.watch.note(note)
        for summed in self.summed.values():
            summed.zero_()
        standing.counted, self.noted = 0, (now, 0)

    def check(self) -> None:
        """What are no numbers are neither validated nor kept, whether noted yet or not."""
        numbers = [*self.summed.values(), *weights_of(self.learner.network).values()]
        if not all(bool(one.isfinite().all()) for one in numbers):
            raise self.lost(math.nan)

    def lost(self, loss: float) -> ValueError:
        lower = self.training.learning_rate / 3
        checkpoint = self.run / CHECKPOINT
        return ValueError(
            f"the loss is {loss} by step {self.learner.taken}; a lower learning rate "
            f"(training.learning_rate={lower:.2g}) or a longer warm-up may hold it"
            + (f"; {checkpoint} was written before and is sound" if checkpoint.exists() else "")
        )

    def timed(self, **what: Any) -> None:
        seconds = round(time.perf_counter() - self.began, 3)
        clock = round(time.time(), 3)
        self.run.log(
            TIMES, {"step": self.learner.taken, "seconds": seconds, "clock": clock, **what}
        )

    def validate(self, counted: bool = True) -> None:
        """Only what is `counted` can be among the best: no new head before its first step."""
        self.check()
        if self.world.first:
            with borrowed(self.learner.network, self.learner.weights()):
                scores, samples = self.task.validate(self.learner.network)
            self.run.log(METRICS, {"step": self.learner.taken, "valid": scores})
            self.timed(validated=scores)
            self.run.write(SAMPLES, told(self.learner.taken, scores, samples))
            by_loss = self.training.best_by == "loss"
            if counted:
                self.rank(-scores["loss"] if by_loss else next(iter(scores.values())))
            self.watch.validated(self.learner.taken, scores, samples)
            if words := unmoved([*self.validations().values()]):
                self.watch.say(words)
            if self.standing.best_step == 0 and self.standing.worse == 1:
                lower = self.training.learning_rate / 3
                self.watch.say(
                    "that is worse than before the first step; a lower rate "
                    f"(training.learning_rate={lower:.2g}) keeps more of what it started from"
                )
        self.standing.worse = self.world.told(self.standing.worse)
        self.noted = time.perf_counter(), self.standing.counted

    def validations(self) -> dict[int, dict[str, float]]:
        """The scores of each so far, by its step."""
        lines = self.run.lines(METRICS)
        return {line["step"]: line["valid"] for line in lines if "valid" in line}

    def rank(self, score: float) -> None:
        """Keep these weights if they are among the best; the result is the mean of those."""
        this = (score, self.learner.taken)
        # Of equal scores the lower loss is the better, then the later: a score that stays at 0
        # says nothing, and the first weights are the worst.
        losses = {step: scores["loss"] for step, scores in self.validations().items()}
        ranked = sorted(
            [*self.standing.best, this],
            key=lambda one: (-one[0], losses.get(one[1], math.inf), -one[1]),
        )
        kept = ranked[: self.training.average]
        self.standing.worse = 0 if kept[0] == this else self.standing.worse + 1
        if this in kept:
            self.standing.best = kept
            self.run.keep(self.learner.taken, self.learner.weights())
            several = [read_tensors(self.run.moment(step))[0] for _, step in kept]
            self.run.result(mean_of(several), {"moments": kept})

    def save(self) -> None:
        self.check()
        for name, summed in self.summed.items():
            self.standing.terms[name] = self.world.together(summed.item())
            summed.fill_(self.standing.terms[name] if self.world.first else 0.0)
        self.standing.seconds = time.perf_counter() - self.began
        if self.world.first:
            self.run.save(self.learner, self.standing)
        self.world.wait()


@contextmanager
def borrowed(network: nn.Module, weights: dict[str, Tensor]) -> Iterator[None]:
    """Other weights for a while."""
    own = {name: tensor.clone() for name, tensor in weights_of(network).items()}
    load_weights(network, weights)
    try:
        yield
    finally:
        load_weights(network, own)


def unmoved(validations: Sequence[dict[str, float]]) -> str:
    """Said once: that the score has not moved while the loss fell, and what that means."""
    if len(validations) != FEW:
        return ""
    name = next(iter(validations[0]))
    first, last = validations[0]["loss"], validations[-1]["loss"]
    if name == "loss" or len({scores[name] for scores in validations}) > 1 or last >= first:
        return ""
    return (
        f"{name} was {validations[0][name]:.2f} at each of {FEW} validations while their loss fell "
        f"from {first:.2f} to {last:.2f}: until it moves, the weights of the lowest loss are kept"
    )


def told(step: int, scores: dict[str, float], samples: Sequence[Sample]) -> str:
    """A validation as a person reads it."""
    named = "  ".join(f"{name} {value:.2f}" for name, value in scores.items())
    lines = [f"== step {step}  {named}"]
    for sample in samples:
        lines.append(f"   read     {sample.source}")
        lines.append(f"   wanted   {sample.reference}")
        lines.append(f"   written  {sample.output}\n")
    return "\n".join(lines) + "\n"
