"""predict."""

from __future__ import annotations

from typing import Annotated

import typer

from manyheads.cli.options import DeviceOption, ModelOption


def predict(
    model: ModelOption,
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="LINE", help="What to read; without any, the lines of stdin."),
    ] = None,
    device: DeviceOption = None,
) -> None:
    """A line for each line read, by a model whose task has no command of its own."""
    from manyheads.cli.understanding import chunks
    from manyheads.models import load
    from manyheads.tasks.table import find_recipe

    loaded = load(model, device)
    if not hasattr(loaded, "predict"):
        use = find_recipe(loaded.kind).use
        raise ValueError(
            f"{model} is a model for {loaded.kind}; `manyheads {use} --model {model}` "
            "is what it is for"
        )
    for some in chunks(texts):
        for line in loaded.predict(some):
            print(line, flush=True)
