"""classify, embed."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from manyheads.cli.incoming import Incoming
from manyheads.cli.options import DeviceOption, ModelOption, loaded_as

if TYPE_CHECKING:
    from manyheads.tasks.classification.predictions import AnyPrediction

AT_ONCE = 1024  # texts


def classify(
    model: ModelOption,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to read; without any, the lines of stdin."),
    ] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line, with all probabilities.")
    ] = False,
    device: DeviceOption = None,
) -> None:
    """Say what each text is: its class and how sure that is, its number, or its words' tags.

    A line is written for each line read, as they come.
    Two texts of one line have a tab between them.
    """
    from manyheads.tasks.classification.model import Classifier

    loaded = loaded_as(Classifier, model, device)
    cut = str if loaded.kind == "labelling" else parts  # words have a tag each, tabs or not
    for some in chunks(texts):
        for text, predicted in zip(some, loaded.classify([*map(cut, some)]), strict=True):
            print(described(text, predicted) if as_json else line(predicted), flush=True)


def embed(
    model: ModelOption,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to read; without any, the lines of stdin."),
    ] = None,
    out: Annotated[
        Path | None, typer.Option(help="The .npy file to write; else stdout, or as --json.")
    ] = None,
    pooling: Annotated[
        str | None, typer.Option(help="mean or first; else as the model was made.")
    ] = None,
    plain: Annotated[
        bool, typer.Option("--plain", help="As they come, not brought to length 1.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON list of numbers a line.")] = False,
    device: DeviceOption = None,
) -> None:
    """A vector for each text: `manyheads embed --model runs/mlm < sentences.txt > vectors.npy`

    The product of two is how alike the texts are.
    """
    import numpy as np

    from manyheads.tasks.masked.model import EncoderModel

    if pooling not in (None, "mean", "first"):
        raise ValueError(f"--pooling is mean or first, got {pooling!r}")
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise ValueError(f"--out names a file in a folder that is there, got {out}")
    if out is None and not as_json and sys.stdout.isatty():
        raise ValueError("vectors are no text; `> vectors.npy`, --out vectors.npy or --json")
    loaded = loaded_as(EncoderModel, model, device)
    how: Any = {"pooling": pooling, "normalise": False if plain else None}
    with warned():
        each = [loaded.embed(some, **how) for some in chunks(texts)]
    if not each:
        raise ValueError("there is nothing to read: stdin has no lines")
    vectors = np.concatenate(each)
    if as_json:
        for vector in vectors.tolist():
            print(json.dumps([round(number, 6) for number in vector]))
    elif out is not None:
        with out.open("wb") as file:
            np.save(file, vectors)
    else:
        np.save(sys.stdout.buffer, vectors)


@contextmanager
def warned() -> Iterator[None]:
    """What is warned of inside is told in a line."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        yield
    for one in told:
        print(f"manyheads: {one.message}", file=sys.stderr)


def chunks(texts: list[str] | None) -> Iterator[list[str]]:
    """Those given, or the lines of stdin as they come: who sends one and waits is answered."""
    from manyheads.data.sources import decoded
    from manyheads.tasks.seq2seq.model import together

    if texts:
        yield texts
        return
    coming = Incoming(cast(BufferedIOBase, sys.stdin.buffer))
    lines = (decoded(raw, Path("stdin"), number) for number, raw in enumerate(coming, start=1))
    yield from together(lines, 1 if sys.stdin.isatty() else AT_ONCE, coming.ready)


def parts(text: str) -> str | tuple[str, str]:
    first, tab, second = text.partition("\t")
    return (first, second) if tab else text


def line(predicted: AnyPrediction) -> str:
    """The label and its probability with a tab between; or a number; or tags."""
    from manyheads.tasks.classification.predictions import Prediction

    if isinstance(predicted, Prediction):
        return f"{predicted.label}\t{predicted.probability:.4f}"
    return str(predicted)


def described(text: str, predicted: AnyPrediction) -> str:
    return json.dumps({"text": text, **predicted._asdict()}, ensure_ascii=False)
