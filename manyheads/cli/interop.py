"""The commands import, export and verify."""

from __future__ import annotations

from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyheads.cli.options import DeviceOption, ModelOption

if TYPE_CHECKING:
    from manyheads.interop.parity import Parity

LINES = 200


def import_(
    folder: Annotated[
        Path,
        typer.Argument(
            help="Folder with config.json, *.safetensors and tokenizer.json.", show_default=False
        ),
    ],
    out: Annotated[Path, typer.Option(help="New folder for the run.")],
) -> None:
    """Import a Hugging Face folder: GPT-2, Llama, Mistral, BERT, Marian, BART, mBART, Pegasus.

    The result is a run like any other: use it, fine-tune it, export it.

    Example: manyheads import ./hf-folder --out runs/imported

    Then: manyheads verify --model runs/imported
    """
    from manyheads.interop.huggingface.folders import check_folder

    check_folder(folder)  # before torch is loaded, which takes longer than this check

    from manyheads.interop.importing import import_folder
    from manyheads.tasks.table import find_recipe

    task = import_folder(folder, out, print)
    use = find_recipe(task).use
    print(f"imported: a model for {task}; `manyheads {use} --model {out}` uses it")
    if task == "translation":  # a folder does not say what its model writes
        print(
            "it translates each sentence of a text by itself; if it writes summaries, "
            f"task: summarization in {out / 'recipe.yaml'} lets it read texts whole"
        )


def export(
    out: Annotated[Path, typer.Argument(help="New folder to write.", show_default=False)],
    model: ModelOption,
    to: Annotated[str, typer.Option(help="huggingface, ctranslate2 or onnx.")],
    quantization: Annotated[
        str, typer.Option(help="For ctranslate2: int8, float16 and others; without it, float32.")
    ] = "",
    check: Annotated[
        Path | None,
        typer.Option(
            help=f"Texts to compare on, one per line (the first {LINES}); without it, a few."
        ),
    ] = None,
) -> None:
    """Export a model for other programs, and check that it gives the same results there.

    Example: manyheads export de-en-hf --model de-en --to huggingface
    """
    from manyheads.interop.export import TEXTS
    from manyheads.interop.export import export as send
    from manyheads.interop.parity import SAME
    from manyheads.models import load

    texts = TEXTS if check is None else first_lines(check)
    found = send(load(model, "cpu"), to, out, texts, quantization)
    print(f"exported to {out}; {format_parity(found)}")
    if not quantization and (not found.largest <= SAME or found.different):
        raise ValueError(
            f"the export in {out} says something else than {model}: {format_parity(found)}; "
            "do not use it, and report it with the recipe"
        )


def verify(
    model: ModelOption,
    check: Annotated[
        Path | None,
        typer.Option(
            help=f"Texts to verify on, one per line (the first {LINES}); without it, a few."
        ),
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Check that a model gives the same results in every way it can be run.

    Alone and in a batch, packed and padded, with and without a cache, here and exported.

    Example: manyheads verify --model runs/de-en
    """
    from manyheads.catalog import find_model
    from manyheads.models import load
    from manyheads.verifying import run_checks

    texts = () if check is None else first_lines(check)
    failed = 0
    for one in run_checks(load(model, device), texts, find_model(model)):
        failed += not one.holds
        print(one, flush=True)
    if failed:
        print(f"{failed} of these do not hold")
        raise typer.Exit(1)


def first_lines(path: Path) -> list[str]:
    from manyheads.data.sources import read_lines

    found = [*islice(filter(str.strip, read_lines(path)), LINES)]
    if not found:
        raise ValueError(f"{path} has no lines to compare on")
    return found


def format_parity(found: Parity) -> str:
    return (
        f"largest difference {found.largest:.2g}, "
        f"{found.texts - found.different} of {found.texts} texts alike"
        + (f", {found.by}" if found.by else "")
    )
