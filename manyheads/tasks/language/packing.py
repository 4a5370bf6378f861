"""Compress a text without loss with the probabilities of a language model, and restore it."""

from __future__ import annotations

from typing import Any

from manyheads.data.packed import PackedPart
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.packing import Told
from manyheads.tasks.row_packing import compress_rows, decompress_rows


def compress_text(
    model: LanguageModel, text: str, told: Told = lambda more: None
) -> tuple[dict[str, Any], list[PackedPart]]:
    """Cut the text into rows that fit the context; return a header and parts for `write_packed`."""
    codec = model.task.codec
    ids = codec.encode(text)
    if codec.render(ids) != text:
        raise ValueError(
            "the vocabulary of the model does not give this text back as it is; one of bytes, "
            "codec.kind: byte, gives back every text"
        )
    rows = -(-len(ids) // model.task.context)
    longest = -(-len(ids) // rows)
    cut = [ids[i : i + longest] for i in range(0, len(ids), longest)]
    return compress_rows(model, cut, told)


def decompress_text(
    model: LanguageModel,
    head: dict[str, Any],
    parts: list[PackedPart],
    told: Told = lambda more: None,
) -> str:
    rows = decompress_rows(model, head, parts, told)
    return model.task.codec.render([number for row in rows for number in row])
