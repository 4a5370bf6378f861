"""Chorales from a file of plain numbers."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from manyheads.tasks.music.chorales import read_grids

NOTES = np.arange(20, dtype=np.int16).reshape(5, 4)


def test_splits_are_cut_into_chorales(tmp_path: Path) -> None:
    path = tmp_path / "some.npz"
    np.savez(path, train_notes=NOTES, train_lengths=[2, 3], test_notes=NOTES, test_lengths=[5])
    found = read_grids(path)
    assert {split: [len(grid) for grid in each] for split, each in found.items()} == {
        "train": [2, 3],
        "test": [5],
    }
    assert (np.concatenate(found["train"]) == NOTES).all()


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ({"train": NOTES}, "should hold <split>_notes and <split>_lengths, it holds train"),
        ({"a_notes": NOTES}, "it holds a_notes"),
        ({"a_notes": NOTES, "a_lengths": [2, 2]}, "that add up to 5 steps, they add up to 4"),
        ({"a_notes": NOTES, "a_lengths": [6, -1]}, "should be counts"),
        (
            {"a_notes": NOTES[:, :3], "a_lengths": [5]},
            r"a_notes: a grid is steps by 4 voices .* got int16 of shape \(5, 3\)",
        ),
        ({"a_notes": NOTES * 1.0, "a_lengths": [5]}, "got float64 of shape"),
        ({"a_notes": NOTES.astype(int) + 65536, "a_lengths": [5]}, "for a rest; got 65536"),
        ({"a_notes": NOTES, "a_lengths": ["five"]}, r"in a row, they are <U4 of shape \(1,\)"),
        ({"a_notes": NOTES, "a_lengths": 5}, r"in a row, they are int64 of shape \(\)"),
        (
            {"a_notes": np.array([NOTES, None], dtype=object), "a_lengths": [5]},
            "pickled arrays are not read",
        ),
    ],
)
def test_other_files_are_refused(held: dict[str, Any], sentence: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "some.npz", **held)
    with pytest.raises(ValueError, match=sentence):
        read_grids(tmp_path / "some.npz")


def test_what_is_no_npz_is_refused(tmp_path: Path) -> None:
    (tmp_path / "some.npz").write_bytes(b"PK\x03\x04nothing")
    with pytest.raises(ValueError, match=r"some.npz is not an .npz of plain numbers"):
        read_grids(tmp_path / "some.npz")
    np.save(tmp_path / "some.npy", NOTES)
    with pytest.raises(ValueError, match=r"some.npy is not an .npz of plain numbers"):
        read_grids(tmp_path / "some.npy")
    (tmp_path / "folder.npz").mkdir()
    with pytest.raises(IsADirectoryError):
        read_grids(tmp_path / "folder.npz")
    with pytest.raises(FileNotFoundError, match=r"there is no file .*gone.npz"):
        read_grids(tmp_path / "gone.npz")


def test_a_damaged_npz_is_read_or_refused_and_nothing_else(tmp_path: Path) -> None:
    dice, path = random.Random(0), tmp_path / "some.npz"
    np.savez_compressed(path, train_notes=NOTES, train_lengths=[2, 3])
    whole = path.read_bytes()
    refused = 0
    for _ in range(300):
        data = bytearray(whole)
        for _ in range(dice.randrange(1, 5)):
            data[dice.randrange(len(data))] = dice.randrange(256)
        path.write_bytes(data)
        try:
            read_grids(path)
        except ValueError:
            refused += 1
    assert 0 < refused < 300


def test_a_split_may_hold_no_chorale(tmp_path: Path) -> None:
    none = np.zeros(0, np.int64)
    np.savez(tmp_path / "some.npz", train_notes=NOTES[:0], train_lengths=none)
    assert read_grids(tmp_path / "some.npz") == {"train": []}
