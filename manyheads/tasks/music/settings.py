"""Music that goes on: settings, and good ones for those who give none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from manyheads.config.declare import check, setting
from manyheads.modules.config import Layout, Network
from manyheads.tasks.presets import (
    check_layout,
    check_room,
    chosen_preset,
    fine_tuned,
    fitting_preset,
    no_other_network,
    scale_training,
)
from manyheads.tasks.recipe import Choice
from manyheads.training.config import Training

Augment = Literal["transpose", "stretch"]
FILES: tuple[str, ...] = ("music", "valid_music")
VOICES = ("soprano", "alto", "tenor", "bass")
REACH = 512  # tokens whose distances are told apart, each way
WHOLE = 2560  # tokens of the longest chorale


@dataclass(frozen=True)
class MusicData:
    """Where music comes from, how it is varied, and how much of it is read at a time."""

    music: tuple[Path, ...] = setting((), "MIDI files and folders of them, or an .npz of chorales.")
    valid_music: tuple[Path, ...] = setting((), "The same, for validation.")
    held_out: float = setting(
        0.1,
        "Share of the pieces to validate on, where neither an .npz nor valid_music has others.",
        above=0,
        below=1,
    )
    context: int = setting(1024, "Tokens that are read at a time.", least=8, most=10**7)
    augment: tuple[Augment, ...] | None = setting(
        None, "How a piece is varied, anew in each epoch; null: as the codec can."
    )
    semitones: int = setting(
        3, "How far it is transposed, up and down, where a piece has room.", least=0, most=24
    )
    stretches: tuple[float, ...] = setting(
        (0.95, 0.975, 1.0, 1.025, 1.05), "Factors of its lengths.", least=0.1, most=10
    )

    def __post_init__(self) -> None:
        check(self, self.missing())

    def missing(self) -> Iterator[str]:
        if not self.music:
            yield "nothing to learn from: give music, a folder of MIDI files or an .npz"
        if not self.stretches:
            yield "stretches are one factor at least; [1.0] would do"

    def augmentations_of(self, kind: str) -> tuple[str, ...]:
        """What is done to the pieces of such a codec."""
        if self.augment is not None:
            return self.augment
        return ("transpose", "stretch") if kind == "performance" else ("transpose",)


@dataclass(frozen=True)
class MusicEncoding:
    """How music becomes numbers."""

    kind: Literal["performance", "chorales", "remi"] = setting(
        "performance", "Keys and time as played, four voices on a grid, or bars and beats."
    )

    @property
    def voices(self) -> int:
        """That take turns."""
        return len(VOICES) if self.kind == "chorales" else 1


@dataclass(frozen=True)
class MusicRecipe:
    """What to learn, from what, with what."""

    task: Literal["music"] = setting(about="What is learned.")
    data: MusicData = setting(about="Where it is learned from.")
    codec: MusicEncoding = setting(MusicEncoding(), "How it becomes numbers.")
    network: Network = setting(Network(), "What learns it.")
    training: Training = setting(
        Training(best_by="loss"), "How long, how fast and on how much at a time."
    )
    layout: Layout = setting(
        "packed", "Sequences behind each other in full rows (packed), or one a row (padded)."
    )
    start_from: Path | None = setting(
        None, "A run or an imported model: its vocabulary, its network and its weights."
    )

    def __post_init__(self) -> None:
        network, context = self.network, self.data.context
        if self.training.best_by != "loss":
            raise ValueError("what writes music is judged by its loss; training.best_by: loss")
        if network.kind == "convolutional":
            raise ValueError(
                "music is written by a transformer or a recurrent network; "
                "network.kind: recurrent would do"
            )
        check_layout(network, self.layout)
        check_context(context, self.codec.voices)
        check_room(network, context)
        check_distances(network, context)
        check_voices(network, self.codec)
        if (
            "stretch" in self.data.augmentations_of(self.codec.kind)
            and self.codec.kind != "performance"
        ):
            raise ValueError(
                f"codec.kind: {self.codec.kind} counts in beats, which no stretching of time "
                "changes; data.augment: [transpose] would do"
            )


def is_grids(path: Path) -> bool:
    """Whether it holds chorales on a grid; all else is MIDI."""
    return path.suffix.lower() == ".npz"


def check_context(context: int, beat: int) -> None:
    if context % beat:
        raise ValueError(
            f"a step has {beat} tokens and a context of {context} would cut one apart; "
            f"data.context: {context // beat * beat or beat} would do"
        )


def check_distances(network: Network, context: int) -> None:
    every = not network.reach and {"content", "score"} & {network.position, network.relative}
    if network.kind == "transformer" and every and network.longest < context:
        raise ValueError(
            f"all distances up to {network.longest} tokens meet windows of {context}; "
            f"network.longest: {context} or data.context: {network.longest} would do"
        )


def check_voices(network: Network, codec: MusicEncoding) -> None:
    if not network.types:
        return
    if network.kind != "transformer":
        raise ValueError(
            f"a {network.kind} network does not tell voices apart; network.types: 0 would do"
        )
    if codec.voices == 1:
        raise ValueError(
            f"{codec.kind} has no voices that take turns and network.types asks for "
            f"{network.types}; network.types: 0 would do"
        )
    if network.types != codec.voices:
        raise ValueError(
            f"{codec.kind} have {codec.voices} voices and network.types asks for "
            f"{network.types}; network.types: {codec.voices} would do"
        )


# ---- presets ---------------------------------------------------------------------------------


def network(width: int, depth: int, heads: int, dropout: float, chorales: bool) -> Network:
    """Distances have a meaning of their own that depends on who looks; far ones share one, so that
    a piece may be longer than any that was learned from. Of chorales, it knows also who sings and
    where on the grid. An event is seldom followed by its like, which a tied table would expect
    at first: performances are learned sooner without.
    """
    return Network(
        width=width,
        depth=depth,
        heads=heads,
        inner=(8 * width // 3 + 63) // 64 * 64,
        feed_forward="swiglu",
        norm="rms",
        bias=False,
        relative="content",
        reach=REACH,
        dropout=dropout,
        tied=chorales,
        position="concatenated" if chorales else "none",
        types=len(VOICES) if chorales else 0,
    )


def tiny(tokens: int, cuda: bool, chorales: bool) -> dict[str, Any]:
    """For a first look on a laptop: minutes."""
    return {
        "context": 256,
        "network": network(128, 4, 4, 0.1, chorales),
        "training": scale_training(tokens, cuda, epochs=4, batch=2048, learning_rate=4e-3),
    }


def small(tokens: int, cuda: bool, chorales: bool) -> dict[str, Any]:
    """For hundreds of chorales, each read whole; or for a thousand performances."""
    if chorales:
        training = scale_training(tokens, cuda, epochs=167, batch=8192, learning_rate=2.5e-3)
        return {
            "context": WHOLE,
            "network": network(256, 5, 8, 0.2, chorales),
            "training": replace(training, weight_decay=0.5, ema=0.998),
        }
    return {
        "context": 1024,
        "network": network(384, 6, 6, 0.1, chorales),
        "training": scale_training(tokens, cuda, epochs=40, batch=16384, learning_rate=2e-3),
    }


def base(tokens: int, cuda: bool, chorales: bool) -> dict[str, Any]:
    """For many thousands of performances."""
    return {
        "context": WHOLE if chorales else 2048,
        "network": network(512, 8, 8, 0.3 if chorales else 0.1, chorales),
        "training": scale_training(tokens, cuda, epochs=20, batch=65536, learning_rate=6e-4),
    }


PRESETS: dict[str, Any] = {"tiny": tiny, "small": small, "base": base}


def recipe_for(task: Any, data: MusicData, tokens: int, choice: Choice = Choice()) -> MusicRecipe:
    cuda = choice.device == "cuda"
    chorales = is_grids(data.music[0])
    parts = chosen_preset(PRESETS, choice.preset or fitting_preset(tokens, cuda))(
        tokens, cuda, chorales
    )
    data = replace(data, context=parts.pop("context"))
    parts["codec"] = MusicEncoding("chorales" if chorales else "performance")
    if choice.start is not None:
        if choice.start.task != "music":
            raise ValueError(
                "what writes music starts from such a run; "
                f"the run to start from learned {choice.start.task}"
            )
        parts["network"], parts["codec"] = choice.start.network, choice.start.codec
        parts["training"] = fine_tuned(parts["training"], parts["network"])
        data = replace(data, context=choice.start.data.context)
    if parts["codec"].kind == "chorales":
        data = replace(data, semitones=6)
    if choice.network is not None:
        no_other_network(choice.network, ("transformer", "recurrent"))
        types = parts["network"].types if choice.network == "transformer" else 0
        parts["network"] = replace(parts["network"], kind=choice.network, types=types)
    layout: Layout = "packed" if parts["network"].packs else "padded"
    return MusicRecipe(task, data, layout=layout, **parts)
