"""Music that goes on: settings, and good ones for those who give none."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from manyheads.config.declare import setting
from manyheads.data.layout import Layout
from manyheads.data.shards import Shard
from manyheads.modules.build import Network
from manyheads.tasks.music.chorales import VOICES
from manyheads.tasks.music.codec import CODEC, MusicCodec, load, new
from manyheads.tasks.music.corpus import VARIED, Pieces, Repertoire, is_grids
from manyheads.tasks.music.corpus import gather as read
from manyheads.tasks.music.corpus import prepare as lay_down
from manyheads.tasks.music.model import Musician
from manyheads.tasks.music.task import Learning, Music
from manyheads.tasks.music.windows import Varied, check_context
from manyheads.tasks.presets import (
    check_layout,
    check_room,
    chosen_preset,
    fine_tuned,
    fitting_preset,
    no_other_network,
    scale_training,
)
from manyheads.tasks.task import Choice
from manyheads.training.config import Training
from manyheads.training.run import Run

FILES: tuple[str, ...] = ("music", "valid_music")
USE = "generate"
REACH = 512  # tokens whose distances are told apart, each way
WHOLE = 2560  # tokens of the longest chorale


@dataclass(frozen=True)
class Codec:
    """How music becomes numbers."""

    kind: Literal["performance", "chorales", "remi"] = setting(
        "performance", "Keys and time as played, four voices on a grid, or bars and beats."
    )

    @property
    def voices(self) -> int:
        """That take turns."""
        return len(VOICES) if self.kind == "chorales" else 1


@dataclass(frozen=True)
class Recipe:
    """What to learn, from what, with what."""

    task: Literal["music"] = setting(about="What is learned.")
    data: Repertoire = setting(about="Where it is learned from.")
    codec: Codec = setting(Codec(), "How it becomes numbers.")
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
        if "stretch" in self.data.varied(self.codec.kind) and self.codec.kind != "performance":
            raise ValueError(
                f"codec.kind: {self.codec.kind} counts in beats, which no stretching of time "
                "changes; data.augment: [transpose] would do"
            )


def check_distances(network: Network, context: int) -> None:
    every = not network.reach and {"content", "score"} & {network.position, network.relative}
    if network.kind == "transformer" and every and network.longest < context:
        raise ValueError(
            f"all distances up to {network.longest} tokens meet windows of {context}; "
            f"network.longest: {context} or data.context: {network.longest} would do"
        )


def check_voices(network: Network, codec: Codec) -> None:
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


def recipe_for(task: Any, data: Repertoire, tokens: int, choice: Choice = Choice()) -> Recipe:
    cuda = choice.device == "cuda"
    chorales = is_grids(data.music[0])
    parts = chosen_preset(PRESETS, choice.preset or fitting_preset(tokens, cuda))(
        tokens, cuda, chorales
    )
    data = replace(data, context=parts.pop("context"))
    parts["codec"] = Codec("chorales" if chorales else "performance")
    if choice.start is not None:
        parts["network"], parts["codec"] = choice.start.network, begun(choice.start)
        parts["training"] = fine_tuned(parts["training"], parts["network"])
        data = replace(data, context=choice.start.data.context)
    if parts["codec"].kind == "chorales":
        data = replace(data, semitones=6)
    if choice.network is not None:
        no_other_network(choice.network, ("transformer", "recurrent"))
        types = parts["network"].types if choice.network == "transformer" else 0
        parts["network"] = replace(parts["network"], kind=choice.network, types=types)
    layout: Layout = "packed" if parts["network"].packs else "padded"
    return Recipe(task, data, layout=layout, **parts)


def begun(start: Any) -> Codec:
    if start.task != "music":
        raise ValueError(
            f"what writes music starts from such a run; the run to start from learned {start.task}"
        )
    codec: Codec = start.codec
    return codec


# ---- from files to a job ---------------------------------------------------------------------


def data_of(files: Mapping[str, Any]) -> Repertoire:
    return Repertoire(**files)


def codec_of(recipe: Recipe) -> MusicCodec:
    """That of the run it starts from, else a new one."""
    if recipe.start_from is None:
        return new(recipe.codec.kind)
    codec = load(recipe.start_from / CODEC)
    if codec.kind != recipe.codec.kind:
        raise ValueError(
            f"{recipe.start_from} brings the codec {codec.kind} and codec.kind asks for "
            f"{recipe.codec.kind}; codec.kind: {codec.kind} would do"
        )
    return codec


def gather(recipe: Recipe) -> Pieces:
    return read(recipe.data, codec_of(recipe), recipe.training.seed)


def tokens(gathered: Pieces, recipe: Recipe) -> int:
    return gathered.tokens()


def counted(gathered: Pieces) -> str:
    return str(gathered)


def prepare(gathered: Pieces, recipe: Recipe, run: Run) -> None:
    lay_down(gathered, recipe.data, codec_of(recipe), run)


def task_of(recipe: Recipe, codec: MusicCodec) -> Music:
    return Music(codec, recipe.network, recipe.data.context)


def job(recipe: Recipe, run: Run) -> Learning:
    return Learning(
        task_of(recipe, load(run / CODEC)),
        Shard(run / "data" / "train"),
        Varied.load(run / "data" / VARIED),
        Shard(run / "data" / "valid"),
        layout=recipe.layout,
        tokens=recipe.training.tokens_per_batch,
        seed=recipe.training.seed,
    )


def model(recipe: Recipe, folder: Path, name: str) -> Musician:
    task = task_of(recipe, load(folder / CODEC))
    return Musician(task, task.network(), name)
