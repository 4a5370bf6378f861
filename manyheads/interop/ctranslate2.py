"""What CTranslate2 runs: our weights laid out as its own specification has them.

A translation is a folder for `ctranslate2.Translator`, a language model one for `Generator`. Both
take tokens: the pieces of the tokenizer beside them, and the signs of a source are added by itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from manyheads.attention.layer import Attention
from manyheads.attention.places import line
from manyheads.codecs.text import Text
from manyheads.interop.exports import Exporter, needed, save_codecs
from manyheads.interop.parity import Runtime, apart, real, worst
from manyheads.modules.config import Network
from manyheads.modules.layers import Sublayer
from manyheads.modules.stack import Block, Stack
from manyheads.modules.transformer import Decoder, Embedding, Tied, Tokens
from manyheads.tasks.portable import Portable, Row

LONGEST = 1024  # places of a table of sinusoids; more tokens of a source CTranslate2 cuts off
ACTIVATIONS = {
    "relu": "RELU",
    "gelu": "GELU",
    "gelu-tanh": "GELUTanh",
    "silu": "SWISH",
    "swiglu": "SWISH",
    "geglu": "GELU",
}
GATED = ("swiglu", "geglu")
HOLDS: dict[str, tuple[Any, ...]] = {  # the settings of which it has fewer than a network here
    "kind": ("transformer",),
    "position": ("sinusoidal", "learned", "rotary", "none"),
    "relative": ("none",),
    "window": (0,),
    "types": (0,),
    "residual": (True,),
}


class CTranslate2(Exporter):
    """A folder for ctranslate2.Translator, or for Generator."""

    needs = ("ctranslate2",)
    quantizes = True

    def write(self, model: Portable, folder: Path, quantization: str) -> None:
        if not model.writes:
            raise ValueError(
                f"CTranslate2 runs what writes, {model.name} is a model for {model.kind}; "
                "--to onnx or --to huggingface would do"
            )
        specs = checked(model.design, quantization)
        spec = (
            translation(specs, model) if model.architecture != "decoder" else language(specs, model)
        )
        spec.validate()
        spec.optimize(quantization=quantization or None)
        spec.save(str(folder))
        save_codecs(model.codecs, folder)

    def open(self, model: Portable, folder: Path) -> Runtime:
        runtime = Generating if model.architecture == "decoder" else Translating
        return runtime(model, folder)


def translation(specs: Any, model: Portable) -> Any:
    """For ctranslate2.Translator."""
    network, design = model.network, model.design
    source, target = model.codecs[0], model.codecs[-1]
    special = around(source, target)
    encoder, decoder = network.encoder, network.decoder
    options = of_layers(specs, design)
    spec = specs.TransformerSpec(
        specs.transformer_spec.TransformerEncoderSpec(**options),
        specs.transformer_spec.TransformerDecoderSpec(**options),
    )
    embed(spec.encoder.embeddings[0], encoder.embedding)
    embed(spec.decoder.embeddings, decoder.embedding)
    linear(spec.decoder.projection, *head(decoder))
    for side, module in ((spec.encoder, encoder), (spec.decoder, decoder)):
        side.scale_embeddings = design.scaled
        stack(side, module.stack, design)
    spec.register_source_vocabulary(pieces(source, encoder.embedding))
    spec.register_target_vocabulary(pieces(target, decoder.embedding))
    say(spec.config, layer_norm_epsilon=design.norm_epsilon, **special)
    return spec


def language(specs: Any, model: Portable) -> Any:
    """For ctranslate2.Generator; a prompt is given to it with the signs it starts with."""
    network, design, (codec,) = model.network, model.design, model.codecs
    decoder = specs.transformer_spec.TransformerDecoderSpec(
        **of_layers(specs, design), with_encoder_attention=False
    )
    spec = specs.TransformerDecoderModelSpec(decoder)
    embed(decoder.embeddings, network.embedding)
    linear(decoder.projection, *head(network))
    decoder.scale_embeddings = design.scaled
    stack(decoder, network.stack, design)
    names = pieces(codec, network.embedding)
    spec.register_vocabulary(names)
    special = codec.special_tokens
    say(
        spec.config,
        layer_norm_epsilon=design.norm_epsilon,
        unk_token=names[special.eos if special.unknown is None else special.unknown],
        bos_token=names[special.bos[0] if special.bos else special.eos],
        eos_token=names[special.eos],
    )
    return spec


# ---- what is refused -------------------------------------------------------------------------


def checked(design: Network, quantization: str) -> Any:
    """CTranslate2's specifications, once it is sure that they hold this network."""
    for name, values in HOLDS.items():
        if (value := getattr(design, name)) not in values:
            raise ValueError(
                f"CTranslate2 has no counterpart of {name}: {value}; "
                f"{', '.join(map(str, values))} would do"
            )
    specs = needed("ctranslate2").specs
    known = specs.model_spec.ACCEPTED_MODEL_TYPES
    if quantization and quantization not in known:
        raise ValueError(
            f"CTranslate2 has no quantization {quantization!r}; there are {', '.join(known)}"
        )
    return specs


def around(source: Text, target: Text) -> dict[str, Any]:
    """The signs that it puts around what is read, and before what is written."""
    reads, writes = source.special_tokens, target.special_tokens
    if len(reads.encoder_bos) > 1 or len(writes.bos) != 1:
        raise ValueError(
            "CTranslate2 puts one sign before a source at most and one before what is written, "
            f"this model has {len(reads.encoder_bos)} and {len(writes.bos)}"
        )
    stops = name_of(source, reads.eos), name_of(target, writes.eos)
    if stops[0] != stops[1]:
        raise ValueError(
            f"CTranslate2 ends both sides with one sign, these end with {stops[0]} and {stops[1]}"
        )
    start = name_of(target, writes.bos[0])
    unknown = writes.eos if writes.unknown is None else writes.unknown
    return {
        "unk_token": name_of(target, unknown),
        "bos_token": name_of(source, reads.encoder_bos[0]) if reads.encoder_bos else start,
        "eos_token": stops[1],
        "decoder_start_token": start,
        "add_source_bos": bool(reads.encoder_bos),
        "add_source_eos": True,
    }


# ---- the layout ------------------------------------------------------------------------------


def of_layers(specs: Any, design: Network) -> dict[str, Any]:
    """What a side of its specification is made with; both sides take the same here."""
    channels = design.width // design.heads
    options: dict[str, Any] = {
        "num_layers": design.depth,
        "num_heads": design.heads,
        "pre_norm": design.order == "pre",
        "activation": specs.Activation[ACTIVATIONS[design.feed_forward]],
        "layernorm_embedding": design.embedding_norm,
        "ffn_glu": design.feed_forward in GATED,
        "rms_norm": design.norm == "rms",
    }
    if design.key_heads not in (None, design.heads):
        options["num_heads_kv"] = design.key_heads
    if design.position == "rotary":
        options |= {
            "rotary_dim": channels // 2 * 2,
            "rotary_interleave": False,  # halves of a head turn against each other
            "rotary_base": design.longest_wave,
        }
    return options


def stack(spec: Any, stack: Stack, design: Network) -> None:
    if design.position == "rotary":
        if hasattr(spec, "position_encodings"):
            delattr(spec, "position_encodings")
    else:
        # Its own sinusoids count from 1 and end elsewhere: it is given ours, as a table.
        places = design.longest if design.position == "learned" else LONGEST
        spec.position_encodings.encodings = numbers(table(stack, places))
    if design.embedding_norm:
        norm(spec.layernorm_embedding, stack.entry)
    if design.order == "pre":
        norm(spec.layer_norm, stack.norm)
    for layer, block in zip(spec.layer, cast(list[Block], stack.blocks), strict=True):
        within(layer.self_attention, block.self_attention)
        if block.cross_attention is not None:
            across(layer.attention, block.cross_attention)
        think(layer.ffn, block.feed_forward)


@torch.no_grad()
def table(stack: Stack, places: int) -> Tensor:
    """What a position adds at each place: (places, width)."""
    device = next(stack.parameters()).device
    nothing = torch.zeros(1, places, stack.width, device=device)
    return stack.position(nothing, line(places, device=device))[0]


def within(spec: Any, sublayer: Sublayer) -> None:
    attention = cast(Attention, sublayer.part)
    norm(spec.layer_norm, sublayer.norm)
    linear(spec.linear[0], attention.inward.weight, attention.inward.bias)
    linear(spec.linear[1], attention.out.weight, attention.out.bias)


def across(spec: Any, sublayer: Sublayer) -> None:
    """The query apart from key and value, which are made of the memory."""
    attention = cast(Attention, sublayer.part)
    norm(spec.layer_norm, sublayer.norm)
    weight, bias = attention.inward.weight, attention.inward.bias
    for i, rows in enumerate((slice(0, attention.width), slice(attention.width, None))):
        linear(spec.linear[i], weight[rows], None if bias is None else bias[rows])
    linear(spec.linear[2], attention.out.weight, attention.out.bias)


def think(spec: Any, sublayer: Sublayer) -> None:
    norm(spec.layer_norm, sublayer.norm)
    part: Any = sublayer.part
    weight, bias = part.inward.weight, part.inward.bias
    if hasattr(spec, "linear_0_noact"):  # the gate, then what it lets pass
        gate, content = weight.chunk(2)
        gate_bias, content_bias = (None, None) if bias is None else bias.chunk(2)
        linear(spec.linear_0, gate, gate_bias)
        linear(spec.linear_0_noact, content, content_bias)
    else:
        linear(spec.linear_0, weight, bias)
    linear(spec.linear_1, part.out.weight, part.out.bias)


def norm(spec: Any, norm: Any) -> None:
    spec.gamma = numbers(norm.weight)
    if hasattr(spec, "beta"):  # its layer norms always have one
        spec.beta = numbers(torch.zeros_like(norm.weight) if norm.bias is None else norm.bias)


def linear(spec: Any, weight: Tensor, bias: Tensor | None) -> None:
    spec.weight = numbers(weight)
    if bias is not None:
        spec.bias = numbers(bias)


def embed(spec: Any, embedding: Embedding) -> None:
    spec.weight = numbers(embedding.table.weight)


def head(decoder: Decoder) -> tuple[Tensor, Tensor | None]:
    """The weight and the bias that score words."""
    scores = cast(Tied | nn.Linear, decoder.head)
    if isinstance(scores, Tied):
        return scores.read_backwards[0].table.weight, scores.bias
    return scores.weight, scores.bias


def numbers(tensor: Tensor) -> NDArray[np.float32]:
    """A copy: to quantize, CTranslate2 writes over what it is given."""
    return tensor.detach().float().cpu().numpy().copy()


def name_of(codec: Text, number: int) -> str:
    return str(codec.tokenizer.id_to_token(number))


def pieces(codec: Text, embedding: Embedding) -> list[str]:
    """The name of every number, in order; one without a word has a name of its own."""
    named = (codec.tokenizer.id_to_token(i) for i in range(embedding.table.num_embeddings))
    return [f"<none {i}>" if name is None else name for i, name in enumerate(named)]


def say(config: Any, **settings: Any) -> None:
    for name, value in settings.items():
        setattr(config, name, value)


# ---- the same as ours ------------------------------------------------------------------------


class CTranslate2Runtime(Runtime):
    """Numbers in and out, of what takes the names of tokens."""

    def __init__(self, model: Portable, folder: Path):
        super().__init__(model)
        self.folder = folder
        sides = (
            [model.network.encoder, model.network.decoder]
            if model.architecture == "encoder-decoder"
            else [model.network]
        )
        codecs = [model.codecs[0], model.codecs[-1]]
        self.names = [pieces(c, s.embedding) for c, s in zip(codecs, sides, strict=False)]
        self.numbers = {name: number for number, name in enumerate(self.names[-1])}

    def opened(self, kind: str) -> Any:
        # It sets the threads of the whole process: to what they are.
        threads = torch.get_num_threads()
        return getattr(needed("ctranslate2"), kind)(str(self.folder), intra_threads=threads)

    def never(self) -> list[list[str]]:
        """What is not written, as CTranslate2 is told at every call."""
        return [[self.names[-1][number]] for number in self.model.special_tokens.never]

    def scores(self, batch: tuple[Tokens, ...]) -> Tensor:
        raise NotImplementedError("it gives log-probabilities, and of some tokens only")


class Translating(CTranslate2Runtime):
    """By ctranslate2.Translator, which puts the signs around a source itself."""

    def __init__(self, model: Portable, folder: Path):
        super().__init__(model, folder)
        self.translator = self.opened("Translator")

    def read(self, rows: Sequence[Row]) -> list[list[str]]:
        opens = len(self.model.codecs[0].special_tokens.encoder_bos)
        return [[self.names[0][i] for i in row[0][opens:-1]] for row in rows]

    def difference(self, rows: Sequence[Row]) -> float:
        """Between log-probabilities of what is written, the end among it."""
        special, begun = self.model.special_tokens, len(self.model.special_tokens.bos)
        targets = [row[1][begun:] for row in rows]
        wanted = [[self.names[1][i] for i in target] for target in targets]
        found = self.translator.score_batch(self.read(rows), wanted)
        ours = self.model.network(*self.batch(rows)).log_softmax(-1)
        return worst(
            (logs[begun - 1 + i, token] - one.log_probs[i]).abs().item()
            for logs, target, one in zip(ours, targets, found, strict=True)
            for i, token in enumerate([*target, special.eos])
        )

    def write(self, rows: Sequence[Row], longest: int) -> list[list[int]]:
        found = self.translator.translate_batch(
            self.read(rows),
            beam_size=1,
            min_decoding_length=0,
            max_decoding_length=self.model.room(self.model.special_tokens.bos, longest),
            suppress_sequences=self.never(),
        )
        return [[self.numbers[name] for name in one.hypotheses[0]] for one in found]


class Generating(CTranslate2Runtime):
    """By ctranslate2.Generator."""

    def __init__(self, model: Portable, folder: Path):
        super().__init__(model, folder)
        self.generator = self.opened("Generator")

    def read(self, rows: Sequence[Row]) -> list[list[str]]:
        return [[self.names[0][i] for i in row] for (row,) in rows]

    def difference(self, rows: Sequence[Row]) -> float:
        """Between log-probabilities of every token."""
        batch = self.batch(rows)
        found = self.generator.forward_batch(self.read(rows), return_log_probs=True)
        ours = self.model.network(*batch).log_softmax(-1)
        return apart(ours, torch.from_numpy(np.array(found)), real(batch[0]))

    def write(self, rows: Sequence[Row], longest: int) -> list[list[int]]:
        found = [
            self.generator.generate_batch(
                self.read([row]),
                max_length=self.model.room(row[0], longest),
                include_prompt_in_result=False,
                end_token=[self.names[0][number] for number in self.model.special_tokens.all_eos],
                suppress_sequences=self.never(),
            )[0]
            for row in rows
        ]
        return [[self.numbers[name] for name in one.sequences[0]] for one in found]
