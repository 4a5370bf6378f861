"""Shards: what was written comes back, from disk, and nothing else is taken for it."""

import os
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.data import shards
from manyheads.data.shards import Shard, write_shard

SEQUENCES = [[5, 6, 7], [], [65_535], [0, 1]]


@given(
    sequences=st.lists(st.lists(st.integers(0, 99_999), max_size=6), max_size=12),
    buffer=st.integers(1, 20),
)
def test_what_was_written_comes_back(
    tmp_path_factory: pytest.TempPathFactory, sequences: list[list[int]], buffer: int
) -> None:
    path = tmp_path_factory.mktemp("shard") / "train"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(shards, "BUFFER", buffer)
        write_shard(path, iter(sequences), 100_000)
    shard = Shard(path)
    assert [shard[i].tolist() for i in range(len(shard))] == sequences
    assert shard.lengths.tolist() == [len(sequence) for sequence in sequences]
    assert shard.lengths.dtype == np.int64


def test_no_sequences_and_only_empty_ones_make_a_shard(tmp_path: Path) -> None:
    write_shard(tmp_path / "none", [], 10)
    assert len(Shard(tmp_path / "none")) == 0
    assert Shard(tmp_path / "none").lengths.tolist() == []
    write_shard(tmp_path / "empty", [[], []], 10)
    assert [sequence.tolist() for sequence in Shard(tmp_path / "empty")] == [[], []]


@pytest.mark.parametrize(("size", "kind"), [(65_536, np.uint16), (65_537, np.uint32)])
def test_numbers_are_as_small_as_the_vocabulary_allows(
    tmp_path: Path, size: int, kind: type
) -> None:
    write_shard(tmp_path / "train", SEQUENCES, size)
    assert Shard(tmp_path / "train")[0].dtype == kind
    assert Shard(tmp_path / "train")[2].tolist() == [65_535]


def test_a_sequence_is_a_view_into_the_file_that_cannot_be_written(tmp_path: Path) -> None:
    write_shard(tmp_path / "train", SEQUENCES, 65_536)
    shard = Shard(tmp_path / "train")
    assert np.shares_memory(shard[0], shard.tokens)
    base = shard.tokens
    while not isinstance(base, np.memmap):
        base = base.base
    with pytest.raises(ValueError, match="read-only"):
        shard[0][0] = 1


def test_a_sequence_is_counted_from_either_end(tmp_path: Path) -> None:
    write_shard(tmp_path / "train", SEQUENCES, 65_536)
    shard = Shard(tmp_path / "train")
    assert shard[-1].tolist() == [0, 1]
    assert shard[-4].tolist() == [5, 6, 7]
    for outside in (4, -5):
        with pytest.raises(IndexError, match=f"a shard of 4 sequences has no {outside}"):
            shard[outside]


def test_the_files_are_numpys_own(tmp_path: Path) -> None:
    write_shard(tmp_path / "train.de", (np.array(sequence) for sequence in SEQUENCES), 65_536)
    tokens = np.load(tmp_path / "train.de.tokens.npy", allow_pickle=False)
    ends = np.load(tmp_path / "train.de.ends.npy", allow_pickle=False)
    assert tokens.tolist() == [5, 6, 7, 65_535, 0, 1]
    assert ends.tolist() == [3, 3, 4, 6]
    assert sorted(os.listdir(tmp_path)) == ["train.de.ends.npy", "train.de.tokens.npy"]


def test_a_shard_written_over_a_longer_one_is_the_new_one(tmp_path: Path) -> None:
    write_shard(tmp_path / "train", SEQUENCES, 65_536)
    write_shard(tmp_path / "train", [[1], [2]], 65_536)
    assert [sequence.tolist() for sequence in Shard(tmp_path / "train")] == [[1], [2]]


def broken() -> Iterator[list[int]]:
    yield [1, 2]
    raise RuntimeError("the source ended early")


def test_what_breaks_while_writing_leaves_the_old_shard_and_no_rest(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="ended early"):
        write_shard(tmp_path / "train", broken(), 10)
    assert os.listdir(tmp_path) == []
    write_shard(tmp_path / "train", [[3]], 10)
    with pytest.raises(RuntimeError, match="ended early"):
        write_shard(tmp_path / "train", broken(), 10)
    assert [sequence.tolist() for sequence in Shard(tmp_path / "train")] == [[3]]
    assert len(os.listdir(tmp_path)) == 2


def test_between_the_two_files_there_is_no_shard(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_shard(tmp_path / "train", [[3, 4]], 10)
    replace, moved = os.replace, []

    def stopped(one: Path, other: Path) -> None:
        if moved:
            raise KeyboardInterrupt
        moved.append(other)
        replace(one, other)

    monkeypatch.setattr(os, "replace", stopped)
    with pytest.raises(KeyboardInterrupt):
        write_shard(
            tmp_path / "train", [[5, 6]], 10
        )  # as long as the old one: only the order protects
    with pytest.raises(ValueError, match=r"there is no shard .*train: train\.ends\.npy is missing"):
        Shard(tmp_path / "train")


def test_a_number_outside_the_vocabulary_is_refused(tmp_path: Path) -> None:
    with pytest.raises(
        ValueError, match="sequence 2 holds 10, a vocabulary of 10 has 0 to 9"
    ) as refused:
        write_shard(tmp_path / "train", [[1, 9], [], [10]], 10)
    assert "\n" not in str(refused.value)
    with pytest.raises(ValueError, match="sequence 0 holds -1"):
        write_shard(tmp_path / "train", [[-1]], 10)
    with pytest.raises(ValueError, match="a shard's vocabulary has 1 to 4294967296 numbers, got 0"):
        write_shard(tmp_path / "train", [], 0)
    assert os.listdir(tmp_path) == []


def test_the_sequence_is_counted_over_all_buffers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shards, "BUFFER", 2)
    with pytest.raises(ValueError, match="sequence 3 holds 10,"):
        write_shard(tmp_path / "train", [[1, 2], [3], [4], [10]], 10)


@pytest.mark.parametrize("name", ["train.tokens.npy", "train.ends.npy"])
@pytest.mark.parametrize("keep", [0, 5, 100, -1])
def test_a_truncated_file_is_refused(tmp_path: Path, name: str, keep: int) -> None:
    write_shard(tmp_path / "train", SEQUENCES, 65_536)
    whole = (tmp_path / name).read_bytes()
    (tmp_path / name).write_bytes(whole[:keep])
    with pytest.raises(
        ValueError, match=rf"{name} is cut short or is not a file of .* numbers; write it again"
    ):
        Shard(tmp_path / "train")


def test_a_foreign_file_is_refused(tmp_path: Path) -> None:
    write_shard(tmp_path / "train", SEQUENCES, 65_536)
    tokens = tmp_path / "train.tokens.npy"
    with tokens.open("wb") as file:
        np.savez(file, a=np.arange(6))
    with pytest.raises(ValueError, match="is not a file of uint16 or uint32 numbers"):
        Shard(tmp_path / "train")
    np.save(tokens, np.array([{}] * 6, dtype=object))
    with pytest.raises(ValueError, match="is not a file of uint16 or uint32 numbers"):
        Shard(tmp_path / "train")
    np.save(tokens, np.zeros((2, 3), dtype=np.uint16))
    with pytest.raises(
        ValueError, match=r"must be a row of uint16 or uint32, it holds uint16 of shape \(2, 3\)"
    ):
        Shard(tmp_path / "train")
    np.save(tokens, np.zeros(6, dtype=np.float32))
    with pytest.raises(ValueError, match="it holds float32 of shape"):
        Shard(tmp_path / "train")


def test_files_of_two_shards_are_refused(tmp_path: Path) -> None:
    write_shard(tmp_path / "train", SEQUENCES, 65_536)
    write_shard(tmp_path / "other", [[1]], 65_536)
    (tmp_path / "other.ends.npy").replace(tmp_path / "train.ends.npy")
    with pytest.raises(
        ValueError, match=r"train\.ends\.npy ends at 1 but train\.tokens\.npy has 6 numbers"
    ):
        Shard(tmp_path / "train")
    (tmp_path / "train.tokens.npy").unlink()
    with pytest.raises(ValueError, match=r"train\.tokens\.npy is missing"):
        Shard(tmp_path / "train")
