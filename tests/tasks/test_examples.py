"""Batches of labelled texts hold each once, and are learned as summed."""

from pathlib import Path
from typing import Any

import pytest
import torch
from films import DESIGN, KINDS, LINES, examples, shard_of, task_of, write

from manyheads.codecs.text import BOS, EOS, PAD, Text
from manyheads.data.batches import NOTHING
from manyheads.data.labelled import Labelled, Tagged
from manyheads.modules.config import change_kind
from manyheads.tasks.classification.batches import LabelledBatches
from manyheads.tasks.classification.corpus import LabelledShard


@pytest.fixture(scope="module")
def codec() -> Text:
    return Text.train(LINES, "bpe", 290, masked=True)


def test_the_first_token_of_each_word_carries_its_tag(codec: Text, tmp_path: Path) -> None:
    task = task_of("labelling", codec)
    write(task, [Tagged(["lovely", "unseen"], ["B-UP", "O"], 1)], tmp_path / "x")
    first, second = codec.encode("lovely"), codec.encode(" unseen")
    assert len(second) > 1
    corpus = LabelledShard.load(tmp_path / "x")
    assert corpus.texts[0].tolist() == [BOS, *first, *second, EOS]
    tags = [NOTHING] * len(corpus.texts[0])
    tags[1] = task.labels.number("B-UP", "")
    tags[1 + len(first)] = task.labels.number("O", "")
    assert LabelledBatches(task.framer, corpus, 64).batch([[0]]).wanted.tolist() == [tags]


@pytest.mark.parametrize("kind", KINDS)
def test_batches_hold_every_text_once_with_its_label(
    codec: Text, tmp_path: Path, kind: str
) -> None:
    task = task_of(kind, codec)
    made = LabelledBatches(task.framer, shard_of(task, tmp_path), tokens=64, seed=1)
    frames = task.framer.frames([getattr(one, "words", None) or one[0] for one in examples(kind)])
    met = []
    for rows in made.epoch(0):
        batch = made.batch(rows)
        for k, (i,) in enumerate(rows):
            ids = batch.tokens.ids[k].tolist()
            assert ids == frames[i].ids + [PAD] * (len(ids) - len(frames[i].ids))
            if kind == "labelling":
                wanted = [task.labels.names[tag] for tag in batch.wanted[k] if tag != NOTHING]
                assert wanted == examples(kind)[i][1]
            elif kind == "classification":
                assert task.labels.names[int(batch.wanted[k])] == examples(kind)[i][1]
            else:
                value = task.labels.value(batch.wanted[k].item())
                assert value == pytest.approx(float(str(examples(kind)[i][1])))
        words = int((batch.wanted != NOTHING).sum())
        assert made.count(rows) == (words if kind == "labelling" else len(rows))
        assert made.area(rows) == batch.tokens.ids.numel() <= 64
        met += [i for row in rows for i in row]
    assert sorted(met) == list(range(40))
    assert (
        made.epoch(3)
        == LabelledBatches(task.framer, made.held, 64, seed=1).epoch(3)
        != made.epoch(4)
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("network", ["transformer", "recurrent", "convolutional"])
def test_the_loss_is_the_sum_of_that_of_each_text(
    codec: Text, tmp_path: Path, kind: str, network: Any
) -> None:
    task = task_of(kind, codec, design=change_kind(DESIGN, network), label_smoothing=0.1)
    made, batches = (
        task.network().train(),
        LabelledBatches(task.framer, shard_of(task, tmp_path), 80),
    )
    rows = batches.epoch(0)[0]
    whole = task.loss(made, batches.batch(rows))["loss"].item()
    alone = sum(task.loss(made, batches.batch([row]))["loss"].item() for row in rows)
    assert whole == pytest.approx(alone, rel=1e-4)
    shares = [batches.batch(batches.share(rows, part, 3)) for part in range(3)]
    assert sum(task.loss(made, s)["loss"].item() for s in shares) == pytest.approx(whole, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_has_no_loss_and_no_gradient(codec: Text, tmp_path: Path, kind: str) -> None:
    task = task_of(kind, codec, label_smoothing=0.1)
    network, batches = (
        task.network().train(),
        LabelledBatches(task.framer, shard_of(task, tmp_path), 64),
    )
    loss = task.loss(network, batches.batch([]))["loss"]
    loss.backward()
    assert loss.item() == 0
    assert not any(p.grad.any() for p in network.parameters() if p.grad is not None)


def test_losses_by_hand(codec: Text) -> None:
    scores, wanted = torch.randn(3, 2), torch.tensor([0, 1, 1])
    plain = -scores.log_softmax(-1)[range(3), wanted].sum()
    assert task_of("classification", codec).loss_of(scores, wanted).item() == pytest.approx(
        plain.item(), rel=1e-5
    )
    said, meant = torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 2.5])
    assert task_of("regression", codec).loss_of(said, meant).item() == 4.25


def test_cut_texts_are_counted_and_labels_that_do_not_belong_refused(
    codec: Text, tmp_path: Path
) -> None:
    task = task_of("classification", codec, longest=6)
    cut = sum(len(codec.encode(line)) > 4 for line in LINES)
    assert write(task, examples("classification"), tmp_path / "a", "a.tsv") == cut > 0
    with pytest.raises(ValueError, match=r"dev.tsv:9: label 'ugly' was never seen in training"):
        write(task, [Labelled("a film", "ugly", 9)], tmp_path / "b", "dev.tsv")
    write(task, examples("classification")[:3], tmp_path / "c", "c.tsv")
    (tmp_path / "c.labels.safetensors").replace(tmp_path / "a.labels.safetensors")
    with pytest.raises(ValueError, match="a has 40 texts and labels for 3; they are not of one"):
        LabelledShard.load(tmp_path / "a")
