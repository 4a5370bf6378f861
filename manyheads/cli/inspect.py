"""inspect: what a model looked at, as a page in a file, or live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from typing import Any

from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention
from manyheads.inspect.server import PageServer
from manyheads.models import load
from manyheads.tasks.verbs import InspectOptions

COMMON = [one.name for one in fields(InspectOptions)]


def inspect_text(model: Any, options: InspectOptions) -> None:
    if options.out is not None:
        make_page(model, options).save(options.out)
        print(f"page: {options.out}")
        return
    port, text = options.port, options.text

    def inspect(text: str, what_if: Sequence[Intervention] = ()) -> AttentionPage:
        return inspect_once(model, replace(options, text=text), what_if)

    try:
        made = PageServer(inspect, port or 0, text or "")
    except OSError as error:
        raise ValueError(
            f"port {port} cannot be had ({error.strerror}); another --port, or none, would do"
        ) from None
    with made as server:
        print(
            f"{server.url}\nopen it in a browser; it answers this machine alone; Ctrl-C ends",
            flush=True,
        )
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print()


def inspect_once(
    model: Any, options: InspectOptions, what_if: Sequence[Intervention] = ()
) -> AttentionPage:
    own = {name: value for name, value in asdict(options).items() if name not in COMMON}
    page: AttentionPage = model.inspect(options.text, what_if=what_if, **own)
    return page


def make_page(model: Any, options: InspectOptions) -> AttentionPage:
    """Of a text; beside another text, or the same by another model, where one is named."""
    page = inspect_once(model, options)
    if options.versus is not None:
        return page.compare(inspect_once(model, replace(options, text=options.versus)))
    if options.versus_model is None:
        return page
    other = load(options.versus_model, str(model.device))
    names = str(model.name), options.versus_model
    return page.compare(inspect_once(other, options.again(page.about["wrote"])), names)
