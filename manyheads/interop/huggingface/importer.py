"""Import a Hugging Face folder as a model that computes the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from tokenizers import AddedToken, Tokenizer
from torch import nn

from manyheads.codecs.text import Text
from manyheads.interop.huggingface import special_tokens
from manyheads.interop.huggingface.bart import SHARED
from manyheads.interop.huggingface.families import FAMILIES
from manyheads.interop.huggingface.family import Family, Kind
from manyheads.interop.huggingface.folders import (
    name_folder,
    read_chat,
    read_settings,
    read_sign_names,
    read_tokenizers,
    read_weights,
)
from manyheads.interop.huggingface.keys import CONFIG, Config, is_words, shorten_value
from manyheads.interop.huggingface.sentence_vectors import read_vectors
from manyheads.interop.huggingface.tensors import Tensors, take_tensors
from manyheads.modules import build
from manyheads.tasks.portable import Architecture, Portable
from manyheads.training.weights import load_weights, weights_of

ARCHITECTURES: dict[str, Architecture] = {"translation": "encoder-decoder", "language": "decoder"}


class Imported(NamedTuple):
    """An imported model."""

    model: Portable  # without a network
    weights: Tensors  # of its network, which is not built yet
    notes: list[str]  # defaults of its files that are left to each call

    def load(self) -> Portable:
        """Build the network and load the weights."""
        network = build_network(self.model)
        load_weights(network, self.weights)
        return replace(self.model, network=network.eval())


def read_folder(folder: Path) -> Imported:
    """Read a folder that transformers or sentence-transformers saved."""
    with name_folder(folder):
        config, measure, notes = read_settings(folder)
        family, tokenizers = FAMILIES[config.get("model_type")], read_tokenizers(folder)
        kind = find_kind(config, family)
        names, more = read_sign_names(folder)
        special_tokens.check_tokenizer(tokenizers[0], names)
        writing, how = special_tokens.read_writing(folder, config)
        notes = [*(notes if writing is config else []), *more, *how]
        design, held = family.read_network(config, family.rename(read_weights(folder)), kind)
        tokenizers = fill_tokenizers(tokenizers, config, kind != "translation" or SHARED in held)
        context, vectors = family.context(config), None
        if kind == "embedding":
            vectors, notes = read_vectors(folder, design.width, measure, tokenizers[0], names)
            context = min(context, vectors.context or context)
        special = [
            special_tokens.read_special_tokens(names, each, writing, kind) for each in tokenizers
        ]
        model = Portable(
            ARCHITECTURES.get(kind, "encoder"),
            kind,
            design,
            tuple(Text(each, own) for each, own in zip(tokenizers, special, strict=True)),
            context,
            labels=read_labels(config, held, kind),
            pooling="first" if kind in ("classification", "regression") else None,
            vectors=vectors,
            chat=read_chat(folder) if kind == "language" else None,
        )
        wanted = list_weights(model)
    weights = take_tensors(held, family.pairs(wanted, design), wanted, folder)
    told = kind in ("language", "translation", "embedding")
    return Imported(model, weights, notes if told else [])


def find_kind(config: Config, family: Family) -> Kind:
    """Return the kind of a model by its class name; without one, the first of its family."""
    kinds = family.kinds
    name = (config.get("architectures") or list(kinds))[0]
    if name not in kinds and name.endswith("Model") and "BertModel" not in kinds:
        raise ValueError(
            f"{CONFIG}: {name} has no head, so it scores no words; saved as "
            f"{next(iter(kinds))} it would do"
        )
    if name not in kinds:
        raise ValueError(
            f"{CONFIG}: architecture {name} is not known here; there are {', '.join(kinds)}"
        )
    if kinds[name] != "classification":
        return kinds[name]
    problem = config.get("problem_type", "single_label_classification")
    if problem == "multi_label_classification":
        raise ValueError(f"{CONFIG}: several labels for one text are not computed here; one is")
    one = len(config.get("id2label", range(config.get_whole("num_labels", 2)))) == 1
    return "regression" if problem == "regression" or one else "classification"


def fill_tokenizers(tokenizers: list[Tokenizer], config: Config, joint: bool) -> list[Tokenizer]:
    """Return one tokenizer, or those of source and target, filled up to the size of the tables.

    The size of a table is often rounded up.
    """
    rows = [config.get_whole("vocab_size")]
    if not joint:  # only Marian's two tables may be of unlike size
        own = "decoder_vocab_size" in config.keys
        rows.append(config.get_whole("decoder_vocab_size", rows[0]) if own else rows[0])
    tokenizers = [tokenizers[0], tokenizers[-1]][: len(rows)]
    for tokenizer, wanted in zip(tokenizers, rows, strict=True):
        spare = range(wanted - tokenizer.get_vocab_size())
        tokenizer.add_special_tokens([AddedToken(f"<unused {i}>", special=True) for i in spare])
        top = max(tokenizer.get_vocab().values(), default=-1) + 1
        if not top == tokenizer.get_vocab_size() == wanted:
            raise ValueError(
                f"its tokenizer numbers {tokenizer.get_vocab_size()} words up to {top - 1}, "
                f"its model knows 0 to {wanted - 1}"
            )
    return tokenizers


def read_labels(config: Config, held: Tensors, kind: Kind) -> tuple[str, ...]:
    if kind not in ("classification", "labelling"):
        return ()
    names = config.get("id2label", {})
    if "classifier.bias" not in held:  # take_tensors names the missing tensor
        return tuple(names.values()) or ("LABEL_0", "LABEL_1")
    count = held["classifier.bias"].numel()
    wanted = [str(i) for i in range(count)]
    if names and (sorted(names) != sorted(wanted) or not is_words([*names.values()])):
        raise ValueError(
            f"{CONFIG}: id2label names {', '.join(map(shorten_value, names)) or 'nothing'}; "
            f"its head has {count} labels, a word for each of 0 to {count - 1} would do"
        )
    return tuple(names.get(i, f"LABEL_{i}") for i in wanted)


# ---- networks --------------------------------------------------------------------------------


def build_network(model: Portable) -> nn.Module:
    """Build the network of a model, without its weights."""
    design, sizes = model.design, [codec.size for codec in model.codecs]
    if model.architecture == "encoder-decoder":
        return build.build_encoder_decoder(design, sizes[0], sizes[-1], joint=len(sizes) == 1)
    if model.architecture == "decoder":
        return build.build_decoder(design, sizes[0])
    if model.kind in ("masked", "embedding"):
        make = build.build_masked_lm if model.kind == "masked" else build.build_encoder
        return make(design, sizes[0])
    outcomes = 1 if model.kind == "regression" else len(model.labels)
    return build.build_classifier(design, sizes[0], outcomes, model.pooling)


def list_weights(model: Portable) -> Tensors:
    """Return the tensors of such a network on the meta device, without memory."""
    with torch.device("meta"):
        return weights_of(build_network(model))
