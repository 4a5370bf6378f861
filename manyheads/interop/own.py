"""What a folder's own library makes of a few texts, kept beside what was imported of it.

T tokens, V vocabulary.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from manyheads.codecs.text import Text
from manyheads.interop.exports import Parity, needed, worst
from manyheads.interop.family import Kind
from manyheads.interop.folders import read_config
from manyheads.modules.transformer import Tokens

OWN = "imported.safetensors"
LONGEST = 64  # tokens of a text
COLUMNS = 64  # words of the vocabulary whose log-probabilities are kept
MOST = 2 * 10**9  # weights that are loaded a second time


@torch.no_grad()
def own_output(
    folder: Path, kind: Kind, codecs: Sequence[Text], texts: Sequence[str], most: int
) -> dict[str, Tensor]:
    """By transformers, of each text: the numbers it is read as, at `most` so many, and what comes
    of them.
    """
    library = needed("transformers")
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    name = (read_config(folder).get("architectures") or ["AutoModel"])[0]
    model = getattr(library, name).from_pretrained(str(folder)).float().eval()
    try:
        tokenizer = library.AutoTokenizer.from_pretrained(str(folder))
    except Exception:  # a class that asks for files or libraries that are not here
        tokenizer = None
    held: dict[str, Tensor] = {}
    for i, text in enumerate(texts):
        ids = laid(codecs[0], kind, text) if tokenizer is None else tokenizer(text)["input_ids"]
        ids = ids[:most]
        written = [*codecs[-1].signs.starts, *(number % codecs[-1].size for number in ids[:8])]
        more = {"decoder_input_ids": torch.tensor([written])} if kind == "translation" else {}
        out = model(input_ids=torch.tensor([ids]), return_dict=True, **more)
        held[f"ids.{i}"] = torch.tensor(ids)
        held[f"output.{i}"] = kept(out[0][0], kind)
        if more:
            held[f"written.{i}"] = torch.tensor(written)
    return held


def own_vectors(folder: Path, texts: Sequence[str]) -> dict[str, Tensor]:
    """By sentence-transformers, where the folder is one of its own."""
    if not (folder / "modules.json").exists() or find_spec("sentence_transformers") is None:
        return {}
    library = needed("sentence_transformers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.SentenceTransformer(str(folder), device="cpu")
        found = model.float().encode(list(texts), show_progress_bar=False, convert_to_numpy=True)
    return {"vectors": torch.from_numpy(found)}


def kept(output: Tensor, kind: Kind) -> Tensor:
    """States as they are, of scores of words (T, V) some log-probabilities: (T, COLUMNS)"""
    if kind not in ("language", "masked", "translation"):
        return output.float().contiguous()
    logs = output.float().log_softmax(-1)
    return logs[:, :: max(1, logs.shape[1] // COLUMNS)].contiguous()


def laid(codec: Text, kind: Kind, text: str) -> list[int]:
    """A text as it is read here."""
    signs, ids = codec.signs, codec.encode(text)
    return [*signs.starts, *ids] if kind == "language" else [*signs.opens, *ids, signs.stop]


@torch.no_grad()
def by_folder(
    network: Any,
    kind: Kind,
    codecs: Sequence[Text],
    texts: Sequence[str],
    most: int,
    held: dict[str, Tensor],
) -> Parity:
    """The network here against what was kept; `different` are the texts read as other numbers."""
    device = next(network.parameters()).device
    found, different = [0.0], 0
    for i, text in enumerate(texts):
        ids = held[f"ids.{i}"].tolist()
        different += laid(codecs[0], kind, text)[:most] != ids
        batch = [Tokens.padded([ids]).to(device)]
        if kind == "translation":
            batch.append(Tokens.padded([held[f"written.{i}"].tolist()]).to(device))
        ours = kept(network(*batch)[0], kind).cpu()
        found.append(float((ours - held[f"output.{i}"]).abs().max()))
    return Parity(worst(found), different, len(texts))
