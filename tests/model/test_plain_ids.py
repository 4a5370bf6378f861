"""A network reads plain ids as it reads Tokens, and shows what its heads look at."""

from typing import Any

import pytest
import torch
from designs import network_of
from torch import nn

from manyheads.attention.places import line
from manyheads.inspect.record import recording
from manyheads.modules.build import (
    build_classifier,
    build_decoder,
    build_encoder,
    build_encoder_decoder,
)
from manyheads.modules.transformer import Tokens

ROWS = [[5, 6, 7, 8], [9, 3], [4, 4, 4]]
PADDED, LENGTHS = Tokens.padded(ROWS), [len(row) for row in ROWS]
SMALL: dict[str, Any] = {"width": 16, "depth": 2, "heads": 2, "ffn_width": 32}
KINDS = ("transformer", "recurrent", "convolutional")


def alone() -> list[tuple[str, nn.Module]]:
    torch.manual_seed(0)
    found = [(f"{kind} encoder", build_encoder(network_of(kind, **SMALL), 20)) for kind in KINDS]
    found += [
        (f"{kind} decoder", build_decoder(network_of(kind, **SMALL), 20)) for kind in KINDS[:2]
    ]
    found += [
        (f"{kind} reader", build_classifier(network_of(kind, **SMALL), 20, 3)) for kind in KINDS
    ]
    return [(name, network.eval()) for name, network in found]


def both() -> list[tuple[str, nn.Module]]:
    torch.manual_seed(0)
    made = [
        (kind, build_encoder_decoder(network_of(kind, **SMALL), 20, 20, joint=True))
        for kind in KINDS
    ]
    return [(name, network.eval()) for name, network in made]


@pytest.mark.parametrize(("name", "network"), alone())
def test_ids_and_lengths_are_read_as_tokens_are(name: str, network: nn.Module) -> None:
    whole = Tokens.padded([row[:2] for row in ROWS])
    with torch.no_grad():
        assert torch.equal(network(whole.ids), network(whole))
        wanted = network(PADDED)
        assert torch.equal(network(PADDED.ids, lengths=LENGTHS), wanted)
        assert torch.equal(network(PADDED.ids, lengths=torch.tensor(LENGTHS)), wanted)


@pytest.mark.parametrize(("name", "network"), both())
def test_a_source_and_a_target_are_too(name: str, network: nn.Module) -> None:
    target = Tokens.padded([[1, 2], [1], [1, 3]])
    with torch.no_grad():
        wanted = network(PADDED, target)
        found = network(PADDED.ids, target.ids, lengths=LENGTHS, target_lengths=[2, 1, 2])
        assert torch.equal(found, wanted)
        memory = network.encode(PADDED.ids, LENGTHS)
        assert torch.equal(memory.states, network.encode(PADDED).states)


@pytest.mark.parametrize(("name", "network"), [*alone()[:1], *alone()[3:4], *both()])
def test_compiled_it_reads_ids_as_well(name: str, network: nn.Module) -> None:
    torch.compiler.reset()
    inputs = (PADDED.ids, PADDED.ids[:, :2]) if hasattr(network, "decoder") else (PADDED.ids,)
    quick = torch.compile(network, backend="eager")
    with torch.no_grad():
        wanted = network(*inputs, lengths=LENGTHS)
        assert torch.allclose(quick(*inputs, lengths=LENGTHS), wanted, atol=1e-6)


def test_attention_weights_are_what_recording_sees() -> None:
    (_, network), *_ = both()
    target = torch.tensor([[1, 2]] * 3)
    with recording(network) as seen, torch.no_grad():
        network(PADDED, Tokens.padded(target.tolist()))
    found = network.attention_weights(PADDED.ids, target, lengths=LENGTHS)
    assert [*found] == [one.layer for one in seen]
    assert all(torch.equal(found[one.layer], one.weights) for one in seen)
    assert found["decoder.stack.blocks.1.cross_attention"].shape == (3, 2, 2, 4)
    assert found["encoder.stack.blocks.0.self_attention"][1, 0, 0, 2:].tolist() == [0, 0]


@pytest.mark.parametrize("lengths", [[-3, 1], [2, 9]])
def test_lengths_that_cannot_be_are_refused(lengths: list[int]) -> None:
    _, network = alone()[0]
    with pytest.raises(ValueError, match="of 3 ids 0 to 3 count, lengths say"):
        network(torch.tensor([[4, 5, 6], [4, 5, 6]]), lengths=lengths)


@pytest.mark.parametrize(("name", "network"), alone())
@pytest.mark.parametrize("kind", [torch.float32, torch.bool, torch.uint8], ids=str)
def test_ids_that_are_no_whole_numbers_of_a_table_are_refused(
    name: str, network: nn.Module, kind: torch.dtype
) -> None:
    sentence = f"words are numbers of torch.int64 or torch.int32, {kind} arrived; .long()"
    with pytest.raises(ValueError, match=sentence):
        network(torch.ones(2, 3, dtype=kind))


def test_token_types_are_rows_of_their_table() -> None:
    network = build_encoder(network_of("transformer", **SMALL, token_types=2), 20)
    ids = torch.ones(2, 3, dtype=torch.long)
    for types, sentence in (
        (ids.float(), "types are numbers of torch.int64 or torch.int32, torch.float32"),
        (ids + 1, "types are numbered 0 to 1, 2 arrived"),
    ):
        with pytest.raises(ValueError, match=sentence):
            network(Tokens(ids, line(3), types=types))
