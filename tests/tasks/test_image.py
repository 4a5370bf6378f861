"""Images: a likelihood is a likelihood, and drawing is what it says."""

from collections import Counter
from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from manyheads.attention.patterns import Causal, Window
from manyheads.attention.places import grid
from manyheads.attention.positions import Relative, RelativeBias, RelativeContent, Rotary
from manyheads.attention.rules import Every
from manyheads.decoding.config import Sampling
from manyheads.modules.config import TransformerConfig
from manyheads.modules.stack import Stack
from manyheads.modules.transformer import Tokens
from manyheads.tasks.image.batches import ImageBatch, ImageBatches
from manyheads.tasks.image.codec import PixelCodec
from manyheads.tasks.image.drawing import ImageStep, draw_images
from manyheads.tasks.image.likelihood import LogisticMixture
from manyheads.tasks.image.network import PixelNetwork, build_image_network
from manyheads.tasks.image.recorded import ImageRecorder
from manyheads.tasks.image.settings import (
    ImageData,
    ImageRecipe,
    ImageTransformerConfig,
    image_network,
)
from manyheads.tasks.image.task import ImageTask
from manyheads.training.causality import largest_leak

SMALL = image_network(24, 2, 2, 0.0, neighbours=1)
BINARY = PixelCodec(2, 2, levels=2)
COLOUR = PixelCodec(8, 4, 3, levels=16)


def task_of(codec: PixelCodec, kind: str = "transformer", **network: Any) -> ImageTask:
    data = ImageData((".",), levels=codec.levels)  # type: ignore[arg-type]
    head = "mixture" if codec.whole else "categorical"
    made = ImageRecipe.network_of_kind("image", SMALL, kind)
    config = replace(made, head=head, mixtures=3, tile=codec.tile, **network)
    return ImageTask(ImageRecipe("image", data, config), codec)


def network_of(task: ImageTask) -> PixelNetwork:
    """With weights far from where they begin, so that everything matters."""
    torch.manual_seed(0)
    network = task.network().eval()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network


def every_image() -> torch.Tensor:
    """All sixteen of 2 x 2 in black and white."""
    return torch.tensor([*product((0, 1), repeat=4)], dtype=torch.uint8).view(-1, 2, 2, 1)


@pytest.mark.parametrize("tile", [0, 1])
def test_the_probabilities_of_all_images_add_up_to_one(tile: int) -> None:
    task = task_of(replace(BINARY, tile=tile))
    with torch.no_grad():
        logs = task.log_probs(network_of(task), ImageBatch(every_image()))
    assert logs.exp().sum().item() == pytest.approx(1, abs=1e-5)
    assert logs.exp().max() - logs.exp().min() > 0.01


def test_images_are_drawn_as_often_as_they_are_likely() -> None:
    task = task_of(BINARY)
    network, count = network_of(task), 4000
    with torch.no_grad():
        wanted = task.log_probs(network, ImageBatch(every_image())).exp()
    drawn = draw_images(network, BINARY, torch.zeros(count, 0).long(), None, Sampling())
    met = Counter(map(tuple, drawn.tolist()))
    found = torch.tensor([met[tuple(one.flatten().tolist())] / count for one in every_image()])
    assert (found - wanted).abs().max() < 4 * (0.25 / count) ** 0.5


def test_a_mixture_of_logistics_is_a_distribution_over_whole_pixels() -> None:
    mixture = LogisticMixture(levels=6, parts=3, count=4)
    torch.manual_seed(0)
    outputs = torch.randn(2, 1, mixture.outputs) * 3
    pixels = torch.tensor([*product(range(6), repeat=3)])  # (216, 3)
    logs = mixture.log_probs(outputs, pixels)  # (2, 216)
    torch.testing.assert_close(logs.exp().sum(1), torch.ones(2), atol=1e-5, rtol=0)
    chain = torch.zeros(2, 216)

    def choose(each: Tensor, part: int) -> Tensor:
        torch.testing.assert_close(each.exp().sum(-1), torch.ones(2, 216), atol=1e-5, rtol=0)
        value = pixels[:, part].expand(2, -1)
        chain.add_(each.gather(-1, value[..., None])[..., 0])
        return value

    chosen = mixture.choose_values(outputs.expand(2, 216, -1), choose)
    assert torch.equal(chosen, pixels.expand(2, -1, -1))
    torch.testing.assert_close(chain, logs, atol=1e-4, rtol=0)


def test_a_mixture_stays_finite_where_logistics_are_narrow_and_far_away() -> None:
    mixture = LogisticMixture(levels=256, parts=1, count=2)
    outputs = torch.tensor([[0.0, 0.0, 50.0, -50.0, 20.0, -20.0]], requires_grad=True)
    logs = mixture.log_probs(outputs.expand(256, -1), torch.arange(256)[:, None])
    logs.sum().backward()
    assert logs.isfinite().all()
    assert outputs.grad is not None
    assert outputs.grad.isfinite().all()


CODECS = {
    "values": COLOUR,
    "values in tiles": replace(COLOUR, tile=2),
    "pixels": replace(COLOUR, whole=True),
    "pixels in tiles, of classes": replace(COLOUR, whole=True, tile=4, classes=["a", "b"]),
    "pixels of small images": PixelCodec(8, 8, 3, levels=16, whole=True, small=2),
}


def asked_of(codec: PixelCodec) -> tuple[torch.Tensor | None, list[Tokens]]:
    """Classes and small images of two, where there are any."""
    small = torch.randint(codec.levels, (2, codec.small, codec.small, 3), dtype=torch.uint8)
    classes = torch.tensor([[0], [1]]) if codec.classes else None
    return classes, [codec.read_small(small)] if codec.small else []


@pytest.mark.parametrize("kind", CODECS)
def test_pixels_become_numbers_and_the_same_pixels_again(kind: str) -> None:
    codec = CODECS[kind]
    pixels = torch.randint(codec.levels, (3, *codec.shape), dtype=torch.uint8)
    assert torch.equal(codec.decode(codec.encode(pixels)), pixels)
    bright = codec.brighten(pixels)
    assert torch.equal(codec.quantize(bright), pixels)


def test_every_number_of_levels_becomes_bytes_and_the_same_levels_again() -> None:
    for count in range(2, 257):
        codec, levels = PixelCodec(1, count, levels=count), torch.arange(count, dtype=torch.uint8)
        bright = codec.brighten(levels)
        assert torch.equal(codec.quantize(bright), levels)
        assert (bright[0], bright[-1]) == (0, 255)


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize(
    "network",
    [
        {},
        {"neighbours": 0},
        {"pattern": "Blocks(8, 8)"},
        {"pattern": "Blocks((2, 2), (2, 1))"},
        {"kind": "recurrent"},
        {"kind": "convolutional", "depth": 4},
    ],
    ids=str,
)
def test_token_by_token_is_the_same_as_all_at_once(kind: str, network: dict[str, Any]) -> None:
    codec = CODECS[kind]
    if codec.small and "kind" in network:
        pytest.skip("small images are read by a transformer")
    made = network_of(task_of(codec, **network))
    ids = codec.shift(codec.encode(torch.randint(codec.levels, (2, *codec.shape))))
    classes, small = asked_of(codec)
    with torch.no_grad():
        whole = made(*small, Tokens(ids, codec.places, types=classes))
        step = ImageStep(made, codec, made.condition(classes, *small or [None]))
        parts = [step.read(ids[:, :5]), *(step.read(one) for one in ids[:, 5:].split(1, 1))]
    torch.testing.assert_close(torch.cat(parts, 1), whole, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", CODECS)
def test_weights_of_any_precision_give_nearly_the_same_scores(kind: str) -> None:
    codec = CODECS[kind]
    made = network_of(task_of(codec))
    ids = codec.shift(codec.encode(torch.randint(codec.levels, (2, *codec.shape))))
    classes, small = asked_of(codec)
    tokens = Tokens(ids, codec.places, types=classes)
    with torch.no_grad():
        single, double, half = (
            made.to(dtype)(*small, tokens).double()
            for dtype in (torch.float32, torch.float64, torch.bfloat16)
        )
    torch.testing.assert_close(single, double, atol=2e-4, rtol=1e-4)
    assert (half - double).abs().mean() < 0.1 * double.abs().mean()


WIDE = PixelCodec(12, 16, 3, levels=16, whole=True)
LOCAL = {
    "1D, two blocks": (WIDE, "Blocks(32, 32)", 64),
    "2D, row by row": (WIDE, "Blocks((4, 4), (4, 4))", 8 * 16),
    "2D, a row of tiles and two": (replace(WIDE, tile=4), "Blocks((4, 4), (4, 4))", 6 * 16),
    "values in tiles": (replace(WIDE, rows=8, tile=4, whole=False), "Blocks((4, 4), (4, 4))", 288),
}


@pytest.mark.parametrize("kind", LOCAL)
def test_a_ring_of_what_can_still_be_seen_is_the_same_as_all_at_once(kind: str) -> None:
    codec, pattern, slots = LOCAL[kind]
    network = network_of(task_of(codec, pattern=pattern))
    ids = codec.shift(codec.encode(torch.randint(codec.levels, (2, *codec.shape))))
    ring, growing = (ImageStep(network, codec, None) for _ in range(2))
    growing.cache = network.new_cache()
    with torch.no_grad():
        whole = network(Tokens(ids, codec.places))
        kept, grown = (step.read(ids[:, :100]) for step in (ring, growing))
        more = [
            torch.cat([step.read(one) for one in ids[:, 100:].split(1, 1)], 1)
            for step in (ring, growing)
        ]
    for one in (torch.cat([kept, more[0]], 1), torch.cat([grown, more[1]], 1)):
        torch.testing.assert_close(one, whole, atol=2e-4, rtol=1e-4)
    assert {key.shape[2] for key, _ in ring.cache.own.values()} == {slots}  # type: ignore[attr-defined]
    assert slots < codec.tokens


def test_a_ring_keeps_all_where_a_layer_sees_all() -> None:
    network = network_of(task_of(WIDE, pattern=["Everything()", "Blocks(32, 32)"]))
    assert network.make_ring(WIDE.places) is None
    assert network_of(task_of(COLOUR, "recurrent")).make_ring(COLOUR.places) is None


@pytest.mark.parametrize("kind", ["1D, two blocks", "2D, a row of tiles and two"])
def test_a_recorded_ring_completes_an_image_as_a_plain_one_does(kind: str) -> None:
    codec, pattern, _ = LOCAL[kind]
    network = network_of(task_of(codec, pattern=pattern))
    begin = torch.arange(180).view(2, 90) % codec.levels
    how = Sampling(temperature=0.8, seed=5)
    wanted = draw_images(network, codec, begin, None, how)
    with torch.no_grad():
        drawn = ImageRecorder(network, codec, None, how, 2).draw(begin, None, range(2))
    assert torch.equal(drawn, wanted)
    assert torch.equal(drawn[:, :90], begin)


@pytest.mark.parametrize("kind", CODECS)
@pytest.mark.parametrize(("given", "fused"), [(0, False), (9, False), (9, True)])
def test_a_recorded_step_draws_the_same_images(kind: str, given: int, fused: bool) -> None:
    codec = CODECS[kind]
    network = network_of(task_of(codec))
    begin = torch.arange(2 * given).view(2, given)
    classes, small = asked_of(codec)
    how = Sampling(temperature=0.8, top_p=0.9, seed=5)
    with torch.no_grad():
        condition = network.condition(classes, *small or [None])
        wanted = draw_images(network, codec, begin, condition, how)
        if fused:
            network.writer.stack.fused = True
        recorder = ImageRecorder(network, codec, condition, how, 2)
        for _ in range(2):  # one recording, however often it is used
            drawn = recorder.draw(begin, condition, range(2))
            assert torch.equal(drawn, wanted)


def test_a_recorded_step_says_of_images_what_a_plain_one_does() -> None:
    codec = CODECS["pixels in tiles, of classes"]
    network = network_of(task_of(codec))
    condition = network.condition(torch.tensor([[0], [1]]), None)
    ids = codec.shift(codec.encode(torch.randint(codec.levels, (2, *codec.shape))))
    plain, recorder = (
        ImageStep(network, codec, condition),
        ImageRecorder(network, codec, condition.flip(0), Sampling(), 2),
    )
    recorder.start(condition)
    for new in ids.split(1, 1):
        torch.testing.assert_close(recorder(new), plain(new), atol=2e-4, rtol=1e-4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="a GPU records")
@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("pattern", ["Everything()", "Blocks(32, 32)", "Blocks((4, 4), (4, 4))"])
def test_a_step_that_a_gpu_has_recorded_says_what_all_at_once_does(
    pattern: str, fused: bool
) -> None:
    codec = replace(WIDE, tile=4)
    network = network_of(task_of(codec, pattern=pattern, width=64)).cuda()
    ids = codec.shift(codec.encode(torch.randint(codec.levels, (2, *codec.shape)))).cuda()
    network.writer.stack.fused = fused
    recorder = ImageRecorder(network, codec, None, Sampling(), 2)
    with torch.no_grad():
        whole = network(Tokens(ids, codec.on(ids.device)[0]))
    steps = [recorder(new).clone() for new in ids.split(1, 1)]
    torch.testing.assert_close(torch.stack(steps, 1), whole, atol=2e-2, rtol=1e-2)
    drawn = draw_images(network, codec, ids[:, :0], None, Sampling())
    again = draw_images(network, codec, ids[:, :0], None, Sampling())
    assert torch.equal(drawn, again)


def test_a_pixel_lies_in_the_small_one_that_is_the_mean_of_its_square() -> None:
    codec = replace(CODECS["pixels of small images"], tile=4)
    small = torch.randint(16, (1, 2, 2, 3), dtype=torch.uint8)
    large = small.repeat_interleave(4, 1).repeat_interleave(4, 2)
    assert torch.equal(codec.shrink(large), small)
    below = codec.read_small(small).ids[:, codec.find_below()]
    assert torch.equal(below, codec.encode(large))


@pytest.mark.parametrize("kind", CODECS)
def test_what_is_near_is_what_was_drawn_there(kind: str) -> None:
    """Each token reads of its neighbours those that come before it, and itself never."""
    codec = CODECS[kind]
    near, at = codec.find_nearby(1), codec.places
    assert (near <= at.order[:, None]).all()
    for token in range(0, codec.tokens, 7):
        others = (near[token, 1:][near[token, 1:] > 0] - 1).tolist()
        for other in others:
            apart = [abs(int(axis[other] - axis[token])) for axis in at.axes]
            assert max(apart[:2]) == 1
            assert not any(apart[2:])
        rows, columns = (axis - axis[token] for axis in at.axes[:2])
        close = (rows.abs().maximum(columns.abs()) == 1) & (at.order < token)
        for axis in at.axes[2:]:
            close &= axis == axis[token]
        assert len(others) == int(close.sum())


RELATIVES: dict[str, Relative] = {
    "rotary": Rotary(100),
    "bias": RelativeBias(2, Every(9), axes=2),
    "content": RelativeContent(8, Every(9), axes=2),
}


@pytest.mark.parametrize("name", RELATIVES)
def test_shifting_a_picture_shifts_what_relative_attention_computes(name: str) -> None:
    """Two layers that see one row and column around; away from what comes in at the edges."""
    torch.manual_seed(0)
    config = TransformerConfig(width=16, depth=2, heads=2, dropout=0.0, position=None)
    stack = Stack.of(config, Causal() & Window(1), relative=RELATIVES[name]).eval()
    picture = torch.randn(9, 9, 16)
    moved = picture.roll((1, 2), (0, 1))
    with torch.no_grad():
        states = stack(torch.stack([picture, moved]).flatten(1, 2), grid(9, 9)).view(2, 9, 9, 16)
    inner = states[0, 2:-1, 2:-4], states[1, 3:, 4:-2]
    torch.testing.assert_close(*inner, atol=1e-4, rtol=1e-4)
    assert (states[0, 2:-1, 2:-4] - states[1, 2:-1, 2:-4]).abs().max() > 0.1


def test_an_epoch_is_the_same_again_and_draws_black_and_white_anew_in_each() -> None:
    pixels = np.arange(256, dtype=np.uint8).reshape(16, 4, 4, 1)
    codec = PixelCodec(4, 4, levels=2)
    batches = ImageBatches(pixels, None, codec, 16 * 5, flip=True, sample=True)
    first, again, next_one = batches.epoch(0), batches.epoch(0), batches.epoch(1)
    assert [len(rows) for rows in first] == [5, 5, 5]
    for one, other in zip(first, again, strict=True):
        assert torch.equal(batches.batch(one).pixels, batches.batch(other).pixels)
    assert not np.array_equal(first[0], next_one[0])
    bright = torch.stack([batches.batch(rows).pixels.float().mean() for rows in first]).mean()
    assert 0.3 < bright < 0.7
    seen = np.concatenate([rows[:, 0] for rows in batches.whole()])
    assert np.array_equal(seen, np.arange(16))


@pytest.mark.parametrize("kind", ["transformer", "recurrent", "convolutional"])
def test_a_share_without_images_adds_nothing_to_a_step(kind: str) -> None:
    pixels = np.zeros((1, *COLOUR.shape), np.uint8)
    batches, task = ImageBatches(pixels, None, COLOUR, 999), task_of(COLOUR, kind)
    (rows,) = batches.epoch(0)
    network, none = network_of(task), batches.batch(batches.share(rows, 1, 2))
    assert largest_leak(network, lambda: task.loss(network, none)) == 0
    loss = task.loss(network, none)["loss"]
    loss.backward()
    assert loss == 0
    assert not any(p.grad is not None and p.grad.any() for p in network.parameters())


def test_an_image_and_its_mirror_image_are_both_met() -> None:
    pixels = np.zeros((64, 1, 2, 1), np.uint8)
    pixels[:, 0, 1] = 200
    batches = ImageBatches(pixels, None, PixelCodec(1, 2), 128, flip=True)
    (rows,) = batches.epoch(0)
    met = batches.batch(rows).pixels[:, 0, :, 0].tolist()
    assert {tuple(one) for one in met} == {(0, 200), (200, 0)}
    assert pixels[:, 0, 1].min() == 200  # what is learned from stays as it is


@pytest.mark.parametrize("whole", [True, False], ids=["pixels", "values"])
@pytest.mark.parametrize("tile", [0, 4], ids=["row by row", "tile by tile"])
def test_a_token_is_told_the_mean_that_the_rest_of_its_block_must_have(
    whole: bool, tile: int
) -> None:
    codec = PixelCodec(8, 8, 3, whole=whole, tile=tile, small=2)
    head: Any = "mixture" if whole else "categorical"
    config = ImageTransformerConfig(width=16, depth=1, heads=2, head=head, neighbours=1)
    network = build_image_network(config, codec)
    torch.manual_seed(0)
    pixels = torch.randint(0, 256, (2, 8, 8, 3), dtype=torch.uint8)
    ids, small, told = codec.encode(pixels), codec.shrink(pixels), list[Tensor]()
    network.writer.embedding.rest.register_forward_pre_hook(lambda _, given: told.append(given[0]))
    at, _ = codec.on(ids.device)
    network(codec.read_small(small), Tokens(codec.shift(ids), at))
    levels, drawn = (told[0] + 1) * 255 / 2, (codec.find_block() > 0).sum(1)
    last, first = drawn == 15, drawn == 0
    assert last.sum() == first.sum() == (4 if whole else 12)
    # A small value is rounded: by half a level at most, 16 pixels by 8.
    assert (levels - codec.split(ids))[:, last].abs().max() < 8.01
    values = codec.small_codec.split(codec.small_codec.encode(small))  # (B, 4, 3)
    found = levels[:, first].flatten(1).sort(1).values
    torch.testing.assert_close(found, values.flatten(1).sort(1).values.float(), atol=1e-2, rtol=0)
