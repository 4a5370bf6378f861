"""A prediction is what the network says whatever the batch, and learning makes it right."""

from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from films import KINDS, LINES, examples, learning, task_of

from manyheads.codecs.text import Text
from manyheads.data.labelled import Tagged
from manyheads.tasks.classification.labels import LabelledExample, Labels
from manyheads.tasks.classification.predictions import Prediction, Tags, Value


@pytest.fixture(scope="module")
def codec() -> Text:
    return Text.train(LINES, "bpe", 290, masked=True)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_a_prediction_does_not_depend_on_the_batch(codec: Text, kind: str, pooling: Any) -> None:
    task = task_of(kind, codec, pooling=pooling)
    network = task.network()
    together = task.decode(network, LINES)
    task.at_once = 40  # tokens
    few = task.decode(network, LINES)
    for line, one, other in zip(LINES, together, few, strict=True):
        (alone,) = task.decode(network, [line])
        for same in (other, alone):
            assert type(same) is type(one)
            if isinstance(one, Tags) and isinstance(same, Tags):
                assert same.tags == one.tags
                assert same.probabilities == pytest.approx(one.probabilities, abs=1e-5)
            elif isinstance(one, Prediction) and isinstance(same, Prediction):
                assert same.label == one.label
                assert same.probabilities == pytest.approx(one.probabilities, abs=1e-5)
            elif isinstance(one, Value) and isinstance(same, Value):
                assert same.value == pytest.approx(one.value, abs=1e-4)
    assert task.decode(network, []) == []


def test_a_prediction_is_what_the_network_says(codec: Text) -> None:
    task = task_of("classification", codec, longest=4)
    network = task.network().eval()
    (prediction,) = task.decode(network, ["a lovely film"])
    assert isinstance(prediction, Prediction)
    frame = task.framer.frames(["a lovely film"])[0]
    chances = F.softmax(network(task.framer.lay_out([frame.ids], [frame.turn]))[0], -1)
    assert list(prediction.probabilities) == ["bad", "good"]
    assert list(prediction.probabilities.values()) == pytest.approx(chances.tolist())
    assert prediction.probability == max(prediction.probabilities.values())
    assert prediction.probabilities[prediction.label] == prediction.probability
    assert prediction.cut == len(codec.encode("a lovely film")) - 2 == 1


# ---- learning --------------------------------------------------------------------------------

FIRST = {"classification": "accuracy", "regression": "spearman", "labelling": "f1"}


@pytest.mark.parametrize("kind", KINDS)
def test_what_can_be_seen_in_the_words_is_learned(codec: Text, tmp_path: Path, kind: str) -> None:
    task = learning(kind, codec, tmp_path, examples(kind)[:9], label_smoothing=0.0)
    network, batches = task.network(), task.batches()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    before = task.validate(network).scores
    for epoch in range(12):
        for rows in batches.epoch(epoch):
            optimizer.zero_grad()
            loss = task.loss(network.train(), batches.batch(rows))["loss"]
            (loss / batches.count(rows)).backward()
            optimizer.step()
    (after, samples), again = task.validate(network), task.validate(network)
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
def test_the_loss_of_a_validation_is_the_mean_of_what_is_trained_unsmoothed(
    codec: Text, tmp_path: Path, kind: str
) -> None:
    held = examples(kind)
    task = learning(kind, codec, tmp_path, held, label_smoothing=0.1)
    network, batches = task.network().eval(), task.batches()
    rows = [[i] for i in range(len(held))]
    expected = task.loss(network, batches.batch(rows))["loss"].item() / batches.count(rows)
    assert task.validate(network).scores["loss"] == pytest.approx(expected, rel=1e-4)


def test_tags_that_mark_no_spans_are_judged_one_by_one(codec: Text, tmp_path: Path) -> None:
    held: list[LabelledExample] = [Tagged(["a", "film"], ["DET", "NOUN"], 1)]
    task = learning(
        "labelling", codec, tmp_path, held, labels=Labels(("B-DOWN", "B-UP", "DET", "NOUN", "O"))
    )
    assert list(task.validate(task.network()).scores) == ["accuracy", "f1", "loss"]
