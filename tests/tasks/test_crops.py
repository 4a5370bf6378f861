"""Crops of music: another version, another key and another place in every epoch."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from manyheads.attention.patterns import Segments
from manyheads.codecs.text import BOS, EOS
from manyheads.data.batches import NOTHING
from manyheads.data.shards import Shard, write_shard
from manyheads.data.windows import Batch
from manyheads.tasks.music.chorales import SILENCE, Chorales
from manyheads.tasks.music.performance import DOWN, SHIFT, Performance
from manyheads.tasks.music.windows import Augmentation, MusicWindows

CODEC = Chorales()
STEPS = [3, 40, 11, 1, 64, 25]  # of each piece
LOWEST, HIGHEST = [-2, 0, -6, -1, -3, 0], [2, 0, 6, 5, 0, 4]
LAYOUTS = ["packed", "padded"]


def framed(ids: Any) -> list[int]:
    return [BOS, *ids, EOS]


def transposed(codec: Chorales | Performance, ids: list[int], semitones: int) -> list[int]:
    """Of chorales all but signs and rests, of performances keys that go down or up."""
    first, end = (SILENCE + 1, codec.size) if isinstance(codec, Chorales) else (DOWN, SHIFT)
    return [number + semitones if first <= number < end else number for number in ids]


def song(number: int, version: int) -> list[int]:
    """Pitches from 40 on that say which piece and which version this is."""
    chance = np.random.default_rng([number, version])
    grid = chance.integers(40, 80, (STEPS[number], 4)).astype(np.int16)
    return CODEC.flatten(grid)


def shard(folder: Path, versions: int = 3) -> Shard:
    each = [framed(song(n, v)) for n in range(len(STEPS)) for v in range(versions)]
    write_shard(folder / "train", each, CODEC.size)
    return Shard(folder / "train")


def varied(versions: int = 3) -> Augmentation:
    return Augmentation(versions, np.array(LOWEST), np.array(HIGHEST))


def crops(folder: Path, context: int = 32, layout: Any = "packed", **settings: Any) -> MusicWindows:
    return MusicWindows(shard(folder), varied(), CODEC, context, 128, layout, **settings)


def documents(batch: Batch) -> list[tuple[list[int], list[int]]]:
    """What is read in each crop, and what is wanted."""
    found = []
    for i, row in enumerate(batch.wanted):
        if isinstance(batch.tokens.seen, Segments):
            ids = batch.tokens.seen.ids[i]
            marks = [ids == number for number in ids.unique() if number >= 0]
        else:
            marks = [row != NOTHING]
        found += [(batch.tokens.ids[i][m].tolist(), row[m].tolist()) for m in marks if m.any()]
    return found


def known() -> dict[tuple[int, int, int], list[int]]:
    """Every piece in every version and key that it may have."""
    return {
        (n, v, shift): framed(transposed(CODEC, song(n, v), shift))
        for n in range(len(STEPS))
        for v in range(3)
        for shift in range(LOWEST[n], HIGHEST[n] + 1)
    }


def found_in(crop: list[int], pieces: dict[tuple[int, int, int], list[int]]) -> list[Any]:
    return [
        (key, at)
        for key, ids in pieces.items()
        for at in range(len(ids) - len(crop) + 1)
        if ids[at : at + len(crop)] == crop
    ]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("context", [8, 32, 512])
def test_an_epoch_is_every_piece_once_in_one_version_and_one_key(
    context: int, layout: Any, tmp_path: Path
) -> None:
    plan, pieces = crops(tmp_path, context, layout), known()
    for epoch in range(2):
        chosen: dict[int, set[tuple[int, int]]] = {}
        wanted = 0
        for rows in plan.epoch(epoch):
            for read, want in documents(plan.batch(rows)):
                matches = found_in([*read, want[-1]], pieces)
                assert matches
                assert read[1:] == want[:-1]
                wanted += len(want)
                if len(read) < 5:
                    continue  # so few may be of several
                (((number, version, shift), at),) = matches
                assert at % 4 == 0  # no chord is cut apart
                chosen.setdefault(number, set()).add((version, shift))
        assert all(len(ways) == 1 for ways in chosen.values())
        assert len(chosen) >= len(STEPS) - 1
        assert wanted == sum(4 * steps + 1 for steps in STEPS)


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_any_pieces_are_cropped_into_all_their_steps(
    tmp_path_factory: pytest.TempPathFactory, data: st.DataObject
) -> None:
    """Also those of no step, shorter than a batch's row or many times the context."""
    codec = data.draw(st.sampled_from([Chorales(), Performance()]))
    versions, steps = data.draw(st.integers(1, 3)), st.lists(st.integers(0, 60), min_size=1)
    chance = np.random.default_rng(data.draw(st.integers(0, 9)))
    sizes = np.repeat(data.draw(steps), versions)
    songs = [chance.integers(40, 80, 4 * n).tolist() for n in sizes]
    folder = tmp_path_factory.mktemp("any")
    write_shard(folder / "train", map(framed, songs), codec.size)
    context, tokens = (data.draw(st.sampled_from(n)) for n in ([8, 12, 64, 256], [8, 100, 999]))
    count = len(songs) // versions
    moves = Augmentation(versions, -chance.integers(0, 5, count), chance.integers(0, 5, count))
    shard = Shard(folder / "train")
    plan = MusicWindows(shard, moves, codec, context, tokens, data.draw(st.sampled_from(LAYOUTS)))
    begins = shard.ends - shard.lengths
    taken: dict[int, set[tuple[int, int]]] = {}  # piece -> its versions and keys
    wanted: dict[int, list[int]] = {}  # piece -> places in it that are wanted
    for rows in plan.epoch(data.draw(st.integers(0, 3))):
        crops = []
        for begin, length, table in zip(rows.begins, rows.lengths, rows.tables, strict=True):
            number = int(np.searchsorted(shard.ends, begin, side="right"))
            at, shift = int(begin - begins[number]), moves.shifts[table]
            assert length <= context
            assert at % codec.beat == 0
            taken.setdefault(number // versions, set()).add((number, shift))
            wanted.setdefault(number // versions, []).extend(range(at + 1, at + length + 1))
            moved = framed(transposed(codec, songs[number], shift))
            crops.append((moved[at : at + length], moved[at + 1 : at + length + 1]))
        assert sorted(documents(plan.batch(rows))) == sorted(crops)
    for piece in range(count):
        ((number, shift),) = taken[piece]
        assert moves.lowest[piece] <= shift <= moves.highest[piece]
        assert sorted(wanted[piece]) == [*range(1, len(songs[number]) + 2)]


def test_versions_keys_and_places_change_from_epoch_to_epoch(tmp_path: Path) -> None:
    plan, pieces = crops(tmp_path), known()
    ways, places = set(), set()
    for epoch in range(12):
        for rows in plan.epoch(epoch):
            for read, want in documents(plan.batch(rows)):
                (((number, version, shift), at), *others) = found_in([*read, want[-1]], pieces)
                if number == 4 and not others:
                    ways.add((version, shift))
                    places.add(at % 32)
    assert len(ways) > 6
    assert {shift for _, shift in ways} == {-3, -2, -1, 0}
    assert len(places) > 4


def test_a_plan_depends_on_seed_and_epoch_alone(tmp_path: Path) -> None:
    def listed(seed: int, epoch: int) -> str:
        plan = crops(tmp_path, seed=seed)
        return str([plan.batch(rows).tokens.ids.tolist() for rows in plan.epoch(epoch)])

    assert listed(0, 2) == listed(0, 2)
    assert len({listed(*pair) for pair in [(0, 0), (0, 1), (1, 0), (1, 1)]}) == 4


@pytest.mark.parametrize("context", [8, 32])
def test_shares_make_up_the_batch(context: int, tmp_path: Path) -> None:
    plan = crops(tmp_path, context)
    for rows in plan.epoch(0):
        shares = [documents(plan.batch(plan.share(rows, part, 2))) for part in range(2)]
        assert sorted([*shares[0], *shares[1]]) == sorted(documents(plan.batch(rows)))


def test_what_fills_a_batch_up_is_not_transposed(tmp_path: Path) -> None:
    plan = crops(tmp_path)
    for rows in plan.epoch(0):
        batch = plan.batch(rows)
        assert (batch.tokens.ids[batch.wanted == NOTHING] == CODEC.special_tokens.pad).all()


def test_events_are_cropped_anywhere(tmp_path: Path) -> None:
    codec = Performance()
    write_shard(tmp_path / "train", [framed(range(3, 300))], codec.size)
    still = Augmentation(1, np.array([0]), np.array([0]))
    plan = MusicWindows(Shard(tmp_path / "train"), still, codec, 32, 64)
    begins = {int(b) % 32 for epoch in range(20) for r in plan.epoch(epoch) for b in r.begins if b}
    assert any(begin % 4 for begin in begins)


def test_how_pieces_vary_is_kept_in_a_file(tmp_path: Path) -> None:
    varied().save(tmp_path / "varied.json")
    again = Augmentation.load(tmp_path / "varied.json")
    assert (again.versions, again.lowest.tolist(), again.highest.tolist()) == (3, LOWEST, HIGHEST)
    assert again.shifts == range(-6, 7)
    (tmp_path / "varied.json").write_text("{}")
    with pytest.raises(ValueError, match=r"varied\.json does not say how pieces vary"):
        Augmentation.load(tmp_path / "varied.json")


def test_what_cannot_be_cropped_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError) as error:
        crops(tmp_path, context=30)
    assert str(error.value) == (
        "a step has 4 tokens and a context of 30 would cut one apart; data.context: 28 would do"
    )
    with pytest.raises(ValueError) as error:
        MusicWindows(shard(tmp_path), varied(2), CODEC, 32, 128)
    assert str(error.value) == (
        "6 pieces in 2 versions are not the 18 that are in the shard; begin the run anew"
    )


def test_the_tokens_of_a_batch_are_whole_numbers_that_a_loss_takes(tmp_path: Path) -> None:
    plan = crops(tmp_path)
    batch = plan.batch(plan.epoch(0)[0])
    assert (batch.tokens.ids.dtype, batch.wanted.dtype) == (torch.int64, torch.int64)
