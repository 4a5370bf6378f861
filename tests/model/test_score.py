"""A network that knows voices, steps and pitches, however its tokens come to it."""

from typing import Any

import pytest
import torch
from torch import Tensor

from manyheads.attention.cache import Growing, Static
from manyheads.attention.places import grid, line
from manyheads.attention.positions import Sinusoidal
from manyheads.decoding.bounds import Bounds
from manyheads.decoding.cuda_graph import CudaGraphDecoder
from manyheads.decoding.sample import Sampling, sample
from manyheads.decoding.step import CachedStep
from manyheads.modules.build import build_decoder
from manyheads.modules.config import TransformerConfig
from manyheads.modules.transformer import Decoder, Tokens
from manyheads.tasks.music.chorales import Chorales
from manyheads.tasks.music.codec import MusicCodec
from manyheads.tasks.music.network import MusicDecoder, Timed, music_decoder
from manyheads.tasks.music.performance import Performance
from manyheads.tasks.music.settings import MusicTransformerConfig

SMALL: dict[str, Any] = {"width": 16, "depth": 2, "heads": 2, "ffn_width": 24, "dropout": 0.0}
SCORE: dict[str, Any] = {"relative": "ScoreContent(16)", "position": None}
DESIGNS: list[dict[str, Any]] = [
    {"token_types": 4, "position": "Rotary()"},
    {
        "token_types": 4,
        "relative": "RelativeContent(every=64)",
        "position": None,
    },
    {**SCORE, "relative": "ScoreContent(every=64)"},
    {**SCORE, "relative": "ScoreContent(3)", "token_types": 4},
    {**SCORE, "position": "Sinusoidal()"},
    {**SCORE, "position": "Learned(64)", "relative": "ScoreContent(every=64)", "token_types": 4},
    {**SCORE, "pattern": "Window(5)"},
]


def built(design: dict[str, Any], codec: MusicCodec = Chorales()) -> Any:
    torch.manual_seed(0)
    network = MusicTransformerConfig(**SMALL, **design)
    return music_decoder(network, codec.size, codec.pitches(), codec.beat).double().eval()


def chords(batch: int, length: int, seed: int = 0) -> Tensor:
    """A start, and pitches as they come."""
    chance = torch.Generator().manual_seed(seed)
    ids = torch.randint(40, 90, (batch, length), generator=chance)
    ids[:, 0] = 1
    return ids


@torch.no_grad()
def whole(network: Any, ids: Tensor) -> Tensor:
    return network(Tokens(ids, line(ids.shape[1])))


# ---- the same however it is read -------------------------------------------------------------


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_a_cached_step_is_the_full_pass(design: dict[str, Any]) -> None:
    network, ids = built(design), chords(3, 14)
    step = CachedStep(network)
    scores = [step(some) for some in ids.split([5, 1, 1, 3, 1, 1, 2], 1)]
    meant = whole(network, ids)[:, [4, 5, 6, 9, 10, 11, 13]]
    torch.testing.assert_close(torch.stack(scores, 1), meant)


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@torch.no_grad()
def test_pieces_that_share_a_row_are_read_as_if_alone(design: dict[str, Any]) -> None:
    network = built(design)
    one, two, three = (chords(1, n, seed=n)[0].tolist() for n in (9, 13, 6))
    scores = network(Tokens.packed([[one, two], [three]], 24))
    alone = [whole(network, torch.tensor([ids]))[0] for ids in (one, two, three)]
    torch.testing.assert_close(scores[0, :22], torch.cat(alone[:2]))
    torch.testing.assert_close(scores[1, :6], alone[2])


@pytest.mark.parametrize("design", DESIGNS, ids=str)
@torch.no_grad()
def test_a_piece_is_read_as_if_alone_where_shorter_ones_are_filled_up(
    design: dict[str, Any],
) -> None:
    network = built(design)
    each = [chords(1, n, seed=n)[0].tolist() for n in (9, 13, 6)]
    scores = network(Tokens.padded(each))
    for row, ids in zip(scores, each, strict=True):
        torch.testing.assert_close(row[: len(ids)], whole(network, torch.tensor([ids]))[0])


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_sequences_that_are_chosen_go_on_with_their_own_pitches(design: dict[str, Any]) -> None:
    network, ids = built(design), chords(3, 12)
    step = CachedStep(network)
    step(ids[:, :7])
    rows = torch.tensor([2, 0, 2, 1])
    step.select(rows)
    again = ids[rows]
    torch.testing.assert_close(step(again[:, 7:8]), whole(network, again[:, :8])[:, -1])
    turn = torch.tensor([1, 1, 0, 3])
    step.reorder(turn)
    mixed = torch.cat([again[turn, :8], again[:, 8:]], 1)
    torch.testing.assert_close(step(mixed[:, 8:]), whole(network, mixed)[:, -1])


def test_one_sequence_becomes_a_beam() -> None:
    network, ids = built(SCORE), chords(1, 6)
    step = CachedStep(network)
    step(ids)
    step.select(torch.zeros(3, dtype=torch.long))
    new = torch.tensor([[50], [60], [70]])
    each = torch.cat([ids.expand(3, -1), new], 1)
    torch.testing.assert_close(step(new), whole(network, each)[:, -1])


@pytest.mark.parametrize("design", DESIGNS, ids=str)
def test_a_future_token_changes_nothing_before_it(design: dict[str, Any]) -> None:
    network, ids = built(design), chords(1, 12)
    other = ids.clone()
    other[0, 7] += 5
    changed = (whole(network, ids) != whole(network, other)).any(-1)[0]
    assert changed.nonzero()[0].item() == 7


def test_voices_are_told_apart_in_recorded_steps_too() -> None:
    network = built({"token_types": 4, "position": "Rotary()"})
    start, bounds = chords(2, 6), Bounds(2, longest=9, never=(0, 1))
    drawn = sample(CachedStep(network), start, bounds, Sampling(seed=3))
    recorded = CudaGraphDecoder(network, 2, 15).sample(start, bounds, Sampling(seed=3))
    assert [one.ids for one in recorded] == [one.ids for one in drawn]


def test_a_static_cache_is_refused_where_pitches_are_measured() -> None:
    network = built(SCORE)
    with pytest.raises(ValueError) as error:
        CachedStep(network, cache=Static(line(16)))(chords(1, 4))
    assert str(error.value) == (
        "a Static cache knows the places of its slots and not the pitches that will be in them; "
        "a Growing cache would do, or a network without ScoreContent"
    )


# ---- what it knows ---------------------------------------------------------------------------


@torch.no_grad()
def test_it_knows_how_far_apart_two_pitches_are() -> None:
    """Words a fifth apart look alike here, so that only the distances of pitches are left."""
    network = built(SCORE)
    weight = network.embedding.table.weight
    weight.copy_(weight[torch.arange(len(weight)) % 7].clone())
    ids = chords(1, 8)
    ids[0, 0] = 60  # a start would stand at pitch 0
    one_higher, all_higher = ids.clone(), ids + 7
    one_higher[0, 3] += 7
    scores = whole(network, ids)
    assert (whole(network, one_higher) - scores).abs()[0, 7].max() > 1e-6
    torch.testing.assert_close(whole(network, all_higher), scores)


@torch.no_grad()
def test_a_token_s_voice_is_its_turn() -> None:
    """With words that all look alike and nothing before them seen, only the voice is left."""
    network = built({"token_types": 4, "position": None, "pattern": "Window(0)"})
    weight = network.embedding.table.weight
    weight.copy_(weight[:1].clone())
    scores = whole(network, chords(1, 9))[0]
    torch.testing.assert_close(scores[1:5], scores[5:9])
    torch.testing.assert_close(scores[0], scores[4])  # the start has the place of a last voice
    assert all((scores[1] - scores[i]).abs().max() > 1e-6 for i in (2, 3, 4))


def test_places_are_time_step_and_pitch() -> None:
    network = built(SCORE)
    ids = torch.tensor([[1, 76, 71, 68, 3, 78, 2]])
    at, _ = network.places_and_types(ids, line(7))
    assert [axis.tolist() for axis in at.axes] == [
        [0, 1, 2, 3, 4, 5, 6],
        [0, 1, 1, 1, 1, 2, 2],
        [[0, 72, 67, 64, 0, 74, 0]],
    ]
    assert at.sizes == (7, 3, 128)
    assert all(int(axis.max()) < size for axis, size in zip(at.axes, at.sizes, strict=True))


def test_events_have_no_steps_of_several_voices() -> None:
    codec = Performance()
    network = built(SCORE, codec)
    ids = torch.tensor([codec.pitches().index(60), codec.velocity, codec.pitches().index(61)])[None]
    at, _ = network.places_and_types(ids, line(3))
    assert [axis.tolist() for axis in at.axes] == [[0, 1, 2], [[60, 0, 61]]]
    step = CachedStep(network)
    scores = torch.stack([step(ids[:, i : i + 1]) for i in range(3)], 1)
    torch.testing.assert_close(scores, whole(network, ids))


def test_a_position_below_the_first_layer_sees_only_the_time() -> None:
    x, at = torch.randn(2, 6, 16), grid(6, 1)
    assert len(at.axes) == 2
    torch.testing.assert_close(Timed(Sinusoidal())(x, at), Sinusoidal()(x, line(6)))


def test_every_table_learns() -> None:
    network = built({**SCORE, "token_types": 4}).train()
    network(Tokens(chords(2, 12), line(12))).logsumexp(-1).sum().backward()
    gradients = {n: p.grad for n, p in network.named_parameters()}
    tables = {n: g for n, g in gradients.items() if "key_tables" in n or "types" in n}
    assert len(tables) == 3
    for gradient in tables.values():
        assert gradient is not None
        assert all(part.abs().sum() > 0 for part in gradient)


def test_pitches_are_no_weights() -> None:
    network = built(SCORE)
    assert not any("pitch" in name for name in network.state_dict())
    assert network.pitch_of.tolist() == Chorales().pitches()


# ---- which network is built ------------------------------------------------------------------


def test_only_music_is_read_as_a_score() -> None:
    codec = Chorales()
    plain = music_decoder(
        TransformerConfig(**SMALL, position="Rotary()"), codec.size, codec.pitches(), 4
    )
    assert type(plain) is Decoder
    assert type(build_decoder(TransformerConfig(**SMALL, token_types=4), 9)) is Decoder
    assert isinstance(built({"token_types": 4}), MusicDecoder)
    with pytest.raises(ValueError, match=r"relative: there is no position 'ScoreContent'"):
        TransformerConfig(**SMALL, **SCORE)


def test_all_distances_are_enough_for_all_pitches() -> None:
    network = built({**SCORE, "relative": "ScoreContent(every=16)"})
    tables = network.stack.blocks[0].self_attention.part.relative.key_tables
    assert tables.shape == (3, 2, 2 * 128 - 1, 8)


def test_music_on_anything_but_a_line_is_refused() -> None:
    with pytest.raises(ValueError, match="music is read along a line, but a grid of 2 axes"):
        built(SCORE)(Tokens(chords(1, 6), grid(2, 3)))


def test_a_cache_of_lines_keeps_its_places() -> None:
    cache = Growing()
    cache.reach(line(3), 2)
    cache.extend(0, *[torch.zeros(2, 1, 3, 4)] * 2)
    cache.reorder(torch.tensor([1, 0]))
    places, _ = cache.reach(line(1, start=3), 2)
    assert (len(places), places.first) == (4, 0)
