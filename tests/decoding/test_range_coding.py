"""A range coder gives back what it was given, in as many bits as that is unlikely."""

import numpy as np
import pytest
import torch

from manyheads.decoding.range_coding import RangeDecoder, RangeEncoder, count_symbols


@pytest.mark.parametrize("sharp", [0.1, 3.0, 30.0])
def test_symbols_come_back_in_as_many_bits_as_they_are_unlikely(sharp: float) -> None:
    torch.manual_seed(0)
    logs = (sharp * torch.randn(500, 4, 7)).log_softmax(-1)  # 500 times 4 symbols of 7 values
    symbols = torch.distributions.Categorical(logits=logs).sample()
    encoder = RangeEncoder()
    for some, said in zip(symbols, logs, strict=True):
        encoder.encode(count_symbols(said), some)
    written = encoder.finish()
    decoder = RangeDecoder(written)
    again = torch.stack([decoder.decode(count_symbols(said)) for said in logs])
    assert torch.equal(again, symbols)
    bits = -logs.gather(-1, symbols[..., None]).sum() / np.log(2)
    assert bits - 8 < 8 * len(written) < 1.001 * bits + 24


def test_what_is_most_unlikely_can_be_said_and_carries_run_through() -> None:
    logs = torch.tensor([[0.0, -1e9]])
    for symbols in (torch.zeros(3000).long(), torch.ones(3000).long(), torch.arange(3000) % 2):
        encoder = RangeEncoder()
        for symbol in symbols:
            encoder.encode(count_symbols(logs), symbol[None])
        decoder = RangeDecoder(encoder.finish())
        assert [int(decoder.decode(count_symbols(logs))[0]) for _ in symbols] == symbols.tolist()
