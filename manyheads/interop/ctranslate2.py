"""Export to CTranslate2, with our weights in the layout of its specification.

A translation model is a folder for `ctranslate2.Translator`, a language model one for `Generator`.
Both take tokens of the tokenizer in that folder; Translator adds the special tokens of a source.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from manyheads.attention.places import line
from manyheads.codecs.text import Text
from manyheads.interop.format import Exporter, require, save_codecs
from manyheads.interop.parity import Runtime, find_worst, largest_apart, token_mask
from manyheads.modules.config import NetworkConfig, TransformerConfig, position_name
from manyheads.modules.layers import Sublayer
from manyheads.modules.positions import RotaryValue
from manyheads.modules.stack import Block, Stack
from manyheads.modules.transformer import Embedding, Tied, Tokens
from manyheads.tasks.portable import Portable, Row

LONGEST = 1024  # rows of the sinusoidal table; CTranslate2 truncates longer sources
ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu-tanh": "GELUTanh",
    "silu": "SWISH",
    "swiglu": "SWISH",
    "geglu": "GELU",
}
HOLDS: dict[str, tuple[Any, ...]] = {  # the values it supports of settings that have more here
    "kind": ("transformer",),
    "position": ("Sinusoidal()", "Learned()", "Rotary()", None),
    "relative": (None,),
    "pattern": ("Everything()",),
    "token_types": (0,),
    "residual": (True,),
    "feed_forward": tuple(ACTIVATIONS),
    "qk_norm": (False,),
    "residual_scalars": (False,),
    "value_embeddings": (0,),
    "logit_cap": (0,),
}


class CTranslate2(Exporter):
    """Writes a folder for ctranslate2.Translator or Generator."""

    needs = ("ctranslate2",)
    quantizes = True

    def write(self, model: Portable, folder: Path, quantization: str) -> None:
        if not model.writes:
            raise ValueError(
                f"CTranslate2 runs what writes, {model.name} is a model for {model.kind}; "
                "--to onnx or --to huggingface would do"
            )
        specs = require_specs(model.design, quantization)
        spec = (specify_decoder if model.architecture == "decoder" else specify)(specs, model)
        spec.validate()
        spec.optimize(quantization=quantization or None)
        spec.save(str(folder))
        save_codecs(model.codecs, folder)

    def open(self, model: Portable, folder: Path) -> Runtime:
        return (Generating if model.architecture == "decoder" else Translating)(model, folder)


def specify(specs: Any, model: Portable) -> Any:
    """Return the specification of an encoder-decoder, for ctranslate2.Translator."""
    encoder, decoder, codecs = model.network.encoder, model.network.decoder, model.codecs
    design = cast(TransformerConfig, model.design)
    reads, writes = (list_options(specs, design, depth) for depth in design.depths)
    spec = specs.TransformerSpec(
        specs.transformer_spec.TransformerEncoderSpec(**reads),
        specs.transformer_spec.TransformerDecoderSpec(**writes),
    )
    set_config(spec, model, **frame(codecs[0], codecs[-1]))
    set_side(spec.encoder, spec.encoder.embeddings[0], encoder, design)
    set_side(spec.decoder, spec.decoder.embeddings, decoder, design)
    spec.register_source_vocabulary(list_pieces(codecs[0], encoder.embedding))
    spec.register_target_vocabulary(list_pieces(codecs[-1], decoder.embedding))
    return spec


def specify_decoder(specs: Any, model: Portable) -> Any:
    """Return the specification of a decoder, for Generator; prompts include the start tokens."""
    design = cast(TransformerConfig, model.design)
    decoder = specs.transformer_spec.TransformerDecoderSpec(
        **list_options(specs, design, design.one_depth()), with_encoder_attention=False
    )
    spec = specs.TransformerDecoderModelSpec(decoder)
    set_side(decoder, decoder.embeddings, model.network, design)
    names, special = list_pieces(model.codecs[0], model.network.embedding), model.special_tokens
    spec.register_vocabulary(names)
    set_config(
        spec,
        model,
        unk_token=names[special.eos if special.unknown is None else special.unknown],
        bos_token=names[special.bos[0] if special.bos else special.eos],
        eos_token=names[special.eos],
    )
    return spec


def set_config(spec: Any, model: Portable, **settings: Any) -> None:
    epsilon = cast(TransformerConfig, model.design).norm_epsilon
    for name, value in {"layer_norm_epsilon": epsilon, **settings}.items():
        setattr(spec.config, name, value)


# ---- checks ----------------------------------------------------------------------------------


def require_specs(design: NetworkConfig, quantization: str) -> Any:
    """Return CTranslate2's specifications; refuse a network that they cannot hold."""
    for name, values in HOLDS.items():
        value = getattr(design, name)
        if (position_name(value) if name == "position" else value) not in values:
            raise ValueError(
                f"CTranslate2 has no counterpart of {name}: {value}; "
                f"{', '.join('null' if one is None else str(one) for one in values)} would do"
            )
    specs = require("ctranslate2").specs
    known = specs.model_spec.ACCEPTED_MODEL_TYPES
    if quantization and quantization not in known:
        raise ValueError(
            f"CTranslate2 has no quantization {quantization!r}; there are {', '.join(known)}"
        )
    return specs


def frame(source: Text, target: Text) -> dict[str, Any]:
    """Return the special tokens around a source and before a target, as its config has them."""
    reads, writes = source.special_tokens, target.special_tokens
    if len(reads.encoder_bos) > 1 or len(writes.bos) != 1:
        raise ValueError(
            "CTranslate2 puts one sign before a source at most and one before what is written, "
            f"this model has {len(reads.encoder_bos)} and {len(writes.bos)}"
        )
    read, written = source.tokenizer.id_to_token, target.tokenizer.id_to_token
    if read(reads.eos) != written(writes.eos):
        raise ValueError(
            "CTranslate2 ends both sides with one sign, these end with "
            f"{read(reads.eos)} and {written(writes.eos)}"
        )
    start = written(writes.bos[0])
    return {
        "unk_token": written(writes.eos if writes.unknown is None else writes.unknown),
        "bos_token": read(reads.encoder_bos[0]) if reads.encoder_bos else start,
        "eos_token": written(writes.eos),
        "decoder_start_token": start,
        "add_source_bos": bool(reads.encoder_bos),
        "add_source_eos": True,
    }


# ---- the layout ------------------------------------------------------------------------------


def list_options(specs: Any, design: TransformerConfig, depth: int) -> dict[str, Any]:
    """Return the arguments for its specification of an encoder or decoder."""
    options: dict[str, Any] = {
        "num_layers": depth,
        "num_heads": design.heads,
        "pre_norm": design.norm_position == "pre",
        "activation": specs.Activation[ACTIVATIONS[design.feed_forward]],
        "layernorm_embedding": design.embedding_norm,
        "ffn_glu": design.feed_forward in ("swiglu", "geglu"),
        "rms_norm": design.norm == "rms",
    }
    if design.key_heads not in (None, design.heads):
        options["num_heads_kv"] = design.key_heads
    if isinstance(rotary := design.position_value, RotaryValue):
        options |= {
            "rotary_dim": design.width // design.heads // 2 * 2,
            "rotary_interleave": False,  # a channel is rotated with one of the other half
            "rotary_base": rotary.base,
        }
    return options


def set_side(spec: Any, embedding: Any, side: Any, design: TransformerConfig) -> None:
    """Set the weights of an encoder, or of a decoder with its head."""
    spec.scale_embeddings = design.scale_embeddings
    embedding.weight = copy_numbers(side.embedding.table.weight)
    if hasattr(spec, "projection"):
        tied = isinstance(side.head, Tied)
        table = side.head.read_backwards[0].table.weight if tied else side.head.weight
        set_linear(spec.projection, table, side.head.bias)
    set_places(spec, side.stack, design)
    if design.embedding_norm:
        set_norm(spec.layernorm_embedding, side.stack.entry)
    if design.norm_position == "pre":
        set_norm(spec.layer_norm, side.stack.norm)
    for layer, block in zip(spec.layer, cast(list[Block], side.stack.blocks), strict=True):
        set_attention(layer.self_attention, block.self_attention)
        if block.cross_attention is not None:
            set_attention(layer.attention, block.cross_attention)
        set_feed_forward(layer.ffn, block.feed_forward)


@torch.no_grad()
def set_places(spec: Any, stack: Stack, design: TransformerConfig) -> None:
    """Set a table of position vectors, since its own sinusoids differ: they count from 1."""
    if isinstance(design.position_value, RotaryValue):
        if hasattr(spec, "position_encodings"):
            delattr(spec, "position_encodings")
        return
    places = design.places or LONGEST
    nothing = next(stack.parameters()).new_zeros(1, places, stack.width)
    table = stack.position(nothing, line(places, device=nothing.device))[0]
    spec.position_encodings.encodings = copy_numbers(table)


def set_attention(spec: Any, sublayer: Sublayer) -> None:
    """Set attention weights; in cross-attention the query is separate from key and value."""
    attention: Any = sublayer.part
    set_norm(spec.layer_norm, sublayer.norm)
    inward, out = attention.inward, attention.out
    apart = [attention.width] if len(spec.linear) == 3 else []
    set_linears(spec.linear[:-1], inward.weight, inward.bias, apart)
    set_linear(spec.linear[-1], out.weight, out.bias)


def set_feed_forward(spec: Any, sublayer: Sublayer) -> None:
    part: Any = sublayer.part
    set_norm(spec.layer_norm, sublayer.norm)
    gated = hasattr(spec, "linear_0_noact")  # the gate, then the gated part
    first = [spec.linear_0, *([spec.linear_0_noact] if gated else [])]
    apart = [len(part.inward.weight) // 2] if gated else []
    set_linears(first, part.inward.weight, part.inward.bias, apart)
    set_linear(spec.linear_1, part.out.weight, part.out.bias)


def set_linears(specs: Sequence[Any], weight: Tensor, bias: Tensor | None, at: list[int]) -> None:
    """Split one layer of ours into several, at these rows."""
    biases = [None] * len(specs) if bias is None else bias.tensor_split(at)
    for spec, rows, own in zip(specs, weight.tensor_split(at), biases, strict=True):
        set_linear(spec, rows, own)


def set_linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = copy_numbers(weight)
    if bias is not None:
        spec.bias = copy_numbers(bias)


def set_norm(spec: Any, norm: Any) -> None:
    spec.gamma = copy_numbers(norm.weight)
    if hasattr(spec, "beta"):  # its layer norms always have a bias
        spec.beta = copy_numbers(torch.zeros_like(norm.weight) if norm.bias is None else norm.bias)


def copy_numbers(tensor: Tensor) -> NDArray[np.float32]:
    """Copy the numbers, since CTranslate2 quantizes in place."""
    return tensor.detach().float().cpu().numpy().copy()


def list_pieces(codec: Text, embedding: Embedding) -> list[str]:
    """Return the token of every id, in order; an unused id gets a made-up name."""
    named = (codec.tokenizer.id_to_token(i) for i in range(embedding.table.num_embeddings))
    return [f"<none {i}>" if name is None else name for i, name in enumerate(named)]


# ---- running and comparing -------------------------------------------------------------------


class CTranslate2Runtime(Runtime):
    """Wrap CTranslate2, which takes and returns tokens as text, to take and return ids."""

    def __init__(self, model: Portable, folder: Path):
        super().__init__(model)
        network, both = model.network, model.architecture == "encoder-decoder"
        sides = [network.encoder, network.decoder] if both else [network]
        codecs = [model.codecs[0], model.codecs[-1]]
        self.names = [list_pieces(c, s.embedding) for c, s in zip(codecs, sides, strict=False)]
        self.numbers = {name: number for number, name in enumerate(self.names[-1])}
        # Tokens that are never generated or that end a text, given to CTranslate2 at every call.
        self.never = [[self.names[-1][number]] for number in model.special_tokens.never]
        self.ends = [self.names[-1][number] for number in model.special_tokens.all_eos]
        # It sets the number of threads of the whole process: keep the current number.
        kind, threads = "Translator" if both else "Generator", torch.get_num_threads()
        self.library = getattr(require("ctranslate2"), kind)(str(folder), intra_threads=threads)

    def scores(self, batch: tuple[Tokens, ...]) -> Tensor:
        raise NotImplementedError("it gives log-probabilities, and of some tokens only")


class Translating(CTranslate2Runtime):
    """Runs ctranslate2.Translator, which adds the special tokens of a source itself."""

    def sources(self, rows: Sequence[Row]) -> list[list[str]]:
        opens = len(self.model.codecs[0].special_tokens.encoder_bos)
        return [[self.names[0][i] for i in row[0][opens:-1]] for row in rows]

    def difference(self, rows: Sequence[Row]) -> float:
        """Return the largest difference of the targets' log-probabilities, end token included."""
        special, begun = self.model.special_tokens, len(self.model.special_tokens.bos)
        targets = [row[1][begun:] for row in rows]
        wanted = [[self.names[1][i] for i in target] for target in targets]
        found = self.library.score_batch(self.sources(rows), wanted)
        ours = self.model.network(*self.batch(rows)).log_softmax(-1)
        return find_worst(
            (logs[begun - 1 + i, token] - one.log_probs[i]).abs().item()
            for logs, target, one in zip(ours, targets, found, strict=True)
            for i, token in enumerate([*target, special.eos])
        )

    def write(self, rows: Sequence[Row], longest: int) -> list[list[int]]:
        found = self.library.translate_batch(
            self.sources(rows),
            beam_size=1,
            min_decoding_length=0,
            max_decoding_length=self.model.room(self.model.special_tokens.bos, longest),
            end_token=self.ends,
            suppress_sequences=self.never,
        )
        return [[self.numbers[name] for name in one.hypotheses[0]] for one in found]


class Generating(CTranslate2Runtime):
    """Runs ctranslate2.Generator."""

    def difference(self, rows: Sequence[Row]) -> float:
        """Return the largest difference of the log-probabilities of all tokens."""
        batch, texts = self.batch(rows), [[self.names[0][i] for i in row] for (row,) in rows]
        found = self.library.forward_batch(texts, return_log_probs=True)
        ours = self.model.network(*batch).log_softmax(-1)
        return largest_apart(ours, torch.from_numpy(np.array(found)), token_mask(batch[0]))

    def write(self, rows: Sequence[Row], longest: int) -> list[list[int]]:
        return [self.write_on(row, longest) for (row,) in rows]

    def write_on(self, row: list[int], longest: int) -> list[int]:
        (found,) = self.library.generate_batch(
            [[self.names[0][i] for i in row]],
            max_length=self.model.room(row, longest),
            include_prompt_in_result=False,
            end_token=self.ends,
            suppress_sequences=self.never,
        )
        return [self.numbers[name] for name in found.sequences[0]]
