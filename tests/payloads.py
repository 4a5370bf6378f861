"""Read what a page of attention holds, as its script does."""

import gzip
import json
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray


def from_bytes(stored: NDArray[np.uint8]) -> NDArray[np.float32]:
    return np.square(stored.astype(np.float32) / np.float32(255), dtype=np.float32)


def read_payload(payload: bytes) -> tuple[dict[str, Any], list[NDArray[np.float32]]]:
    """Return the header and the weights of each layer, (H, Q, K), as the page reads them."""
    raw = gzip.decompress(payload)
    (length,) = struct.unpack_from("<I", raw)
    header, begin = json.loads(raw[4 : 4 + length]), 4 + length
    maps = []
    for layer in header["layers"]:
        size = int(np.prod(layer["shape"]))
        stored = np.frombuffer(raw, np.uint8, size, begin).reshape(layer["shape"])
        maps.append(from_bytes(stored))
        begin += size
    return header, maps
