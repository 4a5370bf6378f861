"""Models from elsewhere, as runs of ours."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np

from manyheads.config import write
from manyheads.interop.export import TEXTS
from manyheads.interop.exports import save_codecs
from manyheads.interop.huggingface import own
from manyheads.interop.huggingface.importer import read_folder
from manyheads.interop.parity import SAME, Parity, worst
from manyheads.models import load
from manyheads.tasks.portable import Portable, portable
from manyheads.tasks.table import find_task
from manyheads.training.files import read_tensors, write_tensors
from manyheads.training.run import RECIPE, WEIGHTS, Run


def import_folder(
    folder: Path, out: Path, tell: Callable[[str], object] = lambda line: None
) -> str:
    """A Hugging Face folder as a run of ours; gives the task that it is for.

    What its own library makes of a few texts is kept beside it, where that library is installed.
    """
    run = Run(out)
    with run.created():
        model, weights, notes = read_folder(folder)
        write_tensors(run / WEIGHTS, weights, {"imported": str(folder)})
        del weights  # a run loads its own
        save_codecs(model.codecs, run.folder)
        recipe = find_task(model.kind).adopt(model, folder.resolve(), run.folder)
        run.text(RECIPE, write(recipe))
        if notes:
            tell(f"left to the call: {', '.join(notes)}")
        keep_own(folder, run, tell)
    return model.kind


def keep_own(folder: Path, run: Run, tell: Callable[[str], object]) -> None:
    """What transformers makes of a few texts; refused where it is something else than here."""
    if find_spec("transformers") is None:
        tell("not compared with its own library: transformers is not installed")
        return
    model = portable(load(run.folder, "cpu"))
    if sum(tensor.numel() for tensor in model.network.parameters()) > own.MOST:
        tell("not compared with its own library: it is too large to be loaded a second time")
        return
    try:
        most = min(own.LONGEST, model.context)
        held = own.own_output(folder, model, TEXTS, most)
        held |= own.own_vectors(folder, TEXTS) if model.embed is not None else {}
    except Exception as error:  # whatever goes wrong in there is no fault of what is here
        first = str(error).strip().splitlines() or [type(error).__name__]
        tell(f"not compared with its own library, which fails: {first[0]}")
        return
    write_tensors(run / own.OWN, held, {"texts": list(TEXTS), "most": most})
    found = compare_as_imported(model, run.folder)
    if not found.largest <= SAME:
        raise ValueError(
            f"{folder}: transformers computes something else from it than is computed here, by "
            f"{found.largest:.2g}; report it with its config.json"
        )
    tell(f"compared with its own library: largest difference {found.largest:.2g}")
    if found.different:
        tell(
            f"{found.different} of {found.texts} texts are read as other numbers there: "
            "its tokenizer.json is not what its own tokenizer does"
        )


def compare_as_imported(model: Portable, folder: Path) -> Parity:
    """The model against what was kept of it when it was imported."""
    held, note = read_tensors(folder / own.OWN)
    found = own.by_folder(model, note["texts"], note["most"], held)
    if "vectors" in held and model.embed is not None:
        apart = float(np.abs(model.embed(note["texts"]) - held["vectors"].numpy()).max())
        found = found._replace(largest=worst([found.largest, apart]))
    return found
