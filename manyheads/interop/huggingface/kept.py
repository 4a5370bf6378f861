"""Keep the outputs of the original library for a few texts beside an imported model.

T tokens, V vocabulary.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path

import torch
from torch import Tensor

from manyheads.interop.format import require
from manyheads.interop.huggingface.exporter import load_library
from manyheads.interop.parity import SAME, Parity, find_worst
from manyheads.tasks.portable import Portable
from manyheads.training.files import read_tensors, write_tensors

KEPT = "imported.safetensors"
LONGEST = 64  # the most tokens of a text
COLUMNS = 64  # about how many words' log-probabilities are kept
MOST = 2 * 10**9  # the most weights that are loaded a second time


def keep_output(folder: Path, model: Portable, run: Path, texts: Sequence[str]) -> str:
    """Run texts with the original library and keep its outputs in the run; return a message.

    Refuse the folder if that library computes something else than our network.
    """
    if sum(tensor.numel() for tensor in model.network.parameters()) > MOST:
        return "not compared with its own library: it is too large to be loaded a second time"
    most = min(LONGEST, model.context)
    try:
        held = run_library(folder, model, texts, most)
        held |= run_sentence_library(folder, texts) if model.embed is not None else {}
    except Exception as error:  # an error in that library is not an error of the import
        first = str(error).strip().splitlines() or [type(error).__name__]
        return f"not compared with its own library, which fails: {first[0]}"
    write_tensors(run / KEPT, held, {"texts": list(texts), "most": most})
    found = compare_as_kept(model, run)
    if not found.largest <= SAME:
        raise ValueError(
            f"{folder}: transformers computes something else from it than is computed here, by "
            f"{found.largest:.2g}; report it with its config.json"
        )
    said = f"compared with its own library: largest difference {found.largest:.2g}"
    if not found.different:
        return said
    return (
        f"{said}\n{found.different} of {found.texts} texts are read as other numbers there: "
        "its tokenizer.json is not what its own tokenizer does"
    )


@torch.no_grad()
def run_library(
    folder: Path, model: Portable, texts: Sequence[str], most: int
) -> dict[str, Tensor]:
    """Run transformers on each text; return its first `most` ids and the outputs."""
    library, codec = load_library(folder), model.codecs[-1]
    try:
        tokenizer = require("transformers").AutoTokenizer.from_pretrained(str(folder))
    except Exception:  # a class that needs missing files or libraries
        tokenizer = None
    held: dict[str, Tensor] = {}
    for i, text in enumerate(texts):
        ids = frame_text(model, text) if tokenizer is None else tokenizer(text)["input_ids"]
        held[f"ids.{i}"] = torch.tensor(ids[:most])
        inputs = {"input_ids": held[f"ids.{i}"][None]}
        if model.architecture == "encoder-decoder":
            written = [
                *codec.special_tokens.bos,
                *(number % codec.size for number in ids[:most][:8]),
            ]
            held[f"written.{i}"] = torch.tensor(written)
            inputs["decoder_input_ids"] = held[f"written.{i}"][None]
        held[f"output.{i}"] = thin_output(library(**inputs, return_dict=True)[0][0], model)
    return held


def run_sentence_library(folder: Path, texts: Sequence[str]) -> dict[str, Tensor]:
    """Run sentence-transformers, if the folder is one of its models."""
    if not (folder / "modules.json").exists() or find_spec("sentence_transformers") is None:
        return {}
    library = require("sentence_transformers")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = library.SentenceTransformer(str(folder), device="cpu")
        found = model.float().encode(list(texts), show_progress_bar=False, convert_to_numpy=True)
    return {"vectors": torch.from_numpy(found)}


def thin_output(output: Tensor, model: Portable) -> Tensor:
    """Return states unchanged; of word logits (T, V) return about COLUMNS log-probabilities."""
    if not model.writes and model.kind != "masked":
        return output.float().contiguous()
    logs = output.float().log_softmax(-1)
    return logs[:, :: max(1, logs.shape[1] // COLUMNS)].contiguous()


def frame_text(model: Portable, text: str) -> list[int]:
    """Encode a text with its special tokens, as our model reads it."""
    special, ids = model.codecs[0].special_tokens, model.codecs[0].encode(text)
    around = [*special.encoder_bos, *ids, special.eos]
    return [*special.bos, *ids] if model.architecture == "decoder" else around


@torch.no_grad()
def compare_as_kept(model: Portable, run: Path) -> Parity:
    """Compare a model with the kept outputs; `different` counts texts with other token ids."""
    held, note = read_tensors(run / KEPT)
    texts, found, different = note["texts"], [0.0], 0
    for i, text in enumerate(texts):
        row = [held[f"{side}.{i}"].tolist() for side in ("ids", "written") if f"{side}.{i}" in held]
        different += frame_text(model, text)[: note["most"]] != row[0]
        ours = thin_output(model.network(*model.batch([tuple(row)]))[0], model).cpu()
        found.append(float((ours - held[f"output.{i}"]).abs().max()))
    if "vectors" in held and model.embed is not None:
        vectors = torch.from_numpy(model.embed(texts))
        found.append(float((vectors - held["vectors"]).abs().max()))
    return Parity(find_worst(found), different, len(texts))
