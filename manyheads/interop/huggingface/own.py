"""What a folder's own library makes of a few texts, kept beside what was imported of it.

T tokens, V vocabulary.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from manyheads.interop.exports import require
from manyheads.interop.huggingface.exporter import load_library
from manyheads.interop.parity import Parity, worst
from manyheads.tasks.portable import Portable

OWN = "imported.safetensors"
LONGEST = 64  # tokens of a text
COLUMNS = 64  # words of the vocabulary whose log-probabilities are kept
MOST = 2 * 10**9  # weights that are loaded a second time


@torch.no_grad()
def own_output(folder: Path, model: Portable, texts: Sequence[str], most: int) -> dict[str, Tensor]:
    """By transformers, of each text: the numbers it is read as, at `most` so many, and what comes
    of them.
    """
    library, codec = load_library(folder), model.codecs[-1]
    try:
        tokenizer = require("transformers").AutoTokenizer.from_pretrained(str(folder))
    except Exception:  # a class that asks for files or libraries that are not here
        tokenizer = None
    held: dict[str, Tensor] = {}
    for i, text in enumerate(texts):
        ids = laid(model, text) if tokenizer is None else tokenizer(text)["input_ids"]
        ids = ids[:most]
        written = [*codec.special_tokens.bos, *(number % codec.size for number in ids[:8])]
        both = model.architecture == "encoder-decoder"
        more = {"decoder_input_ids": torch.tensor([written])} if both else {}
        out = library(input_ids=torch.tensor([ids]), return_dict=True, **more)
        held[f"ids.{i}"] = torch.tensor(ids)
        held[f"output.{i}"] = kept(out[0][0], model)
        if more:
            held[f"written.{i}"] = torch.tensor(written)
    return held


def own_vectors(folder: Path, texts: Sequence[str]) -> dict[str, Tensor]:
    """By sentence-transformers, where the folder is one of its own."""
    if not (folder / "modules.json").exists() or find_spec("sentence_transformers") is None:
        return {}
    library = require("sentence_transformers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.SentenceTransformer(str(folder), device="cpu")
        found = model.float().encode(list(texts), show_progress_bar=False, convert_to_numpy=True)
    return {"vectors": torch.from_numpy(found)}


def kept(output: Tensor, model: Portable) -> Tensor:
    """States as they are, of scores of words (T, V) some log-probabilities: (T, COLUMNS)"""
    if not model.writes and model.kind != "masked":
        return output.float().contiguous()
    logs = output.float().log_softmax(-1)
    return logs[:, :: max(1, logs.shape[1] // COLUMNS)].contiguous()


def laid(model: Portable, text: str) -> list[int]:
    """A text as it is read here."""
    special, ids = model.codecs[0].special_tokens, model.codecs[0].encode(text)
    around = [*special.encoder_bos, *ids, special.eos]
    return [*special.bos, *ids] if model.architecture == "decoder" else around


@torch.no_grad()
def by_folder(model: Portable, texts: Sequence[str], most: int, held: dict[str, Tensor]) -> Parity:
    """The network here against what was kept; `different` are the texts read as other numbers."""
    found, different = [0.0], 0
    for i, text in enumerate(texts):
        ids = held[f"ids.{i}"].tolist()
        different += laid(model, text)[:most] != ids
        row = [ids, held[f"written.{i}"].tolist()] if f"written.{i}" in held else [ids]
        ours = kept(model.network(*model.batch([tuple(row)]))[0], model).cpu()
        found.append(float((ours - held[f"output.{i}"]).abs().max()))
    return Parity(worst(found), different, len(texts))
