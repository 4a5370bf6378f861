"""A run that is stopped, killed or starved at any moment goes on as if it never had been."""

import json
import math
import shutil
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import torch
from counted import OFTEN, Weighing, trainer_of, weighing
from small import SAME, contents
from torch import Tensor

from manyheads.devices import SAID, find_fastest_threads, use_threads
from manyheads.training import files
from manyheads.training.config import Training
from manyheads.training.distributed import World
from manyheads.training.files import read_tensors
from manyheads.training.run import CHECKPOINT, METRICS, TIMES, WEIGHTS, Run
from manyheads.training.trainer import Callback, StepLog, Trainer, swap_weights
from manyheads.training.weights import mean_of


class Killed(BaseException):
    """What no code expects: nothing is put in order on the way out but what `finally` does."""


class Heard(Callback):
    def __init__(self) -> None:
        self.said: list[str] = []
        self.notes: list[StepLog] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def on_log(self, note: StepLog) -> None:
        self.notes.append(note)


def stopped_at(step: int, trainer: Trainer) -> bool:
    return trainer.fit(lambda: trainer.learner.taken >= step)


def assert_equal_runs(ours: Run, theirs: Run) -> None:
    for name in SAME:
        assert (ours / name).read_bytes() == (theirs / name).read_bytes(), name
    tensors, other = read_tensors(ours / CHECKPOINT)[0], read_tensors(theirs / CHECKPOINT)[0]
    assert tensors.keys() == other.keys()
    assert all(torch.equal(tensor, other[name]) for name, tensor in tensors.items())
    assert kept(ours) == kept(theirs)


def kept(run: Run) -> set[str]:
    return {path.name for path in (run / "kept").iterdir()}


@pytest.fixture(scope="module")
def unbroken(tmp_path_factory: pytest.TempPathFactory) -> Run:
    run = Run(tmp_path_factory.mktemp("runs") / "unbroken")
    assert weighing(run).fit()
    return run


@pytest.mark.parametrize("step", range(1, OFTEN.steps))
def test_a_run_asked_to_stop_at_any_step_goes_on_to_the_same_bytes(
    unbroken: Run, tmp_path: Path, step: int
) -> None:
    run = Run(tmp_path / "stopped")
    assert not stopped_at(step, weighing(run))
    going_on = weighing(run)
    assert going_on.learner.taken == step
    assert going_on.fit()
    assert_equal_runs(run, unbroken)


def test_a_run_stopped_at_every_step_is_no_different(unbroken: Run, tmp_path: Path) -> None:
    run = Run(tmp_path / "stopped")
    while not weighing(run).fit(lambda: True):
        pass
    assert_equal_runs(run, unbroken)


def dying_at(moment: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process die before its so-manieth touch of the disk, a line half-written."""
    moments = count(1)

    def mortal(touch: Callable[..., Any]) -> Callable[..., Any]:
        def touched(*args: Any, **named: Any) -> Any:
            if next(moments) == moment:
                raise Killed
            return touch(*args, **named)

        return touched

    whole = Run.write

    def torn(run: Run, name: str, text: str) -> None:
        if next(moments) == moment:
            whole(run, name, text[: len(text) // 2])
            raise Killed
        whole(run, name, text)

    monkeypatch.setattr(files.os, "replace", mortal(files.os.replace))
    monkeypatch.setattr(Path, "unlink", mortal(Path.unlink))
    monkeypatch.setattr(files.os, "truncate", mortal(files.os.truncate))
    monkeypatch.setattr(Run, "write", torn)


def test_a_run_killed_at_any_touch_of_the_disk_goes_on_to_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    short, unbroken = replace(OFTEN, steps=8, validate_every=2), Run(tmp_path / "unbroken")
    assert weighing(unbroken, short).fit()
    for moment in count(1):
        run = Run(tmp_path / "killed")
        with monkeypatch.context() as patch:
            dying_at(moment, patch)
            try:
                assert weighing(run, short).fit()
                break
            except Killed:
                pass
        # What the checkpoint speaks of is there, at any moment.
        if (run / CHECKPOINT).exists():
            _, note = read_tensors(run / CHECKPOINT)
            assert all(run.moment(step).exists() for _, step in note["state"]["best"])
        assert weighing(run, short).fit()
        assert_equal_runs(run, unbroken)
        shutil.rmtree(run.folder)
    assert moment > 25


def test_the_threads_that_were_fastest_once_are_kept_for_all_of_a_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They change the last bits of a sum: what a clock chose must not be chosen again."""
    for name in SAID:
        monkeypatch.delenv(name, raising=False)
    asked, used = list[int](), list[int]()

    def clock(attempt: Callable[[], object]) -> tuple[int, dict[int, float]]:
        attempt()
        asked.append(1)
        return 1, {1: 0.1, 2: 0.9}

    monkeypatch.setattr("manyheads.training.trainer.find_fastest_threads", clock)
    step = Trainer.step
    monkeypatch.setattr(
        Trainer, "step", lambda *given: (used.append(torch.get_num_threads()), step(*given))
    )
    run, whole, heard = Run(tmp_path / "stopped"), Run(tmp_path / "whole"), Heard()
    with use_threads(2):
        trainer = weighing(whole)
        trainer.callback = heard
        assert trainer.fit()
        assert "1 of 2 threads: a batch takes 0.1 s with one and 0.9 s with all" in heard.said
        assert not stopped_at(3, weighing(run))
        assert asked == [1, 1]
        monkeypatch.setattr(
            "manyheads.training.trainer.find_fastest_threads", None
        )  # nobody looks again
        assert weighing(run).fit()
        assert torch.get_num_threads() == 2
        assert set(used) == {1}
        assert_equal_runs(run, whole)
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        weighing(Run(tmp_path / "said")).fit()
        assert used[-1] == 2  # a person's word stands


def test_of_one_thread_and_all_the_faster_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks, met = iter([0, 9, 9, 12, 12, 13, 13, 17]), list[int]()
    monkeypatch.setattr("manyheads.devices.time.perf_counter", lambda: next(ticks))
    with use_threads(2):
        assert find_fastest_threads(lambda: met.append(torch.get_num_threads())) == (
            1,
            {1: 1, 2: 3},
        )
    assert met == [1, 2, 1, 2]


def test_patience_counts_on_over_a_stop(tmp_path: Path) -> None:
    impatient = replace(OFTEN, steps=400, patience=3)
    one, other = Run(tmp_path / "one"), Run(tmp_path / "other")
    assert weighing(one, impatient).fit()
    while not weighing(other, impatient).fit(lambda: True):
        pass
    assert_equal_runs(one, other)
    scores = [line["valid"]["score"] for line in one.lines(METRICS) if "valid" in line]
    assert len(scores) < 100
    assert scores.index(max(scores)) == len(scores) - 1 - 3


def test_a_run_that_patience_ended_says_so_at_its_end_and_when_asked_to_go_on(
    tmp_path: Path,
) -> None:
    run, heard, impatient = Run(tmp_path), Heard(), replace(OFTEN, steps=400, patience=3)
    assert weighing(run, impatient, heard).fit()
    assert weighing(run, replace(impatient, steps=900), heard).fit()
    told = f"ended at step {run.steps_taken()}: training.patience=3, and none of the last "
    assert [words.partition("validations")[0] for words in heard.said[-2:]] == [
        told,
        f"nothing is left to do: it {told}",
    ]


def test_a_run_that_has_ended_says_so_and_changes_nothing(unbroken: Run) -> None:
    before, heard = contents(unbroken), Heard()
    assert weighing(unbroken, callback=heard).fit()
    assert contents(unbroken) == before
    assert heard.said == ["nothing is left to do: it ended at step 25"]


def test_a_run_that_ended_goes_on_when_given_more_steps(tmp_path: Path) -> None:
    level = replace(OFTEN, schedule="inverse-square-root")
    run, longer = Run(tmp_path / "run"), Run(tmp_path / "longer")
    assert weighing(longer, level).fit()
    assert weighing(run, replace(level, steps=12)).fit()
    assert weighing(run, level).fit()
    assert (run / METRICS).read_bytes() == (longer / METRICS).read_bytes()


def test_a_run_whose_steps_are_lowered_to_those_taken_is_validated(tmp_path: Path) -> None:
    level = replace(OFTEN, schedule="inverse-square-root", validate_every=20)
    run, whole = Run(tmp_path / "run"), Run(tmp_path / "whole")
    assert weighing(whole, replace(level, steps=11)).fit()
    assert not stopped_at(11, weighing(run, level))
    assert not (run / WEIGHTS).exists()
    assert weighing(run, replace(level, steps=11)).fit()
    assert_equal_runs(run, whole)


def test_processes_that_go_on_have_the_same_sums_to_add_up(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    assert not stopped_at(5, weighing(run))  # two steps after a line of the log
    first, other = (trainer_of(Weighing(), OFTEN, run, World(rank=rank)) for rank in (0, 1))
    assert first.summed.keys() == other.summed.keys() != set()
    assert all(first.summed.values())
    assert not any(other.summed.values())


def test_the_result_is_the_mean_of_the_best_moments(unbroken: Run) -> None:
    scores = {
        line["step"]: line["valid"]["score"] for line in unbroken.lines(METRICS) if "valid" in line
    }
    best = sorted(scores, key=lambda step: -scores[step])[: OFTEN.average]
    result, note = read_tensors(unbroken / WEIGHTS)
    assert [step for _, step in note["moments"]] == best
    assert kept(unbroken) == {unbroken.moment(step).name for step in best}
    several = [read_tensors(unbroken.moment(step))[0] for step in best]
    for name, tensor in mean_of(several).items():
        assert torch.equal(tensor, result[name])


def test_of_equal_scores_the_lower_loss_is_the_better_then_the_later_step(tmp_path: Path) -> None:
    trainer = weighing(Run(tmp_path / "run"), replace(OFTEN, average=1))
    best, validations = [], {}
    for step, score, loss in ((1, 0.0, 5.0), (2, 0.0, 4.0), (3, 0.0, 4.5), (4, 0.0, 4.0)):
        trainer.learner.taken = step
        validations[step] = {"score": score, "loss": loss}
        trainer.rank(validations)
        best.append((trainer.state.best_step, trainer.state.worse))
    assert best == [(1, 0), (2, 0), (2, 1), (4, 0)]


def test_patience_counts_by_the_measure_that_a_run_goes_on_with(tmp_path: Path) -> None:
    trainer = weighing(Run(tmp_path / "run"), replace(OFTEN, average=1))
    validations = {}
    for step, score, loss in ((1, 3.0, 5.0), (2, 2.0, 4.0), (3, 1.0, 3.0)):
        trainer.learner.taken = step
        validations[step] = {"score": score, "loss": loss}
        trainer.rank(validations)
    assert trainer.state.worse == 2
    trainer.training = replace(trainer.training, best_by="loss")
    trainer.learner.taken = 4
    trainer.rank({**validations, 4: {"score": 0.0, "loss": 3.5}})
    assert (trainer.state.best_step, trainer.state.worse) == (4, 0), "of those that are kept"
    trainer.learner.taken = 5
    trainer.rank({**validations, 4: {"score": 0.0, "loss": 3.5}, 5: {"score": 9.0, "loss": 6.0}})
    assert trainer.state.worse == 1


class Mute(Weighing):
    """Whatever it writes is worth nothing, while it learns."""

    def __init__(self) -> None:
        super().__init__()
        self.loss_left = 9.0

    def judge(self, network: Any) -> tuple[dict[str, float], list[Any]]:
        self.loss_left -= 1
        return {"bleu": 0.0, "loss": self.loss_left}, []


def test_a_score_that_stays_while_the_loss_falls_is_told_once_and_the_last_is_kept(
    tmp_path: Path,
) -> None:
    run, heard = Run(tmp_path), Heard()
    training = replace(OFTEN, average=1, patience=2)
    assert trainer_of(Mute(), training, run, callback=heard).fit()
    ((_, step),) = read_tensors(run / WEIGHTS)[1]["moments"]
    assert step == training.steps, "what never moves tires nobody while the loss falls"
    assert [words for words in heard.said if "bleu" in words] == [
        "bleu was 0.00 at each of 3 validations while their loss fell from 8.00 to 6.00: until it "
        "moves, the weights of the lowest loss are kept"
    ]
    heard.said.clear()
    run = Run(tmp_path / "last")
    run.create()
    assert trainer_of(Mute(), replace(OFTEN, best_by="last"), run, callback=heard).fit()
    assert not [words for words in heard.said if "bleu" in words], "the last are kept in any case"


def test_the_log_says_step_epoch_loss_rate_and_tokens(unbroken: Run) -> None:
    lines = [line for line in unbroken.lines(METRICS) if "loss" in line]
    assert [line["step"] for line in lines] == [3, 6, 9, 12, 15, 18, 21, 24, 25]
    assert [line["tokens"] for line in lines] == [9 * i for i in range(1, 9)] + [75]
    assert [line["epoch"] for line in lines] == [0, 1, 2, 3, 3, 4, 5, 6, 6]
    assert lines[0]["rate"] == pytest.approx(0.05)
    assert lines[-1]["rate"] == pytest.approx(0.05 / 22)


def test_the_times_name_what_they_count(unbroken: Run, tmp_path: Path) -> None:
    assert "tokens_per_second" in next(unbroken.lines(TIMES))
    trainer = weighing(Run(tmp_path / "run"))
    trainer.plan.unit = "hidden words"  # type: ignore[attr-defined]
    try:
        assert trainer.fit()
    finally:
        del trainer.plan.unit  # type: ignore[attr-defined]
    assert "hidden_words_per_second" in next(trainer.run.lines(TIMES))


def test_a_note_reckons_the_time_that_is_left() -> None:
    assert StepLog(10, 40, 0, 1.0, 0.1, 100.0, seconds=5.0).seconds_left == 15.0


@pytest.mark.parametrize("parts", [2, 3, 5])
def test_a_batch_in_parts_is_learned_from_as_a_whole(tmp_path: Path, parts: int) -> None:
    losses = []
    for cut in (1, parts):
        run = Run(tmp_path / f"in{cut}")
        run.folder.mkdir()
        trainer_of(Weighing(dropout=0.0), replace(OFTEN, accumulate=cut), run).fit()
        losses.append([line["loss"] for line in run.lines(METRICS) if "loss" in line])
    assert losses[0] == pytest.approx(losses[1], abs=1e-6)


# ---- faults ----


class Diverging(Weighing):
    """The loss, or the gradient alone, is no number from some step on."""

    def __init__(self, what: str, at: int):
        super().__init__()
        self.what, self.left = what, at

    def loss(self, network: Any, batch: Any, smoothing: float) -> Any:
        loss = super().loss(network, batch, smoothing)
        self.left -= 1
        if self.left >= 0:
            return loss
        if self.what == "loss":
            return loss * math.nan
        loss.register_hook(lambda gradient: gradient * math.inf)
        return loss


@pytest.mark.parametrize("what", ["loss", "gradient"])
@pytest.mark.parametrize(
    ("log_every", "validate_every"), [(100, 100), (1, 100), (100, 1)], ids=["save", "note", "judge"]
)
def test_a_loss_that_is_no_number_stops_the_run_and_spoils_nothing(
    tmp_path: Path, what: str, log_every: int, validate_every: int
) -> None:
    training = Training(
        steps=50, log_every=log_every, validate_every=validate_every, checkpoint_every=4
    )
    run = Run(tmp_path)
    with pytest.raises(ValueError) as error:
        trainer_of(Diverging(what, at=5), training, run).fit()
    assert str(error.value).startswith("the loss is nan by step ")
    assert "(training.learning_rate=0.00067) or a longer warm-up may hold it" in str(error.value)
    assert str(error.value).endswith(f"{run / CHECKPOINT} was written before and is sound")
    held, note = read_tensors(run / CHECKPOINT)
    assert note["step"] == 4
    assert all(tensor.isfinite().all() for tensor in held.values())
    validated = [line["valid"]["loss"] for line in run.lines(METRICS) if "valid" in line]
    assert all(map(math.isfinite, validated))
    for path in run.folder.rglob("*.safetensors"):
        assert all(tensor.isfinite().all() for tensor in read_tensors(path)[0].values())


def test_no_checkpoint_is_promised_where_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"or a longer warm-up may hold it$"):
        trainer_of(Diverging("loss", at=0), Training(log_every=2), Run(tmp_path)).fit()


def test_a_run_that_fails_leaves_no_thread_behind(tmp_path: Path) -> None:
    before = threading.active_count()
    with pytest.raises(ValueError) as error:
        trainer_of(Diverging("loss", at=0), Training(log_every=1), Run(tmp_path)).fit()
    assert threading.active_count() == before
    del error


def test_borrowed_weights_are_given_back_also_after_an_error() -> None:
    network = Weighing().network()
    own = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    zeros = {name: torch.zeros_like(tensor) for name, tensor in own.items()}
    seen = []

    def failing() -> None:
        with swap_weights(network, zeros):
            seen.append(bool(network[1].weight.any()))
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    assert seen == [False]
    assert all(torch.equal(tensor, own[name]) for name, tensor in network.state_dict().items())


def test_a_network_of_another_kind_is_not_restored_and_nothing_changes(unbroken: Run) -> None:
    class Wider(Weighing):
        def network(self) -> Any:
            return torch.nn.Linear(4, 1)

    before = contents(unbroken)
    with pytest.raises(ValueError, match=r"another network: it holds no network\.weight"):
        trainer_of(Wider(), OFTEN, unbroken)
    assert contents(unbroken) == before


def test_the_logs_are_plain_json(unbroken: Run) -> None:
    for line in (unbroken / METRICS).read_text(encoding="utf-8").splitlines():
        assert json.loads(line)["step"] <= 25


def test_the_best_may_be_chosen_by_the_loss_or_be_the_last(tmp_path: Path) -> None:
    """The toy's score and its loss do not agree which moment is best."""
    chosen: dict[str, int] = {}
    for by in ("score", "loss", "last"):
        run = Run(tmp_path / by)
        run.create()
        training = replace(OFTEN, best_by=by, average=1)  # type: ignore[arg-type]
        trainer_of(Weighing(), training, run).fit()
        ((_, chosen[by]),) = read_tensors(run / WEIGHTS)[1]["moments"]
    losses = {line["step"]: line["valid"]["loss"] for line in run.lines(METRICS) if "valid" in line}
    assert chosen["loss"] == min(losses, key=lambda step: losses[step])
    assert chosen["loss"] != chosen["score"]
    assert chosen["last"] == max(losses) == OFTEN.steps


@pytest.mark.parametrize("before", ["score", "last"])
def test_what_was_kept_is_judged_anew_where_the_best_is_chosen_otherwise(
    tmp_path: Path, before: Any
) -> None:
    """A score of 0 would stay better than any loss, turned round, and the result what it was."""
    run, job, training = Run(tmp_path), Mute(), replace(OFTEN, best_by=before, average=1)
    assert not stopped_at(10, trainer_of(job, training, run))
    assert trainer_of(job, replace(training, best_by="loss"), run).fit()
    assert read_tensors(run / WEIGHTS)[1]["moments"] == [[-job.loss_left, OFTEN.steps]]


class Heavy(Weighing):
    """Does not fit into memory with more than `room` rows at once."""

    def __init__(self, room: int):
        super().__init__(dropout=0.0)
        self.room = room

    def loss(self, network: Any, batch: Tensor, smoothing: float) -> Tensor:
        if len(batch) > self.room:
            raise torch.OutOfMemoryError
        return super().loss(network, batch, smoothing)


def test_a_batch_that_does_not_fit_is_cut_into_parts_and_the_result_is_the_same(
    tmp_path: Path,
) -> None:
    results, heard = [], Heard()
    for room in (1, 100):
        run = Run(tmp_path / str(room))
        run.create()
        trainer = trainer_of(Heavy(room), OFTEN, run, World(limited=True), heard)
        assert trainer.fit()
        assert trainer.state.parts == (1 if room == 100 else len(Weighing.plan.epoch(0)[0]))
        results.append(read_tensors(run / CHECKPOINT)[0])
    assert any("does not fit into memory at once: cut into" in words for words in heard.said)
    for name, tensor in results[0].items():
        torch.testing.assert_close(tensor, results[1][name], rtol=1e-4, atol=1e-5)


def test_a_row_that_does_not_fit_alone_is_refused(tmp_path: Path) -> None:
    run = Run(tmp_path / "run")
    run.create()
    with pytest.raises(ValueError, match="one row of a batch does not fit into the GPU's memory"):
        trainer_of(Heavy(0), OFTEN, run, World(limited=True)).fit()
