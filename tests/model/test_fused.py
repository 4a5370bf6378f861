"""Sublayers whose norms, products and residual connections are one program each.

The Triton programs run where there is a GPU, or on a CPU in Triton's interpreter.
"""

import copy
import os
from typing import Any, cast

import pytest
import torch
from torch import nn

from manyheads import Causal, Decoder, Embedding, Growing, Stack, Tied, Tokens, line
from manyheads.attention.positions import Rotary
from manyheads.modules.config import TransformerConfig
from manyheads.modules.fused import (
    MOST_ROWS,
    TRITON,
    FusedLinear,
    can_fuse,
    compute_plainly,
    fuse_sublayers,
)
from manyheads.modules.layers import ACTIVATIONS, FeedForward

INTERPRETED = TRITON and os.environ.get("TRITON_INTERPRET") == "1"
runs = pytest.mark.skipif(
    not (INTERPRETED or torch.cuda.is_available()),
    reason="needs a CUDA device, or Triton's interpreter",
)
HALF = torch.float16 if INTERPRETED else torch.bfloat16  # the interpreter multiplies no bfloat16
DEVICE = "cpu" if INTERPRETED or not torch.cuda.is_available() else "cuda"


def make_layer(
    width: int, outputs: int, norm: str = "", activation: str = "", gated: bool = False
) -> FusedLinear:
    torch.manual_seed(width + outputs)
    linear = nn.Linear(width, outputs * (2 if gated else 1), device=DEVICE)
    made: Any = {"": None, "layer": nn.LayerNorm(width), "rms": nn.RMSNorm(width, 1e-6)}[norm]
    if made is not None:
        for weight in made.to(DEVICE).parameters():
            nn.init.normal_(weight, 1.0)
    return FusedLinear(linear.weight.data, linear.bias.data, made, activation, gated)


def in_dtype(layer: FusedLinear, dtype: torch.dtype) -> FusedLinear:
    norm = None if layer.norm is None else copy.deepcopy(layer.norm).to(dtype)
    assert layer.bias is not None
    return layer._replace(weight=layer.weight.to(dtype), bias=layer.bias.to(dtype), norm=norm)


@runs
@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 3, 64])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"norm": "layer"},
        {"norm": "rms"},
        *({"norm": "rms", "activation": name} for name in ACTIVATIONS),
        {"norm": "layer", "activation": "silu", "gated": True},
    ],
    ids=str,
)
@pytest.mark.parametrize("width", [48, 160])
def test_the_program_is_equal_to_the_definition(
    rows: int, options: dict[str, Any], width: int
) -> None:
    from manyheads.modules.triton_linear import launch

    layer = make_layer(width, 36, **options)
    x, residual = torch.randn(rows, width, device=DEVICE), torch.randn(rows, 36, device=DEVICE)
    for one in (layer, layer._replace(bias=None)):
        found = launch(x, one, residual)
        torch.testing.assert_close(found, compute_plainly(one, x, residual), atol=2e-5, rtol=1e-5)
    torch.testing.assert_close(
        launch(x, layer, None), compute_plainly(layer, x, None), atol=2e-5, rtol=1e-5
    )


@runs
@torch.no_grad()
@pytest.mark.parametrize("dtype", [torch.float32, HALF])
@pytest.mark.parametrize(
    ("rows", "width", "outputs"), [(64, 160, 8200), (20, 300, 4100), (33, 129, 2100)]
)
def test_so_it_is_with_large_tiles(rows: int, width: int, outputs: int, dtype: torch.dtype) -> None:
    from manyheads.modules.triton_linear import launch

    layer = in_dtype(make_layer(width, outputs, "layer", "silu", gated=True), dtype)
    x = torch.randn(rows, width, device=DEVICE, dtype=dtype)
    exact = compute_plainly(in_dtype(layer, torch.float64), x.double(), None)
    found, plain = launch(x, layer, None), compute_plainly(layer, x, None)
    assert (found - exact).norm() < 1.2 * (plain - exact).norm()


@runs
@pytest.mark.parametrize("bytes_each", [2, 4])
@pytest.mark.parametrize("room", [99 * 1024, 227 * 1024])
def test_what_a_program_reads_ahead_fits_into_shared_memory(bytes_each: int, room: int) -> None:
    from manyheads.modules.triton_linear import choose_tiles

    for rows in (2, 16, 40, 64):
        for outputs in (36, 4096, 11008):
            for gated in (False, True):
                tiles = choose_tiles(
                    rows, outputs, 4096, gated=gated, bytes_each=bytes_each, room=room
                )
                read = tiles.step * (tiles.rows + tiles.outputs * (1 + gated)) * bytes_each
                assert tiles.stages * read <= room


@runs
@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 20])
def test_in_16_bits_it_is_as_exact_as_the_modules(rows: int) -> None:
    from manyheads.modules.triton_linear import launch

    layer = in_dtype(make_layer(64, 40, "layer", "gelu", gated=True), HALF)
    x, residual = (torch.randn(rows, n, device=DEVICE, dtype=HALF) for n in (64, 40))
    found, plain = launch(x, layer, residual), compute_plainly(layer, x, residual)
    exact = compute_plainly(in_dtype(layer, torch.float64), x.double(), residual.double())
    assert found.dtype == HALF
    assert (found - exact).norm() < 1.2 * (plain - exact).norm()


@runs
@torch.no_grad()
@pytest.mark.parametrize("rows", [1, 5])
def test_a_large_mean_does_not_hide_what_is_spread_around_it(rows: int) -> None:
    from manyheads.modules.triton_linear import launch

    layer = make_layer(64, 16, "layer")
    x = torch.randn(rows, 64, device=DEVICE) + 1000
    exact = compute_plainly(in_dtype(layer, torch.float64), x.double(), None)
    torch.testing.assert_close(launch(x, layer, None).double(), exact, atol=2e-2, rtol=1e-3)


@runs
@torch.no_grad()
def test_a_row_does_not_depend_on_its_neighbours() -> None:
    from manyheads.modules.triton_linear import launch

    layer = make_layer(48, 36, "layer", "relu")
    x = torch.randn(8, 48, device=DEVICE)
    among = launch(x, layer, None)
    for i in range(8):
        alone = torch.zeros_like(x)
        alone[i] = x[i]
        assert torch.equal(launch(alone, layer, None)[i], among[i])


def make_decoder(**options: Any) -> Decoder:
    torch.manual_seed(0)
    config = TransformerConfig(width=32, depth=2, heads=4, ffn_width=64, dropout=0.1, **options)
    words = Embedding(50, 32)
    made = Decoder(words, Stack.of(config, Causal(), relative=Rotary()), Tied(words))
    return made.to(DEVICE).eval()


@torch.no_grad()
@pytest.mark.parametrize(
    "options",
    [
        {"norm": "rms", "feed_forward": "swiglu", "bias": False},
        {"norm": "layer", "feed_forward": "gelu-tanh"},
        {"feed_forward": "relu2", "qk_norm": True, "key_heads": 2, "residual_scalars": True},
        {"norm_position": "post"},
    ],
    ids=str,
)
def test_a_fused_network_computes_what_it_computed(options: dict[str, Any]) -> None:
    decoder = make_decoder(**options)
    ids, cache = torch.randint(50, (3, 6), device=DEVICE), Growing()
    whole = decoder(Tokens(ids, line(6, device=DEVICE)))
    names = [*decoder.state_dict()]
    decoder.stack.fused = True
    with fuse_sublayers(decoder, 3):
        steps = [
            decoder(Tokens(ids[:, i : i + 1], line(1, start=i, device=DEVICE)), cache=cache)
            for i in range(6)
        ]
    torch.testing.assert_close(torch.cat(steps, 1), whole, atol=1e-4, rtol=1e-4)
    assert [*decoder.state_dict()] == names
    assert not any("forward" in vars(one) for one in decoder.modules())


def test_only_a_small_step_of_a_fused_stack_is_changed() -> None:
    decoder = make_decoder()
    for fused, rows, changed in ((False, 1, False), (True, MOST_ROWS, True), (True, 65, False)):
        decoder.stack.fused = fused
        with fuse_sublayers(decoder, rows):
            assert any("forward" in vars(one) for one in decoder.modules()) == changed


def test_what_the_programs_do_not_compute_stays_as_it_is() -> None:
    decoder = make_decoder()
    sublayer = next(decoder.stack.blocks[0].children())
    assert can_fuse(sublayer)
    with torch.autocast(DEVICE, torch.bfloat16):
        assert not can_fuse(sublayer)
    assert not can_fuse(next(make_decoder(norm_position="post").stack.blocks[0].children()))
    assert not can_fuse(next(decoder.train().stack.blocks[0].children()))
    assert not can_fuse(next(make_decoder().double().stack.blocks[0].children()))
    decoder.eval().stack.blocks[0].feed_forward.part.activation = torch.tanh
    assert not can_fuse(decoder.stack.blocks[0].feed_forward)
    handle = sublayer.register_forward_hook(lambda *told: None)
    assert not can_fuse(sublayer)
    handle.remove()
    assert can_fuse(sublayer)


def test_a_layer_that_computes_something_else_stays_as_it_is() -> None:
    class Doubled(FeedForward):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return 2 * super().forward(x)

    block = make_decoder().stack.blocks[0]
    part: Any = block.feed_forward.part
    assert can_fuse(block.feed_forward)
    part.__class__ = Doubled
    assert not can_fuse(block.feed_forward)
    part.__class__ = FeedForward
    part.out.weight = nn.Parameter(part.out.weight.detach().t().contiguous().t())
    assert not can_fuse(block.feed_forward)


@torch.no_grad()
def test_a_forward_of_ones_own_and_a_block_that_comes_twice_stay_as_they_are() -> None:
    decoder = make_decoder()
    decoder.stack.fused = True
    decoder.stack.blocks[1] = decoder.stack.blocks[0]
    out: Any = decoder.stack.blocks[0].feed_forward.part.out  # type: ignore[union-attr]
    own = out.forward = lambda x: torch.zeros_like(x[..., :32])
    tokens = Tokens(torch.randint(50, (3, 6), device=DEVICE), line(6, device=DEVICE))
    wanted = decoder(tokens)
    with fuse_sublayers(decoder, 18):
        torch.testing.assert_close(decoder(tokens), wanted)
    assert out.forward is own


@torch.no_grad()
def test_layers_that_share_their_attention_are_fused_each_with_its_own_norm() -> None:
    decoder = make_decoder()
    first, second = (cast(Any, block).self_attention for block in decoder.stack.blocks)
    second.part = first.part
    nn.init.normal_(second.norm.weight)
    decoder.stack.fused = True
    tokens = Tokens(torch.randint(50, (3, 6), device=DEVICE), line(6, device=DEVICE))
    wanted = decoder(tokens)
    with fuse_sublayers(decoder, 18):
        torch.testing.assert_close(decoder(tokens), wanted, atol=1e-4, rtol=1e-4)
        assert "forward" in vars(first)
        assert "forward" in vars(second)
    assert not any("forward" in vars(one) for one in decoder.modules())
