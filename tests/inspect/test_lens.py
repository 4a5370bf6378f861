"""What would be said after each layer is what the head makes of the states there."""

import pytest
import torch
from payloads import read_payload

from manyheads.inspect.lens import find_last_stack, leaving_early
from manyheads.models import load
from manyheads.modules.transformer import Tokens

TEXT, WRITTEN = "Ein Hund rennt.", "A dog is running."


def test_the_states_after_each_layer_are_read_by_the_norm_and_the_head() -> None:
    model = load("de-en", "cpu")
    header, _ = read_payload(model.inspect(TEXT, WRITTEN).payload())
    (reads, writes), codecs = model.special_tokens, model.task.codecs
    source = Tokens.padded([[*codecs.source.encode(TEXT), reads.eos]])
    target = Tokens.padded([[*writes.bos, *codecs.target.encode(WRITTEN)]])
    stack, states = model.network.decoder.stack, list[torch.Tensor]()
    hooks = [
        block.register_forward_pre_hook(lambda block, given: states.append(given[0]))
        for block in stack.blocks
    ]
    with torch.no_grad():
        model.network(source, target)
        each = [model.network.decoder.head(stack.norm(x))[0].softmax(-1) for x in states]
    for hook in hooks:
        hook.remove()
    assert len(header["lens"]) == len(each) == len(stack.blocks)
    wanted = [*codecs.target.encode(WRITTEN), writes.eos]
    for told, shares in zip(header["lens"], each, strict=True):
        assert [one[1] for one in told] == pytest.approx(shares.amax(-1).tolist(), abs=1e-4)
        own = [row[token].item() for row, token in zip(shares, wanted, strict=True)]
        assert [one[2] for one in told] == pytest.approx(own, abs=1e-4)


def test_layers_are_there_again_afterwards() -> None:
    model = load("de-en", "cpu")
    stack = find_last_stack(model.network)
    assert stack is model.network.decoder.stack
    before = model.translate(TEXT)
    with leaving_early(stack, 1):
        assert model.translate(TEXT) != before
    assert model.translate(TEXT) == before
