"""How weights begin."""

import pytest
import torch
from torch import Tensor

from manyheads.modules.build import build_decoder
from manyheads.modules.config import TransformerConfig
from manyheads.tasks.language.settings import PRESETS

DEPTH, WIDTH = 8, 64


def begin(**settings: object) -> dict[str, Tensor]:
    torch.manual_seed(0)
    config = TransformerConfig(
        width=WIDTH,
        depth=DEPTH,
        position="Learned(128)",
        scale_embeddings=False,
        tied=False,
        **settings,  # type: ignore[arg-type]
    )
    return build_decoder(config, 200).state_dict()


@pytest.mark.parametrize(
    ("part", "deviation"),
    [
        ("inward.weight", 0.02),
        ("out.weight", 0.02 * (2 * DEPTH) ** -0.5),
        ("table.weight", 0.02),
        ("tables.0.weight", 0.02),
        ("head.weight", 0.02),
    ],
)
def test_gpt2_begins_small_and_alike_and_adds_less_the_deeper_it_is(
    part: str, deviation: float
) -> None:
    found = [weight for name, weight in begin(init="gpt2").items() if name.endswith(part)]
    assert found
    for weight in found:
        assert abs(weight.std().item() / deviation - 1) < 0.05


def test_biases_begin_at_zero() -> None:
    for init in ("xavier", "gpt2", "zero"):
        biases = [w for name, w in begin(init=init).items() if name.endswith(".bias")]
        assert biases
        assert not any(bias.any() for bias in biases)


def test_what_layers_add_may_begin_at_zero_and_the_head_with_it() -> None:
    weights = begin(init="zero")
    zero = {name for name, weight in weights.items() if weight.dim() > 1 and not weight.any()}
    assert zero == {name for name in weights if name.endswith(("out.weight", "head.weight"))}


def test_the_presets_of_language_begin_as_gpt2_does() -> None:
    assert {name: preset.network.init for name, preset in PRESETS.items()} == {
        "tiny": "gpt2",
        "small": "gpt2",
        "base": "gpt2",
        "modern": "zero",
    }
