"""Files of compressed data: what was written is read, and nothing less."""

from pathlib import Path

import pytest

from manyheads.data.packed import PackedPart, read_packed, write_packed


@pytest.mark.parametrize("change", ["one part less", "one part twice"])
def test_a_file_that_is_cut_between_two_parts_is_refused(change: str, tmp_path: Path) -> None:
    path, last = tmp_path / "x.mh", 8 + 3
    write_packed(path, {"model": "m"}, [PackedPart(b"one", 1), PackedPart(b"two", 2)])
    assert [part.data for part in read_packed(path)[1]] == [b"one", b"two"]
    whole = path.read_bytes()
    path.write_bytes(whole[:-last] if change == "one part less" else whole + whole[-last:])
    with pytest.raises(ValueError, match=r"is not as long as it was written: cut short, or added"):
        read_packed(path)
