"""Write files so that none is ever half-written; read only files that are whole and ours.

A file is written beside its place, flushed to the disk, and moved there whole.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from safetensors import SafetensorError, safe_open

if TYPE_CHECKING:
    from torch import Tensor

RECIPE, WEIGHTS = "recipe.yaml", "weights.safetensors"  # what makes a folder a model
CORPUS = "corpus.txt"  # what was read to train it
NOTE = "manyheads"  # key of our note in the metadata of a safetensors file


def write_whole(path: Path, write: Callable[[Path], object]) -> None:
    """Call `write` on a temporary file, then move it to `path`; an old file stays until then.

    The temporary file always has the same name: what a killed process left is overwritten.
    """
    beside = path.with_name(f".{path.name}.part")
    try:
        beside.touch()
        mode = beside.stat().st_mode  # of a new file; safetensors lets only its owner read
        write(beside)
        beside.chmod(mode)
        with beside.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(beside, path)
    except (OSError, SafetensorError) as error:
        kept = "; the one written before is whole" if path.exists() else ""
        raise OSError(f"{path} could not be written ({describe_failure(error)}){kept}") from None
    finally:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)


def describe_failure(error: Exception) -> str:
    """Return what went wrong, without the path and the number."""
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    number = re.search(r"\(os error (\d+)\)", str(error))
    return os.strerror(int(number[1])) if number else str(error)


def write_text(path: Path, text: str) -> None:
    write_whole(path, lambda beside: beside.write_text(text, encoding="utf-8"))


def write_tensors(path: Path, tensors: dict[str, Tensor], note: dict[str, Any]) -> None:
    """Write tensors by name, and a note, to one safetensors file.

    The note is the only metadata entry: several would come in another order each time, and equal
    weights should be equal files.
    """
    import safetensors.torch

    kept = {name: tensor.detach().contiguous().cpu() for name, tensor in tensors.items()}
    metadata = {NOTE: json.dumps(note, sort_keys=True)}
    write_whole(path, lambda beside: safetensors.torch.save_file(kept, beside, metadata))


def read_tensors(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Read the tensors and the note; refuse a file that is cut short or not ours."""
    with open_tensors(path) as file:
        words = file.metadata() or {}
        if NOTE not in words:
            raise ValueError(
                f"{path} was not written by manyheads; "
                "a run folder's own weights.safetensors or checkpoint.safetensors is wanted"
            )
        names = file.keys()
        return {name: file.get_tensor(name) for name in names}, json.loads(words[NOTE])


def read_note(path: Path) -> dict[str, Any]:
    """Read the note alone, and no tensor."""
    with open_tensors(path) as file:
        note: dict[str, Any] = json.loads((file.metadata() or {}).get(NOTE, "{}"))
    return note


def refuse_what_is_no_number(held: dict[str, Tensor], path: Path) -> None:
    """Refuse NaN and infinity, naming the first tensor that holds one."""
    for name, tensor in held.items():
        if tensor.is_floating_point() and not tensor.isfinite().all():
            raise ValueError(
                f"{path}: {name} holds values that are no numbers (NaN or infinite); "
                "weights from before training went wrong would do"
            )


def measure_tensors(path: Path) -> tuple[int, int]:
    """Return the largest dimension of all tensors of a file, and their number; read none."""
    shapes = []
    with open_tensors(path, framework="np") as file:
        for name in file.keys():  # noqa: SIM118
            shapes.append(file.get_slice(name).get_shape())
    return max([size for shape in shapes if all(shape) for size in shape], default=0), len(shapes)


@contextlib.contextmanager
def open_tensors(path: Path, framework: str = "pt") -> Iterator[Any]:
    if path.exists() and not path.is_file():  # opening a pipe would wait
        raise ValueError(f"{path} is no file")
    try:
        with safe_open(path, framework=framework) as file:
            yield file
    except FileNotFoundError:
        raise ValueError(f"there is no {path}") from None
    except (SafetensorError, OSError) as error:
        raise ValueError(
            f"{path} is not a whole safetensors file ({describe_failure(error)}); "
            "it was cut short or is something else"
        ) from None


def refuse_other_tensors(held: dict[str, Tensor], wanted: dict[str, Tensor], path: Path) -> None:
    """Refuse tensors that are not those of this network, naming the first that differs."""
    for name, tensor in wanted.items():
        if name not in held:
            raise ValueError(f"{path} belongs to another network: it holds no {name}")
        if held[name].shape != tensor.shape:
            raise ValueError(
                f"{path} belongs to another network: its {name} is "
                f"{tuple(held[name].shape)}, here it is {tuple(tensor.shape)}"
            )
    if more := [name for name in held if name not in wanted]:
        raise ValueError(f"{path} belongs to another network: it holds {more[0]} too")
