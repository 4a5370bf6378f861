"""A kind of network from outside: each token is read by itself."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from manyheads.config.declare import setting
from manyheads.modules.config import NetworkBase
from manyheads.modules.transformer import Tokens


@dataclass(frozen=True)
class AveragingConfig(NetworkBase):
    """No layers at all."""

    builder = "averaging"
    kind: Literal["averaging"] = setting("averaging", "What it is made of.")


class AveragingEncoder(nn.Module):
    """Tokens (B, T) -> states (B, T, D)"""

    def __init__(self, embedding: nn.Module):
        super().__init__()
        self.embedding = embedding

    def forward(self, tokens: Tokens) -> Tensor:
        return self.embedding(tokens.ids)


def build_encoder_side(network: AveragingConfig, embedding: nn.Module) -> nn.Module:
    return AveragingEncoder(embedding)


def build_decoder_side(
    network: AveragingConfig, embedding: nn.Module, head: nn.Module, cross: bool
) -> nn.Module:
    raise ValueError("an averaging network only reads")
