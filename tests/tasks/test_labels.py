"""What is said about texts: read whole, learned as summed, and the same whatever the batch."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from manyheads.codecs.text import PAD, START, STOP, Text
from manyheads.data.labelled import Labelled, Tagged
from manyheads.model.build import Network, encoder, guesser
from manyheads.tasks.labels import (
    NOTHING,
    Batches,
    Corpus,
    Example,
    Judging,
    Labels,
    Learning,
    Tags,
    Value,
    Verdict,
    embed,
    judge_texts,
    lay_down,
)

KINDS = ["classification", "regression", "labelling"]
DESIGN = Network(width=16, depth=1, heads=2, inner=32, dropout=0.0)
GOOD, BAD = ["fine", "lovely", "warm"], ["dull", "awful", "cold"]


def film(i: int) -> str:
    """Even ones are good."""
    words = BAD if i % 2 else GOOD
    return " ".join(["a", *(words[(i // 2 + k) % 3] for k in range(1 + i % 5)), "film"])


LINES = [film(i) for i in range(40)]


def examples(kind: str) -> list[Example]:
    if kind == "labelling":
        tag = {**dict.fromkeys(GOOD, "B-UP"), **dict.fromkeys(BAD, "B-DOWN")}
        return [
            Tagged(line.split(), [tag.get(word, "O") for word in line.split()], i + 1)
            for i, line in enumerate(LINES)
        ]
    if kind == "regression":
        return [Labelled(line, str(10 - 4 * (i % 2)), i + 1) for i, line in enumerate(LINES)]
    return [Labelled(line, ["good", "bad"][i % 2], i + 1) for i, line in enumerate(LINES)]


@pytest.fixture(scope="module")
def codec() -> Text:
    return Text.train(LINES, "bpe", 290, masked=True)


def task_of(kind: Any, codec: Text, **settings: Any) -> Judging:
    labels = Labels.of(kind, examples(kind), "train.tsv")
    return Judging(kind, codec, labels, settings.pop("design", DESIGN), **settings)


def corpus_of(task: Judging, folder: Path) -> Corpus:
    lay_down(task, examples(task.kind), folder / "train", "train.tsv")
    return Corpus.load(folder / "train")


# ---- labels ----------------------------------------------------------------------------------


def test_classes_are_numbered_in_sorted_order_and_kept(tmp_path: Path) -> None:
    labels = Labels.of("classification", examples("classification"), "train.tsv")
    assert labels.names == ("bad", "good")
    assert [labels.number(name, "") for name in labels.names] == [0, 1]
    labels.save(tmp_path / "labels.json")
    assert Labels.load(tmp_path / "labels.json") == labels


def test_numbers_are_kept_by_their_mean_and_spread(tmp_path: Path) -> None:
    labels = Labels.of("regression", examples("regression"), "train.tsv")
    assert (labels.mean, labels.spread) == (8, 2)
    assert labels.scaled("10", "") == 1
    assert labels.value(-1) == 6
    labels.save(tmp_path / "labels.json")
    assert Labels.load(tmp_path / "labels.json") == labels


def test_labels_that_cannot_be_learned_are_refused(tmp_path: Path) -> None:
    labels = Labels(("negative", "positive"))
    with pytest.raises(
        ValueError,
        match=r"dev.tsv:7: label 'sarcastic' was never seen in training; there are negative, posi",
    ):
        labels.number("sarcastic", "dev.tsv:7")
    with pytest.raises(ValueError, match=r"a.tsv:2: a number was asked for, 'good' is here"):
        Labels.of("regression", [Labelled("a", "1", 1), Labelled("b", "good", 2)], "a.tsv")
    with pytest.raises(ValueError, match=r"a.tsv:1: a number was asked for, 'nan' is here"):
        Labels.of("regression", [Labelled("a", "nan", 1)], "a.tsv")
    with pytest.raises(ValueError, match=r"a.tsv: every text has the number 3; nothing can be"):
        Labels.of("regression", [Labelled("a", "3", 1), Labelled("b", "3.0", 2)], "a.tsv")
    with pytest.raises(ValueError, match="'x' is the only label; two or more are needed"):
        Labels.of("classification", [Labelled("a", "x", 1)], "a.tsv")
    with pytest.raises(ValueError, match="labelling is learned from words with a tag each, a Lab"):
        Labels.of("labelling", [Labelled("a", "x", 1)], "a.tsv")
    (tmp_path / "labels.json").write_text("[1]")
    with pytest.raises(ValueError, match=r"labels.json does not say what the labels are"):
        Labels.load(tmp_path / "labels.json")
    with pytest.raises(ValueError, match=r"there is no .*it says what the labels are"):
        Labels.load(tmp_path / "none.json")


# ---- from text to what is read ---------------------------------------------------------------


def test_a_text_is_read_between_its_signs_and_a_second_after_it(codec: Text) -> None:
    task = task_of("classification", codec)
    a, b = codec.encode("a fine film"), codec.encode("dull")
    one, two = task.frames(["a fine film", ("a fine film", "dull")])
    assert (one.ids, one.turn) == ([START, *a, STOP], len(a) + 2)
    assert (two.ids, two.turn) == ([START, *a, STOP, *b, STOP], len(a) + 2)


def test_a_codec_without_a_sign_to_open_reads_from_the_first_token() -> None:
    plain = Text.train(LINES, "word", 40)
    frame = task_of("classification", plain, pooling="first").frames(["a film"])[0]
    assert frame.ids == [*plain.encode("a film"), STOP]


def test_of_texts_that_are_too_long_the_end_is_cut_and_counted(codec: Text) -> None:
    task = task_of("classification", codec, longest=11)
    long, short = list(range(10, 30)), [50, 51]
    assert task.framed(0, long, None).ids == [START, *long[:9], STOP]
    assert task.framed(0, long, None).cut == 11
    assert task.framed(0, long, short).ids == [START, *long[:6], STOP, *short, STOP]
    assert task.framed(0, short, long).ids == [START, *short, STOP, *long[:6], STOP]
    both = task.framed(0, long, long)
    assert both.ids == [START, *long[:4], STOP, *long[:4], STOP]
    assert (both.turn, both.cut) == (6, 32)


def test_a_learned_position_limits_what_is_read(codec: Text) -> None:
    design = replace(DESIGN, position="learned", longest=8)
    assert task_of("classification", codec, design=design).room == 8
    with pytest.raises(ValueError, match="2 signs around it and needs a token of its own, room"):
        task_of("classification", codec, longest=2)


def test_the_first_token_of_each_word_carries_its_tag(codec: Text, tmp_path: Path) -> None:
    task = task_of("labelling", codec)
    lay_down(task, [Tagged(["lovely", "unseen"], ["B-UP", "O"], 1)], tmp_path / "x", "x")
    first, second = codec.encode("lovely"), codec.encode(" unseen")
    assert len(second) > 1
    corpus = Corpus.load(tmp_path / "x")
    assert corpus.texts[0].tolist() == [START, *first, *second, STOP]
    tags = [NOTHING] * len(corpus.texts[0])
    tags[1] = task.labels.number("B-UP", "")
    tags[1 + len(first)] = task.labels.number("O", "")
    assert Batches(task, corpus, 64).batch([[0]]).wanted.tolist() == [tags]


def test_a_sentence_too_long_is_read_in_parts_and_no_word_is_lost(codec: Text) -> None:
    task = task_of("labelling", codec, longest=9)
    words = [word for line in LINES[:5] for word in line.split()]
    frames = task.frames([words, [], ["film"]])
    assert max(len(frame.ids) for frame in frames) <= 9
    read = [i for frame in frames if frame.text == 0 for i in frame.ids[1:-1]]
    assert read == codec.encode(" ".join(words))
    assert [sum(len(f.words) for f in frames if f.text == i) for i in range(3)] == [
        len(words),
        0,
        1,
    ]
    verdicts = judge_texts(task, task.network(), [words, [], ["film"], "a film"])
    assert [len(one.tags) for one in verdicts if isinstance(one, Tags)] == [len(words), 0, 1, 2]


def test_a_word_longer_than_all_room_is_cut(codec: Text) -> None:
    task = task_of("labelling", codec, longest=6)
    frames = task.frames([["film", "x" * 30, "film"]])
    assert [len(frame.words) for frame in frames] == [1, 1, 1]
    assert sum(frame.cut for frame in frames) == len(codec.encode(" " + "x" * 30)) - 4


def test_only_a_network_that_tells_parts_apart_is_told_them(codec: Text) -> None:
    pairs = [("a fine film", "dull"), ("film", "")]
    task = task_of("classification", codec)
    frames = task.frames(pairs)
    rows, turns = [f.ids for f in frames], [f.turn for f in frames]
    assert task.laid_out(rows, turns).types is None
    told = task_of("classification", codec, design=replace(DESIGN, types=2))
    types = told.laid_out(rows, turns).types
    assert types is not None
    width = len(rows[0])
    assert types.tolist() == [[0] * turns[0] + [1] * (width - turns[0]), [0] * width]
    assert len(judge_texts(told, told.network(), pairs)) == 2


@pytest.mark.parametrize("wrong", ["one text", [("a", "b", "c")], [5]])
def test_what_is_no_text_is_refused(codec: Text, wrong: Any) -> None:
    with pytest.raises(ValueError, match=r"texts come as a list, got one|a text or a pair of text"):
        task_of("classification", codec).frames(wrong)


# ---- batches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS)
def test_batches_hold_every_text_once_with_its_label(
    codec: Text, tmp_path: Path, kind: str
) -> None:
    task = task_of(kind, codec)
    made = Batches(task, corpus_of(task, tmp_path), tokens=64, seed=1)
    frames = task.frames([getattr(one, "words", None) or one[0] for one in examples(kind)])
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
    assert made.epoch(3) == Batches(task, made.corpus, 64, seed=1).epoch(3) != made.epoch(4)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("network", ["transformer", "recurrent", "convolutional"])
def test_the_loss_is_the_sum_of_that_of_each_text(
    codec: Text, tmp_path: Path, kind: str, network: Any
) -> None:
    task = task_of(kind, codec, design=replace(DESIGN, kind=network))
    made, batches = task.network(), Batches(task, corpus_of(task, tmp_path), 80)
    rows = batches.epoch(0)[0]
    whole = task.loss(made, batches.batch(rows), 0.1).item()
    alone = sum(task.loss(made, batches.batch([row]), 0.1).item() for row in rows)
    assert whole == pytest.approx(alone, rel=1e-4)
    shares = [batches.batch(batches.share(rows, part, 3)) for part in range(3)]
    assert sum(task.loss(made, s, 0.1).item() for s in shares) == pytest.approx(whole, rel=1e-4)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_has_no_loss_and_no_gradient(codec: Text, tmp_path: Path, kind: str) -> None:
    task = task_of(kind, codec)
    network, batches = task.network(), Batches(task, corpus_of(task, tmp_path), 64)
    loss = task.loss(network, batches.batch([]), 0.1)
    loss.backward()
    assert loss.item() == 0
    assert not any(p.grad.any() for p in network.parameters() if p.grad is not None)


def test_losses_by_hand(codec: Text) -> None:
    scores, wanted = torch.randn(3, 2), torch.tensor([0, 1, 1])
    plain = -scores.log_softmax(-1)[range(3), wanted].sum()
    assert task_of("classification", codec).lost(scores, wanted).item() == pytest.approx(
        plain.item(), rel=1e-5
    )
    said, meant = torch.tensor([[1.0], [2.0]]), torch.tensor([3.0, 2.5])
    assert task_of("regression", codec).lost(said, meant).item() == 4.25


def test_cut_texts_are_counted_and_labels_that_do_not_belong_refused(
    codec: Text, tmp_path: Path
) -> None:
    task = task_of("classification", codec, longest=6)
    cut = sum(len(codec.encode(line)) > 4 for line in LINES)
    assert lay_down(task, examples("classification"), tmp_path / "a", "a.tsv") == cut > 0
    with pytest.raises(ValueError, match=r"dev.tsv:9: label 'ugly' was never seen in training"):
        lay_down(task, [Labelled("a film", "ugly", 9)], tmp_path / "b", "dev.tsv")
    lay_down(task, examples("classification")[:3], tmp_path / "c", "c.tsv")
    (tmp_path / "c.labels.safetensors").replace(tmp_path / "a.labels.safetensors")
    with pytest.raises(ValueError, match="a has 40 texts and labels for 3; they are not of one"):
        Corpus.load(tmp_path / "a")


# ---- verdicts --------------------------------------------------------------------------------


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


# ---- vectors ---------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "convolutional"])
@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_a_vector_is_that_of_its_text_whatever_the_batch(
    codec: Text, kind: Any, pooling: Any
) -> None:
    network = encoder(replace(DESIGN, kind=kind), codec.size)
    vectors = embed(network, codec, LINES, pooling, tokens=60)
    assert vectors.shape == (40, 16)
    assert vectors.dtype == np.float32
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(np.ones(40), abs=1e-5)
    for line, vector in zip(LINES, vectors, strict=True):
        assert embed(network, codec, [line], pooling)[0] == pytest.approx(vector, abs=1e-5)


def test_vectors_come_from_the_encoder_whatever_stands_on_it(codec: Text) -> None:
    guessing = guesser(DESIGN, codec.size)
    raw = embed(guessing, codec, LINES[:3], normalise=False)
    head, guessing.head = guessing.head, torch.nn.Identity()
    assert embed(guessing, codec, LINES[:3], normalise=False) == pytest.approx(raw)
    assert head is not guessing.head
    reader = task_of("classification", codec).network()
    assert (embed(reader, codec, LINES) == embed(reader.encoder, codec, LINES)).all()


def test_a_text_longer_than_a_learned_position_reaches_is_cut_and_told(codec: Text) -> None:
    network = encoder(replace(DESIGN, position="learned", longest=8), codec.size)
    long = "film " * 20
    with pytest.warns(UserWarning, match="1 of 2 texts are longer than the 8 tokens this encoder"):
        vectors = embed(network, codec, ["film", long])
    kept = codec.render(codec.encode(long)[:6])
    assert vectors[1] == pytest.approx(embed(network, codec, [kept])[0], abs=1e-5)


def test_what_cannot_be_made_a_vector_is_refused(codec: Text) -> None:
    network = encoder(DESIGN, codec.size)
    with pytest.raises(ValueError, match="texts come as a list, got one text"):
        embed(network, codec, "a film")
    with pytest.raises(ValueError, match="a text is pooled by first or mean, got 'last'"):
        embed(network, codec, ["a film"], "last")  # type: ignore[arg-type]
    assert embed(network, codec, []).shape[0] == 0
