"""Settings and presets of image models."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from manyheads.config.declare import Settings, setting
from manyheads.modules.config import ConvolutionalConfig, RecurrentConfig, TransformerConfig
from manyheads.modules.positions import POSITIONS, PositionValue
from manyheads.tasks.image.verbs import VERBS
from manyheads.tasks.recipe import START_FROM, Preset, Recipe, TrainingPlan, gated_layers
from manyheads.training.config import Training

if TYPE_CHECKING:
    from manyheads.attention.positions import Position

Head = Literal["categorical", "mixture"]
LARGER = 16  # times that super-resolution enlarges: each token reads the others of its block
OF_WORDS = ("token_types", "value_embeddings", "logit_cap", "head_bias")  # network settings


@dataclass(frozen=True)
class ImageData(Settings):
    """Where images come from, and how they are prepared for training."""

    images: tuple[Path, ...] = setting(
        (),
        "A folder of image files, an .npz, or an IDX file as in MNIST; can be given several times.",
    )
    valid_images: tuple[Path, ...] = setting((), "The same, for validation.")
    size: int | None = setting(
        None,
        "Scale and crop all images to this many rows and columns; null: all have one size already.",
        least=2,
        most=1024,
    )
    levels: int = setting(256, "Number of values per channel, 2 to 256.", least=2, most=256)
    grey: bool = setting(False, "Convert colours to grey.")
    classes: bool = setting(
        False, "Train with classes: one subfolder per class, or the labels of the file."
    )
    upscale: str | None = setting(
        None, "Train super-resolution: 8:32 turns 8 x 8 pixels into 32 x 32."
    )
    binarize: Literal["threshold", "sample"] = setting(
        "threshold",
        "With 2 levels: white from the middle up (threshold), or sampled with the brightness as "
        "probability, again in each epoch (sample).",
    )
    flip: bool = setting(False, "Data augmentation: mirror images, left and right.")
    held_out: float = setting(
        0.1,
        "Share of the images to hold out for validation if you give no valid_images.",
        above=0,
        below=1,
    )

    def misfits(self) -> Iterator[str]:
        if not self.images:
            yield "nothing to learn from: give images, a folder or an .npz"
        if self.binarize == "sample" and self.levels != 2:
            yield f"binarize: sample draws black and white, levels is {self.levels}; 2 would do"
        if self.upscale is None:
            return
        small, large = self.sizes
        if not 0 < small < large <= 1024 or large % small:
            yield (
                "upscale is two sizes, of which the first divides the second, as 8:32, "
                f"got {self.upscale}"
            )
        elif large > LARGER * small:
            yield (
                f"upscale enlarges up to {LARGER} times, {self.upscale} asks for {large // small}; "
                f"{large // LARGER}:{large} would do"
            )
        elif self.size not in (None, large):
            yield f"upscale: {self.upscale} makes images of {large}, and size asks for {self.size}"
        if self.levels == 2:
            yield "what is made smaller is grey: upscale with levels: 256 would do"

    @property
    def sizes(self) -> tuple[int, int]:
        """The sizes of small and of large images; (0, 0) without `upscale`."""
        small, _, large = (self.upscale or "").partition(":")
        return (int(small), int(large)) if small.isdecimal() and large.isdecimal() else (0, 0)

    @property
    def scaled_size(self) -> int | None:
        """Rows and columns that all images are scaled to."""
        return self.size or self.sizes[1] or None


@dataclass(frozen=True)
class LearnedAxesValue(PositionValue):
    """A vector for each row, column and channel, as many as the images have."""

    def build(self, network: Any) -> Position:
        """Build positions on a line, for a layer that is measured alone."""
        from manyheads.attention.positions import Learned

        return Learned(network.width, 1024)


@dataclass(frozen=True)
class PixelSettings:
    """Settings for pixels that all kinds of networks share."""

    head: Head | None = setting(
        None,
        "Output distribution: a softmax over the values of a channel (categorical), or a mixture "
        "of logistics for a whole pixel (mixture), which takes a third of the tokens for "
        "colours; null: mixture for colours.",
    )
    mixtures: int = setting(10, "Number of logistics in the mixture.", least=1, most=1000)
    neighbours: int = setting(
        0,
        "Each token reads the drawn pixels within this many rows and columns; 0: only the last "
        "pixel.",
        least=0,
        most=8,
    )
    tile: int = setting(
        0,
        "Draw in tiles of this many rows and columns; 0: row by row.",
        least=0,
        most=1024,
    )


@dataclass(frozen=True)
class ImageTransformerConfig(PixelSettings, TransformerConfig):
    """A transformer over rows and columns."""

    positions: ClassVar[Mapping[str, type[PositionValue]]] = {
        **POSITIONS,
        "Learned": LearnedAxesValue,
    }


@dataclass(frozen=True)
class ImageRecurrentConfig(PixelSettings, RecurrentConfig):
    """A recurrent network that reads one pixel after another."""


@dataclass(frozen=True)
class ImageConvolutionalConfig(PixelSettings, ConvolutionalConfig):
    """Convolutions over pixels before and above; by default, dilations are 1 and a row in turn."""


ImageNetworkConfig = ImageTransformerConfig | ImageRecurrentConfig | ImageConvolutionalConfig
KINDS: dict[str, type[ImageNetworkConfig]] = {
    "transformer": ImageTransformerConfig,
    "recurrent": ImageRecurrentConfig,
    "convolutional": ImageConvolutionalConfig,
}


# ---- presets ---------------------------------------------------------------------------------


def image_network(
    width: int, depth: int, heads: int, dropout: float, neighbours: int = 1
) -> ImageTransformerConfig:
    """Absolute positions, since places matter (skies are above), and relative positions."""
    return ImageTransformerConfig(
        **gated_layers(width),
        depth=depth,
        heads=heads,
        init="gpt2",
        qk_norm=True,
        position="Learned()",
        relative="Rotary(100)",
        dropout=dropout,
        neighbours=neighbours,
    )


PRESETS = {
    "tiny": Preset(
        "For small images: minutes on a laptop.",
        image_network(96, 4, 4, 0.0),
        epochs=4,
        batch=8192,
        learning_rate=3e-3,
    ),
    "small": Preset(
        "For tens of thousands of small images.",
        image_network(384, 10, 6, 0.1),
        epochs=20,
        batch=65536,
        learning_rate=2e-3,
        training={"ema": 0.999, "matrix_rate": 0.01},
    ),
    "base": Preset(
        "For more images, or longer training.",
        image_network(512, 16, 8, 0.1),
        epochs=40,
        batch=131072,
        learning_rate=1.5e-3,
        training={"ema": 0.9995, "matrix_rate": 0.005},  # with a higher rate the loss oscillates
    ),
}


# ---- the recipe ------------------------------------------------------------------------------


@dataclass(frozen=True)
class ImageRecipe(Recipe):
    """The recipe of an image model: data, network and training."""

    implementation = "manyheads.tasks.image.task:ImageTask"
    files = ("images", "valid_images", "size", "levels", "grey", "classes", "upscale")
    example = "--images folder --size 32"
    use = "generate"
    configs = KINDS
    networks = tuple(KINDS)
    presets = PRESETS
    verbs = VERBS
    starts_from = ("image",)
    plan = TrainingPlan(
        {
            "optimizer": "muon",
            "schedule": "cosine",
            "weight_decay": 0.05,
            "betas": (0.9, 0.95),
            "best_by": "loss",
            "ema": 0.99,
        },
        validations=10,
        warmup=(100, 2000, 10),  # with fewer steps the loss jumps up
    )
    many_tokens = 200_000_000

    task: Literal["image"] = setting(about="The task.")
    data: ImageData = setting(about="Training data.")
    network: ImageTransformerConfig | ImageRecurrentConfig | ImageConvolutionalConfig = setting(
        ImageTransformerConfig(), "Network."
    )
    training: Training = setting(Training(best_by="loss"), "Training.")
    drawn: int = setting(
        16,
        "Number of images that each validation draws into samples.png; 0: none.",
        least=0,
        most=1024,
    )
    start_from: Path | None = setting(None, START_FROM)

    def misfits(self) -> Iterator[str]:
        if self.training.best_by != "loss":
            yield "what draws images is judged by its loss; training.best_by: loss"
        if self.network.head == "mixture" and self.data.levels < 8:
            yield (
                f"a mixture of logistics is for many levels, data.levels is {self.data.levels}; "
                "network.head: categorical would do"
            )
        for name in OF_WORDS:
            if getattr(self.network, name, 0):
                yield f"network.{name} is for words; pixels have none of it: 0 would do"
        if not self.data.upscale:
            self.network.one_depth()
        elif self.network.kind != "transformer":
            yield f"small images are made large by a transformer, not by a {self.network.kind} one"

    @property
    def codec(self) -> tuple[object, ...]:
        """The settings that a run must share with the run it starts from."""
        return self.data.levels, self.data.upscale, self.data.classes

    @classmethod
    def start_preset(cls, preset: Preset, start: Any) -> Preset:
        return preset._replace(network=start.network)
