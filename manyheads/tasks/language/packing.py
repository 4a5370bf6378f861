"""Text in as few bytes as a language model finds it likely, and out again letter by letter.

A text is cut into rows as long as the context, which are written side by side.

R rows, T tokens, V vocabulary.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from manyheads.data.packed import PackedPart
from manyheads.decoding.step import CachedStep, to_log_probs
from manyheads.devices import using
from manyheads.tasks.language.model import LanguageModel
from manyheads.tasks.packing import (
    CodeSymbols,
    SymbolReader,
    SymbolWriter,
    describe_machine,
    explain_damage,
    refuse_another,
)

LANES = 16  # rows that are written together
Told = Callable[[float], None]


def compress_text(
    model: LanguageModel, text: str, told: Told = lambda more: None
) -> tuple[dict[str, Any], list[PackedPart]]:
    """A head and parts for `write_packed`."""
    codec, signs = model.task.codec, model.task.codec.special_tokens.bos
    ids = codec.encode(text)
    if not signs:
        raise ValueError("a text is compressed by a model with a start sign, and this one has none")
    if codec.render(ids) != text:
        raise ValueError(
            "the vocabulary of the model does not give this text back as it is; one of bytes, "
            "codec.kind: byte, gives back every text"
        )
    rows = -(-len(ids) // model.task.context)
    longest = -(-len(ids) // max(1, rows))
    head = {
        **describe_machine(model),
        "lanes": min(LANES, rows),
        "row": longest,
        "tokens": len(ids),
    }
    parts = []
    table = torch.zeros(rows * longest, dtype=torch.long)
    table[: len(ids)] = torch.tensor(ids, dtype=torch.long)
    for begin in range(0, rows, LANES):
        some = table.view(rows, longest)[begin : begin + LANES].to(model.device)
        writer = SymbolWriter(some)
        write_rows(model, head, begin, writer, told)
        parts.append(PackedPart(writer.coder.finish(), zlib.crc32(some.cpu().numpy().tobytes())))
    return head, parts


def decompress_text(
    model: LanguageModel,
    head: dict[str, Any],
    parts: list[PackedPart],
    told: Told = lambda more: None,
) -> str:
    refuse_another(model, head)
    ids: list[int] = []
    for number, part in enumerate(parts):
        found = write_rows(model, head, number * LANES, SymbolReader(part.data), told)
        if zlib.crc32(found.cpu().numpy().tobytes()) != part.checksum:
            raise ValueError(explain_damage(head, f"part {number + 1}"))
        ids += found.flatten().tolist()
    return model.task.codec.render(ids[: head["tokens"]])


@torch.no_grad()
def write_rows(
    model: LanguageModel, head: dict[str, Any], begin: int, code: CodeSymbols, told: Told
) -> Tensor:
    """Rows from `begin` on, token by token; lanes that none is in do as the first."""
    lanes, longest = head["lanes"], head["row"]
    left = head["tokens"] - begin * longest
    count = min(lanes, -(-left // longest))
    signs = torch.tensor(model.task.codec.special_tokens.bos, device=model.device)
    new, written = signs.expand(lanes, -1), torch.zeros(count, longest, dtype=torch.long)
    step = CachedStep(model.network.eval())
    with using(1):
        for place in range(longest):
            going = min(count, -(-(left - place) // longest))  # the last row of all may be shorter
            symbols = code(to_log_probs(step(new))[:going])
            written[:going, place] = symbols.cpu()
            filled = [symbols, symbols[:1].expand(lanes - going)]
            new = torch.cat(filled)[:, None]
            told(going)
    return written
