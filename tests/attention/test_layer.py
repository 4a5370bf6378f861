"""Multi-head attention against torch's own, and what it refuses."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from manyheads import (
    KERNELS,
    Attention,
    Causal,
    Clipped,
    Dot,
    Everything,
    Lengths,
    Multiplicative,
    Pairs,
    RelativeBias,
    RelativeContent,
    Rotary,
    Together,
    line,
    plan,
)
from manyheads.attention.layer import check_heads
from manyheads.attention.patterns import Pattern
from manyheads.attention.positions import Relative
from manyheads.attention.scores import Score

B, T, D, H = 2, 7, 24, 4


def twin(theirs: nn.MultiheadAttention) -> Attention:
    """Ours with the same weights."""
    ours = Attention(D, H).to(theirs.in_proj_weight.dtype)
    with torch.no_grad():
        ours.inward.weight.copy_(theirs.in_proj_weight)
        ours.inward.bias.copy_(theirs.in_proj_bias)
        ours.out.weight.copy_(theirs.out_proj.weight)
        ours.out.bias.copy_(theirs.out_proj.bias)
    return ours


@pytest.mark.parametrize("which", ["reference", "sdpa"])
@pytest.mark.parametrize("pattern", [Everything(), Causal(), Lengths([7, 3])], ids=str)
def test_self_attention_equals_torchs(which: str, pattern: Pattern) -> None:
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    ours, x = twin(theirs), torch.randn(B, T, D)
    pairs = Pairs(B, H, line(T), line(T))
    forbidden = ~pattern.allows(pairs.everywhere()).expand(B, H, T, T).flatten(0, 1)
    wanted, _ = theirs(x, x, x, attn_mask=forbidden)
    found = ours(x, plan(KERNELS[which], ours.work(pattern, pairs, x)))
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


def test_cross_attention_equals_torchs() -> None:
    theirs = nn.MultiheadAttention(D, H, batch_first=True)
    ours, x, memory = twin(theirs), torch.randn(B, T, D), torch.randn(B, 9, D)
    pairs = Pairs(B, H, line(T), line(9))
    wanted, _ = theirs(x, memory, memory)
    found = ours(x, plan(KERNELS["sdpa"], ours.work(Everything(), pairs, x)), memory)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


def test_shared_key_heads_equal_heads_with_repeated_keys() -> None:
    shared, plain, x = Attention(D, H, key_heads=2), Attention(D, H), torch.randn(B, T, D)
    channels = D // H
    with torch.no_grad():
        query, key, value = shared.inward.weight.split(shared.sizes)
        each = [
            part.unflatten(0, (2, channels)).repeat_interleave(2, 0).flatten(0, 1)
            for part in (key, value)
        ]
        plain.inward.weight.copy_(torch.cat([query, *each]))
        plain.out.load_state_dict(shared.out.state_dict())
    pairs = Pairs(B, H, line(T), line(T))
    outs = [a(x, plan(KERNELS["sdpa"], a.work(Causal(), pairs, x))) for a in (shared, plain)]
    torch.testing.assert_close(*outs)


def test_under_autocast_a_kernel_is_told_the_type_it_will_get() -> None:
    attention, pairs = Attention(D, H), Pairs(B, H, line(T), line(T))
    x = torch.randn(B, T, D)
    assert attention.work(Causal(), pairs, x).dtype == torch.float32
    with torch.autocast("cpu", torch.bfloat16):
        work = attention.work(Causal(), pairs, x)
        assert work.dtype == torch.bfloat16
        assert attention(x, plan(KERNELS["sdpa"], work)).dtype == torch.bfloat16


@pytest.mark.parametrize(
    ("sizes", "sentence"),
    [
        ((10, 4, 4), "4 heads do not divide a width of 10; 1, 2, 5 heads would"),
        ((512, 7, 7), "7 heads do not divide a width of 512; 2, 4, 8 heads would"),
        ((12, 0, 0), "0 heads do not divide a width of 12; 1, 2, 3 heads would"),
        ((12, 6, 4), "6 heads cannot share 4 key heads evenly; 1, 2, 3, 6 key heads would do"),
    ],
)
def test_widths_that_heads_do_not_divide_are_refused_in_words(
    sizes: tuple[int, int, int], sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        check_heads(*sizes)


@pytest.mark.parametrize(
    ("relative", "sentence"),
    [
        (RelativeBias(8, Clipped(2)), "RelativeBias has 8 heads, the layer 4"),
        (RelativeContent(5, Clipped(2)), "has 1 heads of 5 channels, the layer 4 of 6"),
        (Together(Rotary(), RelativeBias(2, Clipped(2))), "RelativeBias has 2 heads, the layer 4"),
    ],
)
def test_a_relative_position_of_other_measures_is_refused(
    relative: Relative, sentence: str
) -> None:
    with pytest.raises(ValueError, match=sentence):
        Attention(D, H, relative=relative)


class Missing(Score):
    """A score that forgets the keys."""

    def forward(self, query: Tensor, key: Tensor) -> Tensor:
        return query.sum(-1)


@pytest.mark.parametrize(
    ("score", "sentence"),
    [
        (
            "dot",
            r"score= takes a score like Dot\(\), or None, got 'dot'; build_score\('dot', width\)",
        ),
        (0, r"score= takes a score like Dot\(\), or None, got 0$"),
        (Dot, r"score= takes a score like Dot\(\), or None, got <class .*; Dot\(\.\.\.\) is one"),
        (Multiplicative(D, D), "Multiplicative compares other widths than the 6 of a head"),
        (
            Missing(),
            r"Missing gives \(1, 4, 2\) for 2 queries and 3 keys; a score is \(B, H, Q, K\)",
        ),
    ],
    ids=["name", "number", "class", "width", "shape"],
)
def test_what_is_no_score_between_queries_and_keys_is_refused(score: Any, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        Attention(D, H, score=score)


class Warm(Score):
    """A score with a temperature of its own for each head."""

    def __init__(self) -> None:
        super().__init__()
        self.warmth = nn.Parameter(torch.rand(H, 1, 1))

    def query(self, query: Tensor) -> Tensor:
        return query * self.warmth


def test_a_score_may_have_a_parameter_for_each_head() -> None:
    layer, x = Attention(D, H, score=Warm()), torch.randn(B, T, D)
    work = layer.work(Causal(), Pairs(B, H, line(T), line(T)), x)
    assert layer(x, plan("sdpa", work)).shape == x.shape
    with pytest.raises(ValueError, match=r"Warm compares other widths .*: The size of tensor a"):
        Attention(D, 2, score=Warm())


@pytest.mark.parametrize("tokens", [512, 513])
def test_a_score_learns_beside_distances_in_sequences_of_any_length(tokens: int) -> None:
    score = Multiplicative(8, 8)
    layer = Attention(16, 2, relative=RelativeContent(8, Clipped(4)), score=score).double()
    x = torch.randn(1, tokens, 16, dtype=torch.float64)
    pairs = Pairs(1, 2, line(tokens), line(tokens))
    found = []
    for which in ("fastest", "reference"):
        layer.zero_grad()
        layer(x, plan(which, layer.work(Causal(), pairs, x))).square().sum().backward()
        found.append([parameter.grad for parameter in layer.parameters()])
    for ours, theirs in zip(*found, strict=True):
        assert ours is not None
        torch.testing.assert_close(ours, theirs)
