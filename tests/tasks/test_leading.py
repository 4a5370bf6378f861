"""What makes parallels and crossings dear."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor
from tunes import chorale, singer

from manyheads.tasks.music.chorales import SILENCE
from manyheads.tasks.music.leading import VoiceLeading
from manyheads.tasks.music.notes import PITCHES
from manyheads.tasks.music.statistics import Statistics

BEFORE = [67, 64, 60, 48]  # a fifth from soprano to tenor, octaves from tenor to bass


class Even:
    """All tokens alike."""

    def __call__(self, ids: Tensor) -> Tensor:
        return torch.zeros(len(ids), SILENCE + 1 + PITCHES)

    def select(self, rows: Tensor) -> None: ...
    def reorder(self, rows: Tensor) -> None: ...


def costs(*steps: list[int], penalty: float = 3.0) -> list[float]:
    """Of each pitch, as the next of a step that has begun."""
    ids = [1, *(pitch + SILENCE + 1 for step in steps for pitch in step)]
    scores = VoiceLeading(Even(), penalty)(torch.tensor([ids]))
    assert scores[0, : SILENCE + 1].tolist() == [0.0] * (SILENCE + 1)
    return (-scores[0, SILENCE + 1 :]).tolist()


def dear(found: list[float], where: Callable[[int], bool]) -> bool:
    return all((cost > 0) == where(pitch) for pitch, cost in enumerate(found))


def test_a_fifth_after_a_fifth_and_an_octave_after_an_octave_are_dear() -> None:
    tenor = costs(BEFORE, [69, 65])
    assert tenor[62] == 3.0  # a fifth under the soprano, and it was one before
    assert tenor[60] == tenor[57] == 0.0  # held, or another interval
    assert costs(BEFORE, [67, 65])[55] == 0.0  # the soprano does not move
    bass = costs(BEFORE, [69, 65, 62])
    assert bass[50] == 6.0  # an octave under the tenor after an octave, a fifth under the soprano
    assert bass[45] == 0.0


def test_a_pitch_over_a_higher_voice_is_dear_for_each_it_crosses() -> None:
    assert dear(costs([67]), lambda pitch: pitch > 67)
    tenor = costs([67, 64])
    assert (tenor[64], tenor[65], tenor[67], tenor[68]) == (0.0, 3.0, 3.0, 6.0)


def test_what_is_held_is_not_dear_again() -> None:
    crossed = [64, 67, 60, 48]
    alto = costs(crossed, [64])
    assert alto[67] == 0.0
    assert alto[68] == 3.0
    assert costs(crossed, [62])[67] == 3.0


def test_rests_neither_cross_nor_follow() -> None:
    rest = -1
    assert not any(costs([rest]))
    assert dear(costs([rest, 64, 60, 48], [69]), lambda pitch: pitch > 69)
    assert dear(costs([67, 64, rest, 48], [69, 66]), lambda pitch: pitch > 66)


def test_it_is_the_same_however_tokens_come_and_rows_go() -> None:
    ids = torch.tensor([[1, *(p + SILENCE + 1 for p in (*BEFORE, 69, 65))]] * 3)
    ids[1, -1] += 2
    whole, parts = VoiceLeading(Even(), 2.0), VoiceLeading(Even(), 2.0)
    wanted = whole(ids)
    for token in ids.split(1, 1):
        found = parts(token)
    assert found.equal(wanted)
    assert not found[0].equal(found[1])
    rows, after = torch.tensor([1, 0]), torch.full((2, 1), 62 + SILENCE + 1)
    parts.select(rows)
    whole.select(torch.tensor([0, 1]))
    assert parts(after).equal(whole(after)[rows])


def test_a_model_writes_fewer_where_they_are_dear() -> None:
    def found(penalty: float) -> Statistics:
        how = {"seconds": 6.0, "count": 4, "voice_leading": penalty}
        return Statistics.of(one.piece for one in singer(256).compose(**how))

    free, bound = found(0.0), found(20.0)
    assert free.crossed
    assert free.parallels
    assert bound.crossed is not None
    assert bound.crossed < free.crossed / 3
    assert bound.parallels == 0.0
    melody = chorale(24)
    written = singer().harmonize(melody, "alto", particles=4, voice_leading=20.0)
    one = Statistics.of([written])
    assert np.isclose(one.parallels or 0.0, 0.0)
