"""A network's settings of any kind."""

from dataclasses import fields
from typing import Any

from manyheads.modules.config import CONFIGS, NetworkConfig
from manyheads.tasks.music.settings import MusicTransformerConfig
from manyheads.tasks.seq2seq.parallel.config import PARALLEL


def network_of(kind: str = "transformer", **settings: Any) -> NetworkConfig:
    """With those of the settings that this kind has."""
    config = MusicTransformerConfig if "Score" in str(settings) else {**CONFIGS, **PARALLEL}[kind]
    names = {one.name for one in fields(config)}
    return config(**{name: value for name, value in settings.items() if name in names})
