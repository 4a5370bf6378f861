"""Pictures as cameras and other programs write them."""

import struct
from io import BytesIO
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from manyheads.tasks.image.settings import ImageData, ImageRecipe
from manyheads.tasks.image.sources import read_picture, read_pictures
from manyheads.tasks.image.task import ImageTask

RED = Image.new("RGB", (8, 8), (200, 30, 30))


def test_a_picture_whose_exif_data_is_cut_short_is_read(tmp_path: Path) -> None:
    exif, file = Image.Exif(), BytesIO()
    exif[0x010E] = "a description that is longer than a few letters"
    RED.save(file, "JPEG", exif=exif)
    data = file.getvalue()
    begin = data.index(b"Exif\0\0") - 2
    (size,) = struct.unpack(">H", data[begin : begin + 2])
    less = struct.pack(">H", size - 10) + data[begin + 2 : begin + size - 10]
    (tmp_path / "photo.jpg").write_bytes(data[:begin] + less + data[begin + size :])
    assert np.array_equal(read_picture(tmp_path / "photo.jpg"), np.asarray(Image.open(file)))


def test_of_a_photo_with_a_second_picture_behind_it_the_first_is_read(tmp_path: Path) -> None:
    path = tmp_path / "phone.jpg"
    RED.save(path, "MPO", save_all=True, append_images=[Image.new("RGB", (4, 4))])
    assert read_picture(path).shape == (8, 8, 3)
    assert read_picture(path)[..., 0].min() > 150


def test_a_tiff_of_16_bits_a_channel_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "scan.tif"
    # Rows, columns, bits, no compression, RGB; then where the pixels are, and how many bytes.
    tags = [(256, 2), (257, 2), (258, 0), (259, 1), (262, 2), (273, 128), (277, 3), (279, 24)]
    held = [struct.pack("<HHII", tag, 4, 1, value) for tag, value in tags]
    held[2] = struct.pack("<HHII", 258, 3, 3, 120)
    head = b"II*\0" + struct.pack("<IH", 8, len(tags)) + b"".join(held)
    whole = head.ljust(120, b"\0") + struct.pack("<HHH", 16, 16, 16).ljust(8, b"\0")
    path.write_bytes(whole + np.arange(12, dtype="<u2").tobytes())
    with Image.open(path) as image:
        assert image.mode == "RGB"  # Pillow drops the lower half of each value
    with pytest.raises(ValueError, match="16 bits a channel, not 8"):
        read_picture(path)
    RED.save(path)
    assert read_picture(path).shape == (8, 8, 3)


def test_images_of_0_and_1_in_the_place_of_bytes_are_refused(tmp_path: Path) -> None:
    path, marks = tmp_path / "some.npz", np.arange(20 * 16).reshape(20, 4, 4) % 2
    np.savez(path, images=marks.astype(np.uint8))
    recipe = ImageRecipe("image", ImageData((path,)))
    with pytest.raises(
        ValueError, match="all images are as good as black: pixels go from 0 to 255"
    ):
        ImageTask.gather(recipe)
    np.savez(path, images=(255 * marks).astype(np.uint8))
    assert len(ImageTask.gather(recipe).train) == 18


def test_names_of_an_npz_are_text_and_other_arrays_are_named(tmp_path: Path) -> None:
    path, images = tmp_path / "some.npz", np.zeros((2, 4, 4), np.uint8)
    np.savez(path, images=images, labels=np.char.encode(["Bär", "cat"], "utf-8"))
    assert read_pictures([path]).labels == ["Bär", "cat"]
    np.savez(path, images=images, labels=np.array([b"a\xff", b"b"]))
    with pytest.raises(ValueError, match=r"some.npz: labels are texts in UTF-8 or numbers"):
        read_pictures([path])
    np.savez(path, x=images, y=images)
    with pytest.raises(ValueError, match="has no array called images; there are x, y"):
        read_pictures([path])
