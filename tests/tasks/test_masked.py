"""Words are hidden as was said, and guessed where they are hidden and nowhere else."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F

from manyheads.codecs.text import BOS, EOS, Text
from manyheads.data.shards import Shard, write_shard
from manyheads.modules.config import TransformerConfig
from manyheads.tasks.language.corpus import TextCorpus
from manyheads.tasks.language.settings import TextCodec, TextData
from manyheads.tasks.masked.batches import (
    Hiding,
    MaskedBatches,
    MaskedWindows,
    draw_uniform,
    word_starts,
)
from manyheads.tasks.masked.settings import MaskedRecipe, Masking
from manyheads.tasks.masked.task import MaskedTask, score_hidden, show_holes
from manyheads.training.config import Training

LINES = ["the old dog sleeps here", "an unhappy cat, running homewards, sleeps too"] * 12
DESIGN = TransformerConfig(width=16, depth=1, heads=2, ffn_width=32, dropout=0.0)


@pytest.fixture(scope="module")
def codec() -> Text:
    return Text.train(LINES, "bpe", 280, masked=True)


@pytest.fixture
def documents(tmp_path: Path, codec: Text) -> Shard:
    rows = [codec.encode(f"{line} {i}" * (1 + i % 3)) for i, line in enumerate(LINES)]
    (tmp_path / "data").mkdir()
    for split in ("train", "valid"):
        write_shard(tmp_path / "data" / split, [[], *rows], codec.size)
    return Shard(tmp_path / "data" / "train")


def masked(codec: Text, folder: Path | None = None) -> MaskedTask:
    data = TextData((Path("a.txt"),), context=24)
    training = Training(tokens_per_batch=400, label_smoothing=0.1)
    return MaskedTask(
        MaskedRecipe("masked", data, network=DESIGN, training=training), codec, folder
    )


def batches(codec: Text, documents: Shard, **how: Any) -> MaskedBatches:
    windows = MaskedWindows(documents, codec.special_tokens, context=24)
    return MaskedBatches(windows, Hiding(codec, Masking(**how)), tokens=120, seed=3)


# ---- windows ---------------------------------------------------------------------------------


def test_windows_hold_every_token_once_and_no_document_beside_another(
    codec: Text, documents: Shard
) -> None:
    windows = MaskedWindows(documents, codec.special_tokens, context=10)
    cut = [
        document[start : start + 8].tolist()
        for document in (documents[i] for i in range(len(documents)))
        for start in range(0, len(document), 8)
    ]
    assert [windows.read(np.array([i]))[0].tolist() for i in range(len(windows))] == cut
    assert windows.lengths().tolist() == [len(one) + 2 for one in cut]


def test_a_window_without_room_and_documents_without_tokens_are_refused(
    tmp_path: Path, codec: Text, documents: Shard
) -> None:
    with pytest.raises(ValueError, match="a context of 2 has no room beside 2 signs; 3 is the"):
        MaskedWindows(documents, codec.special_tokens, 2)
    write_shard(tmp_path / "empty", [[], []], 10)
    with pytest.raises(ValueError, match="no window can be cut from documents without a token"):
        MaskedWindows(Shard(tmp_path / "empty"), codec.special_tokens, 24)


# ---- batches ---------------------------------------------------------------------------------


@pytest.mark.parametrize("whole_words", [False, True])
def test_a_batch_holds_its_windows_but_for_what_is_hidden(
    codec: Text, documents: Shard, whole_words: bool
) -> None:
    made = batches(codec, documents, whole_words=whole_words)
    met = []
    for rows in made.epoch(2):
        batch = made.batch(rows)
        ids = batch.tokens.ids.clone()
        ids.flatten()[batch.hidden] = batch.wanted
        for (window, _), row in zip(rows, ids.tolist(), strict=True):
            plain = [BOS, *made.windows.read(np.array([window]))[0].tolist(), EOS]
            assert row == plain + [codec.special_tokens.pad] * (len(row) - len(plain))
            met.append(window)
        assert made.count(rows) == len(batch.hidden)
        assert made.area(rows) >= batch.tokens.ids.numel()
    assert sorted(met) == list(range(len(made.windows)))


def test_what_is_hidden_in_a_window_does_not_depend_on_its_batch(
    codec: Text, documents: Shard
) -> None:
    made = batches(codec, documents)
    for rows in made.epoch(5):
        alone = [made.batch([row]) for row in rows]
        together = made.batch(rows)
        for one, ids in zip(alone, together.tokens.ids, strict=True):
            assert ids[: one.tokens.ids.shape[1]].tolist() == one.tokens.ids[0].tolist()
        assert together.wanted.tolist() == [i for one in alone for i in one.wanted.tolist()]


def test_other_words_are_hidden_in_another_epoch_and_by_another_seed(
    codec: Text, documents: Shard
) -> None:
    made = batches(codec, documents)
    same = batches(codec, documents)
    other = MaskedBatches(made.windows, made.hiding, 120, seed=4)
    assert made.epoch(1) == same.epoch(1) != made.epoch(2)
    rows, later = [(1, 1), (2, 1)], [(1, 2), (2, 2)]
    assert made.batch(rows).hidden.tolist() == same.batch(rows).hidden.tolist()
    assert made.batch(rows).hidden.tolist() != made.batch(later).hidden.tolist()
    assert made.batch(rows).hidden.tolist() != other.batch(rows).hidden.tolist()


# ---- what is hidden --------------------------------------------------------------------------


def many(codec: Text, count: int = 20_000, length: int = 100) -> tuple[Any, Any, Any]:
    ids = np.random.default_rng(0).integers(0, codec.size, count)
    return ids, np.arange(count) + 7, np.arange(count) // length


def test_the_shares_are_those_of_bert(codec: Text) -> None:
    hiding, (ids, at, owners) = Hiding(codec), many(codec)
    read, chosen = hiding.hide(ids, at, owners, (0, 0))
    may = np.bincount(owners[hiding.may[ids]])
    assert np.bincount(owners[chosen]).tolist() == np.round(0.15 * may).tolist()
    became = read[chosen]
    masked = became == codec.special_tokens.mask
    stayed = became == ids[chosen]
    assert masked.mean() == pytest.approx(0.8, abs=0.02)
    assert stayed.mean() == pytest.approx(0.1, abs=0.02)
    assert len(set(became[~masked & ~stayed].tolist())) > 100
    untouched = np.delete(np.arange(len(ids)), chosen)
    assert (read[untouched] == ids[untouched]).all()


def test_signs_are_never_chosen_and_never_put_in(codec: Text) -> None:
    special = [
        *codec.special_tokens.skipped,
        codec.special_tokens.unknown,
        codec.special_tokens.mask,
    ]
    ids, at, owners = many(codec)
    read, chosen = Hiding(codec, Masking(share=0.5, masked=0, changed=1)).hide(
        ids, at, owners, (0, 0)
    )
    assert not np.isin(ids[chosen], special).any()
    assert not np.isin(read[chosen], special).any()
    none = Hiding(codec).choose_hidden(np.array([3, 3]), np.array([0, 1]), np.array([0, 0]), (0, 0))
    assert none.tolist() == []


def test_at_least_one_token_of_a_window_is_hidden(codec: Text) -> None:
    ids, at, owners = many(codec, 60, 2)
    ids[:] = 50
    assert (
        np.bincount(Hiding(codec).choose_hidden(ids, at, owners, (0, 0)) // 2).tolist() == [1] * 30
    )


def test_whole_words_are_hidden_with_all_their_pieces(codec: Text) -> None:
    ids = np.array(codec.encode(" ".join(LINES)))
    hiding = Hiding(codec, Masking(whole_words=True))
    chosen = np.isin(
        np.arange(len(ids)), hiding.choose_hidden(ids, np.arange(len(ids)), 0 * ids, (0, 0))
    )
    word = np.cumsum([piece.startswith(" ") for piece in codec.pieces(ids.tolist())])
    assert len(set(word.tolist())) < len(ids)
    for w in set(word.tolist()):
        assert len(set(chosen[word == w].tolist())) == 1
    # The word that reaches the share may go beyond it, by less than itself.
    assert 0 <= chosen.sum() - round(0.15 * len(ids)) < np.bincount(word).max()


def test_a_word_begins_where_a_piece_says_so() -> None:
    def begins(kind: str, text: str) -> list[str]:
        codec = Text.train(LINES, kind, 300 if kind == "byte" else 60, masked=True)
        starts = word_starts(codec)
        return [codec.pieces([i])[0] for i in codec.encode(text) if starts[i]]

    assert begins("byte", "the old dog") == [" ", " "]
    assert begins("character", "the old dog") == [" ", " "]
    assert len(begins("unigram", "the old dog")) == 2
    assert begins("word", "the old dog") == ["the", "old", "dog"]


def test_what_is_drawn_is_even_and_apart() -> None:
    at = np.arange(50_000)
    one, other = draw_uniform(at, 0, 0, 0), draw_uniform(at, 0, -1, 0)
    assert one.min() >= 0
    assert one.max() < 1
    assert np.histogram(one, 10, (0, 1))[0] == pytest.approx([5000] * 10, abs=300)
    for next_one in (
        other,
        draw_uniform(at, 1, 0, 0),
        draw_uniform(at, 0, 0, 1),
        draw_uniform(at + 1, 0, 0, 0),
    ):
        assert abs(np.corrcoef(one, next_one)[0, 1]) < 0.02


def test_a_seed_may_be_as_large_as_any() -> None:
    at = np.arange(1000)
    large = draw_uniform(at, 2**64 + 7, 0, 0)
    assert 0.45 < large.mean() < 0.55
    assert not np.array_equal(large, draw_uniform(at, 2**64 + 8, 0, 0))


def test_what_cannot_be_hidden_is_refused() -> None:
    with pytest.raises(ValueError, match=r"no sign for a hidden word; Text.train\(lines, masked="):
        Hiding(Text.train(LINES, "word", 40))
    with pytest.raises(ValueError, match=r"share is a share between 0 and 1, got 1.5"):
        Masking(share=1.5)
    with pytest.raises(ValueError, match=r"together 1 at most, got 0.8 and 0.3"):
        Masking(changed=0.3)


# ---- guesses ---------------------------------------------------------------------------------


def test_the_loss_of_hidden_places_alone_is_that_of_all_scores(
    codec: Text, documents: Shard
) -> None:
    task, made = masked(codec), batches(codec, documents)
    network = task.network().double()
    batch = made.batch(made.epoch(0)[0])
    plain = network(batch.tokens).flatten(0, 1)[batch.hidden]
    assert torch.allclose(score_hidden(network, batch), plain, atol=1e-12)
    for training, smoothing in ((False, 0.0), (True, 0.1)):
        loss = F.cross_entropy(
            plain.float(), batch.wanted, reduction="sum", label_smoothing=smoothing
        )
        found = task.loss(network.train(training), batch)["loss"]
        assert found.item() == pytest.approx(loss.item())
    assert network(batch.tokens).shape == (*batch.tokens.ids.shape, codec.size)  # as before


def test_shares_add_up_and_nothing_has_no_loss(codec: Text, documents: Shard) -> None:
    task, made = masked(codec), batches(codec, documents)
    network = task.network().eval()
    rows = made.epoch(0)[-1]
    whole = task.loss(network, made.batch(rows))["loss"].item()
    parts = [made.batch(made.share(rows, part, 3)) for part in range(3)]
    each = [task.loss(network, part)["loss"].item() for part in parts]
    assert sum(each) == pytest.approx(whole, rel=1e-5)
    nothing = task.loss(network.train(), made.batch([]))["loss"]
    nothing.backward()
    assert nothing.item() == 0
    assert not any(p.grad.any() for p in network.parameters() if p.grad is not None)


@pytest.mark.parametrize(
    ("valid", "sentence"),
    [
        ("", "there is nothing to validate on: the held-out text has no bytes"),
        (" ", "no window can be cut from documents without a token"),
    ],
)
def test_what_could_not_be_validated_on_is_refused_before_a_run_is_begun(
    tmp_path: Path, valid: str, sentence: str
) -> None:
    recipe = replace(masked(Text.train(LINES, "word")).recipe, codec=TextCodec("word"))
    with pytest.raises(ValueError) as error:
        MaskedTask.prepare(TextCorpus(LINES, [valid]), recipe, tmp_path)
    assert str(error.value) == sentence


@pytest.mark.usefixtures("documents")
def test_validation_hides_the_same_words_every_time(codec: Text, tmp_path: Path) -> None:
    task = masked(codec, tmp_path)
    network = task.network()
    (scores, samples), again = task.validate(network), task.validate(network)
    assert (scores, samples) == again
    assert list(scores) == ["accuracy", "loss"]
    assert len(samples) == 5
    for sample in samples:
        hidden = sample.source.count("‹mask›")
        assert hidden == len(sample.reference.split(" | ")) == len(sample.output.split(" | ")) > 0


@pytest.mark.usefixtures("documents")
def test_hidden_words_are_learned(codec: Text, tmp_path: Path) -> None:
    task = masked(codec, tmp_path)
    network, made = task.network(), task.batches()
    before, _ = task.validate(network)
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-2)
    for epoch in range(12):
        for rows in made.epoch(epoch):
            optimizer.zero_grad()
            loss = task.loss(network.train(), made.batch(rows))["loss"]
            (loss / made.count(rows)).backward()
            optimizer.step()
    after, _ = task.validate(network)
    assert after["accuracy"] > before["accuracy"] + 20
    assert after["loss"] < 0.7 * before["loss"]


def test_a_text_shows_where_its_words_are_hidden(codec: Text) -> None:
    mask = codec.special_tokens.mask or 0
    ids = [BOS, *codec.encode("the old"), mask, *codec.encode(" sleeps"), EOS]
    assert show_holes(codec, ids) == "the old ‹mask› sleeps"
