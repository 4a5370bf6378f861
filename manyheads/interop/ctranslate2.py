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
from manyheads.codecs.text import Signs, Text
from manyheads.decoding.bounds import Bounds
from manyheads.decoding.greedy import greedy
from manyheads.decoding.step import CachedStep
from manyheads.interop.exports import (
    Parity,
    needed,
    new_or_empty,
    save_codecs,
    worst,
    written_whole,
)
from manyheads.modules.build import Network
from manyheads.modules.layers import Sublayer
from manyheads.modules.stack import Block, Stack
from manyheads.modules.transformer import Decoder, Embedding, EncoderDecoder, Tied, Tokens
from manyheads.tasks.seq2seq.writing import Writing, write

Ids = Sequence[int]
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


def translation(
    network: EncoderDecoder,
    design: Network,
    codecs: tuple[Text, Text],
    folder: Path,
    quantization: str = "",
) -> None:
    """A folder for ctranslate2.Translator; `codecs` are those of the source and the target."""
    specs = checked(design, folder, quantization)
    source, target = codecs
    signs = around(source, target)
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
    say(spec.config, layer_norm_epsilon=design.norm_epsilon, **signs)
    save(spec, codecs, folder, quantization)


def language(
    network: Decoder, design: Network, codec: Text, folder: Path, quantization: str = ""
) -> None:
    """A folder for ctranslate2.Generator; a prompt is given to it with the signs it starts with."""
    specs = checked(design, folder, quantization)
    decoder = specs.transformer_spec.TransformerDecoderSpec(
        **of_layers(specs, design), with_encoder_attention=False
    )
    spec = specs.TransformerDecoderModelSpec(decoder)
    embed(decoder.embeddings, cast(Embedding, network.embedding))
    linear(decoder.projection, *head(network))
    decoder.scale_embeddings = design.scaled
    stack(decoder, network.stack, design)
    names = pieces(codec, cast(Embedding, network.embedding))
    spec.register_vocabulary(names)
    signs = codec.signs
    say(
        spec.config,
        layer_norm_epsilon=design.norm_epsilon,
        unk_token=names[signs.stop if signs.unknown is None else signs.unknown],
        bos_token=names[signs.starts[0] if signs.starts else signs.stop],
        eos_token=names[signs.stop],
    )
    save(spec, (codec,), folder, quantization)


# ---- what is refused -------------------------------------------------------------------------


def checked(design: Network, folder: Path, quantization: str) -> Any:
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
    new_or_empty(folder)
    return specs


def around(source: Text, target: Text) -> dict[str, Any]:
    """The signs that it puts around what is read, and before what is written."""
    reads, writes = source.signs, target.signs
    if len(reads.opens) > 1 or len(writes.starts) != 1:
        raise ValueError(
            "CTranslate2 puts one sign before a source at most and one before what is written, "
            f"this model has {len(reads.opens)} and {len(writes.starts)}"
        )
    stops = name_of(source, reads.stop), name_of(target, writes.stop)
    if stops[0] != stops[1]:
        raise ValueError(
            f"CTranslate2 ends both sides with one sign, these end with {stops[0]} and {stops[1]}"
        )
    start = name_of(target, writes.starts[0])
    unknown = writes.stop if writes.unknown is None else writes.unknown
    return {
        "unk_token": name_of(target, unknown),
        "bos_token": name_of(source, reads.opens[0]) if reads.opens else start,
        "eos_token": stops[1],
        "decoder_start_token": start,
        "add_source_bos": bool(reads.opens),
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


def save(spec: Any, codecs: Sequence[Text], folder: Path, quantization: str) -> None:
    spec.validate()
    spec.optimize(quantization=quantization or None)
    with written_whole(folder) as beside:
        spec.save(str(beside))
        save_codecs(codecs, beside)


# ---- the same as ours ------------------------------------------------------------------------


@torch.no_grad()
def translation_parity(
    network: EncoderDecoder,
    codecs: tuple[Text, Text],
    folder: Path,
    pairs: Sequence[tuple[Ids, Ids]],
    *,
    compute_type: str = "default",
    max_new_tokens: int = 64,
) -> Parity:
    """The export in this folder against its network: pairs of numbers, their signs left out."""
    # It sets the threads of the whole process: to what they are.
    translator = needed("ctranslate2").Translator(
        str(folder), compute_type=compute_type, intra_threads=torch.get_num_threads()
    )
    network.eval()
    source, target = codecs
    reads, writes = source.signs, target.signs
    sources, targets = [one for one, _ in pairs], [other for _, other in pairs]
    read, wanted = named(source, network.encoder, sources), named(target, network.decoder, targets)
    theirs = [found.log_probs for found in translator.score_batch(read, wanted)]
    ours = network(
        Tokens.padded([[*reads.opens, *row, reads.stop] for row in sources], reads.pad),
        Tokens.padded([[*writes.starts, *row] for row in targets], writes.pad),
    ).log_softmax(-1)
    skipped = len(writes.starts) - 1
    largest = worst(
        (logs[skipped + i, token] - score[i]).abs().item()
        for logs, row, score in zip(ours, targets, theirs, strict=True)
        for i, token in enumerate([*row, writes.stop])
    )
    how = Writing(max_new_tokens=max_new_tokens)
    greedily = [best.ids for best, *_ in write(network, sources, how, signs=(reads, writes))]
    found = translator.translate_batch(
        read,
        beam_size=1,
        min_decoding_length=0,
        max_decoding_length=max_new_tokens,
        suppress_sequences=never(target, writes),
    )
    return compared(
        largest, named(target, network.decoder, greedily), [one.hypotheses[0] for one in found]
    )


@torch.no_grad()
def language_parity(
    network: Decoder,
    codec: Text,
    folder: Path,
    texts: Sequence[Ids],
    *,
    compute_type: str = "default",
    max_new_tokens: int = 64,
) -> Parity:
    """The same of a language model: numbers as it reads them, the signs they start with among them.

    Every token is scored, and each text is written on from.
    """
    generator = needed("ctranslate2").Generator(
        str(folder), compute_type=compute_type, intra_threads=torch.get_num_threads()
    )
    network.eval()
    signs, rows = codec.signs, named(codec, network, texts)
    theirs = np.array(generator.forward_batch(rows, return_log_probs=True))
    ours = network(Tokens.padded(texts, signs.pad)).log_softmax(-1).numpy()
    largest = worst(
        float(np.abs(ours[i, : len(row)] - theirs[i, : len(row)]).max())
        for i, row in enumerate(texts)
    )
    bounds = Bounds(signs.stops, longest=max_new_tokens, never=signs.never)
    greedily = [greedy(CachedStep(network), torch.tensor([row]), bounds)[0].ids for row in texts]
    found = generator.generate_batch(
        rows,
        max_length=max_new_tokens,
        include_prompt_in_result=False,
        end_token=[name_of(codec, number) for number in signs.stops],
        suppress_sequences=never(codec, signs),
    )
    return compared(largest, named(codec, network, greedily), [one.sequences[0] for one in found])


def named(codec: Text, side: Any, rows: Sequence[Ids]) -> list[list[str]]:
    names = pieces(codec, side.embedding)
    return [[names[i] for i in row] for row in rows]


def never(codec: Text, signs: Signs) -> list[list[str]]:
    """What is not written, as CTranslate2 is told at every call."""
    return [[name_of(codec, number)] for number in signs.never]


def compared(largest: float, ours: list[list[str]], theirs: list[list[str]]) -> Parity:
    different = sum(a != b for a, b in zip(ours, theirs, strict=True))
    return Parity(largest, different, len(ours))
