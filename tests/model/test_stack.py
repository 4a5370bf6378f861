"""Stacks equal torch's, and keep the promises that patterns and positions make."""

import copy

import pytest
import torch
from torch import Tensor, nn

from manyheads import (
    KERNELS,
    Blocks,
    Bucketed,
    Causal,
    Clipped,
    Concatenated,
    Every,
    Everything,
    Graph,
    Learned,
    Lengths,
    Memory,
    RelativeBias,
    RelativeContent,
    Rotary,
    Segments,
    Sinusoidal,
    Stack,
    TransformerConfig,
    Window,
    line,
    packed,
)
from manyheads.attention.patterns import Pattern
from manyheads.attention.positions import Relative
from manyheads.modules.config import NormPosition
from manyheads.modules.layers import FEED_FORWARDS, NORMS

B, T, D, H, F = 2, 9, 24, 4, 40


def small(**options: object) -> TransformerConfig:
    return TransformerConfig(**{"width": D, "depth": 2, "heads": H, "dropout": 0.0, **options})  # type: ignore[arg-type]


def wide(stack: Stack) -> Stack:
    return stack.double().eval()


def tokens(length: int = T, batch: int = B) -> Tensor:
    return torch.randn(batch, length, D, dtype=torch.float64)


# ---- torch's own -----------------------------------------------------------------------------


def copied(ours: Stack, theirs: nn.Module) -> None:
    """Torch's weights into ours, layer by layer."""
    for block, layer in zip(ours.blocks, theirs.layers, strict=True):
        attentions = [(block.self_attention, layer.self_attn, layer.norm1)]
        if block.cross_attention is not None:
            attentions.append((block.cross_attention, layer.multihead_attn, layer.norm2))
        for mine, other, norm in attentions:
            mine.part.inward.weight.data.copy_(other.in_proj_weight)
            mine.part.inward.bias.data.copy_(other.in_proj_bias)
            mine.part.out.load_state_dict(other.out_proj.state_dict())
            mine.norm.load_state_dict(norm.state_dict())
        block.feed_forward.part.inward.load_state_dict(layer.linear1.state_dict())
        block.feed_forward.part.out.load_state_dict(layer.linear2.state_dict())
        last = layer.norm3 if block.cross_attention is not None else layer.norm2
        block.feed_forward.norm.load_state_dict(last.state_dict())
    if theirs.norm is not None:
        ours.norm.load_state_dict(theirs.norm.state_dict())


def shaken(module: nn.Module) -> nn.Module:
    """Biases and gains that are not what they start as, so that a forgotten one shows."""
    for parameter in module.parameters():
        parameter.data.add_(torch.randn_like(parameter) * 0.1)
    return module.eval()


@pytest.mark.filterwarnings("ignore:enable_nested_tensor is True")
@pytest.mark.parametrize("activation", ["relu", "gelu"])
@pytest.mark.parametrize("order", ["pre", "post"])
def test_an_encoder_stack_equals_torchs(order: NormPosition, activation: str) -> None:
    pre = order == "pre"
    layer = nn.TransformerEncoderLayer(D, H, F, 0.0, activation, batch_first=True, norm_first=pre)
    theirs = shaken(nn.TransformerEncoder(layer, 2, nn.LayerNorm(D) if pre else None))
    ours = Stack.of(small(ffn_width=F, norm_position=order, feed_forward=activation)).eval()
    copied(ours, theirs)
    x, lengths = torch.randn(B, T, D), torch.tensor([T, 5])
    padding = torch.arange(T) >= lengths[:, None]
    wanted = theirs(x, src_key_padding_mask=padding)
    found = ours(x, line(T), Lengths(lengths))
    torch.testing.assert_close(found[~padding], wanted[~padding], atol=1e-5, rtol=0)


@pytest.mark.parametrize("order", ["pre", "post"])
def test_a_decoder_stack_equals_torchs(order: NormPosition) -> None:
    pre = order == "pre"
    layer = nn.TransformerDecoderLayer(D, H, F, 0.0, batch_first=True, norm_first=pre)
    theirs = shaken(nn.TransformerDecoder(layer, 2, nn.LayerNorm(D) if pre else None))
    ours = Stack.of(small(ffn_width=F, norm_position=order), Causal(), cross=True).eval()
    copied(ours, theirs)
    x, memory = torch.randn(B, T, D), torch.randn(B, 6, D)
    future = torch.ones(T, T, dtype=torch.bool).triu(1)
    wanted = theirs(x, memory, tgt_mask=future)
    found = ours(x, line(T), memory=Memory(memory, line(6)))
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=0)


# ---- promises --------------------------------------------------------------------------------


@torch.no_grad()
@pytest.mark.parametrize(
    "pattern", [Causal(), Causal() & Window(2), Causal() & Blocks(3, 2)], ids=str
)
@pytest.mark.parametrize("which", ["reference", "sdpa", "flex"])
def test_a_future_token_changes_nothing_before_it(pattern: Pattern, which: str) -> None:
    stack = wide(Stack.of(small(), pattern, position=Sinusoidal(), kernel=KERNELS[which]))
    x = tokens()
    before = stack(x, line(T))
    x[:, 5:] = tokens()[:, 5:]
    after = stack(x, line(T))
    assert torch.equal(before[:, :5], after[:, :5])
    assert (before[:, 5:] != after[:, 5:]).any()


@torch.no_grad()
@pytest.mark.parametrize("pattern", [Everything(), Causal(), Window(2)], ids=str)
def test_padding_changes_nothing(pattern: Pattern) -> None:
    stack = wide(Stack.of(small(), pattern, position=Sinusoidal()))
    x = tokens()
    alone = stack(x[1:, :5], line(5))
    x[1, 5:] = 1e3
    together = stack(x, line(T), Lengths([T, 5]))
    torch.testing.assert_close(together[1:, :5], alone, atol=1e-10, rtol=0)


@torch.no_grad()
@pytest.mark.parametrize("pattern", [Everything(), Causal(), Causal() & Window(2)], ids=str)
@pytest.mark.parametrize("which", ["reference", "sdpa", "varlen", "flex"])
def test_packed_neighbours_change_nothing(pattern: Pattern, which: str) -> None:
    if which == "varlen" and Window(2) in pattern.parts():
        pattern = Causal()
    relative = None if which == "varlen" else RelativeBias(H, Clipped(3))
    stack = wide(
        Stack.of(small(), pattern, position=Sinusoidal(), relative=relative, kernel=KERNELS[which])
    )
    plain = copy.copy(stack)
    plain.kernel = KERNELS["reference"]
    documents = [tokens(n, 1) for n in (4, 1, 3)]
    row = torch.cat([*documents, tokens(2, 1)], 1)
    found = stack(row, packed([[4, 1, 3]], 10), Segments.of([[4, 1, 3]], 10))
    alone = [plain(document, line(document.shape[1])) for document in documents]
    torch.testing.assert_close(found[:, :8], torch.cat(alone, 1), atol=1e-10, rtol=0)


@torch.no_grad()
def test_without_positions_a_permutation_of_inputs_permutes_outputs() -> None:
    stack, x, turn = wide(Stack.of(small())), tokens(), torch.randperm(T)
    torch.testing.assert_close(stack(x[:, turn], line(T)), stack(x, line(T))[:, turn])
    placed = wide(Stack.of(small(), position=Sinusoidal()))
    assert (placed(x[:, turn], line(T)) - placed(x, line(T))[:, turn]).abs().max() > 1e-3


@torch.no_grad()
@pytest.mark.parametrize(
    "relative",
    [
        Rotary(),
        RelativeBias(H, Clipped(3)),
        RelativeBias(H, Bucketed(8, 16)),
        RelativeContent(D // H, Clipped(3), values=True),
        RelativeContent(D // H, Every(64), heads=H),
    ],
    ids=["rotary", "bias", "buckets", "shaw", "music"],
)
def test_relative_positions_are_translation_equivariant(relative: Relative) -> None:
    """The same tokens later in time give the same states; a sinusoid does not."""
    stack, x = wide(Stack.of(small(), Causal(), relative=relative)), tokens()
    here, there = stack(x, line(T)), stack(x, line(T, start=20))
    torch.testing.assert_close(here, there, atol=1e-9, rtol=0)
    shuffled = stack(x[:, torch.randperm(T)], line(T))
    assert (here[:, -1] - shuffled[:, -1]).abs().max() > 1e-4, "order must matter"
    absolute = wide(Stack.of(small(), Causal(), position=Sinusoidal()))
    assert (absolute(x, line(T)) - absolute(x, line(T, start=20))).abs().max() > 1e-3


@torch.no_grad()
def test_renaming_the_nodes_of_a_graph_renames_the_outputs() -> None:
    stack = wide(Stack.of(small(), Window(2), relative=RelativeBias(H, Clipped(3))))
    hops = torch.randint(1, 5, (B, T, T))
    hops, x, turn = torch.minimum(hops, hops.mT), tokens(), torch.randperm(T)
    renamed = stack(x[:, turn], Graph(hops[:, turn][:, :, turn]))
    torch.testing.assert_close(renamed, stack(x, Graph(hops))[:, turn])


# ---- parts -----------------------------------------------------------------------------------


def test_without_residuals_and_positions_a_stack_forgets_order_and_cannot_pass_its_input() -> None:
    """What the lecture removes: the residual carries the input, and with it the place, upwards."""
    x = tokens()
    carried = wide(Stack.of(small(residual=True)))
    cut = wide(Stack.of(small(residual=False)))
    for stack in (carried, cut):
        for block in stack.blocks:
            for sublayer in block.children():
                sublayer.part.out.weight.data.zero_()
                sublayer.part.out.bias.data.zero_()
    assert torch.allclose(carried(x, line(T)), carried.norm(x))
    assert cut(x, line(T)).abs().max() == 0


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("feed_forward", FEED_FORWARDS)
@pytest.mark.parametrize("order", ["pre", "post"])
def test_every_part_trains(feed_forward: str, norm: str, order: NormPosition) -> None:
    shape = small(
        feed_forward=feed_forward, norm=norm, norm_position=order, bias=False, dropout=0.1
    )
    stack = Stack.of(shape, Causal(), position=Concatenated(Sinusoidal(), D, 8)).train()
    stack(torch.randn(B, T, D), line(T)).square().sum().backward()
    assert all(p.grad is not None and p.grad.abs().max() > 0 for p in stack.parameters())


def test_the_residual_stream_starts_as_large_in_a_deep_stack_as_in_a_shallow_one() -> None:
    def growth(depth: int) -> float:
        stack, x = Stack.of(small(depth=depth)).eval(), torch.randn(8, T, D)
        stack.norm = nn.Identity()
        with torch.no_grad():
            return (stack(x, line(T)).std() / x.std()).item()

    assert growth(48) / growth(2) < 1.5


def test_every_layer_has_a_copy_of_the_relative_tables_as_given() -> None:
    given = RelativeBias(H, Clipped(3))
    stack = Stack.of(small(), relative=given)
    first, second = (block.self_attention.part.relative.tables for block in stack.blocks)
    assert first is not second
    assert torch.equal(first, given.tables)
    assert torch.equal(second, given.tables)


def test_a_kernel_may_be_given_by_its_name() -> None:
    assert Stack.of(small(), kernel="sdpa").kernel is KERNELS["sdpa"]
    assert Stack.of(small()).kernel.name == "fastest"
    with pytest.raises(ValueError, match="there is no kernel 'flash'"):
        Stack.of(small(), kernel="flash")


@torch.no_grad()
def test_a_stack_compiles_whole_and_gives_the_same() -> None:
    stack, x = Stack.of(small(), Causal(), relative=Rotary()).eval(), torch.randn(B, T, D)
    whole = torch.compile(stack, backend="eager", fullgraph=True)
    torch.testing.assert_close(whole(x, line(T)), stack(x, line(T)))


def test_each_pattern_is_planned_once_a_pass() -> None:
    class Counting:
        name, plans = "counting", 0

        def __getattr__(self, name: str) -> object:
            return getattr(KERNELS["sdpa"], name)

        def prepare(self, work: object) -> object:
            Counting.plans += 1
            return KERNELS["sdpa"].prepare(work)  # type: ignore[arg-type]

        def __call__(self, *args: object, **options: object) -> object:
            return KERNELS["sdpa"](*args, **options)  # type: ignore[arg-type]

    patterns = [Causal() & Window(2)] * 3 + [Causal()] * 3
    stack = Stack.of(small(depth=6), patterns, cross=True, kernel=Counting())  # type: ignore[arg-type]
    stack(torch.randn(B, T, D), line(T), memory=Memory(torch.randn(B, 6, D), line(6)))
    assert Counting.plans == 3


# ---- refusals --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("act", "sentence"),
    [
        (lambda: Stack.of(small(heads=5)), "5 heads do not divide a width of 24"),
        (lambda: Stack.of(small(norm="batch")), "there is no norm 'batch'; there are layer, rms"),
        (
            lambda: Stack.of(small(feed_forward="tanh")),
            "there is no feed-forward layer 'tanh'; there are relu, relu2, gelu, gelu-tanh, silu, "
            "swiglu, geglu",
        ),
        (lambda: Stack.of(small(norm_position="mid")), "a norm stands 'pre' or 'post', got 'mid'"),
        (lambda: Stack.of(small(), [Causal()]), "2 blocks came with 1"),
        (lambda: Stack.of(small(), "Causal()"), r"a layer's pattern is one like Causal\(\), got"),
        (lambda: Stack.of(small(), Causal), r"a layer's pattern is one like Causal\(\), got"),
        (lambda: Stack.of(TransformerConfig), "a stack is of a TransformerConfig"),
        (lambda: small(width=0), "width is 1 or more, got 0"),
        (lambda: small(ffn_width=0), "ffn_width is 1 or more, got 0"),
        (lambda: small(dropout=1.5), "dropout is a share from 0 to below 1, got 1.5"),
        (lambda: Stack.of(small(), position=Sinusoidal), "Sinusoidal is a class; Sinusoidal"),
        (lambda: Stack.of(small(), relative="Rotary()"), "relative= takes a part like Rotary"),
        (lambda: Stack.of(small(), Lengths([3])), r"Lengths\(\[3\]\) belongs to one batch"),
        (
            lambda: Stack.of(small())(torch.randn(1, 4, D), line(5)),
            "4 tokens came with places for 5; each has one",
        ),
        (
            lambda: Stack.of(small())(torch.randn(1, 4, D + 1), line(4)),
            r"tokens are \(B, T, 24\), \(1, 4, 25\) arrived",
        ),
        (
            lambda: Stack.of(small(), cross=True)(
                torch.randn(1, 4, D), line(4), memory=torch.randn(1, 4, D)
            ),
            r"a memory is Memory\(states, places\), a Tensor arrived",
        ),
        (
            lambda: Stack.of(small(), cross=True)(
                torch.randn(1, 4, D), line(4), memory=Memory(torch.randn(2, 4, D), line(4))
            ),
            "1 sequences came with the memory of 2",
        ),
        (
            lambda: Stack.of(small(), cross=True)(
                torch.randn(1, 4, D), line(4), memory=Memory(torch.randn(1, 4, D), line(3))
            ),
            "4 tokens of the memory came with places for 3",
        ),
        (
            lambda: Stack.of(small(), cross=True)(torch.randn(1, 4, D), line(4)),
            "looks at a memory and none came",
        ),
        (
            lambda: Stack.of(small())(
                torch.randn(1, 4, D), line(4), memory=Memory(torch.randn(1, 4, D), line(4))
            ),
            "a memory came to a stack that looks at none",
        ),
        (
            lambda: Stack.of(small())(torch.full((1, 4, D), torch.nan), line(4)),
            r"the input of a stack should be finite numbers, nan arrived at \(0, 0, 0\)",
        ),
        (
            lambda: Stack.of(small(), kernel=KERNELS["varlen"])(torch.randn(1, 4, D), line(4)),
            r"the varlen kernel refuses Everything\(\)",
        ),
        (
            lambda: Stack.of(small(), position=Rotary()),  # type: ignore[arg-type]
            "Rotary works in every layer: give it as relative=, not as position=",
        ),
        (
            lambda: Stack.of(small(), relative=Sinusoidal()),  # type: ignore[arg-type]
            "Sinusoidal works below the first layer: give it as position=, not as relative=",
        ),
        (
            lambda: Stack.of(small(), position=Learned(D, 3))(torch.randn(1, 4, D), line(4)),
            "Learned positions reach 3 places, a sequence of 4 arrived",
        ),
    ],
)
def test_mistakes_get_one_sentence(act: object, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        act()  # type: ignore[operator]
