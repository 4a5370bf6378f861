"""A model as a Hugging Face folder, and as transformers runs it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.interop.exports import Exporter, needed
from manyheads.interop.huggingface import convert
from manyheads.interop.huggingface.family import Kind
from manyheads.interop.huggingface.folders import (
    CHAT_TEMPLATE,
    TOKENIZER_CONFIG,
    read_config,
    read_json,
    write_json,
)
from manyheads.interop.parity import Runtime, real
from manyheads.modules.transformer import Tokens
from manyheads.tasks.portable import Portable, Row
from manyheads.training.averages import weights_of
from manyheads.training.files import write_text


class HuggingFace(Exporter):
    """A folder that transformers loads, where it is installed; else it is read back."""

    def write(self, model: Portable, folder: Path, quantization: str) -> None:
        convert.write(
            folder,
            kind_of(model),
            model.design,
            weights_of(model.network),
            model.codecs,
            context=model.context,
            labels=model.labels,
            pooling=model.pooling,
            vectors=model.vectors,
        )
        if model.chat is not None:
            write_text(folder / CHAT_TEMPLATE, model.chat.template)
            held = read_json(folder / TOKENIZER_CONFIG)
            write_json(folder / TOKENIZER_CONFIG, {**model.chat.tokens, **held})

    def open(self, model: Portable, folder: Path) -> Runtime:
        return (ReadBack if find_spec("transformers") is None else Transformers)(model, folder)


def kind_of(model: Portable) -> Kind:
    """What its classes are told apart by: a summary is written as a translation is."""
    kinds: dict[str, Kind] = {"encoder-decoder": "translation", "decoder": "language"}
    return kinds.get(model.architecture, model.kind)  # type: ignore[arg-type]


class ReadBack(Runtime):
    """The network that a folder is read as."""

    by = "as it is read back: transformers is not installed"

    def __init__(self, model: Portable, folder: Path):
        super().__init__(model)
        self.there = replace(model, network=convert.read(folder).module())

    def scores(self, batch: tuple[Tokens, ...]) -> Tensor:
        found: Tensor = self.there.network(*batch)
        return found

    def write(self, rows: Sequence[Row], longest: int) -> list[list[int]]:
        return self.there.write(rows, longest)


class Transformers(Runtime):
    """What transformers computes from the folder, and what it writes."""

    def __init__(self, model: Portable, folder: Path):
        super().__init__(model)
        self.library = load(folder)

    def scores(self, batch: tuple[Tokens, ...]) -> Tensor:
        given: dict[str, Any] = {"input_ids": batch[0].ids, "attention_mask": real(batch[0])}
        if self.model.architecture == "encoder-decoder":
            given |= {"decoder_input_ids": batch[1].ids, "use_cache": False}
        found: Tensor = self.library(**given)[0]
        return found

    def write(self, rows: Sequence[Row], longest: int) -> list[list[int]]:
        return [self.written(row, longest) for row in rows]

    def written(self, row: Row, longest: int) -> list[int]:
        ids, start, signs = torch.tensor(row[:1]), self.model.start(row), self.model.signs
        found = self.library.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=self.model.room(start, longest),
            do_sample=False,
            num_beams=1,
        )[0].tolist()
        written: list[int] = found[len(start) :]
        ends = [i for i, token in enumerate(written) if token in signs.stops]
        return written[: ends[0]] if ends else written


def load(folder: Path) -> Any:
    """The model of a folder, by transformers."""
    library = needed("transformers")
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    name = (read_config(folder).get("architectures") or ["AutoModel"])[0]
    return getattr(library, name).from_pretrained(str(folder)).float().eval()
