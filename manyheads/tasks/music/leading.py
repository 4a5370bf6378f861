"""Voice leading: a decoding step that penalises parallel fifths, octaves and crossed voices.

B batch, T tokens, V vocabulary, P pitches.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.decoding.step import RewindableStep
from manyheads.decoding.wrappers import Wrapped
from manyheads.devices import send
from manyheads.tasks.music.chorales import SILENCE
from manyheads.tasks.music.notes import PERFECT, PITCHES
from manyheads.tasks.music.settings import VOICES

NONE = -1  # in place of a pitch


class VoiceLeading(Wrapped):
    """Subtract `penalty` from the logit of a pitch for each other voice with which it makes a
    parallel fifth or octave, or which it crosses.

    Only a change is penalised: held notes are not penalised again.
    """

    def __init__(self, step: RewindableStep, penalty: float):
        super().__init__(step)
        self.penalty = penalty

    def change(self, logits: Tensor, ids: Tensor) -> Tensor:
        return self.penalise(logits[:, None], ids)[:, 0]

    def read(self, ids: Tensor) -> Tensor:
        return self.penalise(self.step.read(ids), self.remember(ids))

    def penalise(self, logits: Tensor, ids: Tensor) -> Tensor:
        """Change the logits (B, T, V) after each of the last T tokens, given all tokens read."""
        # The first token is the start token, or the last one of a step.
        voices, places = len(VOICES), range(ids.shape[1] - logits.shape[1], ids.shape[1])
        voice = send(torch.tensor([place % voices for place in places]), ids.device)
        pitches = F.pad(ids[:, 1:] - SILENCE - 1, (voices, voices), value=NONE)
        # Of each place the step before it and its own step (B, T, 2 * voices).
        steps = pitches.unfold(1, 2 * voices, 1)[:, [place - place % voices for place in places]]
        faults = count_faults(steps[..., voices:], steps[..., :voices], voice)
        logits[..., SILENCE + 1 : SILENCE + 1 + PITCHES] -= self.penalty * faults
        return logits


def count_faults(now: Tensor, before: Tensor, voice: Tensor) -> Tensor:
    """Two steps (B, T, 4) and the voice that comes next (T,) -> faults of each pitch (B, T, P)

    Of the second step only the voices above are read. A pitch below 0 is none.
    """
    own = before.gather(-1, voice[:, None].expand(*before.shape[:2], 1))[..., None]
    known = torch.arange(len(VOICES), device=now.device) < voice[:, None]
    above, one = now.where(known, NONE)[..., None], before[..., None]  # (B, T, 4, 1)
    pitch = torch.arange(PITCHES, device=now.device)
    crossed = (above >= 0) & (pitch > above) & ((above != one) | (pitch != own))
    apart = (one - own) % 12
    perfect = torch.isin(apart, torch.tensor(PERFECT, device=now.device))
    moved = perfect & (above != one) & (above >= 0) & (one >= 0) & (own >= 0)
    parallel = moved & (pitch != own) & ((above - pitch) % 12 == apart)
    return crossed.sum(-2) + parallel.sum(-2)
