"""Every head's weights, beside any kernel, and nothing changed."""

import pytest
import torch

from manyheads import (
    KERNELS,
    Causal,
    Clipped,
    Decoder,
    Embedding,
    Encoder,
    EncoderDecoder,
    Growing,
    RelativeBias,
    Sinusoidal,
    Stack,
    Tied,
    Tokens,
    TransformerConfig,
    line,
    recording,
)

SHAPE = TransformerConfig(width=24, depth=2, heads=4, key_heads=2, dropout=0.0)


def translator() -> EncoderDecoder:
    embedding = Embedding(10, 24)
    reads = Stack.of(SHAPE, position=Sinusoidal())
    writes = Stack.of(SHAPE, Causal(), relative=RelativeBias(4, Clipped(2)), cross=True)
    writes.position = Sinusoidal()
    return EncoderDecoder(
        Encoder(embedding, reads), Decoder(embedding, writes, Tied(embedding))
    ).eval()


@torch.no_grad()
@pytest.mark.parametrize("which", ["reference", "sdpa", "flex"])
def test_recording_names_every_layer_and_changes_nothing(which: str) -> None:
    model, source, target = translator(), Tokens.padded([[1, 2, 3, 4]]), Tokens.padded([[5, 6, 7]])
    for stack in (model.encoder.stack, model.decoder.stack):
        stack.kernel = KERNELS[which]
    plain = model(source, target)
    with recording(model) as seen:
        assert torch.equal(model(source, target), plain)
    assert [each.layer for each in seen] == [
        "encoder.stack.blocks.0.self_attention",
        "encoder.stack.blocks.1.self_attention",
        "decoder.stack.blocks.0.self_attention",
        "decoder.stack.blocks.0.cross_attention",
        "decoder.stack.blocks.1.self_attention",
        "decoder.stack.blocks.1.cross_attention",
    ]
    assert [tuple(each.weights.shape) for each in seen[2:4]] == [(1, 4, 3, 3), (1, 4, 3, 4)]
    for each in seen:
        torch.testing.assert_close(each.weights.sum(-1), torch.ones(each.weights.shape[:3]))
    assert seen[2].weights[0, :, 0, 1:].abs().max() == 0, "the first token sees itself alone"
    assert model.encoder.stack.kernel is KERNELS[which]


@torch.no_grad()
def test_recorded_weights_are_those_that_mix_the_values() -> None:
    """Weights times values, through the output layer, is what the layer gave."""
    stack = Stack.of(TransformerConfig(width=24, depth=1, heads=4, dropout=0.0), Causal()).eval()
    x, attention = torch.randn(2, 6, 24), stack.blocks[0].self_attention
    with recording(stack) as seen:
        stack(x, line(6))
    value = attention.part.inward(attention.norm(x)).split(24, -1)[2].unflatten(-1, (4, 6))
    mixed = torch.einsum("bhqk,bkhc->bqhc", seen[0].weights, value).flatten(2)
    within, _ = stack.plans(x, line(6), Causal(), None, None)
    torch.testing.assert_close(x + attention.part.out(mixed), attention(x, within[0]))


@torch.no_grad()
def test_a_model_is_seen_while_it_writes_step_by_step() -> None:
    model, cache = translator(), Growing()
    memory = model.encode(Tokens.padded([[1, 2, 3]]))
    with recording(model) as seen:
        for t in range(3):
            model.decoder(Tokens(torch.tensor([[t]]), line(1, t)), memory, cache)
    steps = [each for each in seen if each.layer == "decoder.stack.blocks.0.self_attention"]
    assert [each.weights.shape[-1] for each in steps] == [1, 2, 3]
