"""Hugging Face folders, in and out: the model there and the model here compute the same."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tokenizers import AddedToken, Regex, Tokenizer, normalizers
from torch import Tensor, nn

from manyheads.codecs.text import Signs, Text
from manyheads.interop.huggingface import special_tokens as sign_files
from manyheads.interop.huggingface.bart import SHARED, Bart
from manyheads.interop.huggingface.bert import Bert
from manyheads.interop.huggingface.config_keys import CONFIG_KEYS, EVERY, ROTARY
from manyheads.interop.huggingface.family import (
    KINDS,
    Family,
    Kind,
    built,
    canonical,
    lacking,
    skeleton,
)
from manyheads.interop.huggingface.folders import (
    CONFIG,
    GENERATION,
    READING_CONFIG,
    SENTENCES_CONFIG,
    SPECIAL,
    TARGET,
    TOKENIZER,
    TOKENIZER_CONFIG,
    Config,
    naming,
    read_dressing,
    read_json,
    read_modules,
    read_settings,
    read_tokenizers,
    read_weights,
    write_json,
    write_weights,
)
from manyheads.interop.huggingface.gpt2 import Gpt2
from manyheads.interop.huggingface.keys import (
    FORMS,
    MODES,
    MODULES,
    NORMALIZE,
    POOLING,
    READING,
    SENTENCES,
    SPECIAL_TOKENS,
    TOKENIZING,
    WRITING,
    Keys,
    Measure,
    brief,
    check,
    table,
)
from manyheads.interop.huggingface.llama import Llama
from manyheads.interop.huggingface.names import Tensors, taken
from manyheads.modules.config import Network, Pooling
from manyheads.tasks.portable import Architecture, Portable, VectorSettings
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


PARTS = ["Transformer", "Pooling", "Normalize"]  # of a sentence-transformer


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
    vectors: VectorSettings = VectorSettings()
    notes: tuple[str, ...] = ()  # what its files ask of a call, and is left to the call here

    def codecs(self) -> list[Text]:
        return [Text(t, signs) for t, signs in zip(self.tokenizers, self.signs, strict=True)]

    def portable(self, chat: Any = None) -> Portable:
        """What it says of itself, without a network."""
        writes: dict[str, Architecture] = {"translation": "encoder-decoder", "language": "decoder"}
        return Portable(
            writes.get(self.kind, "encoder"),
            self.kind,
            self.network,
            tuple(self.codecs()),
            self.context,
            labels=self.labels,
            pooling=self.pooling,
            vectors=self.vectors,
            chat=chat,
        )

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
    with naming(folder):
        config, measure, notes = read_settings(folder)
        family = FAMILIES[config.get("model_type")]
        tokenizers = read_tokenizers(folder)
        kind = kind_of(config, family)
        dressing, more = read_dressing(folder)
        sign_files.agree(tokenizers[0], dressing)
        writing, how = sign_files.read_writing(folder, config)
        notes = [*(notes if writing is config else []), *more, *how]
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
        vectors = VectorSettings()
        if kind == "embedding":
            vectors, notes = read_vectors(folder, network.width, measure, tokenizers[0])
            pooling, context = vectors.pooling, min(context, vectors.context or context)
        signs = [sign_files.read_signs(dressing, each, writing, kind) for each in tokenizers]
    weights = taken(held, family.pairs(network, kind, joint), wanted, folder)
    notes = notes if kind in ("language", "translation", "embedding") else []
    return Imported(
        kind,
        network,
        weights,
        tuple(tokenizers),
        tuple(signs),
        context,
        labels,
        pooling,
        vectors,
        tuple(notes),
    )


def kind_of(config: Config, family: Family) -> Kind:
    """What it is for, by the name of its class; the first of its family where it has none."""
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
    kind = kinds[name]
    if kind != "classification":
        return kind
    problem = config.get("problem_type", "single_label_classification")
    if problem == "multi_label_classification":
        raise ValueError(f"{CONFIG}: several labels for one text are not computed here; one is")
    one = len(config.get("id2label", range(config.whole("num_labels", 2)))) == 1
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
    names = config.get("id2label", {})
    if "classifier.bias" not in held:  # what is missing is named where tensors are taken
        return tuple(names.values()) or ("LABEL_0", "LABEL_1")
    count = held["classifier.bias"].numel()
    wanted = [str(i) for i in range(count)]
    if names and (sorted(names) != sorted(wanted) or not FORMS["words"][1]([*names.values()])):
        raise ValueError(
            f"{CONFIG}: id2label names {', '.join(map(brief, names)) or 'nothing'}; "
            f"its head has {count} labels, a word for each of 0 to {count - 1} would do"
        )
    return tuple(names.get(i, f"LABEL_{i}") for i in wanted)


def outcomes(kind: Kind, labels: Sequence[str]) -> int:
    return 1 if kind == "regression" else len(labels)


def read_vectors(
    folder: Path, width: int, measure: Measure, tokenizer: Tokenizer
) -> tuple[VectorSettings, list[str]]:
    """How a text becomes a vector, as sentence-transformers says; else by the mean of its states.

    Texts that are read in small letters are so by the tokenizer, which is changed.
    """
    said, notes = read_json(folder / SENTENCES_CONFIG), []
    notes += check(said, SENTENCES, SENTENCES_CONFIG, measure)
    read = read_json(folder / READING_CONFIG)
    notes += check(read, READING, READING_CONFIG, measure)
    prompts, name = said.get("prompts") or {}, said.get("default_prompt_name")
    if not FORMS["words"][1]([*prompts.values()]) or (name is not None and name not in prompts):
        raise ValueError(
            f"{SENTENCES_CONFIG}: prompts are words by a name, and default_prompt_name is one of "
            f"the names, got {brief(prompts)} and {name}"
        )
    others = [each for each, prompt in prompts.items() if prompt and each != name]
    if others:
        notes.append(f"prompts: {', '.join(others)} (put them before a text)")
    modules = dict(read_modules(folder, measure))
    for each in modules:
        if each not in PARTS:
            raise ValueError(
                f"modules.json has a {each}, which is not computed here; {', '.join(PARTS)} are"
            )
    if modules and [*modules] not in (PARTS, PARTS[:2]):
        raise ValueError(
            f"modules.json has {', '.join(modules)}; {', '.join(PARTS)} in this order would do, "
            "the last or not"
        )
    if read.get("do_lower_case"):
        small = [normalizers.Replace(Regex(r"(?<=\p{L})\u03a3(?!\p{L})"), "\u03c2")]
        before = [] if tokenizer.normalizer is None else [tokenizer.normalizer]
        tokenizer.normalizer = normalizers.Sequence([*small, normalizers.Lowercase(), *before])
    return VectorSettings(
        pooled(modules["Pooling"], width) if modules else "mean",
        normalised=not modules or "Normalize" in modules,
        prompt=prompts.get(name, ""),
        dimensions=said.get("truncate_dim") or 0,
        context=read.get("max_seq_length") or 0,
    ), notes


def pooled(settings: dict[str, Any], width: int) -> Pooling:
    for name in ("word_embedding_dimension", "embedding_dimension"):
        if settings.get(name, width) != width:
            raise ValueError(f"1_Pooling: {name} is {settings[name]}, the model's width {width}")
    newer = settings.get("pooling_mode")
    modes = [mode for mode, on in settings.items() if on is True and mode.startswith("pooling_")]
    if newer is not None:
        several = newer if isinstance(newer, list) else [newer]
        modes += [f"pooling_mode_{MODES.get(str(mode), mode)}" for mode in several]
    names_of: dict[str, Pooling] = {"cls_token": "first", "mean_tokens": "mean"}
    names = {f"pooling_mode_{mode}": pooling for mode, pooling in names_of.items()}
    if len(modes) != 1 or modes[0] not in names:
        raise ValueError(
            f"states are pooled by {' and '.join(modes) or 'nothing'}, which is not "
            f"computed here; one of {', '.join(names)} would do"
        )
    return names[modes[0]]


def key_tables() -> str:
    """Every key of every file and what becomes of it, as docs/interop.md has them."""
    files = {
        "`generation_config.json`, and `config.json` where there is no such file": WRITING,
        "`config.json` of every family": less(EVERY, WRITING),
        **{
            f"`config.json` of {name}": less(keys, EVERY)
            for name, keys in CONFIG_KEYS.items()
            if name not in ("bart", "mbart")
        },
        f"its `{TOKENIZER_CONFIG}`": TOKENIZING,
        f"its `{SPECIAL}`": SPECIAL_TOKENS,
        "`modules.json`, each": MODULES,
        f"`{SENTENCES_CONFIG}`": SENTENCES,
        f"`{READING_CONFIG}`": READING,
        "`1_Pooling/config.json`": POOLING,
        "`2_Normalize/config.json`": NORMALIZE,
        "`rope_parameters` and `rope_scaling`": ROTARY,
    }
    titled = [f"### {title}\n\n{table(keys)}" for title, keys in files.items()]
    return "\n\n".join(titled).replace("of pegasus", "of pegasus, bart and mbart")


def less(keys: Keys, shared: Keys) -> Keys:
    """Those that are not the shared ones."""
    return {name: key for name, key in keys.items() if shared.get(name) != key}


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
    vectors: VectorSettings | None = None,
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
        how = replace(vectors or VectorSettings(pooling or "mean"), context=context)
        write_modules(folder, network, how)
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


def write_modules(folder: Path, network: Network, how: VectorSettings) -> None:
    """What sentence-transformers reads: the states pooled, then of length one."""
    modules = {"": "Transformer", "1_Pooling": "Pooling"}
    if how.normalised:
        modules["2_Normalize"] = "Normalize"
        (folder / "2_Normalize").mkdir(exist_ok=True)
    write_json(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.models.{name}"}
            for i, (path, name) in enumerate(modules.items())
        ],
    )
    modes = {"cls_token": how.pooling == "first", "mean_tokens": how.pooling == "mean"}
    write_json(
        folder / "1_Pooling" / CONFIG,
        {
            "word_embedding_dimension": network.width,
            **{f"pooling_mode_{mode}": on for mode, on in modes.items()},
        },
    )
    limit = {"max_seq_length": how.context, "do_lower_case": False}
    write_json(folder / READING_CONFIG, limit)
    prompted = {"prompts": {"text": how.prompt}, "default_prompt_name": "text"}
    write_json(
        folder / SENTENCES_CONFIG,
        {
            **(prompted if how.prompt else {}),
            **({"truncate_dim": how.dimensions} if how.dimensions else {}),
        },
    )
