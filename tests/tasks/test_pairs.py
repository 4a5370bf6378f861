"""Packed or padded, a batch holds its pairs and nothing else."""

from pathlib import Path

import numpy as np
import pytest
import torch
from designs import network_of

from manyheads.codecs.text import BOS, EOS, PAD
from manyheads.data.batches import NOTHING, Packing, Padding, Row, split_by_sizes, within_rows
from manyheads.data.shards import Shard, write_shard
from manyheads.modules.build import build_encoder_decoder
from manyheads.modules.transformer import EncoderDecoder, Tokens
from manyheads.tasks.seq2seq.batches import (
    PairBatch,
    PairBatches,
    PairShards,
    choose_packing,
    spans,
)
from manyheads.tasks.seq2seq.corpus import Codecs
from manyheads.tasks.seq2seq.settings import PairData, Seq2SeqRecipe
from manyheads.tasks.seq2seq.task import Seq2Seq

VOCABULARY = 30
LAYOUTS = ["packed", "padded"]


@pytest.fixture
def corpus(tmp_path: Path) -> PairShards:
    """Forty pairs, some of them empty on a side."""
    chance = np.random.default_rng(0)
    for side, longest in (("source", 9), ("target", 14)):
        rows = [chance.integers(4, VOCABULARY, chance.integers(0, longest)) for _ in range(40)]
        write_shard(tmp_path / side, rows, VOCABULARY)
    return PairShards(Shard(tmp_path / "source"), Shard(tmp_path / "target"))


def plainly(corpus: PairShards, rows: list[Row], plan: Packing | Padding) -> PairBatch:
    """The same batch by lists."""
    read = [[[*corpus.source[i].tolist(), EOS] for i in row] for row in rows]
    write_ = [[[BOS, *corpus.target[i].tolist()] for i in row] for row in rows]
    want = [[[*corpus.target[i].tolist(), EOS] for i in row] for row in rows]
    if isinstance(plan, Packing):
        source, target = plan.widths
        wanted = Tokens.packed(want, target, NOTHING).ids
        return PairBatch(
            Tokens.packed(read, source, PAD), Tokens.packed(write_, target, PAD), wanted
        )
    fills = PAD, PAD, NOTHING
    sides = [
        Tokens.padded([row[0] for row in side], fill)
        for side, fill in zip((read, write_, want), fills, strict=True)
    ]
    return PairBatch(sides[0], sides[1], sides[2].ids)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_batch_is_the_one_made_plainly(corpus: PairShards, layout: str) -> None:
    batches = PairBatches(corpus, layout, tokens=48)
    everything = []
    for rows in batches.epoch(3):
        ours, plain = batches.batch(rows), plainly(corpus, rows, batches.plan)
        for one, other in ((ours.source, plain.source), (ours.target, plain.target)):
            assert torch.equal(one.ids, other.ids)
            assert repr(one.seen) == repr(other.seen)
            assert torch.equal(one.at.axes[0], other.at.axes[0])  # type: ignore[union-attr]
        assert torch.equal(ours.wanted, plain.wanted)
        assert batches.count(rows) == int((ours.wanted != NOTHING).sum())
        assert batches.area(rows) >= ours.source.ids.numel() + ours.target.ids.numel()
        everything += [i for row in rows for i in row]
    assert sorted(everything) == list(range(40))


def test_a_pair_by_hand(tmp_path: Path) -> None:
    write_shard(tmp_path / "source", [[5, 6], [7]], 10)
    write_shard(tmp_path / "target", [[8], [9, 4]], 10)
    corpus = PairShards(Shard(tmp_path / "source"), Shard(tmp_path / "target"))
    batch = PairBatches(corpus, "padded", 64).batch([[0], [1]])
    assert batch.source.ids.tolist() == [[5, 6, EOS], [7, EOS, PAD]]
    assert batch.target.ids.tolist() == [[BOS, 8, PAD], [BOS, 9, 4]]
    assert batch.wanted.tolist() == [[8, EOS, NOTHING], [9, 4, EOS]]
    batch = PairBatches(corpus, "packed", 7).batch([[1, 0]])
    assert batch.source.ids[0, :6].tolist() == [7, EOS, 5, 6, EOS, PAD]
    assert batch.target.ids[0, :6].tolist() == [BOS, 9, 4, BOS, 8, PAD]
    assert batch.wanted[0, :6].tolist() == [9, 4, EOS, 8, EOS, NOTHING]


def network(kind: str = "transformer") -> EncoderDecoder:
    design = network_of(kind=kind, width=16, depth=1, heads=2, ffn_width=32, dropout=0.0)
    return build_encoder_decoder(design, VOCABULARY, VOCABULARY, joint=True).double().eval()


def translation() -> Seq2Seq:
    recipe = Seq2SeqRecipe("translation", PairData(pairs=Path("a.tsv")))
    return Seq2Seq(recipe, Codecs(None, None))  # type: ignore[arg-type]


def loss_of(made: EncoderDecoder, batch: PairBatch) -> float:
    task = translation()
    scores = made(batch.source, batch.target)
    plain = torch.nn.functional.cross_entropy(
        scores.flatten(0, 1), batch.wanted.flatten(), reduction="sum"
    )
    assert task.loss(made, batch)["loss"].item() == pytest.approx(plain.item(), rel=1e-6)
    return plain.item()


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "convolutional"])
def test_the_loss_is_that_of_the_pairs_one_by_one(corpus: PairShards, kind: str) -> None:
    made = network(kind)
    padded = PairBatches(corpus, "padded", 64)
    alone = sum(loss_of(made, padded.batch([[i]])) for i in range(40))
    together = sum(loss_of(made, padded.batch(rows)) for rows in padded.epoch(0))
    assert together == pytest.approx(alone, rel=1e-10)
    if kind == "transformer":
        packed = PairBatches(corpus, "packed", 64)
        assert sum(loss_of(made, packed.batch(rows)) for rows in packed.epoch(0)) == pytest.approx(
            alone, rel=1e-10
        )


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("parts", [2, 3, 7])
def test_shares_add_up_to_the_whole(corpus: PairShards, layout: str, parts: int) -> None:
    made, batches = network(), PairBatches(corpus, layout, 96)
    for rows in batches.epoch(1):
        shares = [batches.share(rows, part, parts) for part in range(parts)]
        assert sorted(row for share in shares for row in share if row) == sorted(rows)
        losses = [loss_of(made, batches.batch(share)) for share in shares]
        assert sum(losses) == pytest.approx(loss_of(made, batches.batch(rows)), rel=1e-10)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [[], [[]]], ids=["none", "empty"])
def test_nothing_has_no_loss_and_no_gradient(
    corpus: PairShards, layout: str, rows: list[Row]
) -> None:
    if layout == "padded" and rows:
        pytest.skip("a padded row has its pair")
    made, batches = network(), PairBatches(corpus, layout, 64)
    batch = batches.batch(rows)
    assert (batch.wanted == NOTHING).all()
    loss = translation().loss(made, batch)["loss"]
    loss.backward()
    assert loss.item() == 0
    assert all(p.grad is None or not p.grad.any() for p in made.parameters())


def test_packed_rows_have_room_for_the_longest_and_by_share() -> None:
    lengths = np.array([[10, 20], [10, 20], [190, 75]])
    assert choose_packing(lengths, 1000) == Packing(rows=1, widths=(512, 320))
    assert choose_packing(lengths, 64) == Packing(rows=1, widths=(192, 128))
    assert choose_packing(lengths, 4096).rows == 8


def test_rows_of_short_pairs_are_one_tile_of_attention() -> None:
    assert choose_packing(np.array([[10, 20], [90, 5]]), 1000) == Packing(rows=7, widths=(128, 64))


def test_all_packed_batches_say_the_same_longest(corpus: PairShards) -> None:
    batches = PairBatches(corpus, "packed", tokens=48)
    made = [batches.batch(rows) for rows in batches.epoch(0)]
    assert len({one.source.at.sizes for one in made}) == 1  # type: ignore[union-attr]


def test_spans_are_those_of_the_whole(corpus: PairShards) -> None:
    some = np.array([0, 39, 7, 0, 12])
    begins, counts = spans(corpus.target, some)
    assert counts.tolist() == corpus.target.lengths[some].tolist()
    assert begins.tolist() == (corpus.target.ends - corpus.target.lengths)[some].tolist()
    assert [len(one) for one in spans(corpus.target, some[:0])] == [0, 0]


def test_helpers_by_hand() -> None:
    counts = np.array([2, 3, 1])
    assert within_rows(counts, np.array([0, 0, 1])).tolist() == [0, 2, 0]
    assert split_by_sizes(counts, [2, 0, 1]) == [[2, 3], [], [1]]


@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_epoch_follows_from_its_number_alone(corpus: PairShards, layout: str) -> None:
    one, same = PairBatches(corpus, layout, 48, seed=5), PairBatches(corpus, layout, 48, seed=5)
    assert one.epoch(2) == same.epoch(2)
    assert one.epoch(2) != one.epoch(3)
    assert one.epoch(2) != PairBatches(corpus, layout, 48, seed=6).epoch(2)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_some_pairs_are_drawn_in_capitals_and_others_in_the_next_epoch(
    corpus: PairShards, layout: str
) -> None:
    # The last twenty of the forty are the first in capitals, but for one that has none.
    where = np.array([*range(20, 39), 19])
    both = PairShards(corpus.source, corpus.target, capitals=where)
    one, same = (PairBatches(both, layout, 48, seed=5, capitals=0.4) for _ in range(2))
    epochs = [[i for rows in one.epoch(n) for row in rows for i in row] for n in range(3)]
    drawn = [{i - 20 for i in epoch if i >= 20} for epoch in epochs]
    for epoch in epochs:
        assert sorted(i % 20 for i in epoch) == list(range(20))
        assert 19 in epoch
    assert all(2 < len(some) < 14 for some in drawn)
    assert drawn[0] != drawn[1] != drawn[2]
    assert one.epoch(2) == same.epoch(2)
    plain = PairBatches(both, layout, 48, seed=5).epoch(2)
    assert sorted(i for rows in plain for row in rows for i in row) == list(range(20))
