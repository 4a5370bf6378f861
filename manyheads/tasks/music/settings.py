"""Settings and presets of music models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Literal, Self

from manyheads.config.declare import Settings, setting
from manyheads.modules.config import (
    ConvolutionalConfig,
    NetworkConfig,
    RecurrentConfig,
    TransformerConfig,
)
from manyheads.modules.positions import POSITIONS, PositionValue, RelativeContentValue
from manyheads.tasks.music.verbs import VERBS, is_grids
from manyheads.tasks.recipe import Choice, ContinuationRecipe, Preset, gated_layers

Augment = Literal["transpose", "stretch"]
Encoding = Literal["performance", "chorales", "remi"]
VOICES = ("soprano", "alto", "tenor", "bass")
REACH = 512  # largest distance in tokens with a vector of its own, each way
WHOLE = 2560  # tokens of the longest chorale


@dataclass(frozen=True)
class MusicData(Settings):
    """Where music comes from, how it is varied, and how much of it is read at a time."""

    music: tuple[Path, ...] = setting(
        (), "MIDI files, folders of MIDI files, or an .npz of chorales."
    )
    valid_music: tuple[Path, ...] = setting((), "The same, for validation.")
    held_out: float = setting(
        0.1,
        "Share of the pieces to hold out for validation if neither an .npz nor valid_music has "
        "any.",
        above=0,
        below=1,
    )
    context: int = setting(1024, "Context length in tokens.", least=8, most=10**7)
    augment: tuple[Augment, ...] | None = setting(
        None,
        "Data augmentation in each epoch: transpose, stretch or both; null: all that the codec "
        "allows.",
    )
    semitones: int = setting(
        3,
        "Largest transposition in semitones, up and down, if the piece has room.",
        least=0,
        most=24,
    )
    stretches: tuple[float, ...] = setting(
        (0.95, 0.975, 1.0, 1.025, 1.05),
        "Factors by which pieces are stretched in time.",
        least=0.1,
        most=10,
    )

    def misfits(self) -> Iterator[str]:
        if not self.music:
            yield "nothing to learn from: give music, a folder of MIDI files or an .npz"
        if not self.stretches:
            yield "stretches are one factor at least; [1.0] would do"

    def augmentations_of(self, kind: str) -> tuple[str, ...]:
        """Return the augmentations for a codec of this kind."""
        if self.augment is not None:
            return self.augment
        return ("transpose", "stretch") if kind == "performance" else ("transpose",)


@dataclass(frozen=True)
class MusicEncoding:
    """How music becomes numbers."""

    kind: Encoding = setting(
        "performance",
        "Tokens of music: keys and time as played, four voices on a grid, or bars and beats.",
    )

    @property
    def voices(self) -> int:
        """Number of voices that take turns."""
        return len(VOICES) if self.kind == "chorales" else 1


@dataclass(frozen=True)
class ScoreContentValue(RelativeContentValue):
    """Relative positions by distance in time, in steps and in pitch."""


@dataclass(frozen=True)
class MusicTransformerConfig(TransformerConfig):
    """A transformer that can use distances in a score: `relative: ScoreContent(16)`."""

    positions: ClassVar[Mapping[str, type[PositionValue]]] = {
        **POSITIONS,
        "ScoreContent": ScoreContentValue,
    }


# ---- presets ---------------------------------------------------------------------------------


def network(
    width: int, depth: int, heads: int, dropout: float, chorales: bool = False
) -> NetworkConfig:
    """Relative positions that depend on the query; far distances share one, so that a piece may be
    longer than all training pieces. For chorales, it also knows the voice and the place on the
    grid. Performances are learned sooner without tied embeddings: those make a repeated event
    likely at first, and events seldom repeat.
    """
    return MusicTransformerConfig(
        **gated_layers(width),
        depth=depth,
        heads=heads,
        relative=f"RelativeContent({REACH})",
        dropout=dropout,
        tied=chorales,
        position="Concatenated()" if chorales else None,
        token_types=len(VOICES) if chorales else 0,
    )


# PRESETS are for performances, CHORALES for chorales, which are read whole.
PRESETS = {
    "tiny": Preset(
        "For a first look: minutes on a laptop.",
        network(128, 4, 4, 0.1),
        epochs=4,
        batch=2048,
        learning_rate=4e-3,
        context=256,
    ),
    "small": Preset(
        "For a thousand performances, or hundreds of chorales.",
        network(384, 6, 6, 0.1),
        epochs=40,
        batch=16384,
        learning_rate=2e-3,
        context=1024,
    ),
    "base": Preset(
        "For many thousands of performances.",
        network(512, 8, 8, 0.1),
        epochs=20,
        batch=65536,
        learning_rate=6e-4,
        context=2048,
    ),
}
CHORALES = {
    "tiny": PRESETS["tiny"]._replace(network=network(128, 4, 4, 0.1, chorales=True)),
    "small": PRESETS["small"]._replace(
        network=network(256, 5, 8, 0.2, chorales=True),
        epochs=167,
        batch=8192,
        learning_rate=2.5e-3,
        context=WHOLE,
        training={"weight_decay": 0.5, "ema": 0.998},
    ),
    "base": PRESETS["base"]._replace(network=network(512, 8, 8, 0.3, chorales=True), context=WHOLE),
}


# ---- the recipe ------------------------------------------------------------------------------


@dataclass(frozen=True)
class MusicRecipe(ContinuationRecipe):
    """The recipe of a music model: data, codec, network and training."""

    implementation = "manyheads.tasks.music.task:MusicTask"
    files = ("music", "valid_music", "augment")
    example = "--music midi_folder"
    presets = PRESETS
    verbs = VERBS
    starts_from = ("music",)
    judged, written = "what writes music", "music is written by"

    task: Literal["music"] = setting(about="The task.")
    data: MusicData = setting(about="Training data.")
    codec: MusicEncoding = setting(MusicEncoding(), "Tokenizer.")
    network: MusicTransformerConfig | RecurrentConfig | ConvolutionalConfig = setting(
        MusicTransformerConfig(), "Network."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        check_context(self.data.context, self.codec.voices)
        check_distances(self.network, self.data.context)
        check_voices(self.network, self.codec)
        if (
            "stretch" in self.data.augmentations_of(self.codec.kind)
            and self.codec.kind != "performance"
        ):
            raise ValueError(
                f"codec.kind: {self.codec.kind} counts in beats, which no stretching of time "
                "changes; data.augment: [transpose] would do"
            )

    @classmethod
    def data_of(cls, files: Mapping[str, Any]) -> Any:
        """Read `--augment none` as no augmentation, `--augment transpose,stretch` as both."""
        said = files.get("augment")
        if said is None:
            return super().data_of(files)
        names = () if said == "none" else tuple(said.replace(" ", "").split(","))
        if not set(names) <= {"transpose", "stretch"}:
            raise ValueError(
                "--augment is transpose, stretch, both with a comma between them, or none; "
                f"got {said!r}"
            )
        return super().data_of({**files, "augment": names})

    @classmethod
    def presets_for(cls, data: Any) -> Mapping[str, Preset]:
        """Return the presets for chorales or for performances, by the kind of the files."""
        kind: Encoding = "chorales" if is_grids(data.music[0]) else "performance"
        presets = CHORALES if kind == "chorales" else PRESETS
        return {name: one._replace(codec=MusicEncoding(kind)) for name, one in presets.items()}

    @classmethod
    def choose(cls, task: Any, data: Any, tokens: int, choice: Choice = Choice()) -> Self:
        recipe = super().choose(task, data, tokens, choice)
        if recipe.codec.kind != "chorales":
            return recipe
        return replace(recipe, data=replace(recipe.data, semitones=6))

    @classmethod
    def network_of_kind(cls, task: str, network: Any, kind: str | None) -> Any:
        found = super().network_of_kind(task, network, kind)
        return found if found.kind == "transformer" else replace(found, token_types=0)


def check_context(context: int, beat: int) -> None:
    if context % beat:
        raise ValueError(
            f"a step has {beat} tokens and a context of {context} would cut one apart; "
            f"data.context: {context // beat * beat or beat} would do"
        )


def check_distances(network: NetworkConfig, context: int) -> None:
    if not isinstance(network, TransformerConfig):
        return
    for value in (network.position_value, network.relative_value):
        if isinstance(value, RelativeContentValue) and 0 < value.every < context:
            raise ValueError(
                f"all distances up to {value.every} tokens meet windows of {context}; "
                f"every={context} or data.context: {value.every} would do"
            )


def check_voices(network: NetworkConfig, codec: MusicEncoding) -> None:
    if not network.token_types:
        return
    if network.kind != "transformer":
        raise ValueError(
            f"a {network.kind} network does not tell voices apart; network.token_types: 0 would do"
        )
    if codec.voices == 1:
        raise ValueError(
            f"{codec.kind} has no voices that take turns and network.token_types asks for "
            f"{network.token_types}; network.token_types: 0 would do"
        )
    if network.token_types != codec.voices:
        raise ValueError(
            f"{codec.kind} have {codec.voices} voices and network.token_types asks for "
            f"{network.token_types}; network.token_types: {codec.voices} would do"
        )
