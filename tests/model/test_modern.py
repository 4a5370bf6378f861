"""The parts of the preset `modern`: each does what it says, on every path."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads.attention.cache import Growing, Static
from manyheads.attention.kernels import KERNELS
from manyheads.attention.places import line
from manyheads.interop.ctranslate2 import CTranslate2
from manyheads.interop.huggingface.exporter import choose_family
from manyheads.interop.onnx import Onnx
from manyheads.modules.build import build_decoder, build_encoder, build_encoder_decoder
from manyheads.modules.config import TransformerConfig
from manyheads.modules.transformer import Decoder, Tokens
from manyheads.tasks.portable import Portable
from manyheads.training.compiling import compile_network

WORDS, T = 20, 12
PARTS: dict[str, dict[str, Any]] = {
    "qk_norm": {"qk_norm": True},
    "relu2": {"feed_forward": "relu2"},
    "logit_cap": {"tied": False, "logit_cap": 2.0},
    "residual_scalars": {"residual_scalars": True},
    "value_embeddings": {"value_embeddings": 1},
    "windows": {"pattern": ("Window(2)", "Everything()")},
}
ALL: dict[str, Any] = {name: value for part in PARTS.values() for name, value in part.items()}


def config(**settings: Any) -> TransformerConfig:
    shape: dict[str, Any] = {"width": 16, "depth": 4, "heads": 4, "key_heads": 2, "dropout": 0.0}
    return TransformerConfig(**{**shape, "position": "Rotary()", **settings})


def decoder(**settings: Any) -> Decoder:
    """With scalars that are not what they begin as."""
    torch.manual_seed(0)
    network = build_decoder(config(**settings), WORDS)
    for weight in network.parameters():
        nn.init.normal_(weight, std=0.3)
    assert isinstance(network, Decoder)
    return network.double().eval()


def portable(**settings: Any) -> Portable:
    return Portable("decoder", "language", config(**settings), (), T, decoder(**settings), "")


def ids() -> Tensor:
    return torch.randint(WORDS, (2, T), generator=torch.Generator().manual_seed(0))


@torch.no_grad()
@pytest.mark.parametrize("cache", [Growing, lambda: Static(line(T))], ids=["growing", "static"])
@pytest.mark.parametrize("part", [*PARTS, "all"])
def test_each_part_is_cached_as_it_is_read_at_once(part: str, cache: Any) -> None:
    network, kept, read = decoder(**PARTS.get(part, ALL)), cache(), ids()
    full = network(Tokens(read, line(T)))
    cuts = [(0, 5), (5, 6), (6, 7), (7, T)]
    steps = [network(Tokens(read[:, a:b], line(T)[a:b]), cache=kept) for a, b in cuts]
    torch.testing.assert_close(torch.cat(steps, 1), full, atol=1e-10, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("kernel", ["sdpa", "flex", "blockwise"])
def test_every_kernel_computes_the_same(kernel: str) -> None:
    network, read = decoder(**ALL).float(), ids()
    network.stack.kernel = KERNELS["reference"]
    expected = network(read)
    network.stack.kernel = KERNELS[kernel]
    torch.testing.assert_close(network(read), expected, atol=1e-5, rtol=1e-5)


@torch.no_grad()
def test_in_16_bits_keys_and_values_are_kept_in_16_bits() -> None:
    network, kept = decoder(**ALL).float(), Static(line(T))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        network(Tokens(ids(), line(T)), cache=kept)
    assert {tensor.dtype for pair in kept.own.values() for tensor in pair} == {torch.bfloat16}


@pytest.mark.parametrize("whole", [True, False])
def test_compiled_it_is_the_same(whole: bool) -> None:
    network = decoder(**ALL).train()
    tokens = Tokens.padded(ids().tolist())
    expected = network(tokens)
    compile_network(network, whole=whole, backend="eager")
    torch.testing.assert_close(network(tokens), expected)


def test_queries_and_keys_of_any_size_look_alike() -> None:
    network, read = decoder(qk_norm=True, depth=1, bias=False), ids()
    weights = network.attention_weights(read)
    inward = network.get_parameter("stack.blocks.0.self_attention.part.inward.weight")
    with torch.no_grad():
        inward[:24] *= 10  # 16 rows of queries, 8 of keys
    for name, seen in network.attention_weights(read).items():
        torch.testing.assert_close(seen, weights[name], atol=1e-4, rtol=0)


def test_scores_stay_below_the_cap() -> None:
    network = decoder(logit_cap=2.0)
    with torch.no_grad():
        network.embedding.table.weight.mul_(100)  # type: ignore[union-attr]
    assert network(ids()).abs().max() <= 2


def test_residual_scalars_begin_as_if_they_were_not_there() -> None:
    torch.manual_seed(0)
    plain = build_decoder(config(), WORDS).eval()
    torch.manual_seed(0)
    scaled = build_decoder(config(residual_scalars=True), WORDS).eval()
    assert torch.equal(plain(ids()), scaled(ids()))


def test_the_first_and_the_last_layers_share_value_embeddings() -> None:
    network = decoder(depth=4, value_embeddings=1)
    mixed = [name for name, _ in network.named_parameters() if name.endswith("value_mix")]
    assert [name.split(".")[2] for name in mixed] == ["0", "3"]
    assert len(network.embedding.value_tables) == 1  # type: ignore[arg-type]


def test_a_list_of_patterns_begins_again_where_it_ends() -> None:
    patterns = [str(each) for each in decoder(pattern=("Window(2)", "Everything()")).stack.patterns]
    assert patterns == ["Causal() & Window(2)", "Causal()"] * 2


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: config(value_embeddings=3), "more than the 4 there are"),
        (lambda: config(pattern=("Causal()",) * 3), "3 patterns came, one for each layer is 4"),
        (
            lambda: build_encoder(config(logit_cap=30.0), 9),
            "logit_cap is for a network that writes",
        ),
        (lambda: build_encoder(config(value_embeddings=1), 9), "without reading a source"),
        (
            lambda: build_encoder_decoder(config(value_embeddings=1), 9, 9, True),
            "without reading a source",
        ),
        (
            lambda: decoder(value_embeddings=1).stack(torch.zeros(1, 2, 16), line(2)),
            "a stack of 1 value embeddings got 0",
        ),
    ],
)
def test_what_does_not_go_together_is_refused(make: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize("part", ["qk_norm", "logit_cap", "residual_scalars", "value_embeddings"])
def test_hugging_face_has_it_not(part: str) -> None:
    own = {name: value for name, value in PARTS[part].items() if name != "tied"}
    llama = config(norm="rms", feed_forward="swiglu", bias=False, tied=False, **own)
    with pytest.raises(ValueError, match=f"network.{part}: .* has no counterpart"):
        choose_family(llama, "language", True)
    choose_family(replace(llama, **{part: type(own[part])(0)}), "language", True)


@pytest.mark.parametrize("part", [part for part in PARTS if part != "windows"])
def test_ctranslate2_has_it_not(part: str, tmp_path: Path) -> None:
    name = "feed_forward" if part == "relu2" else part
    with pytest.raises(ValueError, match=f"CTranslate2 has no counterpart of {name}"):
        CTranslate2().write(portable(**PARTS[part]), tmp_path, "")


@pytest.mark.parametrize("part", ["residual_scalars", "value_embeddings"])
def test_onnx_has_it_not(part: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"{part}: .* is not exported to ONNX"):
        Onnx().write(portable(**PARTS[part]), tmp_path, "")
