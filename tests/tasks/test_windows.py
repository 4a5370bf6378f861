"""Windows of running text hold each token once, and nothing else."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from designs import network_of

from manyheads.attention.patterns import Everything, Lengths, Segments
from manyheads.codecs.text import BOS, EOS, PAD, Text
from manyheads.data.batches import NOTHING
from manyheads.data.shards import Shard, write_shard
from manyheads.data.windows import Batch, Rows, Windows, cut_pieces, frame_documents
from manyheads.modules.build import build_decoder
from manyheads.modules.transformer import Tokens

LAYOUTS = ["packed", "padded"]
LENGTHS = [2, 40, 5, 1, 9, 8, 100, 3, 17, 2, 6, 33]


@pytest.fixture
def documents(tmp_path: Path) -> Shard:
    """No token stands twice, so that each tells where it is from."""
    begins = np.cumsum([4, *LENGTHS[:-1]])
    rows = [np.arange(n) + begin for begin, n in zip(begins, LENGTHS, strict=True)]
    write_shard(tmp_path / "train", rows, 1000)
    return Shard(tmp_path / "train")


def laid_out(plan: Windows, number: int) -> list[Batch]:
    return [plan.batch(rows) for rows in plan.epoch(number)]


def wanted_after(batches: list[Batch]) -> Counter[tuple[int, int]]:
    """Each token read with the one wanted after it."""
    pairs = Counter[tuple[int, int]]()
    for batch in batches:
        known = batch.wanted != NOTHING
        pairs.update(
            zip(batch.tokens.ids[known].tolist(), batch.wanted[known].tolist(), strict=True)
        )
    return pairs


def steps_of(documents: Shard) -> Counter[tuple[int, int]]:
    each = (documents[i].tolist() for i in range(len(documents)))
    return Counter(pair for ids in each for pair in pairwise(ids))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("context", [1, 3, 8, 64, 500])
@pytest.mark.parametrize("tokens", [8, 48])
def test_every_token_but_the_first_of_a_document_is_wanted_once_an_epoch(
    documents: Shard, layout: Any, context: int, tokens: int
) -> None:
    plan = Windows(documents, context, tokens, layout, seed=3)
    for epoch in range(3):
        assert wanted_after(laid_out(plan, epoch)) == steps_of(documents)
        counted = [plan.count(rows) for rows in plan.epoch(epoch)]
        assert counted == [int((b.wanted != NOTHING).sum()) for b in laid_out(plan, epoch)]
    assert wanted_after([plan.batch(rows) for rows in plan.whole()]) == steps_of(documents)


def test_a_long_document_is_cut_at_its_offset_and_a_short_one_is_not() -> None:
    begins, lengths = cut_pieces(np.array([4, 12]), 3, np.array([2, 2]))
    assert begins.tolist() == [0, 4, 6, 9]
    assert lengths.tolist() == [3, 2, 3, 2]
    begins, lengths = cut_pieces(np.array([1, 8]), 3, np.array([0, 0]))
    assert begins.tolist() == [1, 4]
    assert lengths.tolist() == [3, 3]


def plainly(rows: Rows, documents: Shard, width: int, packs: bool) -> Batch:
    """The same batch by lists."""
    each = zip(rows.begins.tolist(), rows.lengths.tolist(), strict=True)
    tokens = documents.tokens.tolist()
    flat = iter([(tokens[b : b + n], tokens[b + 1 : b + n + 1]) for b, n in each])
    table = [[next(flat) for _ in range(count)] for count in rows.counts.tolist()]
    sides = [[[piece[side] for piece in row] for row in table] for side in range(2)]
    if packs:
        return Batch(
            Tokens.packed(sides[0], width, PAD), Tokens.packed(sides[1], width, NOTHING).ids
        )
    alone = [[row[0] for row in side] for side in sides]
    return Batch(Tokens.padded(alone[0], PAD), Tokens.padded(alone[1], NOTHING).ids)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("context", [3, 8, 300])
def test_a_batch_is_the_one_made_plainly(documents: Shard, layout: Any, context: int) -> None:
    plan = Windows(documents, context, 40, layout)
    kinds = set()
    for rows in plan.epoch(1):
        batch = plan.batch(rows)
        packs = isinstance(batch.tokens.seen, Segments)
        wanted = plainly(rows, documents, batch.wanted.shape[1], packs)
        assert torch.equal(batch.tokens.ids, wanted.tokens.ids)
        assert torch.equal(batch.wanted, wanted.wanted)
        assert str(batch.tokens.seen) == str(wanted.tokens.seen)
        assert torch.equal(batch.tokens.at.axes[0], wanted.tokens.at.axes[0])
        assert plan.area(rows) >= batch.wanted.numel()
        kinds.add(type(batch.tokens.seen))
    short = Segments if layout == "packed" else Lengths
    assert kinds == ({short} if context == 300 else {Everything, short})


def test_full_windows_go_together_without_a_mask(documents: Shard) -> None:
    plan = Windows(documents, context=5, tokens=20)
    for epoch in range(5):
        plain = mixed = 0
        for rows in plan.epoch(epoch):
            batch = plan.batch(rows)
            if isinstance(batch.tokens.seen, Everything):
                assert batch.tokens.ids.shape == (4, 5)
                plain += len(rows)
            else:
                mixed += int((rows.lengths == 5).sum())
        assert plain >= 24
        assert mixed < plan.rows


def test_a_plan_depends_on_seed_and_epoch_alone(documents: Shard) -> None:
    def listed(seed: int, epoch: int) -> list[list[int]]:
        plan = Windows(documents, 8, 32, seed=seed)
        return [rows.begins.tolist() for rows in plan.epoch(epoch)]

    assert listed(0, 2) == listed(0, 2)
    assert len({str(listed(*pair)) for pair in [(0, 0), (0, 1), (1, 0), (1, 1)]}) == 4


def test_windows_begin_elsewhere_in_every_epoch(tmp_path: Path) -> None:
    write_shard(tmp_path / "one", [range(1000)], 1000)
    plan = Windows(Shard(tmp_path / "one"), 100, 400)
    places = {
        min(int(b) % 100 for rows in plan.epoch(e) for b in rows.begins if b) for e in range(9)
    }
    assert len(places) > 5


@pytest.mark.parametrize("context", [4, 8, 200])
def test_shares_make_up_the_batch_in_one_shape(documents: Shard, context: int) -> None:
    plan = Windows(documents, context, 64)
    for rows in plan.epoch(0):
        for parts in (1, 2):
            shares = [plan.batch(plan.share(rows, part, parts)) for part in range(parts)]
            assert wanted_after(shares) == wanted_after([plan.batch(rows)])
            if context < 200:
                assert len({share.wanted.shape for share in shares}) == 1
                assert sum(share.wanted.numel() for share in shares) == plan.area(rows)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_no_rows_are_one_in_which_nothing_is_wanted(documents: Shard, layout: Any) -> None:
    plan = Windows(documents, 8, 32, layout)
    batch = plan.batch(plan.epoch(0)[0][:0])
    assert len(batch.wanted) == 1
    assert (batch.wanted == NOTHING).all()
    assert (batch.tokens.ids == PAD).all()


@pytest.mark.parametrize(("kind", "layout"), [("transformer", "packed"), ("recurrent", "padded")])
@torch.no_grad()
def test_pieces_in_a_batch_do_not_see_each_other(documents: Shard, kind: Any, layout: Any) -> None:
    network = build_decoder(network_of(kind=kind, width=16, depth=1, heads=2), 1000).double().eval()
    plan = Windows(documents, 8, 48, layout)
    for rows in plan.epoch(0):
        batch = plan.batch(rows)
        scores = network(batch.tokens)[batch.wanted != NOTHING]
        tokens = torch.from_numpy(documents.tokens.astype(np.int64))
        alone = [
            network(Tokens.padded([tokens[b : b + n].tolist()]))[0]
            for b, n in zip(rows.begins.tolist(), rows.lengths.tolist(), strict=True)
        ]
        torch.testing.assert_close(scores, torch.cat(alone))


def test_documents_are_framed_by_the_signs_of_their_codec(tmp_path: Path) -> None:
    codec = Text.train(["ab ba", "a"], "character", 20)
    write_shard(tmp_path / "text", frame_documents(["ab", "b"], codec), codec.size)
    shard = Shard(tmp_path / "text")
    assert [one.tolist() for one in (shard[0], shard[1])] == [
        [BOS, *codec.encode("ab"), EOS],
        [BOS, *codec.encode("b"), EOS],
    ]


def test_short_documents_fill_most_of_a_batch(tmp_path: Path) -> None:
    chance = np.random.default_rng(0)
    write_shard(tmp_path / "short", [range(n) for n in chance.integers(20, 90, 500)], 100)
    plan = Windows(Shard(tmp_path / "short"), 100, 4000)
    planned = plan.epoch(0)
    assert sum(map(plan.count, planned)) > 0.85 * sum(map(plan.area, planned))


def test_what_cannot_be_cut_is_refused(tmp_path: Path, documents: Shard) -> None:
    with pytest.raises(ValueError, match="a window has 1 token or more, a context of 0 was asked"):
        Windows(documents, 0, 32)
    write_shard(tmp_path / "short", [[1], []], 10)
    with pytest.raises(ValueError, match="nothing to learn: no document has two tokens"):
        Windows(Shard(tmp_path / "short"), 8, 32)
