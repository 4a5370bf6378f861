"""The commands of an image model, and their options."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from manyheads.config.declare import setting
from manyheads.decoding.config import Sampling
from manyheads.tasks.recipe import Options, Verb
from manyheads.tasks.verbs import PageOptions, refuse_no_folder, refuse_unwritable

FEW_SAMPLES = 100


@dataclass(frozen=True)
class ImageSampling(Sampling):
    """Sampling settings of an image model."""

    def misfits(self) -> Iterator[str]:
        yield from super().misfits()
        if self.strategy not in ("auto", "greedy", "sample"):
            yield f"an image is drawn by sample or greedy, got strategy={self.strategy}"
        if self.draft:
            yield "nothing guesses the pixels of an image ahead; draft is for text"


@dataclass(frozen=True)
class DrawOptions(ImageSampling, Options):
    """Draw images into one sheet, or complete an image from its first rows.

    Example: manyheads generate --model runs/img --count 64 --class 3 --out sheet.png

    Example: manyheads generate --model runs/img --complete half.png --count 4 --out whole.png
    """

    count: int = setting(16, "Number of images to draw.", least=1)
    of_class: str | None = setting(
        None,
        "Class to draw; without it, --complete takes the likeliest class.",
        flag="--class",
        instead="all classes in turn",
    )
    complete: Path | None = setting(
        None, "An image file with the first rows of an image; draw the rest."
    )
    upscale: Path | None = setting(None, "A small image to make large.")
    out: Path | None = setting(None, "The .png file to write.")
    gif: Path | None = setting(None, "A .gif file that shows how the images are drawn.")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.gif is not None:
            refuse_unwritable("--gif", self.gif, ".gif")
        if self.out is None:
            raise ValueError("images are drawn into a file: --out sheet.png")
        refuse_unwritable("--out", self.out, ".png")


@dataclass(frozen=True)
class EvaluateImagesOptions(Options):
    """Measure how likely images are for a model: bits per value, by class.

    Example: manyheads evaluate --model runs/img --images test_folder

    Example: manyheads evaluate --model runs/img --images test_folder --samples 1000
    """

    images: tuple[Path, ...] = setting(
        (), "A folder of images, an .npz or an IDX file; can be given several times."
    )
    samples: int = setting(
        0,
        "Draw this many images and judge them with a small classifier trained on the training "
        "images: their distance to the test images, and whether they have the class asked for.",
        least=0,
    )
    as_json: bool = setting(False, "Print the report as JSON.", flag="--json")

    def __post_init__(self) -> None:
        if not self.images:
            raise ValueError("a test set is images: --images folder")
        if 0 < self.samples < FEW_SAMPLES:
            raise ValueError(
                f"fewer than {FEW_SAMPLES} samples say little: --samples {self.samples}"
            )


@dataclass(frozen=True)
class LookAtPixelOptions(Options):
    """Draw what a pixel attends to while it is drawn, for each layer and head; without a pixel, the
    strongest attention over long distances.

    Example: manyheads look --model runs/img picture.png --pixel 12,20 --out seen.png

    Example: manyheads look --model runs/img picture.png --out alike.png
    """

    image: Path | None = setting(None, "The image.", argument="PICTURE")
    pixel: str | None = setting(
        None, "Row and column of the pixel, from 0, as in 12,20.", instead="what is alike"
    )
    layer: int | None = setting(None, "The layer, counted from 0.", instead="all of them")
    head: int | None = setting(None, "The head, counted from 0.", instead="all of them")
    of_class: str | None = setting(
        None, "Class of the image.", flag="--class", instead="the likeliest"
    )
    out: Path | None = setting(None, "Write a picture to this .png file.")

    def __post_init__(self) -> None:
        if self.image is None:
            raise ValueError(
                "what is looked at is a picture: manyheads look --model runs/img picture.png"
            )
        if self.out is not None:
            refuse_unwritable("--out", self.out, ".png")
        assert self.pixel is None or self.place  # refused before a model is loaded

    @property
    def place(self) -> tuple[int, int]:
        row, _, column = (self.pixel or "").partition(",")
        if not (row.strip().isdecimal() and column.strip().isdecimal()):
            raise ValueError(f"a pixel is a row and a column: --pixel 12,20, got {self.pixel}")
        return int(row), int(column)


@dataclass(frozen=True)
class InspectImageOptions(PageOptions):
    """Show what each pixel of an image was drawn from, as a page in one file, or live.

    Example: manyheads inspect --model runs/img picture.png --out page.html
    """

    image: Path | None = setting(
        None, "The image.", argument="PICTURE", instead="the model draws one"
    )
    of_class: str | None = setting(
        None, "Class of the image.", flag="--class", instead="the likeliest"
    )

    def __post_init__(self) -> None:
        self.check_page(
            self.image is not None,
            "a page is of a picture: manyheads inspect --model runs/img picture.png "
            "--out page.html",
        )


@dataclass(frozen=True)
class CompressOptions(Options):
    """Compress images without loss, with the probabilities of a model.

    Example: manyheads compress folder/ --model digits --out digits.mh
    """

    files: tuple[Path, ...] = setting((), "Folders of images, .npz or IDX files.", argument="FILES")
    out: Path | None = setting(None, "The .mh file to write.")

    def __post_init__(self) -> None:
        if not self.files:
            raise ValueError("what is to be compressed? a folder of images would do")
        if self.out is None or self.out.suffix != ".mh":
            raise ValueError("compressed images are written to a .mh file: --out images.mh")
        refuse_unwritable("--out", self.out)


@dataclass(frozen=True)
class DecompressOptions(Options):
    """Restore compressed images, bit for bit; the file names its model.

    Example: manyheads decompress digits.mh --out folder/
    """

    file: tuple[Path, ...] = setting((), "The .mh file that `compress` wrote.", argument="FILE")
    out: Path | None = setting(None, "A folder for the images, or an .npz.")

    def __post_init__(self) -> None:
        if len(self.file) != 1:
            raise ValueError(f"one file is decompressed at a time, got {len(self.file)}")
        if self.out is None:
            raise ValueError("images need a folder: --out folder/")
        if self.out.suffix == ".npz":
            refuse_unwritable("--out", self.out)
        elif self.out.suffix.lower() == ".png" and not self.out.is_dir():
            raise ValueError(f"images need a folder or an .npz: --out folder/, got {self.out}")
        else:
            refuse_no_folder(self.out)


COMMANDS = "manyheads.tasks.image.commands"
VERBS = {
    "generate": Verb(DrawOptions, f"{COMMANDS}:draw_sheet"),
    "evaluate": Verb(EvaluateImagesOptions, f"{COMMANDS}:evaluate_pictures"),
    "inspect": Verb(InspectImageOptions, f"{COMMANDS}:inspect_picture"),
    "look": Verb(LookAtPixelOptions, f"{COMMANDS}:look_at"),
    "compress": Verb(CompressOptions, f"{COMMANDS}:compress"),
    "decompress": Verb(DecompressOptions, f"{COMMANDS}:decompress"),
}
