"""Serve the live page of one model or several, until Ctrl-C."""

from __future__ import annotations

from typing import Any

from manyheads.inspect.server import Inspect, LiveModel, PageServer
from manyheads.models import load
from manyheads.tasks.verbs import PageOptions


def serve_live(model: Any, shown: Inspect, options: PageOptions, text: str = "") -> None:
    """Serve a live page: `shown` answers for this model; each model in `options.also` answers with
    its own `inspect_live`.
    """
    models = [LiveModel(str(model.name), shown, model.asks, text)]
    for other in (load(name, str(model.device)) for name in options.also):
        models.append(LiveModel(str(other.name), other.inspect_live, other.asks))
    try:
        made = PageServer(models, options.port or 0)
    except OSError as error:
        raise ValueError(
            f"port {options.port} cannot be had ({error.strerror}); another --port, or none, "
            "would do"
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
