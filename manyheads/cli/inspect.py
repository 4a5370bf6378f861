"""The command inspect: what a model attended to, as a page in a file or live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from functools import partial
from inspect import signature
from typing import Any

from manyheads.cli.live import serve_live
from manyheads.cli.screen import tell_warnings
from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention
from manyheads.models import load
from manyheads.tasks.verbs import InspectOptions

COMMON = [one.name for one in fields(InspectOptions)]


def inspect_text(model: Any, options: InspectOptions) -> None:
    if options.out is not None:
        make_page(model, options).save(options.out)
        print(f"page: {options.out}")
        return
    serve_live(model, partial(inspect_live, model, options), options, options.text or "")


def inspect_live(
    model: Any, options: InspectOptions, text: str, what_if: Sequence[Intervention], **how: Any
) -> AttentionPage:
    return inspect_once(model, replace(options, text=text, **how), what_if)


def inspect_once(
    model: Any, options: InspectOptions, what_if: Sequence[Intervention] = ()
) -> AttentionPage:
    own = {name: value for name, value in asdict(options).items() if name not in COMMON}
    if not signature(model.inspect).parameters.keys() >= own.keys():  # a model to compare with
        raise ValueError(
            f"pages of one task are compared: {model.name} is a model for {model.kind}"
        )
    with tell_warnings():
        page: AttentionPage = model.inspect(options.text, what_if=what_if, **own)
    return page


def make_page(model: Any, options: InspectOptions) -> AttentionPage:
    """Make the page of a text, compared with another text or another model where one is named."""
    page = inspect_once(model, options)
    if options.versus is not None:
        return page.compare(inspect_once(model, replace(options, text=options.versus)))
    if options.versus_model is None:
        return page
    other = load(options.versus_model, str(model.device))
    names = str(model.name), options.versus_model
    return page.compare(inspect_once(other, options.look_at_output(page.about["wrote"])), names)
