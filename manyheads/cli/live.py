"""The live page of one model or several, until Ctrl-C."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from manyheads.inspect.server import LiveModel, PageServer
from manyheads.models import load


def load_live(names: Iterable[str], device: str) -> list[LiveModel]:
    """Models beside the one that was named, each as it asks by itself."""
    models = [load(name, device) for name in names]
    return [LiveModel(str(one.name), one.inspect_live, one.asks) for one in models]


def serve_live(models: Sequence[LiveModel], port: int | None) -> None:
    try:
        made = PageServer(models, port or 0)
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
