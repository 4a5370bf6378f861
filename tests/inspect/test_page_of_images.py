"""The page of a picture: what each pixel was drawn from, and how likely it was."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import paintings
import pytest
import torch
from payloads import read_payload
from typer.testing import CliRunner

from manyheads import Off
from manyheads.cli.app import app
from manyheads.models import load
from manyheads.tasks.image import inspection
from manyheads.tasks.image.codec import PixelCodec
from manyheads.tasks.image.looking import look_at_pixel
from manyheads.tasks.image.model import ImageModel
from manyheads.tasks.image.settings import ImageData, ImageRecipe, image_network
from manyheads.tasks.image.sheet import save_png
from manyheads.tasks.image.task import ImageTask

CODECS = [
    PixelCodec(6, 4, levels=8),
    PixelCodec(4, 4, levels=8, tile=2),
    PixelCodec(4, 6, 3, levels=4),
    PixelCodec(4, 4, 3, levels=16, whole=True),
]


def make_model(codec: PixelCodec) -> ImageModel:
    """A network that has learned nothing."""
    torch.manual_seed(0)
    head = "mixture" if codec.whole else "categorical"
    network = replace(image_network(16, 2, 2, 0.0), head=head, mixtures=3, tile=codec.tile)
    data = ImageData((Path(),), levels=codec.levels)
    task = ImageTask(ImageRecipe("image", data, network), codec)
    return task.model(task.network(), "toy")


def paint(codec: PixelCodec) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, codec.shape).astype(np.uint8)


def read_page(model: ImageModel, *given: Any, **more: Any) -> tuple[dict[str, Any], list[Any]]:
    return read_payload(model.inspect(*given, **more).payload())


@pytest.mark.parametrize("codec", CODECS, ids=["rows", "tiles", "channels", "whole pixels"])
def test_maps_are_what_each_pixel_looked_at(codec: PixelCodec) -> None:
    """As `look` has it; where a pixel has several values, it reads as they do on average."""
    model, picture = make_model(codec), paint(codec)
    header, maps = read_page(model, picture)
    spots = [tuple(spot) for spot in header["picture"]["spots"]]
    assert sorted(spots) == [(i, j) for i in range(codec.rows) for j in range(codec.columns)]
    for layer, weights in enumerate(maps):
        np.testing.assert_allclose(weights.sum(-1), 1, atol=0.05)
        if codec.places.sizes[2:] == (3,):
            continue
        for at in (0, 5, len(spots) - 1):
            wanted = look_at_pixel(model, picture, spots[at], layer=layer).weights[0]
            found = np.zeros_like(wanted)
            for i, (row, column) in enumerate(spots):
                found[:, row, column] = weights[:, at, i + 1]
            np.testing.assert_allclose(found, wanted, atol=1 / 255)


@pytest.mark.parametrize("codec", CODECS, ids=["rows", "tiles", "channels", "whole pixels"])
def test_pixels_are_as_likely_as_the_image(codec: PixelCodec) -> None:
    model, picture = make_model(codec), paint(codec)
    header, _ = read_page(model, picture)
    nats = -sum(one["log"] for one in header["candidates"])
    assert nats == pytest.approx(model.score(picture[None])[0], abs=0.01)
    bits = nats / np.log(2) / codec.values
    assert header["wrote"] == f"{bits:.2f} bits for a value"
    without, _ = read_page(model, picture, what_if=[Off("writer.1.self", 0)])
    cost = sum(header["costs"]["writer.1.self/0"])
    assert cost == pytest.approx(
        sum(one["log"] for one in header["candidates"])
        - sum(one["log"] for one in without["candidates"]),
        abs=0.02,
    )


def test_a_value_is_called_by_the_brightness_that_is_drawn() -> None:
    codec = CODECS[0]
    drawn = {inspection.name_level(codec, 0, level) for level in range(codec.levels)}
    every = codec.brighten(torch.arange(codec.levels)).tolist()
    assert drawn == {f"grey {bright}" for bright in every}


def test_a_large_picture_is_shown_in_squares(monkeypatch: pytest.MonkeyPatch) -> None:
    codec = CODECS[0]
    _, fine = read_page(make_model(codec), paint(codec))
    monkeypatch.setattr(inspection, "MOST_CELLS", 4 * 6**2)
    header, maps = read_page(make_model(codec), paint(codec))
    assert header["picture"]["square"] == 2
    assert header["picture"]["spots"] == [[i, j] for i in (0, 2, 4) for j in (0, 2)]
    square = [0, 1, 4, 5]
    wanted = fine[0][:, square][:, :, [1 + i for i in square]].sum(2).mean(1)
    np.testing.assert_allclose(maps[0][:, 0, 1], wanted, atol=0.03)


def test_an_image_is_seen_as_its_likeliest_class(
    tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    run = paintings.train_painter(tmp_path_factory.getbasetemp())
    model: ImageModel = load(run, "cpu")
    picture = paintings.squares(2)[1]
    scores = {name: model.score(picture[None], [name])[0] for name in ("up", "down")}
    header, _ = read_page(model, picture)
    assert header["wrote"].endswith(f", as class {min(scores, key=scores.__getitem__)}")
    assert read_page(model, picture, "up")[0]["wrote"].endswith(", as class up")
    assert {name for one in header["candidates"] for _, name, _ in one["best"]} == {
        "black",
        "white",
    }
    save_png(picture, tmp_path / "picture.png")
    out = tmp_path / "page.html"
    typed = ["inspect", "--model", str(run), str(tmp_path / "picture.png"), "--device", "cpu"]
    result = CliRunner().invoke(app, [*typed, "--class", "up", "--out", str(out)])
    assert (result.exit_code, result.output) == (0, f"page: {out}\n")
    result = CliRunner().invoke(app, [*typed[:3], "--out", str(out)])
    assert "a page is of a picture" in str(result.exception)


def test_live_a_model_draws_what_it_is_to_show(tmp_path_factory: pytest.TempPathFactory) -> None:
    model: ImageModel = load(paintings.train_painter(tmp_path_factory.getbasetemp()), "cpu")
    drawn = model.inspect_live("").about["picture"]["pixels"]
    assert drawn == model.inspect_live("").about["picture"]["pixels"], "the same each time"
    heads = [Off("writer.0.self", head) for head in range(2)]
    assert model.inspect_live("", heads).about["picture"]["pixels"] != drawn


def test_pictures_of_another_size_are_refused() -> None:
    with pytest.raises(ValueError, match="images of 6 x 4 with 1 channels, this one is 5 x 4"):
        make_model(CODECS[0]).inspect(np.zeros((5, 4, 1), np.uint8))
