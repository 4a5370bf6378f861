"""Import models of other libraries as runs."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from manyheads.config import write
from manyheads.interop.export import TEXTS
from manyheads.interop.format import save_codecs
from manyheads.interop.huggingface.importer import read_folder
from manyheads.interop.huggingface.kept import keep_output
from manyheads.models import load
from manyheads.tasks.portable import require_portable
from manyheads.tasks.table import find_task
from manyheads.training.files import write_tensors, write_text
from manyheads.training.run import RECIPE, WEIGHTS, Run


def import_folder(
    folder: Path, out: Path, tell: Callable[[str], object] = lambda line: None
) -> str:
    """Import a Hugging Face folder as a run; return its task.

    If transformers is installed, its outputs for a few texts are kept beside the run.
    """
    run = Run(out)
    with run.make_folder():
        model, weights, notes = read_folder(folder)
        write_tensors(run / WEIGHTS, weights, {"imported": str(folder)})
        del weights  # the run loads them again
        save_codecs(model.codecs, run.folder)
        recipe = find_task(model.kind).adopt(model, folder.resolve(), run.folder)
        write_text(run / RECIPE, write(recipe))
        if notes:
            tell(f"left to the call: {', '.join(notes)}")
        if find_spec("transformers") is None:
            tell("not compared with its own library: transformers is not installed")
        else:
            tell(keep_output(folder, require_portable(load(run.folder, "cpu")), run.folder, TEXTS))
    return model.kind
