"""All settings of a run, and good ones for those who give none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from manyheads.model.build import BUILDERS, Network
from manyheads.tasks.kinds import KINDS, Kind
from manyheads.tasks.pairs import Layout
from manyheads.tasks.reading import Data
from manyheads.tasks.texts import Codec
from manyheads.training.loop import Training


@dataclass(frozen=True)
class Recipe:
    """What to learn, from what, with what."""

    task: Kind
    data: Data
    codec: Codec = Codec()
    network: Network = Network()
    training: Training = Training()
    layout: Layout = "packed"

    def __post_init__(self) -> None:
        if self.layout == "packed" and not self.network.packs:
            raise ValueError(
                f"a {self.network.kind} network reads one sequence a row; layout: padded would do"
            )
        if self.training.compile and self.network.kind == "recurrent":
            raise ValueError(
                "a recurrent network runs as it is, there is nothing to compile; "
                "training.compile: false would do"
            )
        room, longest = self.network.longest, self.data.longest_tokens
        if self.network.position == "learned" and room < longest:
            raise ValueError(
                f"a learned position for {room} places meets texts of {longest} tokens; "
                f"network.longest: {longest} or data.longest_tokens: {room} would do"
            )


# ---- presets: functions, so that a choice may follow from the corpus and the machine ------------


def tiny(corpus: int, cuda: bool) -> dict[str, Any]:
    """For a first look on a laptop: minutes."""
    return {
        "codec": Codec(size=4000),
        "network": Network(width=128, depth=2, heads=4, inner=512, dropout=0.1),
        "training": scaled(corpus, cuda, epochs=10, tokens=4096, learning_rate=3e-3),
    }


def small(corpus: int, cuda: bool) -> dict[str, Any]:
    """For tens of thousands of pairs."""
    return {
        "codec": Codec(size=8000),
        "network": Network(width=256, depth=4, heads=4, inner=1024, dropout=0.3),
        "training": scaled(corpus, cuda, epochs=60, tokens=16384, learning_rate=4e-3),
    }


def base(corpus: int, cuda: bool) -> dict[str, Any]:
    """The Transformer as first published, for millions of pairs."""
    return {
        "codec": Codec(size=32000),
        "network": Network(width=512, depth=6, heads=8, inner=2048, dropout=0.1),
        "training": scaled(corpus, cuda, epochs=20, tokens=25600, learning_rate=7e-4),
    }


PRESETS = {"tiny": tiny, "small": small, "base": base}


def fitting(corpus: int, cuda: bool) -> str:
    """The preset for a corpus of so many tokens on this machine."""
    if not cuda:
        return "tiny"
    return "small" if corpus < 20_000_000 else "base"


def scaled(corpus: int, cuda: bool, *, epochs: int, tokens: int, learning_rate: float) -> Training:
    """So many epochs, validated some twenty times."""
    steps = max(200, epochs * corpus // tokens)
    every = max(50, steps // 20)
    return Training(
        steps=steps,
        tokens_per_batch=tokens,
        learning_rate=learning_rate,
        schedule="inverse-square-root",
        warmup_steps=max(50, min(4000, steps // 8)),
        label_smoothing=0.1,
        precision="bfloat16" if cuda else "float32",
        compile=False,
        validate_every=every,
        checkpoint_every=every,
        log_every=max(1, min(50, every // 2)),
        ema=0.995 if steps >= 1000 else 0.98,
    )


def recipe_for(
    task: Kind,
    data: Data,
    corpus: int,
    device: str,
    network: str | None = None,
    preset: str | None = None,
) -> Recipe:
    """All settings for a corpus of so many tokens on this device, where none were given."""
    cuda = device == "cuda"
    data = replace(data, filters=data.filters or KINDS[task].filters)
    name = preset or fitting(corpus, cuda)
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}")
    parts = PRESETS[name](corpus, cuda)
    if network is not None:
        if network not in BUILDERS:
            raise ValueError(f"there is no network {network!r}; there are {', '.join(BUILDERS)}")
        parts["network"] = replace(parts["network"], kind=network)
    # Packed rows need attention that knows documents, which on a CPU is slower than padding.
    layout: Layout = "packed" if cuda and parts["network"].packs else "padded"
    return Recipe(task, data, layout=layout, **parts)
