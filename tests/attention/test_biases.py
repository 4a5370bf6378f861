"""What is added to a score."""

import pytest
import torch

from manyheads import Causal, Clipped, Pairs, RelativeBias, RelativeContent, Work, line, plan
from manyheads.attention import biases
from manyheads.attention.biases import ContentBias, DistanceBias, Kind


def test_a_relative_table_under_many_rows_is_the_same_table() -> None:
    (bias,) = RelativeBias(2, Clipped(3)).biases(torch.zeros(1, 2, 5, 4))
    rows = bias.by_row(1.0)
    assert rows.shape == (1, 1, 2, 5, 7)
    assert (rows == rows[:, :, :, :1]).all()


@torch.no_grad()
@pytest.mark.parametrize("which", ["reference", "sdpa", "flex"])
def test_a_table_too_large_for_every_row_is_read_in_turn(
    which: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    relative, pairs = RelativeBias(2, Clipped(3)), Pairs(1, 2, line(9), line(9))
    work = Work(Causal(), pairs, channels=4, kinds=relative.kinds())
    q, k, v = torch.randn(3, 1, 2, 9, 4)
    wanted = plan("reference", work)(q, k, v, biases=relative.biases(q))
    monkeypatch.setattr(biases, "ROOM", 2 * relative.tables[0].numel())
    assert relative.biases(q)[0].by_row(1.0).shape[3] == 2
    found = plan(which, work)(q, k, v, biases=relative.biases(q))
    torch.testing.assert_close(found, wanted)


def test_what_a_bias_will_be_is_known_before_it_is() -> None:
    content = RelativeContent(4, Clipped(3), values=True)
    assert RelativeBias(2, Clipped(3)).kinds() == (Kind(DistanceBias, Clipped(3), 1),)
    assert content.kinds() == (Kind(ContentBias, Clipped(3), 1, values=True),)
    assert content.features == {"content bias", "value bias"}


def test_gradients_of_a_bias_are_summed_in_32_bits() -> None:
    """64 rows read one entry, and each counts."""
    relative = RelativeBias(1, Clipped(0)).to(torch.bfloat16)
    q = torch.randn(1, 1, 64, 4, dtype=torch.bfloat16)
    rows = relative.biases(q)[0].by_row(1.0)
    assert rows.dtype == torch.float32
    rows.expand(-1, -1, -1, 64, -1).sum().backward()
    assert relative.tables.grad is not None
    assert relative.tables.grad.item() == 64
