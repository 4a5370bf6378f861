"""Export a model as a Hugging Face folder, and run it with transformers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor

from manyheads.interop.format import Exporter, require
from manyheads.interop.huggingface import special_tokens
from manyheads.interop.huggingface.families import FAMILIES
from manyheads.interop.huggingface.family import KINDS, Family, Kind, find_lacking
from manyheads.interop.huggingface.folders import (
    CHAT_TEMPLATE,
    GENERATION,
    TARGET,
    TOKENIZER,
    TOKENIZER_CONFIG,
    read_config,
    write_json,
    write_weights,
)
from manyheads.interop.huggingface.importer import list_weights, read_folder
from manyheads.interop.huggingface.keys import CONFIG
from manyheads.interop.huggingface.sentence_vectors import write_vectors
from manyheads.interop.parity import Runtime, token_mask
from manyheads.modules.config import NetworkConfig, TransformerConfig, position_name
from manyheads.modules.transformer import Tokens
from manyheads.tasks.portable import Portable, Row, VectorSettings
from manyheads.training.files import refuse_other_tensors, write_text
from manyheads.training.weights import weights_of


class HuggingFace(Exporter):
    """Writes a folder for transformers; compares with it, or reads back if it is not installed."""

    def write(self, model: Portable, folder: Path, quantization: str) -> None:
        write_folder(model, folder)

    def open(self, model: Portable, folder: Path) -> Runtime:
        return (ReadBack if find_spec("transformers") is None else Transformers)(model, folder)


# ---- writing ---------------------------------------------------------------------------------


def write_folder(model: Portable, folder: Path) -> Family:
    """Write a folder that transformers loads; return its family."""
    # The kind decides the class: a summarization model is written like a translation model.
    kinds: dict[str, Kind] = {"encoder-decoder": "translation", "decoder": "language"}
    kind: Any = kinds.get(model.architecture, model.kind)
    design, codecs, context = model.design, model.codecs, model.context
    joint = len(codecs) == 1
    family, design = choose_family(design, kind, joint), cast(TransformerConfig, design)
    if kind in ("classification", "regression") and model.pooling != "first":
        raise ValueError(
            f"pooling: {model.pooling} has no counterpart in Hugging Face's models; first has"
        )
    context = min(context, design.places or context)
    weights = weights_of(model.network)
    refuse_other_tensors(weights, list_weights(model), folder)
    config = {
        "model_type": family.name,
        **family.write_config(design, kind, joint, context),
        "vocab_size": codecs[0].size,
        **({} if joint else {"decoder_vocab_size": codecs[1].size}),
        **special_tokens.list_numbers(codecs[-1], kind),
        **list_labels(model),
        "dtype": "float32",
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder, family.write_tensors(weights, design, kind, context))
    for codec, below in zip(codecs, (folder, folder / TARGET), strict=False):
        said = special_tokens.describe_tokenizer(codec, kind, context, design.token_types)
        chat = {} if model.chat is None else model.chat.tokens
        write_json(below / TOKENIZER_CONFIG, {**chat, **said})
        write_text(below / TOKENIZER, special_tokens.frame_tokenizer(codec, kind))
    if model.chat is not None:
        write_text(folder / CHAT_TEMPLATE, model.chat.template)
    if model.writes:
        write_json(folder / GENERATION, special_tokens.describe_writing(codecs[-1], kind, context))
    if kind == "embedding":
        how = replace(model.vectors or VectorSettings(), context=context)
        write_vectors(folder, design.width, how)
    write_json(folder / CONFIG, config)
    return family


def choose_family(network: NetworkConfig, kind: Kind, joint: bool) -> Family:
    """Return the family that has all of a network's settings; refuse if none has."""
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
    of_kind = "classification" if kind == "regression" else kind
    families = [family for family in FAMILIES.values() if of_kind in family.kinds.values()]
    nearest = min(families, key=lambda family: len(find_lacking(family, network, kind)))
    for name, values in find_lacking(nearest, network, kind).items():
        held = " or ".join(dict.fromkeys(map(str, values)))
        raise ValueError(
            f"network.{name}: {getattr(network, name)} has no counterpart in Hugging Face's "
            f"models; {nearest.name}, the nearest, has {held}"
        )
    if not joint and nearest.name != "marian":
        raise ValueError(
            f"two vocabularies have no counterpart in {nearest.name}; marian has them, which is "
            "network.norm_position: post and network.position: Sinusoidal()"
        )
    design = cast(TransformerConfig, network)  # all families are transformers
    even = {"Sinusoidal()": design.width, "Rotary()": design.width // design.heads}
    if (channels := even.get(position_name(design.position) or "", 0)) % 2:
        raise ValueError(
            f"network.position: {design.position} over {channels} channels has no counterpart in "
            "Hugging Face's models; an even number has"
        )
    return nearest


def list_labels(model: Portable) -> dict[str, Any]:
    if model.kind == "regression":
        return {"id2label": {"0": "LABEL_0"}, "problem_type": "regression"}
    if not model.labels:
        return {}
    return {
        "id2label": {str(i): label for i, label in enumerate(model.labels)},
        "label2id": {label: i for i, label in enumerate(model.labels)},
    }


# ---- running ---------------------------------------------------------------------------------


class ReadBack(Runtime):
    """Runs the network that our own importer reads from the folder."""

    by = "as it is read back: transformers is not installed"

    def __init__(self, model: Portable, folder: Path):
        super().__init__(model)
        self.there = replace(model, network=read_folder(folder).load().network)

    def scores(self, batch: tuple[Tokens, ...]) -> Tensor:
        found: Tensor = self.there.network(*batch)
        return found

    def write(self, rows: Sequence[Row], longest: int) -> list[list[int]]:
        return self.there.write(rows, longest)


class Transformers(Runtime):
    """Runs the folder with transformers."""

    def __init__(self, model: Portable, folder: Path):
        super().__init__(model)
        self.library = load_library(folder)

    def scores(self, batch: tuple[Tokens, ...]) -> Tensor:
        given: dict[str, Any] = {"input_ids": batch[0].ids, "attention_mask": token_mask(batch[0])}
        if self.model.architecture == "encoder-decoder":
            given |= {"decoder_input_ids": batch[1].ids, "use_cache": False}
        found: Tensor = self.library(**given)[0]
        return found

    def write(self, rows: Sequence[Row], longest: int) -> list[list[int]]:
        return [self.write_one(row, longest) for row in rows]

    def write_one(self, row: Row, longest: int) -> list[int]:
        ids, start, special = (
            torch.tensor(row[:1]),
            self.model.start(row),
            self.model.special_tokens,
        )
        # The library begins with the text or with one sign, and counts a forced sign as new.
        begun = ids.shape[1] if self.model.architecture == "decoder" else 1
        found = self.library.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=self.model.room(start, longest) + len(start) - begun,
            do_sample=False,
            num_beams=1,
        )[0].tolist()
        written: list[int] = found[len(start) :]
        ends = [i for i, token in enumerate(written) if token in special.all_eos]
        return written[: ends[0]] if ends else written


def load_library(folder: Path) -> Any:
    """Load the model of a folder with transformers."""
    library = require("transformers")
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    name = (read_config(folder).get("architectures") or ["AutoModel"])[0]
    return getattr(library, name).from_pretrained(str(folder)).float().eval()
