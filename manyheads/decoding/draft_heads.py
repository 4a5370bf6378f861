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

from manyheads.attention.places import line
from manyheads.decoding.draft_table import NO_TABLE, DraftTable, Entry, Ids
from manyheads.decoding.drafters import STILL, SURE
from manyheads.decoding.drafts import Draft, DraftPace
from manyheads.decoding.graphed_rows import lengths_of
from manyheads.modules.stack import Memory

HIDDEN = 384
ENOUGH = 0.7  # how sure a table must be for the head not to be asked


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
    """Guesses by the states of a network while it writes one sequence after another, and by a
    table where that is surer."""

    def __init__(
        self, head: DraftHead, network: Any, known: DraftTable = NO_TABLE, stops: Ids = ()
    ):
        """Nothing is guessed after one of the `stops`."""
        self.head, self.entries, self.stops, self.pace = head.eval(), known, stops, DraftPace()
        self.embedding, self.known = network.decoder.embedding, head.words.tolist()
        self.prepare()
        self.states, self.begun = self.read[:0], 0  # so many of the sources that were read last
        self.memory = Memory(self.read[None, :0], line(0))
        network.encoder.register_forward_hook(self.keep_memory)
        network.decoder.head.register_forward_pre_hook(self.keep_states)

    @torch.no_grad()
    def prepare(self) -> None:
        """All words as they are read, those it knows as they are scored, by the weights as they
        are now and where they lie."""
        self.made_of = self.find_weights()
        head, table = self.head.to(self.embedding.table.weight.device), self.embedding.table
        by_state, by_word, by_memory = head.think.weight.split(head.norm.weight.shape[0], 1)
        every = torch.arange(table.num_embeddings, device=head.words.device)
        self.read = self.embedding(every[None])[0].float()
        self.thought = F.linear(self.read, by_word, head.think.bias)  # (V, hidden)
        self.scored = table.weight[head.words].float().T  # (D, N)
        self.by_state, self.by_memory = by_state.T, by_memory.T

    def find_weights(self) -> tuple[int, int]:
        """Where those of the words lie, and how often they were changed."""
        weight = self.embedding.table.weight
        return weight.data_ptr(), 0 if weight.is_inference() else weight._version

    def keep_memory(self, module: Any, given: Any, states: Tensor) -> None:
        self.memory, self.begun = Memory(states.detach(), given[0].at, given[0].seen), 0

    def keep_states(self, module: Any, given: tuple[Tensor, ...]) -> None:
        self.states = given[0][0].detach()  # (T, D)

    def start(self, source: Sequence[int]) -> Draft:
        """The next of the sources that were read."""
        if self.made_of != self.find_weights():  # moved, or trained
            self.prepare()
        (states, _, _), rows = self.memory, len(self.memory.states)
        row, self.begun = self.begun % rows, self.begun + 1
        length = lengths_of(self.memory, rows)[row] if rows > 1 else None
        return HeadDraft(self, self.entries.prepare(source), states[row, :length].float())


class HeadDraft:
    """Of one sequence."""

    def __init__(self, known: HeadDrafter, parts: list[int], memory: Tensor):
        self.known, self.parts = known, parts
        self.state: Tensor | None = None  # that the last token was chosen by
        with torch.no_grad():  # of the memory what every token takes
            self.keys = (memory @ known.head.look.weight).T / memory.shape[-1] ** 0.5  # (D, S)
            self.values = memory @ known.by_memory  # (S, hidden)

    def tell(self, ids: Sequence[int], beyond: Sequence[int], after: int = 0) -> None:
        at = len(self.known.states) - 1 - len(beyond) - after
        self.state = self.known.states[at : at + 1].float() if ids else None

    def think(self, state: Tensor, tokens: Sequence[int]) -> tuple[Tensor, Entry]:
        """The state after these tokens, and the word it is likeliest followed by: what
        `DraftHead.forward` finds, with the products that do not change made before."""
        known, head = self.known, self.known.head
        for token in tokens:
            here = slice(token, token + 1)
            seen = ((state + known.read[here]) @ self.keys).softmax(-1)
            thought = torch.addmm(known.thought[here], state, known.by_state)
            thought = thought.addmm_(seen, self.values).relu_()
            state = head.norm(state + head.say(thought))
        best = (state @ known.scored).softmax(-1)[0].max(-1)
        return state, (known.known[int(best.indices)], float(best.values))

    @torch.no_grad()
    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        guessed, likely, state = list[int](), 1.0, self.state
        unread = [*ids[-1:]]
        while len(guessed) < most and not (guessed and guessed[-1] in self.known.stops):
            found = self.known.entries.look_up(self.parts, [*ids, *guessed])
            token, share = max(found, key=lambda one: one[1], default=(0, 0.0))
            if state is not None and share < ENOUGH:  # a table costs less than a product
                state, own = self.think(state, unread)
                unread = []
                token, share = max((token, share), own, key=lambda one: one[1])
            likely *= share
            if likely < (STILL if guessed else SURE):
                break
            guessed.append(token)
            unread.append(token)
        return guessed
