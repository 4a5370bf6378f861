"""train drafts."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.options import DeviceOption, ModelOption

ABOUT = "What guesses ahead for a trained translator, so that it writes the same sooner."


def train_drafts(
    model: ModelOption,
    out: Annotated[
        Path | None, typer.Option(help="The folder of the model, or one with the same weights.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            help="Source texts to translate, one per line.", show_default="those of the run"
        ),
    ] = None,
    minutes: Annotated[float, typer.Option(help="Time limit in minutes.")] = 10.0,
    device: DeviceOption = None,
) -> None:
    """Train the drafters of a translation model for speculative decoding: a table and a small head.

    They learn from its own output for its training sources. Its weights do not change.

    Example: manyheads train drafts --model runs/de-en --out runs/de-en

    Then: manyheads translate --model runs/de-en --draft heads
    """
    from manyheads.catalog import find_model
    from manyheads.models import load
    from manyheads.tasks.seq2seq.drafting import DRAFTS, hash_weights, make_drafts, write_drafts
    from manyheads.tasks.seq2seq.model import Translator

    if not 0 < minutes <= 24 * 60:
        raise ValueError(f"drafts are trained for some minutes, up to a day, got {minutes:g}")
    own = find_model(model)
    out = own if out is None else find_model(str(out))
    if hash_weights(out) != hash_weights(own):
        raise ValueError(f"{out} has other weights than {model}, whose drafts these would be")
    loaded: Any = load(model, device)
    if not isinstance(loaded, Translator):
        raise ValueError(
            f"drafts are trained for models that read a source, {model} is for {loaded.kind}; "
            "--draft lookup needs no training"
        )
    sources = read_sources(loaded, source)
    made = make_drafts(loaded, sources, minutes, partial(print, file=sys.stderr))
    write_drafts(out, made)
    size = (out / DRAFTS).stat().st_size / 1e6
    print(f"{out / DRAFTS}: {len(made.table.entries):,} entries and a head, {size:.2f} MB")


def read_sources(model: Any, path: Path | None) -> list[list[int]]:
    """As numbers: of a file, or of the run."""
    from manyheads.data.sources import read_lines
    from manyheads.tasks.seq2seq.corpus import load_pairs

    if path is not None:
        found = model.task.codecs.source.encode_all([*read_lines(path)])
    elif (model.task.held_in() / "data").is_dir():
        shard = load_pairs(model.task.held_in(), "train", model.task.codecs).source
        found = [shard[i].tolist() for i in range(len(shard))]
    else:
        raise ValueError(
            f"{model.name} was trained elsewhere; --source FILE says what it is to write for"
        )
    if not (some := [ids for ids in found if ids]):
        raise ValueError(f"{path or model.name} has no sources to write for")
    return some
