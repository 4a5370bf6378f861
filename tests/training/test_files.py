"""Nothing half-written is read, and nothing foreign is taken."""

import errno
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from counted import OFTEN, weighing
from small import contents

from manyheads.training.files import read_tensors, refuse_other_tensors, write_tensors, write_text
from manyheads.training.run import CHECKPOINT, Run


def test_tensors_and_their_note_come_back(tmp_path: Path) -> None:
    tensors = {"a": torch.randn(3, 4), "b": torch.tensor(7), "c": torch.randn(4, 3).T}
    write_tensors(tmp_path / "x", tensors, {"step": 3, "loss": 0.1})
    back, note = read_tensors(tmp_path / "x")
    assert note == {"step": 3, "loss": 0.1}
    assert back.keys() == tensors.keys()
    assert all(torch.equal(tensor, back[name]) for name, tensor in tensors.items())


def test_equal_tensors_are_equal_files(tmp_path: Path) -> None:
    tensors = {f"t{i}": torch.full((i,), float(i)) for i in range(1, 9)}
    for i in range(12):
        write_tensors(tmp_path / f"{i}", tensors, {"step": 3, "best": [[1.5, 2]]})
    assert len({path.read_bytes() for path in tmp_path.iterdir()}) == 1


def test_what_a_killed_process_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / ".x.part").write_bytes(b"half of a file, and longer than the whole one will be")
    write_text(tmp_path / "x", "whole")
    assert contents(Run(tmp_path)) == {"x": b"whole"}


# ---- a full disk ----


@pytest.fixture
def saved(tmp_path: Path) -> Run:
    run = Run(tmp_path / "run")
    trainer = weighing(run)
    assert not trainer.fit(lambda: trainer.learner.taken >= 6)
    return run


def half(kept: dict[str, Any], path: Path, metadata: dict[str, str]) -> None:
    path.write_bytes(safetensors.torch.save(kept, metadata)[:100])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))


def test_a_disk_that_fills_up_leaves_the_checkpoint_before(
    saved: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = contents(saved)
    trainer = weighing(saved)
    monkeypatch.setattr(safetensors.torch, "save_file", half)
    with pytest.raises(OSError) as error:
        trainer.save()
    assert str(error.value) == (
        f"{saved / CHECKPOINT} could not be written (No space left on device); "
        "the one written before is whole"
    )
    assert contents(saved) == before
    monkeypatch.undo()
    assert weighing(saved).learner.taken == 6


def test_a_first_file_that_cannot_be_written_leaves_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(safetensors.torch, "save_file", half)
    with pytest.raises(OSError, match=r"x could not be written \(No space left on device\)$"):
        write_tensors(tmp_path / "x", {"a": torch.ones(99)}, {})
    assert not list(tmp_path.iterdir())


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB, which only root may make."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount here")
    if done.returncode:
        pytest.skip("no disk may be mounted here")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_real_disk_that_is_full_leaves_the_file_before(small_disk: Path) -> None:
    write_tensors(small_disk / "x", {"a": torch.ones(5000)}, {"step": 1})
    with pytest.raises(OSError) as error:
        write_tensors(small_disk / "x", {"a": torch.ones(50_000)}, {"step": 2})
    assert str(error.value) == (
        f"{small_disk / 'x'} could not be written (No space left on device); "
        "the one written before is whole"
    )
    assert read_tensors(small_disk / "x")[1] == {"step": 1}
    assert [path.name for path in small_disk.iterdir()] == ["x"]


# ---- files that are not what they should be ----


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-9])


def text(path: Path) -> None:
    path.write_text("This is a letter, and it is long enough to have a head.")


def nothing(path: Path) -> None:
    path.write_bytes(b"")


def foreign(path: Path) -> None:
    safetensors.torch.save_file({"a": torch.ones(2)}, path)


def weights_only(path: Path) -> None:
    write_tensors(path, {"a": torch.ones(2)}, {"moments": []})


def changed(path: Path, name: str, tensor: torch.Tensor | None) -> None:
    held, note = read_tensors(path)
    held = {key: one.clone() for key, one in held.items() if key != name}
    write_tensors(path, held if tensor is None else {**held, name: tensor}, note)


def without_a_weight(path: Path) -> None:
    changed(path, "network.1.bias", None)


def without_a_moment(path: Path) -> None:
    changed(path, "optimizer.exp_avg.1.bias", None)


def without_an_average(path: Path) -> None:
    changed(path, "average.3.bias", None)


def of_another_shape(path: Path) -> None:
    changed(path, "optimizer.exp_avg_sq.1.bias", torch.ones(5))


def with_more(path: Path) -> None:
    changed(path, "network.9.bias", torch.ones(5))


def of_another_kind(path: Path) -> None:
    changed(path, "colour", torch.ones(5))


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (cut_short, "is not a whole safetensors file"),
        (text, "is not a whole safetensors file"),
        (nothing, "is not a whole safetensors file"),
        (foreign, "was not written by manyheads; a run folder's own weights.safetensors or"),
        (weights_only, "is no checkpoint of a run: it has no sizes"),
        (without_a_weight, "belongs to another network: it holds no network.1.bias"),
        (without_a_moment, "belongs to another network: it holds no optimizer.exp_avg.1.bias"),
        (without_an_average, "belongs to another network: it holds no average.3.bias"),
        (
            of_another_shape,
            "belongs to another network: its optimizer.exp_avg_sq.1.bias is (5,), here it is (4,)",
        ),
        (with_more, "belongs to another network: it holds network.9.bias too"),
        (of_another_kind, "belongs to another network: it holds colour too"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_checkpoint_that_is_none_is_refused_in_a_sentence(
    saved: Run, spoil: Any, sentence: str
) -> None:
    spoil(saved / CHECKPOINT)
    with (saved / "metrics.jsonl").open("a") as log:
        log.write("a line after the checkpoint\n")
    before = contents(saved)
    with pytest.raises(ValueError) as error:
        weighing(saved, OFTEN)
    assert str(error.value).startswith(f"{saved / CHECKPOINT} {sentence}")
    assert "\n" not in str(error.value)
    assert contents(saved) == before


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^there is no .*/x$"):
        read_tensors(tmp_path / "x")


def test_what_fits_is_not_refused() -> None:
    refuse_other_tensors({"a": torch.ones(2)}, {"a": torch.zeros(2)}, Path("x"))
