"""embed, for encoders."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from manyheads.cli.incoming import read_chunks
from manyheads.cli.screen import print_json
from manyheads.tasks.masked.model import EncoderModel
from manyheads.tasks.masked.verbs import EmbedOptions


def embed(model: EncoderModel, options: EmbedOptions) -> None:
    how: Any = {"pooling": options.pooling, "normalise": False if options.plain else None}
    with tell_warnings():
        each = [model.embed(some, **how) for some in read_chunks(options.texts)]
    if not each:
        raise ValueError("there is nothing to read: stdin has no lines")
    vectors = np.concatenate(each)
    if options.as_json:
        for vector in vectors.tolist():
            print_json([round(number, 6) for number in vector])
    elif options.out is not None:
        with options.out.open("wb") as file:
            np.save(file, vectors)
    else:
        np.save(sys.stdout.buffer, vectors)


@contextmanager
def tell_warnings() -> Iterator[None]:
    """What is warned of inside is told in a line."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always", UserWarning)
        yield
    for one in told:
        print(f"manyheads: {one.message}", file=sys.stderr)
