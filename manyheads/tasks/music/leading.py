"""Voice leading: a decoding step that penalises parallel fifths, octaves and crossed voices.

B batch, V vocabulary, P pitches.
"""

from __future__ import annotations

import torch
from torch import Tensor

from manyheads.decoding.step import RewindableStep
from manyheads.decoding.wrappers import Wrapped
from manyheads.tasks.music.chorales import SILENCE
from manyheads.tasks.music.notes import PERFECT, PITCHES
from manyheads.tasks.music.settings import VOICES


class VoiceLeading(Wrapped):
    """Subtract `penalty` from the logit of a pitch for each other voice with which it makes a
    parallel fifth or octave, or which it crosses.

    Only a change is penalised: held notes are not penalised again.
    """

    def __init__(self, step: RewindableStep, penalty: float):
        super().__init__(step)
        self.penalty = penalty

    def change(self, logits: Tensor, ids: Tensor) -> Tensor:
        read = ids.shape[1]  # the first is the start token, or the last token of a step
        if voice := (read - 1) % len(VOICES):
            known = min(read - 1, voice + len(VOICES))
            pitches = ids[:, -known:] - SILENCE - 1  # below 0: a rest or a special token
            faults = count_faults(pitches[:, -voice:], pitches[:, :-voice], voice)
            logits[:, SILENCE + 1 : SILENCE + 1 + PITCHES] -= self.penalty * faults
        return logits


def count_faults(now: Tensor, before: Tensor, voice: int) -> Tensor:
    """Voices above (B, voice), step before (B, 4 or 0) -> number of faults of each pitch (B, P)"""
    pitch = torch.arange(PITCHES, device=now.device)[None]
    count = torch.zeros(len(now), PITCHES, device=now.device)
    for other in range(voice):
        above = now[:, other, None]  # (B, 1)
        crossed = (above >= 0) & (pitch > above)
        if before.shape[1] == len(VOICES):
            one, own = before[:, other, None], before[:, voice, None]
            crossed &= (above != one) | (pitch != own)
            apart = (above - pitch) % 12
            perfect = torch.isin(apart, torch.tensor(PERFECT, device=now.device))
            moved = (above != one) & (pitch != own) & (above >= 0) & (one >= 0) & (own >= 0)
            count += moved & perfect & (apart == (one - own) % 12)
        count += crossed
    return count
