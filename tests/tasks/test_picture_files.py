"""Pictures as cameras and other programs write them."""

import struct
from io import BytesIO
from pathlib import Path

import numpy as np
from PIL import Image

from manyheads.tasks.image.sources import read_picture

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
