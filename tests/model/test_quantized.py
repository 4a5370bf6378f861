"""Products in 8 bits: near those of floats, and the same for a row alone as among others."""

import copy
import resource
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from manyheads import DecodingConfig, Embedding, Tied
from manyheads.devices import keep_freed_memory
from manyheads.modules import quantized
from manyheads.modules.build import build_encoder_decoder
from manyheads.modules.config import TransformerConfig
from manyheads.modules.quantized import Linear8, Tied8, quantize
from manyheads.modules.transformer import EncoderDecoder
from manyheads.tasks.seq2seq.writing import write_targets
from manyheads.training.weights import weights_of


@pytest.fixture
def network() -> EncoderDecoder:
    torch.manual_seed(0)
    shape = TransformerConfig(width=64, depth=2, heads=4, ffn_width=128)
    return build_encoder_decoder(shape, 90, 90, joint=True).eval()


@pytest.mark.parametrize(("width", "outputs"), [(32, 7), (192, 576), (768, 192)])
@pytest.mark.parametrize("bias", [True, False])
def test_a_product_is_near_that_of_floats(width: int, outputs: int, bias: bool) -> None:
    linear, x = nn.Linear(width, outputs, bias=bias), torch.randn(4, 9, width)
    wanted, found = linear(x), Linear8(linear)(x)
    assert found.shape == wanted.shape
    assert (found - wanted).norm() < 0.02 * wanted.norm()
    assert torch.equal(Linear8(linear)(x, slice(2, 5)), found[..., 2:5])


@pytest.mark.parametrize("outputs", [30, quantized.AT_ONCE // 8])
def test_a_row_is_the_same_alone_and_among_others_to_the_bit(outputs: int) -> None:
    linear, x = (
        Linear8(nn.Linear(48, outputs)),
        torch.randn(37, 48) * torch.logspace(-3, 3, 37)[:, None],
    )
    together = linear(x)
    assert all(torch.equal(linear(x[i : i + 1]), together[i : i + 1]) for i in range(37))


def test_where_a_cpu_has_no_such_products_the_sums_are_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    linear, x = Linear8(nn.Linear(192, 50)), torch.randn(20, 192)
    found = linear(x)
    monkeypatch.setattr(quantized, "FAST", False)
    assert torch.equal(linear(x), found)


def test_a_row_of_zeros_gives_the_bias() -> None:
    linear = nn.Linear(16, 5)
    assert torch.equal(Linear8(linear)(torch.zeros(1, 16))[0], linear.bias)


def test_an_embedding_is_read_backwards_in_8_bits() -> None:
    tied, x = Tied(Embedding(40, 32), bias=True), torch.randn(3, 32)
    assert (Tied8(tied)(x) - tied(x)).norm() < 0.02 * tied(x).norm()


def test_what_is_saved_of_a_network_in_8_bits_are_its_weights(network: EncoderDecoder) -> None:
    before = {name: weight.clone() for name, weight in weights_of(network).items()}
    after = weights_of(quantize(network))
    assert list(after) == list(before)
    assert all(torch.equal(after[name], weight) for name, weight in before.items())
    kinds = {type(module) for module in network.modules()}
    assert {Linear8, Tied8} <= kinds
    assert not {nn.Linear, Tied} & kinds


def test_weights_that_are_loaded_later_are_those_it_multiplies_by(network: EncoderDecoder) -> None:
    ids = torch.tensor([[3, 4, 5]])
    other = copy.deepcopy(network)
    for weight in other.parameters():
        torch.nn.init.normal_(weight)
    first, second = quantize(copy.deepcopy(network)), quantize(copy.deepcopy(other))
    with torch.no_grad():
        assert not torch.equal(first(ids, ids), second(ids, ids))
        first.load_state_dict(other.state_dict())
        assert torch.equal(first(ids, ids), second(ids, ids))


@pytest.mark.parametrize(
    ("most", "kept"), [(2**30, {-1: 2**30, -3: 2**30}), (2**25, {-1: 2**30, -3: 2**25}), (0, {})]
)
def test_memory_is_kept_as_far_as_the_library_lets_us(
    most: int, kept: dict[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Older ones refuse a gigabyte of one request, others than glibc know nothing of it."""
    found: dict[int, int] = {}

    def mallopt(what: int, size: int) -> int:
        if what == -3 and size > most:
            return 0
        found[what] = size
        return 1

    library = SimpleNamespace(mallopt=mallopt) if most else SimpleNamespace()
    monkeypatch.setattr("ctypes.CDLL", lambda name: library)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr("os.environ", {})
    assert keep_freed_memory() == bool(most)
    assert found == kept


def test_what_is_freed_is_used_again_without_new_pages() -> None:
    if not keep_freed_memory():
        pytest.skip("there is no glibc")
    counts = []
    for _ in range(6):
        torch.ones(2**22)
        counts.append(resource.getrusage(resource.RUSAGE_SELF).ru_minflt)
    # Of 4,096 pages; of several, as what else is held may have taken their place for once.
    assert min(later - before for before, later in pairwise(counts)) < 100


def test_sequences_of_like_length_are_written_alike_alone_and_together(
    network: EncoderDecoder,
) -> None:
    sources = [[5, 6, 7, 8], [9, 10, 11, 12], [13, 14, 15, 16]]
    how = DecodingConfig(beam=3, max_new_tokens=6)
    quantize(network)
    together = write_targets(network, sources, how)
    for source, (best,) in zip(sources, together, strict=True):
        ((alone,),) = write_targets(network, [source], how)
        assert alone.ids == best.ids
        assert alone.log_prob == pytest.approx(best.log_prob, abs=0.05)
