"""What a family of Hugging Face models is, and what all of them share."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Protocol, get_args

import torch
from torch import Tensor, nn

from manyheads.interop.huggingface.folders import Config
from manyheads.interop.huggingface.names import TensorNames, Tensors, both
from manyheads.modules import build
from manyheads.modules.config import Network, Pooling
from manyheads.training.averages import weights_of

Kind = Literal[
    "language", "masked", "embedding", "classification", "regression", "labelling", "translation"
]
KINDS: tuple[str, ...] = get_args(Kind)
JUDGING = ("classification", "regression", "labelling")  # a head of outcomes on an encoder

# Theirs to ours; of several names for one, the last is written.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_new": "gelu-tanh",
    "swish": "silu",
    "silu": "silu",
}
GATES = {"gelu": "geglu", "swish": "swiglu", "silu": "swiglu"}


class Family(Protocol):
    """Settings and names of one family, read both ways."""

    name: str  # its model_type
    kinds: Mapping[str, Kind]  # by the name of the class that its config.json says
    prefix: str  # of all names but those of the heads
    heads: tuple[str, ...]  # how names begin that stand above the prefix
    unread: re.Pattern[str]  # names of what holds nothing learned

    def holds(self, kind: Kind) -> Mapping[str, tuple[Any, ...]]:
        """The settings that it has, of those of which a network here has more."""
        ...

    def network(self, config: Config, held: Tensors, kind: Kind) -> tuple[Network, Tensors]:
        """The network it is here, and its tensors with each that is twice there but once."""
        ...

    def pairs(self, network: Network, kind: Kind, joint: bool) -> list[TensorNames]: ...

    def config(self, network: Network, kind: Kind, joint: bool, context: int) -> dict[str, Any]:
        """What config.json says of a network."""
        ...

    def tensors(
        self, weights: Tensors, network: Network, kind: Kind, joint: bool, context: int
    ) -> Tensors:
        """What model.safetensors holds of a network."""
        ...

    def context(self, config: Config) -> int:
        """Tokens that it was made for."""
        ...


# ---- networks --------------------------------------------------------------------------------


def built(
    kind: Kind,
    network: Network,
    vocabularies: tuple[int, ...],
    outcomes: int = 0,
    pooling: Pooling | None = None,
) -> nn.Module:
    """The module whose weights are imported or exported."""
    if kind == "translation":
        return build.encoder_decoder(
            network, vocabularies[0], vocabularies[-1], joint=len(vocabularies) == 1
        )
    if kind in JUDGING:
        return build.reader(network, vocabularies[0], outcomes, pooling)
    make: dict[str, Any] = {
        "language": build.decoder,
        "masked": build.guesser,
        "embedding": build.encoder,
    }
    return make[kind](network, vocabularies[0])


def skeleton(kind: Kind, network: Network, *measures: Any) -> Tensors:
    """The tensors of such a network, without any memory."""
    with torch.device("meta"):
        return weights_of(built(kind, network, *measures))


def effective(network: Network) -> dict[str, Any]:
    """The settings as `holds` names them: fewer key heads than heads is one setting, not a size."""
    held = {name: getattr(network, name) for name in network.__dataclass_fields__}
    held["key_heads"] = None if network.key_heads in (None, network.heads) else network.key_heads
    return held


def lacking(family: Family, network: Network, kind: Kind) -> dict[str, tuple[Any, ...]]:
    """The settings of this network that the family has not, and what it has there."""
    ours = effective(network)
    return {name: values for name, values in family.holds(kind).items() if ours[name] not in values}


# ---- names -----------------------------------------------------------------------------------


def rows_of(network: Network) -> tuple[int, int, int]:
    """Rows of query, key and value, which are one here."""
    keys = (network.key_heads or network.heads) * (network.width // network.heads)
    return network.width, keys, keys


def attention(ours: str, theirs: str, names: str, network: Network) -> list[TensorNames]:
    """`names` are those of query, key, value and what goes out: "q_proj k_proj v_proj o_proj"."""
    *inward, out = (f"{theirs}.{name}" for name in names.split())
    return [
        *both(f"{ours}.part.inward", *inward, bias=network.bias, rows=rows_of(network)),
        *both(f"{ours}.part.out", out, bias=network.bias),
    ]


def canonical(held: Mapping[str, Tensor], family: Family) -> Tensors:
    """Names as the family's largest class has them, without what holds nothing learned.

    "h.0.ln_1.weight" -> "transformer.h.0.ln_1.weight": the body may have been saved alone.
    """
    names = {}
    for name, tensor in held.items():
        whole = name if name.startswith((family.prefix, *family.heads)) else family.prefix + name
        # How the first BERTs were saved.
        whole = re.sub(r"LayerNorm\.gamma$", "LayerNorm.weight", whole)
        whole = re.sub(r"LayerNorm\.beta$", "LayerNorm.bias", whole)
        if not family.unread.search(whole):
            names[whole] = tensor
    return names


def activation(network: Network) -> str:
    """What theirs calls our feed-forward layer."""
    table = {ours: theirs for theirs, ours in (*ACTIVATIONS.items(), *GATES.items())}
    return table[network.feed_forward]
