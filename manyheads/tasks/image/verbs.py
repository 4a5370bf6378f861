"""What a model of images is for, as commands."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from manyheads.config.declare import setting
from manyheads.decoding.config import Sampling
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.verbs import refuse_unwritable


@dataclass(frozen=True)
class DrawOptions(Sampling, Options):
    """Draw images into one sheet, or complete one of which the first rows are there.

    Example: manyheads generate --model runs/img --count 64 --class 3 --out sheet.png

    Example: manyheads generate --model runs/img --complete half.png --count 4 --out whole.png
    """

    count: int = setting(16, "How many images to draw.", least=1)
    of_class: str | None = setting(
        None, "Draw images of this class.", flag="--class", instead="all classes in turn"
    )
    complete: Path | None = setting(
        None, "A picture with the first rows of an image: draw the rest of it."
    )
    upscale: Path | None = setting(None, "A small picture: make it large.")
    out: Path | None = setting(None, "The .png file to write.")

    @classmethod
    def of(cls, **typed: Any) -> Self:
        asked = cls(**typed)
        if asked.out is None:
            raise ValueError("images are drawn into a file: --out sheet.png")
        if asked.out.suffix.lower() != ".png":
            raise ValueError(f"--out names a .png file, got {asked.out}")
        refuse_unwritable("--out", asked.out)
        return asked

    def contradictions(self) -> Iterator[str]:
        yield from super().contradictions()
        if self.strategy not in ("auto", "greedy", "sample"):
            yield f"an image is drawn by sample or greedy, got strategy={self.strategy}"


@dataclass(frozen=True)
class EvaluateImagesOptions(Options):
    """Measure how likely a model finds images: bits for a value, by class.

    Example: manyheads evaluate --model runs/img --images test_folder
    """

    images: tuple[Path, ...] = setting(
        (), "A folder of pictures, an .npz or an IDX file; may be given again."
    )
    as_json: bool = setting(False, "Print the report as JSON.", flag="--json")

    def __post_init__(self) -> None:
        if not self.images:
            raise ValueError("a test set is images: --images folder")


COMMANDS = "manyheads.tasks.image.commands"
VERBS = {
    "generate": Verb(DrawOptions, f"{COMMANDS}:draw_sheet"),
    "evaluate": Verb(EvaluateImagesOptions, f"{COMMANDS}:evaluate_pictures"),
}
