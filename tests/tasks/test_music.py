"""Music is read, laid down, learned and judged."""

import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import midis
import numpy as np
import pytest
import torch
import tunes
from designs import network_of

from manyheads.codecs.text import BOS, EOS
from manyheads.data.shards import Shard, write_shard
from manyheads.modules.transformer import Tokens
from manyheads.tasks.music.chorales import Chorales
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.codec_file import load_codec, new_codec
from manyheads.tasks.music.corpus import VARIED, MusicCorpus, gather, prepare
from manyheads.tasks.music.midi import save_midi
from manyheads.tasks.music.performance import Performance
from manyheads.tasks.music.settings import MusicData
from manyheads.tasks.music.task import MusicTask
from manyheads.tasks.music.windows import Augmentation
from manyheads.training.run import CORPUS

GRIDS = [np.full((6, 4), [72, 67, 64, 48], np.int16) + np.int16(i) for i in range(4)]


def npz(path: Path, **splits: list[Any]) -> Path:
    held: dict[str, Any] = {}
    for name, grids in splits.items():
        held[f"{name}_notes"] = np.concatenate(grids)
        held[f"{name}_lengths"] = np.array([len(grid) for grid in grids])
    np.savez(path, **held)
    return path


def laid_down(folder: Path, data: MusicData, codec: MusicCodec) -> Path:
    run = folder / "run"
    run.mkdir()
    prepare(gather(data, codec, seed=0), data, codec, run)
    return run


# ---- read ------------------------------------------------------------------------------------


def test_an_npz_brings_its_own_pieces_to_validate_on(tmp_path: Path) -> None:
    path = npz(tmp_path / "songs.npz", train=GRIDS[:2], valid=GRIDS[2:3], test=GRIDS[3:])
    found = gather(MusicData((path,)), Chorales(), seed=0)
    assert [Chorales().grid(ids.tolist()).tolist() for ids in found.train] == [
        grid.tolist() for grid in GRIDS[:2]
    ]
    assert [ids.tolist() for ids in found.valid] == [Chorales().flatten(GRIDS[2])]
    assert found.notes == (f"{path}: not read: test",)
    assert str(found) == ("2 pieces of 48 tokens to train on, 1 piece of 24 tokens to validate on")


def test_others_to_validate_on_come_before_its_own(tmp_path: Path) -> None:
    one = npz(tmp_path / "one.npz", train=GRIDS[:2], valid=GRIDS[2:3])
    two = npz(tmp_path / "two.npz", test=GRIDS[3:])
    found = gather(MusicData((one,), (two,)), Chorales(), seed=0)
    assert [ids.tolist() for ids in found.valid] == [Chorales().flatten(GRIDS[3])]


def test_whole_pieces_are_held_out_by_the_seed(tmp_path: Path) -> None:
    data = MusicData((midis.folder(tmp_path / "music", 10),), held_out=0.2)

    def held(seed: int) -> list[list[int]]:
        found = gather(data, Performance(), seed)
        assert len(found.train) == 8
        assert found.notes[-1] == f"held out: 2 pieces, drawn by seed {seed}"
        train = [ids.tolist() for ids in found.train]
        assert not any(ids.tolist() in train for ids in found.valid)
        return [ids.tolist() for ids in found.valid]

    assert held(1) == held(1)
    assert len({str(held(seed)) for seed in range(6)}) > 1


def test_chorales_are_played_where_performances_are_asked_for(tmp_path: Path) -> None:
    path = npz(tmp_path / "songs.npz", train=GRIDS)
    found = gather(MusicData((path,)), Performance(), seed=0)
    notes = Performance().render(found.train[0].tolist()).notes
    assert len(notes) == 4


def test_the_silence_before_a_performance_is_left_out(tmp_path: Path) -> None:
    piece = tunes.performance()
    late = [n._replace(start=n.start + 60, end=n.end + 60) for n in piece.notes]
    for name, notes in (("a.mid", piece.notes), ("b.mid", tuple(late))):
        save_midi(type(piece)(notes), tmp_path / name)
    data = MusicData((tmp_path / "a.mid",), (tmp_path / "b.mid",))
    found = gather(data, Performance(), seed=0)
    assert found.train[0].tolist() == found.valid[0].tolist()


def test_what_is_learned_from_and_validated_on_is_told(tmp_path: Path) -> None:
    path = npz(tmp_path / "songs.npz", train=GRIDS[:3], valid=GRIDS[2:])
    found = gather(MusicData((path,)), Chorales(), seed=0)
    assert (len(found.train), len(found.valid)) == (3, 2)
    assert found.notes == ("both learned from and validated on: 1 piece",)


def test_a_copy_of_a_piece_is_not_held_out(tmp_path: Path) -> None:
    music = midis.folder(tmp_path / "music", 3)
    for i in range(3):
        (music / f"copy{i}.mid").write_bytes((music / f"{i:02d}.mid").read_bytes())
    found = gather(MusicData((music,)), Performance(), seed=0)
    assert (len(found.train), len(found.valid)) == (2, 1)
    assert found.notes[1:] == (
        "left out: 3 pieces, being copies of others",
        "held out: 1 piece, drawn by seed 0",
    )


def test_a_file_that_a_codec_cannot_take_is_left_out_and_named(tmp_path: Path) -> None:
    for i in range(2):
        save_midi(tunes.chorale(seed=i), tmp_path / f"sung{i}.mid")
    save_midi(tunes.performance(), tmp_path / "played.mid")
    found = gather(MusicData((tmp_path,)), Chorales(), seed=0)
    assert found.notes[0].splitlines() == [
        "3 MIDI files read, 2 kept",
        f"  left out: {tmp_path}/played.mid: a chorale has 4 voices, each in a track of its own; "
        "this piece has 1",
    ]


@pytest.mark.parametrize(
    ("splits", "sentence"),
    [
        ({"test": GRIDS, "valid": GRIDS}, "has the splits test, valid, and none of them is train"),
        ({"train": [np.full((5, 4), -1, np.int16)]}, "no piece of it has a note"),
        ({"train": GRIDS[:1]}, "there is one piece, and none is left to validate on; "),
    ],
)
def test_an_npz_that_does_not_do_is_refused(
    splits: dict[str, Any], sentence: str, tmp_path: Path
) -> None:
    path = npz(tmp_path / "songs.npz", **splits)
    with pytest.raises(ValueError, match=sentence):
        gather(MusicData((path,)), Chorales(), seed=0)


def test_a_piece_without_a_note_is_left_out_and_counted(tmp_path: Path) -> None:
    silent = np.full((3, 4), -1, np.int16)
    path = npz(tmp_path / "songs.npz", train=[*GRIDS, silent, silent[:0]])
    found = gather(MusicData((path,)), Chorales(), seed=0)
    assert found.notes[0] == f"{path}: left out: 2 pieces without a note"
    assert len(found.train) + len(found.valid) == 4


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"music": ()}, "nothing to learn from: give music, a folder of MIDI files or an .npz"),
        ({"held_out": 0}, "held_out is a share between 0 and 1, got 0"),
        ({"context": 4}, "context is 8 or more, got 4"),
        ({"semitones": 25}, "semitones is 24 at most, got 25"),
        ({"stretches": ()}, "stretches are one factor at least; [1.0] would do"),
        ({"stretches": (0.0,)}, "stretches is a list, each 0.1 or more, got [0.0]"),
    ],
)
def test_what_cannot_be_learned_from_is_refused(settings: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError) as error:
        MusicData(**{"music": (Path("music"),), **settings})
    assert str(error.value) == sentence


# ---- laid down -------------------------------------------------------------------------------


def test_performances_lie_in_all_their_versions_and_the_rest_as_it_is(tmp_path: Path) -> None:
    data = MusicData((midis.folder(tmp_path / "music", 4),), stretches=(0.5, 1.0, 2.0))
    codec = Performance()
    run = laid_down(tmp_path, data, codec)
    pieces = gather(data, codec, 0)
    train, valid = (Shard(run / "data" / name) for name in ("train", "valid"))
    assert (len(train), len(valid)) == (9, 1)
    for i, ids in enumerate(pieces.train):
        for j, factor in enumerate(data.stretches):
            meant = [BOS, *codec.stretch(ids.tolist(), factor), EOS]
            assert train[3 * i + j].tolist() == meant
    assert valid[0].tolist() == [BOS, *pieces.valid[0].tolist(), EOS]
    assert load_codec(run / "codec.json") == codec
    assert (run / CORPUS).read_text(encoding="utf-8").splitlines()[-4:] == [
        "4 MIDI files read, 4 kept",
        "held out: 1 piece, drawn by seed 0",
        "transposed by up to 3 semitones each way, as far as a piano goes",
        "stretched to 0.5, 1, 2 of the time",
    ]


def test_a_piece_moves_as_far_as_it_may_and_has_room(tmp_path: Path) -> None:
    codec = Chorales()
    high = np.array([[106, 60, 50, 40]], np.int16)
    low = np.array([[72, 60, 50, 22]], np.int16)
    data = MusicData((Path("songs.npz"),), semitones=6)
    gathered = MusicCorpus([np.array(codec.flatten(g), np.uint16) for g in (high, low)], [])
    for augment, ends in ((None, ([-6, -1], [2, 6])), ((), ([0, 0], [0, 0]))):
        run = tmp_path / str(augment)
        run.mkdir()
        prepare(gathered, MusicData(data.music, augment=augment, semitones=6), codec, run)
        held = json.loads((run / "data" / VARIED).read_text(encoding="utf-8"))
        assert held == {"versions": 1, "lowest": ends[0], "highest": ends[1]}


# ---- learned and judged ----------------------------------------------------------------------


def learning(
    folder: Path, codec: MusicCodec, context: int = 16, layout: Any = "packed", **network: Any
) -> MusicTask:
    """A task whose folder holds three pieces to learn, of which two are validated on."""
    make = tunes.chorale if codec.kind == "chorales" else tunes.performance
    songs = [[BOS, *codec.encode(make(seed=i)), EOS] for i in range(3)]
    data = folder / "data"
    data.mkdir()
    write_shard(data / "train", songs, codec.size)
    write_shard(data / "valid", songs[:2], codec.size)
    Augmentation(1, np.array([0] * 3), np.array([0] * 3)).save(data / VARIED)
    small = {"width": 16, "depth": 1, "heads": 2, "ffn_width": 32, "dropout": 0.0}
    design = network_of(**{**small, "position": "Rotary()", **network})
    task = tunes.task_of(codec, design, context, folder)
    task.recipe = replace(task.recipe, layout=layout)
    return task


KINDS: list[Any] = [
    ("chorales", {"token_types": 4}, "packed"),
    ("chorales", {"token_types": 4, "relative": "ScoreContent(16)", "position": None}, "packed"),
    (
        "chorales",
        {"relative": "ScoreContent(5)", "position": "Learned(512)"},
        "padded",
    ),
    ("performance", {"relative": "RelativeContent(every=512)", "position": None}, "packed"),
    ("performance", {"relative": "ScoreContent(16)", "position": None}, "packed"),
    ("performance", {"kind": "recurrent"}, "padded"),
]


@pytest.mark.parametrize(("kind", "network", "layout"), KINDS)
def test_it_learns_what_it_reads(
    kind: str, network: dict[str, Any], layout: Any, tmp_path: Path
) -> None:
    torch.manual_seed(0)
    codec = new_codec(kind)
    task = learning(tmp_path, codec, layout=layout, **network)
    made, plan = task.network(), task.batches()
    before = task.validate(made).scores
    assert before["loss"] == pytest.approx(math.log(codec.size), rel=0.5)
    made.train()
    optimizer = torch.optim.Adam(made.parameters(), lr=0.02)
    for epoch in range(20):
        for rows in plan.epoch(epoch):
            loss = task.loss(made, plan.batch(rows))["loss"] / plan.count(rows)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    after = task.validate(made).scores
    assert after["loss"] < before["loss"] / 2


@pytest.mark.parametrize(("kind", "network", "layout"), KINDS)
@pytest.mark.parametrize("context", [8, 500])
@torch.no_grad()
def test_judged_is_every_token_once_and_of_the_notes_all_but_the_end(
    kind: str, network: dict[str, Any], layout: Any, context: int, tmp_path: Path
) -> None:
    task = learning(tmp_path, new_codec(kind), context, layout, **network)
    made: Any = task.network().double().eval()
    logs, ends = [], []
    for i in range(len(task.held_out)):
        ids = task.held_out[i].tolist()
        for begin in range(0, len(ids) - 1, context):
            some = ids[begin : begin + context + 1]
            scores = made(Tokens.padded([some[:-1]]))[0].log_softmax(-1)
            each = [scores[j, token].item() for j, token in enumerate(some[1:])]
            logs += each
            ends += each[-1:] if some[-1] == EOS else []
    found = task.measure(made)
    assert [*found] == ["notes", "perplexity", "loss"]
    assert found["loss"] == pytest.approx(-sum(logs) / len(logs), rel=1e-5)
    notes = (sum(ends) - sum(logs)) / (len(logs) - len(ends))
    assert found["notes"] == pytest.approx(notes, rel=1e-5)
    assert found["perplexity"] == pytest.approx(math.exp(found["loss"]))


def test_samples_are_labels_of_the_same_places(tmp_path: Path) -> None:
    task = learning(tmp_path, Chorales(), 64, token_types=4)
    first, second = (task.validate(task.network()).samples for _ in range(2))
    assert len(first) == 2
    for i, (one, other) in enumerate(zip(first, second, strict=True)):
        assert one[:2] == other[:2]
        shown = f"{one.source} {one.reference}"
        told = " ".join(Chorales().pieces(task.held_out[i].tolist()[1:-1]))
        assert told.startswith(shown)
        assert one.source
        assert one.reference
        assert len(one.output.split()) <= 64
