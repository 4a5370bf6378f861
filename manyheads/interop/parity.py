"""Whether a model says the same elsewhere.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from manyheads.codecs.text import Signs
from manyheads.decoding.bounds import Bounds
from manyheads.decoding.greedy import greedy
from manyheads.decoding.step import CachedStep
from manyheads.interop import onnx
from manyheads.interop.exports import Parity, needed
from manyheads.interop.folders import read_config
from manyheads.modules.transformer import Decoder, EncoderDecoder, Tokens

LONGEST = 64  # tokens that are written to be compared


def real(tokens: Tokens) -> Tensor:
    """(B, T), 1 where a token is no padding."""
    counts = getattr(tokens.seen, "lengths", None)
    length = tokens.ids.shape[1]
    if counts is None:
        return torch.ones_like(tokens.ids)
    return (torch.arange(length, device=counts.device) < counts[:, None]).long()


def apart(ours: Tensor, theirs: Tensor, mask: Tensor) -> float:
    """The largest difference where nothing is padding; of scores of words, as probabilities."""
    if ours.dim() == 2:  # of a whole text
        return float((ours - theirs).abs().max())
    return float((ours - theirs)[mask > 0].abs().max())


@torch.no_grad()
def by_module(network: nn.Module, other: nn.Module, batch: tuple[Tokens, ...]) -> Parity:
    """Against the network that is read back from a folder."""
    mask = real(batch[-1])
    said = "as it is read back: transformers is not installed"
    return Parity(apart(network(*batch), other(*batch), mask), 0, len(mask), said)


@torch.no_grad()
def by_onnx(network: nn.Module, folder: Path, batch: tuple[Tokens, ...]) -> Parity:
    """An encoder, by onnxruntime; a text has all the parts that it tells apart."""
    (tokens,) = batch
    mask, session = real(tokens), onnx.Session(folder / onnx.ENCODER)
    given = {"ids": tokens.ids, "mask": mask}
    if session.asks_for("types"):
        given["types"] = parts(network, tokens.ids)
        tokens = replace(tokens, types=given["types"])
    (theirs,) = session(**given)
    return Parity(apart(network(tokens), theirs, mask), 0, len(mask))


def parts(network: Any, ids: Tensor) -> Tensor:
    """(B, T), as many of each type: [0, 0, 1, 1] of two types and four tokens"""
    types = getattr(network, "encoder", network).embedding.types.num_embeddings
    length = ids.shape[1]
    return (torch.arange(length) * types // length).expand(ids.shape).contiguous()


@torch.no_grad()
def by_transformers(network: Any, folder: Path, batch: tuple[Tokens, ...], signs: Signs) -> Parity:
    """What transformers computes from the folder, and what it writes on from where it writes."""
    library = needed("transformers")
    library.logging.set_verbosity_error()
    library.logging.disable_progress_bar()
    name = (read_config(folder).get("architectures") or [""])[0]
    theirs = getattr(library, name).from_pretrained(str(folder)).eval()
    masks = [real(tokens) for tokens in batch]
    given = {"input_ids": batch[0].ids, "attention_mask": masks[0]}
    if isinstance(network, EncoderDecoder):
        found = theirs(**given, decoder_input_ids=batch[1].ids, use_cache=False).logits
    else:
        found = theirs(**given)[0]
    largest = apart(network(*batch), found, masks[-1])
    writes = isinstance(network, EncoderDecoder | Decoder)
    different = sum(
        ours_written(network, batch, signs, i) != theirs_written(theirs, network, batch, signs, i)
        for i in range(len(masks[0]) if writes else 0)
    )
    return Parity(largest, different, len(masks[0]))


def row(tokens: Tokens, i: int) -> list[int]:
    """One of a batch, without its padding."""
    found: list[int] = tokens.ids[i][real(tokens)[i] > 0].tolist()
    return found


def ours_written(network: Any, batch: tuple[Tokens, ...], signs: Signs, i: int) -> list[int]:
    bounds = Bounds(signs.stops, longest=LONGEST, never=signs.never)
    if isinstance(network, EncoderDecoder):
        memory = network.encode(Tokens.padded([row(batch[0], i)]))
        (found,) = greedy(CachedStep(network.decoder, memory), torch.tensor([signs.starts]), bounds)
    else:
        (found,) = greedy(CachedStep(network), torch.tensor([row(batch[0], i)]), bounds)
    return found.ids


def theirs_written(
    theirs: Any, network: Any, batch: tuple[Tokens, ...], signs: Signs, i: int
) -> list[int]:
    ids = torch.tensor([row(batch[0], i)])
    found = theirs.generate(
        ids,
        attention_mask=torch.ones_like(ids),
        max_new_tokens=LONGEST,
        do_sample=False,
        num_beams=1,
    )[0].tolist()
    begun = len(signs.starts) if isinstance(network, EncoderDecoder) else ids.shape[1]
    written: list[int] = found[begun:]
    ends = [i for i, token in enumerate(written) if token in signs.stops]
    return written[: ends[0]] if ends else written
