"""What a family of Hugging Face models is: settings and names as data, read both ways."""

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

LEARNED, WINDOW = "Learned()", "Window(...)"  # whatever their numbers

# Settings that a family has as a network here has them unless told, where it says nothing else.
PLAIN = (
    *("kind", "position", "norm_position", "norm", "embedding_norm", "bias", "key_heads"),
    *("relative", "residual", "head_bias", "token_types", "pattern"),
    *("qk_norm", "residual_scalars", "value_embeddings", "logit_cap"),
)

# Of a network that reads so many tokens.
Holds: TypeAlias = Callable[[Tensor, TransformerConfig, int], bool]


class Family:
    """A family that has one table of words, which may score them too, and scales nothing."""

    name: str  # its model_type
    kinds: Mapping[str, Kind]  # by the name of the class that its config.json says
    prefix: str  # of all names but those of the heads
    heads: tuple[str, ...] = ("lm_head.",)  # how names begin that stand above the prefix
    # Of tensors, ours to theirs, without ".weight" and ".bias"; "#" is the number of a layer, and
    # several are rows of one here.
    names: Mapping[str, str]
    table: str  # of the words
    head: str = "lm_head.weight"  # what scores them
    fixed: Mapping[str, Any]  # settings of the network that are always so, where no key says them
    free: tuple[str, ...] = ()  # settings of the network that its tensors say, or nobody reads
    context_key: tuple[str, int]  # tokens that it was made for, and where that is not said
    tied = True  # whether table and head are one, where that is not said
    turned = False  # matrices of layers are kept the other way round
    ahead = 0  # rows of a table of places before the first that is used
    unread = r"(?!)"  # names of what holds nothing learned
    computed: tuple[str, Holds] | None = None  # names of what is computed anyway, and how

    # ---- settings ----------------------------------------------------------------------------

    @property
    def fields(self) -> dict[str, Field]:
        """The keys of its config.json that are fields of a network here."""
        keys = CONFIG_KEYS[self.name].items()
        return {name: key for name, key in keys if isinstance(key, Field)}

    def holds(self, kind: Kind) -> dict[str, tuple[Any, ...]]:
        """The settings that it has, of those of which a network here has more."""
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
        """The network it is here, and its tensors with each that is twice there but once."""
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
        """Settings of the network that are more than a field of config.json."""
        return {}

    def write_config(
        self, network: TransformerConfig, kind: Kind, joint: bool, context: int
    ) -> dict[str, Any]:
        """What config.json says of a network."""
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
        """The tables of words, each once, and what they say of the network."""
        if config.get("tie_word_embeddings", self.tied):
            held = merge_tables(held, (self.table, self.head))
        else:
            require_head(held, self.head)
        held, tied, scaled = find_scaled(held, self.table, self.head)
        return held, {"tied": tied, "scale_embeddings": scaled}

    def write_tensors(
        self, weights: Tensors, network: TransformerConfig, kind: Kind, context: int
    ) -> Tensors:
        """What model.safetensors holds of a network: a scaled table, and the head without it."""
        held = give_tensors(weights, self.pairs(weights, network))
        if not network.scale_embeddings:
            return held
        score = {self.head: held[self.table]} if self.is_tied(network, kind) else {}
        return held | score | {self.table: scale_table(held[self.table])}

    def is_tied(self, network: TransformerConfig, kind: Kind) -> bool:
        return network.tied

    def pairs(self, ours: Tensors, network: TransformerConfig) -> list[TensorNames]:
        """What each tensor of a network is there."""
        return [self.pair(name, network) for name in ours]

    def pair(self, name: str, network: TransformerConfig) -> TensorNames:
        layer = re.search(r"(?<=\.blocks\.)\d+", name)
        ours = name if layer is None else name.replace(f".{layer[0]}.", ".#.", 1)
        part, _, leaf = ours.rpartition(".")
        whole = ours in self.names  # one that is called otherwise altogether: a row there
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
        """Names as the family's largest class has them, without what holds nothing learned.

        "h.0.ln_1.weight" -> "transformer.h.0.ln_1.weight": the body may have been saved alone.
        """
        names = {}
        for name, tensor in held.items():
            whole = name if name.startswith((self.prefix, *self.heads)) else self.prefix + name
            # How the first BERTs were saved.
            whole = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", whole)
            whole = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", whole)
            if not re.search(self.unread, whole):
                names[whole] = tensor
        return names


def put_below(ours: str, theirs: str, names: Mapping[str, str]) -> dict[str, str]:
    """{"norm": "ln_1"} below "blocks.#" and "h.#" -> {"blocks.#.norm": "h.#.ln_1"}"""
    return {
        f"{ours}.{here}": " ".join(f"{theirs}.{name}" for name in there.split())
        for here, there in names.items()
    }


def find_lacking(family: Family, network: NetworkConfig, kind: Kind) -> dict[str, tuple[Any, ...]]:
    """The settings of this network that the family has not, and what it has there."""
    if not isinstance(network, TransformerConfig):
        return {"kind": (TransformerConfig.kind,)}
    ours = {name: getattr(network, name) for name in family.holds(kind)}
    if network.key_heads == network.heads:  # as many as heads is as good as none said
        ours["key_heads"] = None
    waves = network.position_value
    if not isinstance(waves, SinusoidalValue) or waves == SinusoidalValue():
        ours["position"] = position_name(network.position)
    if window_of(network):
        ours["pattern"] = WINDOW
    elif network.pattern == "Causal()" and kind == "language":  # what writes always is
        ours["pattern"] = EVERYTHING
    return {name: values for name, values in family.holds(kind).items() if ours[name] not in values}


def window_of(network: TransformerConfig) -> int:
    """Tokens that each sees, itself counted: of `Window(4)`, causal or not, 5; 0: no window."""
    if isinstance(network.pattern, str):
        match [part for part in read(network.pattern).parts() if part != Causal()]:
            case [Window(radius=int(radius))]:
                return radius + 1
    return 0
