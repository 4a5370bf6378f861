"""inspect: what a model looked at, as a page in a file, or live."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention
from manyheads.inspect.server import PageServer
from manyheads.tasks.verbs import InspectOptions


def inspect_text(model: Any, options: InspectOptions) -> None:
    chosen = asdict(options)
    text, out, port = (chosen.pop(name) for name in ("text", "out", "port"))

    def inspect(text: str, what_if: Sequence[Intervention] = ()) -> AttentionPage:
        page: AttentionPage = model.inspect(text, what_if=what_if, **chosen)
        return page

    if out is not None:
        inspect(text).save(out)
        print(f"page: {out}")
        return
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
