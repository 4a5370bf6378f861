"""Text in, text out: what a run learns and how it is judged."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from small import begun, recipe_in

from manyheads.data.batches import NOTHING
from manyheads.learn import open_task
from manyheads.tasks.seq2seq.batches import PairBatch, PairBatches
from manyheads.tasks.seq2seq.corpus import load_pairs
from manyheads.tasks.seq2seq.kinds import KINDS, metrics_of
from manyheads.tasks.seq2seq.task import Seq2Seq


@pytest.fixture
def job(tmp_path: Path) -> Seq2Seq:
    recipe = recipe_in(tmp_path)
    return open_task(recipe, begun(recipe, tmp_path / "run"))


def test_a_judge_says_the_score_that_counts_first_and_shows_the_same_sentences(
    job: Seq2Seq,
) -> None:
    network = job.network()
    (scores, samples), again = job.validate(network), job.validate(network)
    assert (scores, samples) == again
    assert list(scores) == ["bleu", "chrf", "loss"]
    assert [sample.source for sample in samples] == job.held_out[0][:5]
    assert [sample.reference for sample in samples] == [one[0] for one in job.held_out[1][:5]]


def test_the_loss_of_a_judge_is_that_of_a_token_one_pair_at_a_time(job: Seq2Seq) -> None:
    network = job.network().eval()
    total, count = 0.0, 0
    valid = PairBatches(load_pairs(job.held_in(), "valid", job.codecs), "padded", 100)
    for i in range(len(job.held_out[0])):
        batch = valid.batch([[i]])
        logs = network(batch.source, batch.target).log_softmax(-1)[0]
        wanted = batch.wanted[0]
        total -= logs[torch.arange(len(wanted)), wanted].sum().item()
        count += len(wanted)
    assert job.validate(network)[0]["loss"] == pytest.approx(total / count, rel=1e-5)


def test_smoothing_spreads_a_share_over_the_vocabulary_and_leaves_padding_alone(
    job: Seq2Seq,
) -> None:
    network, batch = job.network().eval(), job.batches().batch(job.batches().epoch(0)[0])
    logs = network(batch.source, batch.target).log_softmax(-1)
    kept = batch.wanted != NOTHING
    plain = -logs.gather(-1, batch.wanted[..., None].clamp(min=0))[..., 0][kept].sum()
    spread = -logs.mean(-1)[kept].sum()
    assert job.loss(network, batch)["loss"].item() == pytest.approx(plain.item(), rel=1e-5)
    expected = 0.9 * plain + 0.1 * spread
    training = replace(job.recipe.training, label_smoothing=0.1)
    job.recipe = replace(job.recipe, training=training)
    for part in network.modules():  # only told so: nothing is dropped
        part.training = part is network
    assert job.loss(network, batch)["loss"].item() == pytest.approx(expected.item(), rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_a_perfect_output_has_a_perfect_score(kind: str) -> None:
    outputs = ["one two three four five six"] * 2
    for measure in metrics_of(kind).values():
        assert measure(outputs, [["nothing at all", outputs[0]]] * 2).value == pytest.approx(100)
        assert measure(["x y z", "x y"], [["a b c d"]] * 2).value < 10


def test_what_does_not_fit_into_memory_at_once_is_judged_in_parts(
    job: Seq2Seq, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, loss = job.network().eval(), job.loss
    whole = job.validate(network)
    met: list[int] = []

    def short_of_memory(task: Seq2Seq, network: Any, batch: PairBatch) -> Any:
        met.append(batch.wanted.numel())
        if batch.wanted.numel() > 20:
            raise torch.OutOfMemoryError
        return loss(network, batch)

    monkeypatch.setattr(Seq2Seq, "loss", short_of_memory)
    assert job.validate(network)[0] == pytest.approx(whole[0], rel=1e-5)
    assert max(met) > 20
    assert 10 <= job.at_once <= 40


def test_a_text_too_long_for_any_memory_is_still_an_error(
    job: Seq2Seq, monkeypatch: pytest.MonkeyPatch
) -> None:
    def none_left(*_: Any, **__: Any) -> Any:
        raise torch.OutOfMemoryError

    monkeypatch.setattr(Seq2Seq, "loss", none_left)
    with pytest.raises(torch.OutOfMemoryError):
        job.validate(job.network().eval())
