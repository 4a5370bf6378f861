"""Hugging Face folders, in and out: the model there and the model here compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tokenizers import AddedToken, Tokenizer
from torch import Tensor, nn

from manyheads.codecs.text import Signs, Text
from manyheads.door import signs as sign_files
from manyheads.door.bart import SHARED, Bart
from manyheads.door.bert import Bert
from manyheads.door.family import KINDS, Family, Kind, built, canonical, lacking, skeleton
from manyheads.door.folders import (
    CONFIG,
    GENERATION,
    TARGET,
    TOKENIZER,
    TOKENIZER_CONFIG,
    Config,
    read_config,
    read_json,
    read_modules,
    read_tokenizers,
    read_weights,
    write_json,
    write_weights,
)
from manyheads.door.gpt2 import Gpt2
from manyheads.door.llama import Llama
from manyheads.door.names import Tensors, taken
from manyheads.model.build import Network
from manyheads.model.heads import Pooling
from manyheads.training.averages import load_weights
from manyheads.training.files import fitting, write_text

FAMILIES: dict[str, Family] = {
    "gpt2": Gpt2(),
    "llama": Llama("llama", "Llama", windowed=False),
    "mistral": Llama("mistral", "Mistral", windowed=True),
    "bert": Bert(),
    "pegasus": Bart(
        "pegasus", "PegasusForConditionalGeneration", order="pre", position="sinusoidal"
    ),
    "marian": Bart("marian", "MarianMTModel", order="post", position="sinusoidal", separate=True),
    "bart": Bart("bart", "BartForConditionalGeneration", order="post", position="learned"),
    "mbart": Bart("mbart", "MBartForConditionalGeneration", order="pre", position="learned"),
}


@dataclass(frozen=True, eq=False)
class Imported:
    """A model from elsewhere, as a network of ours."""

    kind: Kind
    network: Network
    weights: Tensors  # by the names of `built`
    tokenizers: tuple[Tokenizer, ...]  # one, or the source's and the target's
    signs: tuple[Signs, ...]  # of each tokenizer
    context: int  # tokens it was made for
    labels: tuple[str, ...] = ()  # of classification and labelling
    # A verdict's own; of an embedding: the states that make it, "first" as it is, with no layer.
    pooling: Pooling | None = None

    def codecs(self) -> list[Text]:
        return [Text(t, signs) for t, signs in zip(self.tokenizers, self.signs, strict=True)]

    def module(self) -> nn.Module:
        """The network with its weights, ready to compute."""
        sizes = tuple(tokenizer.get_vocab_size() for tokenizer in self.tokenizers)
        pooling = None if self.kind == "embedding" else self.pooling
        module = built(self.kind, self.network, sizes, outcomes(self.kind, self.labels), pooling)
        load_weights(module, self.weights)
        return module.eval()


# ---- in --------------------------------------------------------------------------------------


def read(folder: Path) -> Imported:
    """A folder that transformers or sentence-transformers saved."""
    config = read_config(folder)
    try:
        family, kind = family_of(config), kind_of(config)
        tokenizers = read_tokenizers(folder)
        held = canonical(read_weights(folder), family)
        network, held = family.network(config, held, kind)
        joint = kind != "translation" or SHARED in held
        tokenizers = [tokenizers[0]] if joint else [tokenizers[0], tokenizers[-1]]
        for tokenizer, rows in zip(tokenizers, vocabularies(config, joint), strict=True):
            filled(tokenizer, rows)
        labels = labels_of(config, held, kind)
        pooling: Pooling | None = "first" if kind in ("classification", "regression") else None
        context = family.context(config)
        sizes = tuple(tokenizer.get_vocab_size() for tokenizer in tokenizers)
        wanted = skeleton(kind, network, sizes, outcomes(kind, labels), pooling)
        if kind == "embedding":
            pooling = pooled(folder)
            said = read_json(folder / "sentence_bert_config.json").get("max_seq_length")
            context = min(context, said) if isinstance(said, int) else context
        signs = [sign_files.read_signs(folder, each, config, kind) for each in tokenizers]
    except ValueError as error:
        said = str(error)
        raise ValueError(said if str(folder) in said else f"{folder}: {said}") from None
    weights = taken(held, family.pairs(network, kind, joint), wanted, folder)
    return Imported(
        kind, network, weights, tuple(tokenizers), tuple(signs), context, labels, pooling
    )


def family_of(config: Config) -> Family:
    name = config.get("model_type")
    if name not in FAMILIES:
        raise ValueError(
            f"{CONFIG}: model_type {name!r} is not known here; there are {', '.join(FAMILIES)}"
        )
    if config.get("quantization_config"):
        raise ValueError(f"{CONFIG}: its weights are quantized; those before that would do")
    return FAMILIES[name]


def kind_of(config: Config) -> Kind:
    """What it is for, by the name of its class; the first of its family where it has none."""
    kinds = family_of(config).kinds
    name = (config.get("architectures") or list(kinds))[0]
    if name not in kinds:
        raise ValueError(
            f"{CONFIG}: architecture {name} is not known here; there are {', '.join(kinds)}"
        )
    kind = kinds[name]
    if kind != "classification":
        return kind
    problem = config.get("problem_type", "single_label_classification")
    if problem == "multi_label_classification":
        raise ValueError(f"{CONFIG}: several labels for one text are not computed here; one is")
    one = len(config.get("id2label", {"0": "", "1": ""})) == 1
    return "regression" if problem == "regression" or one else "classification"


def vocabularies(config: Config, joint: bool) -> list[int]:
    read = config.whole("vocab_size")
    return [read] if joint else [read, config.whole("decoder_vocab_size", read)]


def filled(tokenizer: Tokenizer, rows: int) -> None:
    """Let it number as many words as the model's table: a table is often rounded up."""
    spare = rows - tokenizer.get_vocab_size()
    if spare > 0:
        added = [AddedToken(f"<unused {i}>", special=True) for i in range(spare)]
        tokenizer.add_special_tokens(added)
    top = max(tokenizer.get_vocab().values(), default=-1) + 1
    if not top == tokenizer.get_vocab_size() == rows:
        raise ValueError(
            f"its tokenizer numbers {tokenizer.get_vocab_size()} words up to {top - 1}, "
            f"its model knows 0 to {rows - 1}"
        )


def labels_of(config: Config, held: Tensors, kind: Kind) -> tuple[str, ...]:
    if kind not in ("classification", "labelling"):
        return ()
    names = {int(number): str(name) for number, name in config.get("id2label", {}).items()}
    if "classifier.bias" not in held:  # what is missing is named where tensors are taken
        return tuple(names.values()) or ("LABEL_0", "LABEL_1")
    count = len(held["classifier.bias"])
    return tuple(names.get(i, f"LABEL_{i}") for i in range(count))


def outcomes(kind: Kind, labels: Sequence[str]) -> int:
    return 1 if kind == "regression" else len(labels)


def pooled(folder: Path) -> Pooling:
    """How a text's states become one: as sentence-transformers says, else their mean."""
    found: Pooling = "mean"
    for name, settings in read_modules(folder):
        if name == "Pooling":
            modes = [mode for mode, on in settings.items() if "pooling_mode" in mode and on is True]
            table = {"pooling_mode_cls_token": "first", "pooling_mode_mean_tokens": "mean"}
            if len(modes) != 1 or modes[0] not in table:
                raise ValueError(
                    f"states are pooled by {' and '.join(modes) or 'nothing'}, which is not "
                    f"computed here; one of {', '.join(table)} would do"
                )
            found = cast(Pooling, table[modes[0]])
        elif name not in ("Transformer", "Normalize"):
            raise ValueError(
                f"modules.json has a {name}, which is not computed here; "
                "Transformer, Pooling and Normalize are"
            )
    return found


# ---- out -------------------------------------------------------------------------------------


def write(
    folder: Path,
    kind: Kind,
    network: Network,
    weights: dict[str, Tensor],
    codecs: Sequence[Text],
    *,
    context: int,
    labels: Sequence[str] = (),
    pooling: Pooling | None = None,
) -> Family:
    """A folder that transformers loads; the family that it was written as.

    `codecs` is one, or the source's and the target's, in two vocabularies.
    """
    joint = len(codecs) == 1
    family = chosen(network, kind, joint)
    judged = kind in ("classification", "regression")
    if judged and pooling != "first":
        raise ValueError(
            f"pooling: {pooling} has no counterpart in Hugging Face's models; first has"
        )
    if network.position == "learned":
        context = min(context, network.longest)
    sizes = tuple(codec.size for codec in codecs)
    head = pooling if judged else None
    wanted = skeleton(kind, network, sizes, outcomes(kind, labels), head)
    fitting(weights, wanted, folder)
    held = family.tensors(weights, network, kind, joint, context)
    config = {
        "model_type": family.name,
        **family.config(network, kind, joint, context),
        "vocab_size": sizes[0],
        **({} if joint else {"decoder_vocab_size": sizes[1]}),
        **sign_files.settings(codecs[-1], kind),
        **label_settings(kind, labels),
        "dtype": "float32",
    }
    folder.mkdir(parents=True, exist_ok=True)
    write_weights(folder, held)
    for codec, within in zip(codecs, (folder, folder / TARGET), strict=False):
        said = sign_files.tokenizer_config(codec, kind, context, network.types)
        write_json(within / TOKENIZER_CONFIG, said)
        write_text(within / TOKENIZER, sign_files.dressed(codec, kind).to_str(pretty=True))
    if kind in ("language", "translation"):
        write_json(folder / GENERATION, sign_files.generation(codecs[-1], kind, context))
    if kind == "embedding":
        write_modules(folder, network, context, pooling or "mean")
    write_json(folder / CONFIG, config)
    return family


def chosen(network: Network, kind: Kind, joint: bool) -> Family:
    """The first family that has all of a network's settings."""
    if kind not in KINDS:
        raise ValueError(f"there is no kind {kind!r}; there are {', '.join(KINDS)}")
    of_kind = "classification" if kind == "regression" else kind
    families = [family for family in FAMILIES.values() if of_kind in family.kinds.values()]
    nearest = min(families, key=lambda family: len(lacking(family, network, kind)))
    for name, values in lacking(nearest, network, kind).items():
        raise ValueError(
            f"network.{name}: {getattr(network, name)} has no counterpart in Hugging Face's "
            f"models; {nearest.name}, the nearest, has {' or '.join(map(str, values))}"
        )
    if not joint and nearest.name != "marian":
        raise ValueError(
            f"two vocabularies have no counterpart in {nearest.name}; marian has them, which is "
            "network.order: post and network.position: sinusoidal"
        )
    even = {"sinusoidal": network.width, "rotary": network.width // network.heads}
    if even.get(network.position, 0) % 2:
        raise ValueError(
            f"network.position: {network.position} over {even[network.position]} channels has no "
            "counterpart in Hugging Face's models; an even number has"
        )
    return nearest


def label_settings(kind: Kind, labels: Sequence[str]) -> dict[str, Any]:
    if kind == "regression":
        return {"id2label": {"0": "LABEL_0"}, "problem_type": "regression"}
    if not labels:
        return {}
    return {
        "id2label": {str(i): label for i, label in enumerate(labels)},
        "label2id": {label: i for i, label in enumerate(labels)},
    }


def write_modules(folder: Path, network: Network, context: int, pooling: Pooling) -> None:
    """What sentence-transformers reads: the states pooled, then of length one."""
    modules = {"": "Transformer", "1_Pooling": "Pooling", "2_Normalize": "Normalize"}
    write_json(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
            for i, (path, name) in enumerate(modules.items())
        ],
    )
    modes = {"cls_token": pooling == "first", "mean_tokens": pooling == "mean"}
    write_json(
        folder / "1_Pooling" / CONFIG,
        {
            "word_embedding_dimension": network.width,
            **{f"pooling_mode_{mode}": on for mode, on in modes.items()},
        },
    )
    (folder / "2_Normalize").mkdir(exist_ok=True)
    limit = {"max_seq_length": context, "do_lower_case": False}
    write_json(folder / "sentence_bert_config.json", limit)
