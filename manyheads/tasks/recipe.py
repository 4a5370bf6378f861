"""What the recipes of all tasks share."""

from __future__ import annotations

from typing import Any, NamedTuple


class Choice(NamedTuple):
    """What a person chose beside the files and the settings."""

    device: str = "cpu"
    network: str | None = None
    preset: str | None = None
    start: Any = None  # the recipe of the run to start from
