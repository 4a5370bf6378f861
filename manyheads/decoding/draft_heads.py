"""A small head that guesses ahead: the state that a token was chosen by and that token make the
state of the next one, again and again.

Beside the state of the decoder it looks at the memory of the encoder once more, and it knows only
the most frequent words: it costs a few products, where the decoder costs all its layers.

T tokens, S tokens of the memory, D model width, N words that it knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.decoding.drafters import STILL, SURE
from manyheads.decoding.drafts import Draft, DraftPace

HIDDEN = 384


class DraftHead(nn.Module):
    """One cell, used for every token ahead."""

    words: Tensor

    def __init__(self, width: int, words: Tensor, hidden: int = HIDDEN):
        """`words` (N,) are the numbers of those that it may guess."""
        super().__init__()
        self.look = nn.Linear(width, width, bias=False)
        self.think = nn.Linear(3 * width, hidden)
        self.say = nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width)
        nn.init.zeros_(self.say.weight)
        self.register_buffer("words", words)

    def forward(
        self, state: Tensor, word: Tensor, memory: Tensor, hidden: Tensor | None = None
    ) -> Tensor:
        """States and words (..., T, D), memory (..., S, D), padding of it (..., 1, S) -> states."""
        scores = self.look(state + word) @ memory.transpose(-1, -2) / memory.shape[-1] ** 0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        seen = scores.softmax(-1) @ memory
        thought = F.relu(self.think(torch.cat([state, word, seen], -1)))
        found: Tensor = self.norm(state + self.say(thought))
        return found


class HeadDrafter:
    """Guesses by the states of a network while it writes one sequence after another."""

    def __init__(self, head: DraftHead, network: Any):
        self.head, self.pace = head.eval(), DraftPace()
        self.embedding = network.decoder.embedding
        # Of the words it knows alone: (N, D).
        self.table = self.embedding.table.weight.detach()[head.words].float()
        self.states = self.memory = self.table[:0]
        network.encoder.register_forward_hook(self.keep_memory)
        network.decoder.head.register_forward_pre_hook(self.keep_states)

    def keep_memory(self, module: Any, given: Any, states: Tensor) -> None:
        self.memory = states[0].float()

    def keep_states(self, module: Any, given: tuple[Tensor, ...]) -> None:
        self.states = given[0][0]  # (T, D)

    def start(self, source: Sequence[int]) -> Draft:
        return HeadDraft(self)


class HeadDraft:
    """Of one sequence."""

    def __init__(self, known: HeadDrafter):
        self.known = known
        self.state: Tensor | None = None  # that the last token was chosen by

    def tell(self, ids: Sequence[int], beyond: Sequence[int]) -> None:
        self.state = self.known.states[-1 - len(beyond)].float() if ids else None

    @torch.no_grad()
    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        known, state = self.known, self.state
        if state is None:
            return []
        guessed, likely, state = list[int](), 1.0, state[None]
        while len(guessed) < most:
            last = torch.tensor([guessed[-1] if guessed else ids[-1]], device=state.device)
            state = known.head(state, known.embedding(last).float(), known.memory)
            best = (state[0] @ known.table.T).softmax(-1).max(-1)
            likely *= float(best.values)
            if likely < (STILL if guessed else SURE):
                break
            guessed.append(int(known.head.words[best.indices]))
        return guessed
