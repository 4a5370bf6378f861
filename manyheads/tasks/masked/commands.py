"""embed, for encoders."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from manyheads.cli.incoming import read_chunks
from manyheads.cli.screen import print_json, tell_warnings
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
