"""The command train drafts."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from manyheads.cli.options import DeviceOption, ModelOption

ABOUT = "What guesses ahead for a trained model, so that it writes the same text sooner."


def train_drafts(
    model: ModelOption,
    out: Annotated[
        Path | None, typer.Option(help="The folder of the model, or one with the same weights.")
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            help="Texts to translate, or beginnings of texts to continue, one per line.",
            show_default="from the training data of the run",
        ),
    ] = None,
    minutes: Annotated[float, typer.Option(help="Time limit in minutes.")] = 10.0,
    device: DeviceOption = None,
) -> None:
    """Train the drafters of a model for speculative decoding: a table and a small head.

    They learn from the model's own output. Its weights do not change.

    Example: manyheads train drafts --model runs/de-en --out runs/de-en

    Then: manyheads translate --model runs/de-en --draft heads
    """
    from manyheads.catalog import find_model
    from manyheads.models import load
    from manyheads.tasks.draft_file import DRAFTS, hash_weights, write_drafts
    from manyheads.tasks.drafted import DraftedModel
    from manyheads.tasks.drafting import make_drafts

    if not 0 < minutes <= 24 * 60:
        raise ValueError(f"drafts are trained for some minutes, up to a day, got {minutes:g}")
    own = find_model(model)
    out = own if out is None else find_model(str(out))
    if hash_weights(out) != hash_weights(own):
        raise ValueError(f"{out} has other weights than {model}, whose drafts these would be")
    loaded: Any = load(model, device)
    if not isinstance(loaded, DraftedModel):
        raise ValueError(
            f"drafts are trained for models that write token by token, {model} is for {loaded.kind}"
        )
    sources = loaded.find_sources(source)
    made = make_drafts(loaded, sources, minutes, partial(print, file=sys.stderr))
    write_drafts(out, made)
    size = (out / DRAFTS).stat().st_size / 1e6
    print(f"{out / DRAFTS}: {len(made.table.entries):,} entries and a head, {size:.2f} MB")
