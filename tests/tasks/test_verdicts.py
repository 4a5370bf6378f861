"""A verdict is what the network says whatever the batch, and learning makes it right."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from films import DESIGN, KINDS, LINES, corpus_of, examples, task_of

from manyheads.codecs.text import Text
from manyheads.data.labelled import Tagged
from manyheads.tasks.classification.batches import Corpus, lay_down
from manyheads.tasks.classification.labels import Example, Labels
from manyheads.tasks.classification.predictions import Learning, Tags, Value, Verdict, judge_texts
from manyheads.tasks.classification.task import Judging


@pytest.fixture(scope="module")
def codec() -> Text:
    return Text.train(LINES, "bpe", 290, masked=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_a_verdict_does_not_depend_on_the_batch(codec: Text, kind: str, pooling: Any) -> None:
    task = task_of(kind, codec, pooling=pooling)
    network = task.network()
    together = judge_texts(task, network, LINES)
    few = judge_texts(task, network, LINES, tokens=40)
    for line, one, other in zip(LINES, together, few, strict=True):
        (alone,) = judge_texts(task, network, [line])
        for same in (other, alone):
            assert type(same) is type(one)
            if isinstance(one, Tags) and isinstance(same, Tags):
                assert same.tags == one.tags
                assert same.probabilities == pytest.approx(one.probabilities, abs=1e-5)
            elif isinstance(one, Verdict) and isinstance(same, Verdict):
                assert same.label == one.label
                assert same.probabilities == pytest.approx(one.probabilities, abs=1e-5)
            elif isinstance(one, Value) and isinstance(same, Value):
                assert same.value == pytest.approx(one.value, abs=1e-4)
    assert judge_texts(task, network, []) == []


def test_a_verdict_is_what_the_network_says(codec: Text) -> None:
    task = task_of("classification", codec, longest=4)
    network = task.network().eval()
    (verdict,) = judge_texts(task, network, ["a lovely film"])
    assert isinstance(verdict, Verdict)
    frame = task.frames(["a lovely film"])[0]
    chances = F.softmax(network(task.laid_out([frame.ids], [frame.turn]))[0], -1)
    assert list(verdict.probabilities) == ["bad", "good"]
    assert list(verdict.probabilities.values()) == pytest.approx(chances.tolist())
    assert verdict.probability == max(verdict.probabilities.values())
    assert verdict.probabilities[verdict.label] == verdict.probability
    assert verdict.cut == len(codec.encode("a lovely film")) - 2 == 1


# ---- learning --------------------------------------------------------------------------------

FIRST = {"classification": "accuracy", "regression": "spearman", "labelling": "f1"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_seen_in_the_words_is_learned(codec: Text, tmp_path: Path, kind: str) -> None:
    task = task_of(kind, codec)
    job = Learning(task, corpus_of(task, tmp_path), examples(kind)[:9], tokens=256, seed=0)
    network = job.network()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    before = job.judge(network)[0]
    for epoch in range(12):
        for rows in job.plan.epoch(epoch):
            optimizer.zero_grad()
            (job.loss(network.train(), job.plan.batch(rows), 0.0) / job.plan.count(rows)).backward()
            optimizer.step()
    (after, samples), again = job.judge(network), job.judge(network)
    assert (after, samples) == again
    assert next(iter(after)) == FIRST[kind]
    assert after[FIRST[kind]] > (0.8 if kind == "regression" else 90)
    assert after["loss"] < 0.5 * before["loss"]
    assert len(samples) == 5
    assert samples[0].source == LINES[0]
    wanted = {"classification": "good", "regression": "10", "labelling": "O B-UP O"}
    assert samples[0].reference == wanted[kind]
    if kind != "regression":
        assert samples[0].output.startswith(wanted[kind])


@pytest.mark.parametrize("kind", KINDS)
def test_the_loss_of_a_judge_is_the_mean_of_what_is_trained(
    codec: Text, tmp_path: Path, kind: str
) -> None:
    task, held = task_of(kind, codec), examples(kind)
    job = Learning(task, corpus_of(task, tmp_path), held, tokens=256, seed=0)
    network = job.network().eval()
    rows = [[i] for i in range(len(held))]
    expected = job.loss(network, job.plan.batch(rows), 0.0).item() / job.plan.count(rows)
    assert job.judge(network)[0]["loss"] == pytest.approx(expected, rel=1e-4)


def test_tags_that_mark_no_spans_are_judged_one_by_one(codec: Text, tmp_path: Path) -> None:
    held: list[Example] = [Tagged(["a", "film"], ["DET", "NOUN"], 1)]
    task = Judging("labelling", codec, Labels(("DET", "NOUN")), DESIGN)
    lay_down(task, held, tmp_path / "train", "x")
    job = Learning(task, Corpus.load(tmp_path / "train"), held, tokens=64, seed=0)
    assert list(job.judge(job.network())[0]) == ["accuracy", "f1", "loss"]
