"""train, generate and evaluate for images, as a person types them; and what is no image."""

import gzip
import json
import shutil
import struct
import zlib
from pathlib import Path

import numpy as np
import paintings
import pytest
import torch
from PIL import Image
from typed import Command, Refuses

from manyheads.data.packed import read_packed
from manyheads.models import load
from manyheads.tasks.image import packing
from manyheads.tasks.image.codec import PixelCodec
from manyheads.tasks.image.judge import frechet_distance
from manyheads.tasks.image.looking import look_at_pixel
from manyheads.tasks.image.sheet import encode_png, find_nearest, make_sheet
from manyheads.tasks.image.similarity import look_for_similar
from manyheads.tasks.image.sources import Pictures, read_picture, read_pictures
from manyheads.tasks.image.task import hold_out_images
from manyheads.training.files import WEIGHTS, read_tensors, write_tensors

CPU = ("--device", "cpu")
LITTLE = (
    "network.width=16",
    "network.depth=1",
    "network.heads=2",
    "network.ffn_width=16",
    "training.steps=4",
    "training.validate_every=4",
    "training.tokens_per_batch=256",
    "drawn=4",
)


@pytest.fixture(scope="module")
def painter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return paintings.train_painter(tmp_path_factory.getbasetemp())


def test_images_are_trained_drawn_completed_and_evaluated(
    manyheads: Command, painter: Path, tmp_path: Path
) -> None:
    assert (painter / "samples.png").read_bytes().startswith(b"\x89PNG")
    sheets = [tmp_path / f"{i}.png" for i in range(2)]
    for sheet in sheets:
        asked = ("--count", 4, "--class", "up", "--seed", 3, "--out", sheet)
        done = manyheads("generate", "--model", painter, *asked, *CPU)
        assert done.code == 0, done.err
    assert done.out.startswith(f"{sheets[1]}: 4 images of 8 x 8 in ")
    assert sheets[0].read_bytes() == sheets[1].read_bytes()
    done = manyheads(
        "evaluate", "--model", painter, "--images", painter.parent / "squares.npz", "--json", *CPU
    )
    report = json.loads(done.out)
    assert report["scores"]["nats_per_image"]["value"] < 40  # of 44 that a coin would take
    assert [*report["by_class"]] == ["down", "up"]
    drawn = load(painter, "cpu").generate(16, of_class="up")
    assert drawn[:, :4].mean() > drawn[:, 4:].mean() + 60


def test_what_is_completed_begins_as_it_was_given(
    manyheads: Command, painter: Path, tmp_path: Path
) -> None:
    half = np.where(np.arange(24).reshape(3, 8, 1) % 2, 255, 0).astype(np.uint8)
    (tmp_path / "half.png").write_bytes(encode_png(half))
    asked = ("--complete", tmp_path / "half.png", "--class", "up", "--count", 1)
    done = manyheads("generate", "--model", painter, *asked, "--out", tmp_path / "whole.png", *CPU)
    assert done.code == 0, done.err
    whole = np.asarray(Image.open(tmp_path / "whole.png"))[::96, ::96]
    assert np.array_equal(whole[:3], half[..., 0])
    assert {*np.unique(whole)} <= {0, 255}
    done = manyheads(
        *("generate", "--model", painter, *asked, "--out", tmp_path / "again.png"),
        *("--gif", tmp_path / "drawn.gif", *CPU),
    )
    assert done.code == 0, done.err
    with Image.open(tmp_path / "drawn.gif") as film:
        assert film.n_frames == 9
        film.seek(8)
        assert np.array_equal(np.asarray(film.convert("L"))[::96, ::96], whole)


def test_colours_are_learned_by_a_mixture_of_whole_pixels(
    manyheads: Command, tmp_path: Path
) -> None:
    arrays = paintings.save_arrays(tmp_path / "colours.npz", channels=3)
    done = manyheads("train", "image", "--images", arrays, "--out", tmp_path / "run", *LITTLE, *CPU)
    assert done.code == 0, done.err
    model = load(tmp_path / "run", "cpu")
    assert (model.task.codec.tokens, model.task.recipe.network.head) == (64, "mixture")
    done = manyheads("evaluate", "--model", tmp_path / "run", "--images", arrays, *CPU)
    assert "bits_per_dim" in done.out
    assert "size:8x8x3|levels:256" in done.out


def test_a_run_draws_and_scores_in_tiles_with_local_attention(
    manyheads: Command, refuses: Refuses, tmp_path: Path
) -> None:
    arrays = paintings.save_arrays(tmp_path / "squares.npz")
    local = ("network.tile=4", "network.pattern=Blocks((4, 4), (4, 4))")
    run = tmp_path / "run"
    done = manyheads("train", "image", "--images", arrays, "--out", run, *local, *LITTLE, *CPU)
    assert done.code == 0, done.err
    (tmp_path / "two.png").write_bytes(encode_png(paintings.squares(1)[0, :2]))
    refuses(
        "the model draws tiles of 4 x 4: an image to complete has whole rows of them, this one "
        "has 2 rows of pixels",
        *("generate", "--model", run, "--complete", tmp_path / "two.png"),
        *("--out", tmp_path / "out.png", *CPU),
    )


def test_a_run_starts_from_what_another_has_learned(
    manyheads: Command, painter: Path, tmp_path: Path
) -> None:
    arrays = paintings.save_arrays(tmp_path / "squares.npz")
    asked = ("--images", arrays, "--levels", 2, "--classes", "--start-from", painter)
    few = ("training.steps=2", "drawn=0")
    done = manyheads("train", "image", *asked, "--out", tmp_path / "run", *few, *CPU)
    assert done.code == 0, done.err
    text = (tmp_path / "run" / "metrics.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert next(line["valid"]["nats_per_image"] for line in lines if "valid" in line) < 20


def test_classes_are_those_of_the_run_to_start_from(
    manyheads: Command, refuses: Refuses, painter: Path, tmp_path: Path
) -> None:
    arrays, run = tmp_path / "some.npz", tmp_path / "run"
    asked = ("--images", arrays, "--levels", 2, "--classes", "--start-from", painter)
    np.savez(arrays, images=paintings.squares(20), labels=["up"] * 20)
    few = ("training.steps=1", "drawn=0", *CPU)
    assert manyheads("train", "image", *asked, "--out", run, *few).code == 0
    assert PixelCodec.load(run / "pixels.json").classes == ["down", "up"]
    np.savez(arrays, images=paintings.squares(20), labels=["left", "up"] * 10)
    refuses(
        "the run to start from has no class 'left'; it has down, up, and no other can be added",
        *("train", "image", *asked, "--out", tmp_path / "other", *few),
    )


def test_a_run_starts_from_one_of_images_of_its_shape(
    refuses: Refuses, painter: Path, tmp_path: Path
) -> None:
    arrays = tmp_path / "some.npz"
    np.savez(arrays, images=paintings.squares(20)[:, 1:], labels=["up"] * 20)
    asked = ("--images", arrays, "--levels", 2, "--classes", "--start-from", painter)
    refuses(
        "the run to start from draws images of 8 x 8 with 1 channels, these are of 7 x 8 with 1 "
        "channels; images alike would do, as --size and --grey make them",
        *("train", "image", *asked, "--out", tmp_path / "run", "training.steps=1", *CPU),
    )


def test_networks_of_each_kind_are_compared(manyheads: Command, tmp_path: Path) -> None:
    arrays = paintings.save_arrays(tmp_path / "squares.npz")
    asked = ("--images", arrays, "--levels", 2, "--out", tmp_path / "runs")
    few = [setting for setting in LITTLE if "heads" not in setting and "ffn" not in setting]
    done = manyheads("compare", "image", *asked, "--preset", "tiny", *few, *CPU)
    assert done.code == 0, done.err
    kinds = [row["network"] for row in json.loads((tmp_path / "runs/compared.json").read_text())]
    assert kinds == ["transformer", "recurrent", "convolutional"]
    out = tmp_path / "drawn.png"
    for kind in kinds[1:]:
        run = tmp_path / "runs" / kind
        done = manyheads("generate", "--model", run, "--count", 2, "--out", out, *CPU)
        assert done.code == 0, done.err


def test_small_images_are_made_large(manyheads: Command, refuses: Refuses, tmp_path: Path) -> None:
    arrays, run = paintings.save_arrays(tmp_path / "colours.npz", channels=3), tmp_path / "run"
    asked = ("--images", arrays, "--upscale", "4:8", "--out", run)
    done = manyheads("train", "image", *asked, *LITTLE, *CPU)
    assert done.code == 0, done.err
    assert (run / "samples.png").exists()
    small, out = tmp_path / "small.png", ("--out", tmp_path / "large.png", *CPU)
    small.write_bytes(encode_png(paintings.squares(1, 3)[0, ::2, ::2]))
    done = manyheads("generate", "--model", run, "--upscale", small, "--count", 2, *out)
    assert done.code == 0, done.err
    assert "2 images of 8 x 8" in done.out
    asked = ("evaluate", "--model", run, "--images", arrays, *CPU)
    assert manyheads(*asked).code == 0
    refuses(
        f"{run} makes large images of small ones; samples are judged of a model that draws from "
        "nothing",
        *(*asked, "--samples", 100),
    )
    assert not (run / "judge.safetensors").exists()
    refuses(
        "the model enlarges images of 4 x 4, and none came; --upscale small.png would do",
        *("generate", "--model", run, *out),
    )
    small.write_bytes(encode_png(paintings.squares(1, 3)[0]))
    refuses(
        "the model enlarges images of 4 x 4 with 3 channels, this one is 8 x 8 with 3",
        *("generate", "--model", run, "--upscale", small, *out),
    )
    refuses(
        "upscale is two sizes, of which the first divides the second, as 8:32, got 3:8",
        *("train", "image", "--images", arrays, "--upscale", "3:8", "--out", tmp_path / "x", *CPU),
    )
    refuses(
        "upscale enlarges up to 16 times, 2:64 asks for 32; 4:64 would do",
        *("train", "image", "--images", arrays, "--upscale", "2:64", "--out", tmp_path / "x", *CPU),
    )


def test_a_pixel_shows_what_it_looks_at(
    manyheads: Command, refuses: Refuses, painter: Path, tmp_path: Path
) -> None:
    (tmp_path / "one.png").write_bytes(encode_png(paintings.squares(1)[0]))
    ask = ("look", "--model", painter, tmp_path / "one.png", *CPU)
    done = manyheads(*ask, "--pixel", "3,5", "--out", tmp_path / "seen.png")
    assert done.code == 0, done.err
    assert "what the pixel in row 3, column 5 looks at" in done.out
    assert "layer 0, head 1" in done.out
    assert (tmp_path / "seen.png").read_bytes().startswith(b"\x89PNG")
    view = look_at_pixel(load(painter, "cpu"), paintings.squares(1)[0], (3, 5))
    assert view.weights.shape == (1, 2, 8, 8)
    assert view.weights.sum() <= 2
    assert view.weights[:, :, 3, 5:].sum() == view.weights[:, :, 4:].sum() == 0
    assert view.weights[:, :, 3, :5].min() > 0
    refuses("a pixel is a row and a column: --pixel 12,20, got 3", *ask, "--pixel", "3")
    refuses(
        "pixels are in rows 0 to 7 and columns 0 to 7, 8,0 was asked for", *ask, "--pixel", "8,0"
    )
    refuses("layers are numbered 0 to 0, 4 was asked for", *ask, "--pixel", "1,1", "--layer", 4)
    done = manyheads(*ask, "--pixel", "0,0", "--class", "up")
    sentence = "what the pixel in row 0, column 0 looks at: no other, it is the first that is drawn"
    assert (done.code, done.out) == (0, sentence + "\n")


def test_an_image_that_was_drawn_is_looked_at_and_completed(
    manyheads: Command, painter: Path, tmp_path: Path
) -> None:
    """One image is saved large, each pixel as a square, and is read as it was drawn."""
    drawn, again, gif = (tmp_path / name for name in ("drawn.png", "again.png", "x.gif"))
    ask = ("generate", "--model", painter, "--count", 1, "--class", "up", *CPU)
    done = manyheads(*ask, "--out", drawn, "--gif", gif)
    assert done.out.splitlines()[1] == f"{gif}: how they were drawn, in 9 frames"
    with Image.open(drawn) as opened:
        assert opened.size == (768, 768)
    done = manyheads(*ask, "--complete", drawn, "--out", again)
    assert done.code == 0, done.err
    assert again.read_bytes() == drawn.read_bytes()
    done = manyheads("look", "--model", painter, drawn, "--pixel", "3,5", *CPU)
    assert done.code == 0, done.err


def test_looks_that_go_far_are_drawn_where_no_pixel_is_named(
    manyheads: Command, painter: Path, tmp_path: Path
) -> None:
    (tmp_path / "one.png").write_bytes(encode_png(paintings.squares(1)[0]))
    ask = ("look", "--model", painter, tmp_path / "one.png", *CPU)
    done = manyheads(*ask, "--out", tmp_path / "alike.png")
    assert done.code == 0, done.err
    assert "what is alike for layer 0, all heads: " in done.out
    assert (tmp_path / "alike.png").read_bytes().startswith(b"\x89PNG")
    model, picture = load(painter, "cpu"), paintings.squares(1)[0]
    view = look_for_similar(model, picture, head=1)
    assert (view.what, view.far.shape) == ("layer 0, head 1", (8, 8))
    last = look_at_pixel(model, picture, (7, 7)).weights[0, 1].clone()
    last[5:, 5:] = 0  # what is near
    torch.testing.assert_close(view.far[7, 7], last.sum(), atol=1e-5, rtol=0)
    assert view.far[0, :3].sum() == 0  # nothing far was drawn by then
    look = next(one for one in view.looks)
    assert max(abs(a - b) for a, b in zip(look.start, look.end, strict=True)) > 2
    assert look.times == max(one.times for one in view.looks)
    assert look.times == pytest.approx(look.weight * (8 * look.start[0] + look.start[1]))


# ---- samples judged by a classifier of our own -----------------------------------------------


def test_samples_are_judged_by_a_classifier_that_the_run_keeps(
    manyheads: Command, refuses: Refuses, painter: Path, tmp_path: Path
) -> None:
    run, images = tmp_path / "run", painter.parent / "squares.npz"
    shutil.copytree(painter, run)
    ask = ("evaluate", "--model", run, "--images", images, *CPU)
    done = manyheads(*ask, "--samples", 100, "--json")
    assert done.code == 0, done.err
    scores = json.loads(done.out)["scores"]
    assert scores["judge_accuracy"]["value"] > 0.9
    assert scores["judge_accuracy"]["signature"] == "judge:1.0000|samples:100|images:40"
    assert scores["judge_distance"]["value"] >= 0
    np.savez(one := tmp_path / "one.npz", images=paintings.squares(1), labels=["up"])
    refuses(
        "samples are compared with how images differ from each other, and one image came; "
        "two or more would do",
        *("evaluate", "--model", run, "--images", one, "--samples", 100, *CPU),
    )
    kept = (run / "judge.safetensors").read_bytes()
    shutil.rmtree(run / "data")  # it is not trained again
    images.rename(tmp_path / "squares.npz")
    try:
        asked = ("evaluate", "--model", run, "--images", tmp_path / "squares.npz", *CPU)
        done = manyheads(*asked, "--samples", 100)
        assert "judge_distance" in done.out
        assert "images learned from" not in done.out
        assert (run / "judge.safetensors").read_bytes() == kept
        (run / "judge.safetensors").unlink()
        refuses(
            f"samples of {run} are judged by a classifier, and there are no images with classes "
            "left to train it on; a run that was trained with --classes keeps them",
            *asked,
            *("--samples", 100),
        )
    finally:
        (tmp_path / "squares.npz").rename(images)
    refuses("fewer than 100 samples say little: --samples 5", *ask, "--samples", 5)


def test_what_a_judge_sees_as_the_same_is_no_distance_apart() -> None:
    torch.manual_seed(0)
    cloud = torch.randn(4000, 5) @ torch.randn(5, 5)
    assert frechet_distance(cloud, cloud.flip(0)) == pytest.approx(0, abs=1e-6)
    assert frechet_distance(cloud, cloud + 2) == pytest.approx(20, abs=1e-4)
    wide, narrow = torch.randn(200_000, 3), 3 * torch.randn(200_000, 3)
    assert frechet_distance(wide, narrow) == pytest.approx(3 * (3 - 1) ** 2, rel=0.02)


# ---- compress --------------------------------------------------------------------------------


def black_and_white(folder: Path) -> Path:
    """Pictures of two classes in folders of their own."""
    for i, image in enumerate(np.where(paintings.squares(10) > 127, 255, 0).astype(np.uint8)):
        path = folder / ("down" if i % 2 else "up") / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(encode_png(image))
    return folder


def test_images_come_out_bit_for_bit_in_as_few_bytes_as_they_are_likely(
    manyheads: Command, painter: Path, tmp_path: Path
) -> None:
    images, packed, again = black_and_white(tmp_path / "in"), tmp_path / "x.mh", tmp_path / "out"
    done = manyheads("compress", images, "--model", painter, "--out", packed, *CPU)
    assert done.code == 0, done.err
    assert "bits/dim" in done.out
    assert "WebP" in done.out
    done = manyheads("decompress", packed, "--out", again, *CPU)
    assert (done.code, done.err) == (0, "")
    files = sorted(path.relative_to(images) for path in images.rglob("*.png"))
    assert files == sorted(path.relative_to(again) for path in again.rglob("*.png"))
    assert all((images / name).read_bytes() == (again / name).read_bytes() for name in files)
    model, pictures = load(painter, "cpu"), read_pictures([images])
    head, parts = read_packed(packed)
    bits = model.score(pictures.pixels, pictures.labels).sum() / np.log(2)
    assert bits - 1 < 8 * (len(parts[0].data) - 10) < bits + 24  # but for a check of each image
    assert (head["images"], len(parts)) == (10, 1)
    done = manyheads("decompress", packed, "--out", tmp_path / "out.npz", *CPU)
    assert np.array_equal(np.load(tmp_path / "out.npz")["images"], pictures.pixels)


def test_batches_side_by_side_give_the_same_file(
    manyheads: Command, painter: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images, again = black_and_white(tmp_path / "in"), tmp_path / "out"
    monkeypatch.setitem(packing.LANES, "cpu", 3)
    files = [tmp_path / f"{threads}.mh" for threads in (1, 2, 8)]
    for packed in files:
        ask = ("--out", packed, "--threads", packed.stem, *CPU)
        assert manyheads("compress", images, "--model", painter, *ask).code == 0
    assert len(read_packed(files[0])[1]) == 4  # 3 + 3 + 3 + 1 images
    assert len({packed.read_bytes() for packed in files}) == 1
    done = manyheads("decompress", files[0], "--out", again, "--threads", "2", *CPU)
    assert (done.code, done.err) == (0, "")
    for path in images.rglob("*.png"):
        assert path.read_bytes() == (again / path.relative_to(images)).read_bytes()


def test_batches_that_have_no_room_side_by_side_wait(
    painter: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = load(painter, "cpu")
    coding = packing.LaneCoding(model, {"lanes": 64})
    assert coding.count_at_once() == packing.AT_ONCE
    stack, tokens = model.network.writer.stack, model.task.codec.tokens
    one = 2 * 4 * 64 * tokens * stack.width * len(stack.blocks)  # keys and values in float32
    for memory, at_once in ((one - 1, 1), (3 * one, 3)):
        monkeypatch.setattr(packing, "MEMORY", memory)
        assert coding.count_at_once() == at_once


def test_a_flipped_byte_and_another_model_are_refused_and_nothing_is_written(
    manyheads: Command, painter: Path, tmp_path: Path
) -> None:
    images, packed, out = black_and_white(tmp_path / "in"), tmp_path / "x.mh", tmp_path / "out"
    manyheads("compress", images, "--model", painter, "--out", packed, *CPU)
    whole = packed.read_bytes()
    for place in (*range(0, len(whole), 97), len(whole) - 3):
        packed.write_bytes(whole[:place] + bytes([whole[place] ^ 16]) + whole[place + 1 :])
        done = manyheads("decompress", packed, "--model", painter, "--out", out, *CPU)
        assert done.code == 2
        assert done.err.count("\n") == 1
        assert not out.exists()
    _, parts = read_packed(packed)
    packed.write_bytes(whole[: -len(parts[0].data)] + b"!" + whole[-len(parts[0].data) + 1 :])
    done = manyheads("decompress", packed, "--model", painter, "--out", out, *CPU)
    assert "image 1 does not come out as it went in" in done.err
    packed.write_bytes(whole[:-2])
    done = manyheads("decompress", packed, "--model", painter, "--out", out, *CPU)
    told = f"{packed} is not as long as it was written: cut short, or added to"
    assert done.err == f"manyheads: {told}\n"
    packed.write_bytes(whole)
    shutil.copytree(painter, tmp_path / "other")
    tensors, note = read_tensors(painter / WEIGHTS)
    tensors["head.bias"] += 1
    write_tensors(tmp_path / "other" / WEIGHTS, tensors, note)
    done = manyheads("decompress", packed, "--model", tmp_path / "other", "--out", out, *CPU)
    assert "compressed by another model" in done.err
    assert not out.exists()


def test_labels_may_be_an_array_and_a_path_is_no_picture(painter: Path) -> None:
    model, images = load(painter, "cpu"), paintings.squares(2)
    alike = model.score(images, np.array(["up", "down"]))
    assert np.array_equal(alike, model.score(images, ["up", "down"]))
    with pytest.raises(ValueError, match=r"images are an array of bytes, .*, got str"):
        model.inspect("picture.png")  # type: ignore[arg-type]


def test_what_would_not_come_out_as_it_is_is_refused(
    refuses: Refuses, painter: Path, tmp_path: Path
) -> None:
    ask = ("--model", painter, "--out", tmp_path / "x.mh", *CPU)
    np.savez(tmp_path / "grey.npz", images=paintings.squares(2), labels=np.array(["up", "down"]))
    refuses(
        "image 1 has other values than the 2 levels of the model and would not come out as it is",
        *("compress", tmp_path / "grey.npz", *ask),
    )
    np.savez(tmp_path / "wide.npz", images=np.zeros((1, 8, 9), np.uint8))
    refuses(
        "the model compresses images of 8 x 8 with 1 channels, these are of 8 x 9 with 1 channels",
        *("compress", tmp_path / "wide.npz", *ask),
    )
    clear = black_and_white(tmp_path / "clear") / "up" / "clear.png"
    Image.new("LA", (8, 8), (0, 0)).save(clear)
    refuses(
        f"{clear} has transparent parts and would come out on white",
        *("compress", tmp_path / "clear", *ask),
    )
    refuses("what is to be compressed? a folder of images would do", "compress", *ask)
    refuses(
        f"images need a folder or an .npz: --out folder/, got {tmp_path}/one.png",
        *("decompress", tmp_path / "no.mh", "--model", painter, "--out", tmp_path / "one.png"),
    )
    (tmp_path / "no.mh").write_bytes(b"words")
    refuses(
        f"{tmp_path}/no.mh was not written by `manyheads compress`",
        *("decompress", tmp_path / "no.mh", "--out", tmp_path / "out", *CPU),
    )


# ---- what is typed wrong ---------------------------------------------------------------------


def test_what_no_model_draws_is_refused(refuses: Refuses, painter: Path, tmp_path: Path) -> None:
    ask = ("generate", "--model", painter, *CPU)
    refuses("images are drawn into a file: --out sheet.png", *ask)
    refuses("--out names a .png file, got x.gif", *ask, "--out", "x.gif")
    refuses("--gif names a .gif file, got x.png", *ask, "--out", "x.png", "--gif", "x.png")
    out = ("--out", tmp_path / "x.png")
    refuses("there is no class '7'; there are down, up", *ask, "--class", "7", *out)
    refuses(
        "an image is drawn by sample or greedy, got strategy=beam", *ask, "--strategy", "beam", *out
    )
    sentence = "nothing guesses the pixels of an image ahead; draft is for text"
    refuses(sentence, *ask, "--draft", "lookup", *out)
    (tmp_path / "large.png").write_bytes(encode_png(np.zeros((9, 9, 1), np.uint8)))
    refuses(
        "an image to complete has the first rows of 8 x 8 with 1 channels, this one is 9 x 9 with "
        "1",
        *ask,
        *("--complete", tmp_path / "large.png", *out),
    )
    refuses(
        "the model knows images of 8 x 8 with 1 channels, these are of 9 x 9 with 1; --size at "
        "training would make them alike",
        *("evaluate", "--model", painter, "--images", tmp_path / "large.png", *CPU),
    )
    refuses("a test set is images: --images folder", *("evaluate", "--model", painter, *CPU))
    none = tmp_path / "none.png"
    refuses(f"there is no file {none}", *ask, "--complete", none, *out)
    refuses(f"one picture is read here, {tmp_path} is a folder", "look", tmp_path, *ask[1:])


def test_what_is_no_array_of_bytes_is_refused_in_python(painter: Path) -> None:
    model, images = load(painter, "cpu"), paintings.squares(2)
    bytes_of = r"images are an array of bytes, \(rows, columns, channels\), got "
    with pytest.raises(ValueError, match=bytes_of + r"uint8 of \(4, 8\)"):
        model.generate(begin=images[0, :4, :, 0])
    with pytest.raises(ValueError, match=bytes_of + r"float64 of \(4, 8, 1\)"):
        model.generate(begin=images[0, :4] / 255)  # all of it would be black
    with pytest.raises(ValueError, match=bytes_of + "Tensor"):
        model.inspect(torch.from_numpy(images[0]), "up")
    with pytest.raises(ValueError, match=r"of bytes, \(images, rows, .*, got uint8 of \(8, 8, 1\)"):
        model.score(images[0], ["up"])
    with pytest.raises(ValueError, match="each image has a label: 2 images and 1 labels came"):
        model.score(images, ["up"])
    with pytest.raises(ValueError, match="1 image or more is drawn, got 0"):
        model.generate(0)
    with pytest.raises(ValueError, match="an image is drawn by sample or greedy, got strategy=b"):
        model.generate(strategy="beam")


def test_the_mean_of_one_image_has_no_error(
    manyheads: Command, painter: Path, tmp_path: Path
) -> None:
    np.savez(tmp_path / "one.npz", images=paintings.squares(1), labels=["up"])
    ask = ("evaluate", "--model", painter, "--images", tmp_path / "one.npz", *CPU)
    assert [*json.loads(manyheads(*ask, "--json").out)["by_class"]["up"]] == ["value", "examples"]
    assert "nan" not in manyheads(*ask).out


def test_what_cannot_be_learned_from_is_refused(refuses: Refuses, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "run", *CPU)
    one = tmp_path / "one.npz"
    np.savez(one, images=paintings.squares(1))
    refuses(
        "one image is too few: some are to learn from, some to validate on",
        *("train", "image", "--images", one, *out),
    )
    refuses(
        "classes were asked for and not all images have one; a subfolder for each class, or labels "
        "in an .npz would do",
        *("train", "image", "--images", one, "--images", one, "--classes", *out),
    )
    refuses(
        f"there is no file or folder {tmp_path}/none",
        *("train", "image", "--images", tmp_path / "none", *out),
    )
    refuses(
        "data.binarize=sample: binarize: sample draws black and white, levels is 256; 2 would do",
        *("train", "image", "--images", one, "data.binarize=sample", *out),
    )
    np.savez(tmp_path / "floats.npz", images=np.zeros((2, 4, 4)))
    refuses(
        f"{tmp_path}/floats.npz: images are bytes of (N, rows, columns) or (N, rows, columns, 3), "
        "got float64 of (2, 4, 4)",
        *("train", "image", "--images", tmp_path / "floats.npz", *out),
    )


def test_of_each_class_an_image_stays_to_be_learned_from() -> None:
    pictures, rare = Pictures(paintings.squares(12)), np.random.default_rng(0).permutation(12)[0]
    labels = ["rare" if i == rare else "other" for i in range(12)]
    pictures.labels = labels
    train, valid = hold_out_images(pictures, 0.1, 0, labels)
    assert (len(train), train.labels.count("rare"), valid.labels) == (11, 1, ["other"])
    assert hold_out_images(pictures, 0.1, 0, [])[1].labels == ["rare"]
    train, valid = hold_out_images(pictures, 0.99, 0, [])
    assert (len(train), len(valid)) == (1, 11)
    with pytest.raises(ValueError, match="one image of each class is too few: some are to learn"):
        hold_out_images(pictures, 0.1, 0, [str(i) for i in range(12)])


def test_what_is_both_learned_from_and_validated_on_is_told(
    manyheads: Command, tmp_path: Path
) -> None:
    arrays = paintings.save_arrays(tmp_path / "squares.npz")
    ask = ("train", "image", "--images", arrays, "--out", tmp_path / "run", "--dry-run", *CPU)
    told = "# both learned from and validated on: 40 images"
    assert told in manyheads(*ask, "--valid-images", arrays).out
    assert "# both" not in manyheads(*ask).out


# ---- files -----------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Pictures of two classes, some of which are none."""
    for i, image in enumerate(paintings.squares(6, 3)):
        path = tmp_path / "images" / ("a" if i % 2 else "b") / f"{i}.png"
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(path)
    bad = tmp_path / "images" / "a"
    good = (bad / "1.png").read_bytes()
    Image.new("CMYK", (8, 8)).save(bad / "print.jpg")
    Image.fromarray(np.zeros((8, 8), np.uint16)).save(bad / "deep.png")
    frames = [Image.new("L", (8, 8), bright) for bright in (0, 255)]
    frames[0].save(bad / "moving.gif", save_all=True, append_images=frames[1:])
    (bad / "short.png").write_bytes(good[: len(good) // 2])
    (bad / "empty.jpg").write_bytes(b"")
    head = b"IHDR" + struct.pack(">II", 40000, 40000) + good[24:29]
    crc = struct.pack(">I", zlib.crc32(head))
    (bad / "bomb.png").write_bytes(good[:12] + head + crc + good[33:])
    (bad / "notes.txt").write_text("not a picture")
    return tmp_path / "images"


def test_what_is_no_image_is_named_skipped_and_counted(folder: Path) -> None:
    found = read_pictures([folder])
    assert found.pixels.shape == (6, 8, 8, 3)
    assert found.labels == ["a", "a", "a", "b", "b", "b"]
    assert sorted(found.notes) == [
        "1 left out, animated: a/moving.gif",
        "1 left out, cut short or no picture: a/short.png",
        "1 left out, empty: a/empty.jpg",
        "1 left out, in CMYK, not grey or RGB of 8 bits: a/print.jpg",
        "1 left out, in I;16, not grey or RGB of 8 bits: a/deep.png",
        "1 left out, more than 89,478,485 pixels: a/bomb.png",
    ]


UNUSABLE = {
    "print.jpg": "in CMYK, not grey or RGB of 8 bits",
    "deep.png": "in I;16, not grey or RGB of 8 bits",
    "moving.gif": "animated",
    "short.png": "cut short or no picture",
    "empty.jpg": "empty",
    "bomb.png": "more than 89,478,485 pixels",
}


def test_grey_that_is_transparent_is_grey_on_white(tmp_path: Path) -> None:
    image = Image.new("LA", (2, 1), (100, 255))
    image.putpixel((0, 0), (100, 0))
    image.save(tmp_path / "clear.png")
    assert read_picture(tmp_path / "clear.png").tolist() == [[[255], [100]]]


@pytest.mark.parametrize("name", UNUSABLE)
def test_a_picture_that_cannot_be_used_is_refused_by_its_reason(
    folder: Path, refuses: Refuses, painter: Path, name: str
) -> None:
    path, out = folder / "a" / name, folder / "out.png"
    ask = ("generate", "--model", painter, "--class", "up", "--complete", path)
    refuses(f"{path}: {UNUSABLE[name]}", *ask, "--out", out, *CPU)
    assert not out.exists()


def test_a_folder_of_nothing_that_can_be_used_is_refused(
    folder: Path, refuses: Refuses, tmp_path: Path
) -> None:
    for path in folder.rglob("*.png"):
        path.unlink()
    (folder / "a" / "moving.gif").unlink()
    refuses(
        f"there are no images in {folder}: 1 left out, empty: a/empty.jpg; 1 left out, in CMYK, "
        "not grey or RGB of 8 bits: a/print.jpg",
        *("train", "image", "--images", folder, "--out", tmp_path / "run", *CPU),
    )


def test_a_class_that_was_never_seen_is_named(
    refuses: Refuses, painter: Path, tmp_path: Path
) -> None:
    images = paintings.squares(2)
    np.savez(tmp_path / "new.npz", images=images, labels=np.array(["up", "left"]))
    ask = ("--model", painter, *CPU)
    never = "there is no class 'left'; there are down, up"
    refuses(never, "evaluate", "--images", tmp_path / "new.npz", *ask)
    np.savez(
        tmp_path / "new.npz",
        images=np.where(images > 127, 255, 0).astype(np.uint8),
        labels=np.array(["up", "left"]),
    )
    refuses(never, "compress", tmp_path / "new.npz", "--out", tmp_path / "x.mh", *ask)
    assert not (tmp_path / "x.mh").exists()


def test_sizes_that_differ_are_refused_or_made_alike(folder: Path) -> None:
    Image.new("L", (20, 10), 200).save(folder / "b" / "9.png")
    with pytest.raises(
        ValueError, match=r"8 x 8 pixels and .*9\.png 10 x 20; `train image --size 8` would"
    ):
        read_pictures([folder])
    found = read_pictures([folder], size=4, grey=True)
    assert found.pixels.shape == (7, 4, 4, 1)
    assert (found.pixels[-1] == 200).all()


def test_idx_files_are_read_with_their_labels(tmp_path: Path) -> None:
    images = paintings.squares(5)[..., 0]
    head = bytes([0, 0, 8, 3]) + struct.pack(">III", *images.shape)
    path = tmp_path / "train-images-idx3-ubyte.gz"
    path.write_bytes(gzip.compress(head + images.tobytes()))
    labels = tmp_path / "train-labels-idx1-ubyte.gz"
    labels.write_bytes(
        gzip.compress(bytes([0, 0, 8, 1]) + struct.pack(">I", 5) + bytes([7, 1, 7, 0, 3]))
    )
    found = read_pictures([path])
    assert np.array_equal(found.pixels[..., 0], images)
    assert found.labels == ["7", "1", "7", "0", "3"]
    path.write_bytes(gzip.compress((head + images.tobytes())[:-1]))
    with pytest.raises(ValueError, match="is cut short: 320 bytes were to come"):
        read_pictures([path])


def test_a_picture_is_written_as_others_read_it(tmp_path: Path) -> None:
    for channels in (1, 3):
        sheet = make_sheet(paintings.squares(3, channels))
        assert sheet.shape == (19, 19, channels)
        (tmp_path / "sheet.png").write_bytes(encode_png(sheet))
        read = np.asarray(Image.open(tmp_path / "sheet.png"))
        assert np.array_equal(read.reshape(sheet.shape), sheet)


def test_the_nearest_of_others_is_found() -> None:
    images = paintings.squares(9)
    assert np.array_equal(find_nearest(images[[4, 2]], images, at_once=4), images[[4, 2]])
