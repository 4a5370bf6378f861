"""The base of families of Hugging Face models: settings and names as data, for both directions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias, get_args

from torch import Tensor

from manyheads.attention.notation import read
from manyheads.attention.patterns import Causal, Window
from manyheads.interop.huggingface.config_keys import CONFIG_KEYS
from manyheads.interop.huggingface.keys import Config, Field
from manyheads.interop.huggingface.tensors import (
    TensorNames,
    Tensors,
    drop_computed,
    find_scaled,
    give_tensors,
    merge_tables,
    require_head,
    scale_table,
)
from manyheads.modules.config import EVERYTHING, NetworkConfig, TransformerConfig, position_name
from manyheads.modules.positions import SinusoidalValue

Kind = Literal[
    "language", "masked", "embedding", "classification", "regression", "labelling", "translation"
]
KINDS: tuple[str, ...] = get_args(Kind)

LEARNED, WINDOW = "Learned()", "Window(...)"  # for any numbers

# Settings for which a family has only our default value, unless it says otherwise.
PLAIN = (
    *("kind", "position", "norm_position", "norm", "embedding_norm", "bias", "key_heads"),
    *("relative", "residual", "head_bias", "token_types", "pattern"),
    *("qk_norm", "residual_scalars", "value_embeddings", "logit_cap"),
)

# Takes a tensor, the network config and the context length.
Holds: TypeAlias = Callable[[Tensor, TransformerConfig, int], bool]


class Family:
    """A family with one word embedding, which may be tied to the head and is not scaled."""

    name: str  # its model_type
    kinds: Mapping[str, Kind]  # by the class name in its config.json
    prefix: str  # prefix of all names but those of the heads
    heads: tuple[str, ...] = ("lm_head.",)  # prefixes of names that do not have `prefix`
    # Names of tensors, ours to theirs, without ".weight" and ".bias"; "#" is the number of a
    # layer. Several names are rows of one tensor here.
    names: Mapping[str, str]
    table: str  # the word embedding
    head: str = "lm_head.weight"  # the output layer
    fixed: Mapping[str, Any]  # settings that have one value in this family and no key
    free: tuple[str, ...] = ()  # settings that its tensors decide, or that do not matter
    context_key: tuple[str, int]  # the key of the context length, and its default
    tied = True  # the default of tie_word_embeddings
    turned = False  # matrices of layers are stored transposed
    ahead = 0  # unused rows at the beginning of the position table
    unread = r"(?!)"  # pattern of tensor names that hold nothing learned
    computed: tuple[str, Holds] | None = None  # pattern of computed tensors, and their check

    # ---- settings ----------------------------------------------------------------------------

    @property
    def fields(self) -> dict[str, Field]:
        """The keys of its config.json that are fields of our network config."""
        keys = CONFIG_KEYS[self.name].items()
        return {name: key for name, key in keys if isinstance(key, Field)}

    def holds(self, kind: Kind) -> dict[str, tuple[Any, ...]]:
        """Return the values that this family supports of settings that have more here."""
        keys = self.fields.values()
        open_ = {key.what for key in keys} | {*self.free}
        plain = {name: getattr(TransformerConfig, name) for name in PLAIN} | {**self.fixed}
        held = {name: (value,) for name, value in plain.items() if name not in open_}
        return held | {key.what: tuple(key.values.values()) for key in keys if key.values}

    def context(self, config: Config) -> int:
        return config.get_whole(*self.context_key)

    def read_network(
        self, config: Config, held: Tensors, kind: Kind
    ) -> tuple[TransformerConfig, Tensors]:
        """Return our network config, and the tensors with each tied tensor only once."""
        settings, context = {**config.list_fields(), **self.fixed}, self.context(config)
        if self.fixed["position"] == LEARNED:
            settings["position"] = f"Learned({context})"
        settings |= self.read_settings(config, settings)
        held, found = self.read_tables(held, config, kind)
        network = TransformerConfig(**settings, **found)
        if self.computed is not None:
            names, holds = self.computed
            held = drop_computed(held, names, lambda kept: holds(kept, network, context))
        return network, held

    def read_settings(self, config: Config, settings: dict[str, Any]) -> dict[str, Any]:
        """Return settings that need more than one field of config.json."""
        return {}

    def write_config(
        self, network: TransformerConfig, kind: Kind, joint: bool, context: int
    ) -> dict[str, Any]:
        """Return the config.json of a network."""
        held: dict[str, Any] = {"architectures": list(self.kinds)[:1]}
        for name, key in self.fields.items():
            value = getattr(network, key.what)
            theirs = {ours: theirs for theirs, ours in (key.values or {}).items()}
            held[name] = theirs.get(value, value)
        held[self.context_key[0]] = network.places or context
        held["tie_word_embeddings"] = network.tied and not network.scale_embeddings
        return held

    # ---- tensors -----------------------------------------------------------------------------

    def read_tables(
        self, held: Tensors, config: Config, kind: Kind
    ) -> tuple[Tensors, dict[str, Any]]:
        """Return the tensors with each word table once, and settings that follow from them."""
        if config.get("tie_word_embeddings", self.tied):
            held = merge_tables(held, (self.table, self.head))
        else:
            require_head(held, self.head)
        held, tied, scaled = find_scaled(held, self.table, self.head)
        return held, {"tied": tied, "scale_embeddings": scaled}

    def write_tensors(
        self, weights: Tensors, network: TransformerConfig, kind: Kind, context: int
    ) -> Tensors:
        """Return the tensors of model.safetensors: a scaled embedding, and a head without scale."""
        held = give_tensors(weights, self.pairs(weights, network))
        if not network.scale_embeddings:
            return held
        score = {self.head: held[self.table]} if self.is_tied(network, kind) else {}
        return held | score | {self.table: scale_table(held[self.table])}

    def is_tied(self, network: TransformerConfig, kind: Kind) -> bool:
        return network.tied

    def pairs(self, ours: Tensors, network: TransformerConfig) -> list[TensorNames]:
        """Return the names of each tensor of a network."""
        return [self.pair(name, network) for name in ours]

    def pair(self, name: str, network: TransformerConfig) -> TensorNames:
        layer = re.search(r"(?<=\.blocks\.)\d+", name)
        ours = name if layer is None else name.replace(f".{layer[0]}.", ".#.", 1)
        part, _, leaf = ours.rpartition(".")
        whole = ours in self.names  # the full name is in the table: (1, V) there
        theirs = [
            each if whole else f"{each}.{leaf}"
            for each in self.names[ours if whole else part].split()
        ]
        keys = (network.key_heads or network.heads) * (network.width // network.heads)
        rows = {2: (network.ffn_width,) * 2, 3: (network.width, keys, keys)}
        return TensorNames(
            name,
            tuple(each.replace("#", layer[0] if layer else "") for each in theirs),
            rows=rows.get(len(theirs), ()),
            turned=self.turned and ".part." in name,
            ahead=self.ahead if ".position." in name else 0,
            lifted=whole,
        )

    def rename(self, held: Mapping[str, Tensor]) -> Tensors:
        """Add the prefix to names that lack it, and drop tensors that hold nothing learned.

        "h.0.ln_1.weight" -> "transformer.h.0.ln_1.weight": the model may be saved without head.
        """
        names = {}
        for name, tensor in held.items():
            whole = name if name.startswith((self.prefix, *self.heads)) else self.prefix + name
            # Names in the first BERT checkpoints.
            whole = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", whole)
            whole = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", whole)
            if not re.search(self.unread, whole):
                names[whole] = tensor
        return names


def put_below(ours: str, theirs: str, names: Mapping[str, str]) -> dict[str, str]:
    """Prefix both sides: {"norm": "ln_1"}, "blocks.#", "h.#" -> {"blocks.#.norm": "h.#.ln_1"}"""
    return {
        f"{ours}.{here}": " ".join(f"{theirs}.{name}" for name in there.split())
        for here, there in names.items()
    }


def find_lacking(family: Family, network: NetworkConfig, kind: Kind) -> dict[str, tuple[Any, ...]]:
    """Return the settings of this network that the family lacks, with the values it has."""
    if not isinstance(network, TransformerConfig):
        return {"kind": (TransformerConfig.kind,)}
    ours = {name: getattr(network, name) for name in family.holds(kind)}
    if network.key_heads == network.heads:  # the same as the default
        ours["key_heads"] = None
    waves = network.position_value
    if not isinstance(waves, SinusoidalValue) or waves == SinusoidalValue():
        ours["position"] = position_name(network.position)
    if window_of(network):
        ours["pattern"] = WINDOW
    elif network.pattern == "Causal()" and kind == "language":  # a language model is always causal
        ours["pattern"] = EVERYTHING
    return {name: values for name, values in family.holds(kind).items() if ours[name] not in values}


def window_of(network: TransformerConfig) -> int:
    """Return the window size with the token itself: 5 for `Window(4)`, causal or not; 0: none."""
    if isinstance(network.pattern, str):
        match [part for part in read(network.pattern).parts() if part != Causal()]:
            case [Window(radius=int(radius))]:
                return radius + 1
    return 0
