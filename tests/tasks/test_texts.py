"""Text in, text out: what a run learns and how it is judged."""

from pathlib import Path
from typing import Any

import pytest
import torch
from small import begun, recipe_in

from manyheads.data.layout import NOTHING
from manyheads.learn import learning
from manyheads.tasks.seq2seq.batches import Batch, Batches
from manyheads.tasks.seq2seq.kinds import KINDS
from manyheads.tasks.seq2seq.task import Learning, Texts


@pytest.fixture
def job(tmp_path: Path) -> Learning:
    recipe = recipe_in(tmp_path)
    return learning(recipe, begun(recipe, tmp_path / "run"))


def test_a_judge_says_the_score_that_counts_first_and_shows_the_same_sentences(
    job: Learning,
) -> None:
    network = job.network()
    (scores, samples), again = job.judge(network), job.judge(network)
    assert (scores, samples) == again
    assert list(scores) == ["bleu", "chrf", "loss"]
    assert [sample.source for sample in samples] == job.held_out.sources[:5]
    assert [sample.reference for sample in samples] == [
        one[0] for one in job.held_out.references[:5]
    ]


def test_the_loss_of_a_judge_is_that_of_a_token_one_pair_at_a_time(job: Learning) -> None:
    network = job.network().eval()
    total, count = 0.0, 0
    valid = Batches(job.held_out.pairs, "padded", 100)
    for i in range(len(job.held_out.sources)):
        batch = valid.batch([[i]])
        logs = network(batch.source, batch.target).log_softmax(-1)[0]
        wanted = batch.wanted[0]
        total -= logs[torch.arange(len(wanted)), wanted].sum().item()
        count += len(wanted)
    assert job.judge(network)[0]["loss"] == pytest.approx(total / count, rel=1e-5)


def test_smoothing_spreads_a_share_over_the_vocabulary_and_leaves_padding_alone(
    job: Learning,
) -> None:
    network, batch = job.network().eval(), job.plan.batch(job.plan.epoch(0)[0])
    logs = network(batch.source, batch.target).log_softmax(-1)
    kept = batch.wanted != NOTHING
    plain = -logs.gather(-1, batch.wanted[..., None].clamp(min=0))[..., 0][kept].sum()
    spread = -logs.mean(-1)[kept].sum()
    assert job.loss(network, batch, 0.0).item() == pytest.approx(plain.item(), rel=1e-5)
    expected = 0.9 * plain + 0.1 * spread
    assert job.loss(network, batch, 0.1).item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_perfect_output_has_a_perfect_score(kind: str) -> None:
    outputs = ["one two three four five six"] * 2
    for measure in KINDS[kind].measures.values():
        assert measure(outputs, [["nothing at all", outputs[0]]] * 2).value == pytest.approx(100)
        assert measure(["x y z", "x y"], [["a b c d"]] * 2).value < 10


def test_what_does_not_fit_into_memory_at_once_is_judged_in_parts(
    job: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, loss = job.network().eval(), job.task.loss
    whole = job.judge(network)
    met: list[int] = []

    def short_of_memory(task: Texts, network: Any, batch: Batch, smoothing: float = 0.0) -> Any:
        met.append(batch.wanted.numel())
        if batch.wanted.numel() > 20:
            raise torch.OutOfMemoryError
        return loss(network, batch, smoothing)

    monkeypatch.setattr(Texts, "loss", short_of_memory)
    assert job.judge(network)[0] == pytest.approx(whole[0], rel=1e-5)
    assert max(met) > 20
    assert 10 <= job.at_once <= 40


def test_a_text_too_long_for_any_memory_is_still_an_error(
    job: Learning, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(Texts, "loss", none_left)
    with pytest.raises(torch.OutOfMemoryError):
        job.judge(job.network().eval())
