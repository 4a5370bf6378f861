"""Files of data that a model has compressed: a JSON header, then parts with checksums."""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from manyheads.training.files import write_whole

MAGIC = b"manyheads\x00\x01"
SUFFIX = ".mh"


class PackedPart(NamedTuple):
    """Compressed bytes, and the checksum of the original."""

    data: bytes
    checksum: int


def write_packed(path: Path, head: dict[str, Any], parts: Sequence[PackedPart]) -> int:
    """Write a packed file; return its number of bytes."""
    head = {**head, "parts": len(parts)}
    words = zlib.compress(json.dumps(head, ensure_ascii=False).encode(), 9)
    body = [struct.pack(">II", len(part.data), part.checksum) + part.data for part in parts]
    whole = MAGIC + struct.pack(">II", len(words), zlib.crc32(words)) + words + b"".join(body)
    write_whole(path, lambda beside: beside.write_bytes(whole))
    return len(whole)


def read_packed(path: Path) -> tuple[dict[str, Any], list[PackedPart]]:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    whole, start = path.read_bytes(), len(MAGIC) + 8
    if not whole.startswith(MAGIC):
        raise ValueError(f"{path} was not written by `manyheads compress`")
    size, checksum = struct.unpack(">II", whole[len(MAGIC) : start].ljust(8, b"\0"))
    words = whole[start : start + size]
    if zlib.crc32(words) != checksum:
        raise ValueError(f"{path} is damaged: its head is not as it was written")
    head: dict[str, Any] = json.loads(zlib.decompress(words))
    parts, place = [], start + size
    while place < len(whole):
        size, checksum = struct.unpack(">II", whole[place : place + 8].ljust(8, b"\0"))
        parts.append(PackedPart(whole[place + 8 : place + 8 + size], checksum))
        place += 8 + size
    # A file may be cut between two parts: then what is left of it is whole.
    if place != len(whole) or len(parts) != head.get("parts", len(parts)):
        raise ValueError(f"{path} is not as long as it was written: cut short, or added to")
    return head, parts
