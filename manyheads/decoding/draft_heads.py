"""A small head that guesses tokens ahead: from the state that predicted a token, and that token,
it computes the state that predicts the next one, again and again.

Beside the state of the decoder it gets one more vector: what it looks up in the memory of the
encoder; or, if several voices take turns, the token of the same voice a beat before. It guesses
only the most frequent words: it costs a few products, while the decoder costs all its layers.

T tokens, S tokens of the memory, D model width, N words that it can guess, V words.
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
from manyheads.modules.transformer import Capped

HIDDEN = 384
BACK = 4  # tokens of the prompt that are kept: no beat is longer
ENOUGH = 0.7  # from this probability of the table's guess on, the head is not used


class DraftHead(nn.Module):
    """One recurrent cell, used for every token ahead."""

    words: Tensor

    def __init__(
        self, width: int, words: Tensor, hidden: int = HIDDEN, *, reads: bool = True, beat: int = 1
    ):
        """`words` (N,) are the ids that it can guess. With `reads` it attends to the memory of an
        encoder; with a `beat` of several tokens it looks a beat back.
        """
        super().__init__()
        self.beat = beat
        self.look = nn.Linear(width, width, bias=False) if reads else None
        self.think = nn.Linear((3 if reads or beat > 1 else 2) * width, hidden)
        self.say = nn.Linear(hidden, width)
        self.norm = nn.LayerNorm(width)
        nn.init.zeros_(self.say.weight)
        self.register_buffer("words", words)

    def forward(self, state: Tensor, word: Tensor, seen: Tensor | None = None) -> Tensor:
        """Return the next states from states, word embeddings and the extra vector (..., T, D)."""
        parts = [state, word] if seen is None else [state, word, seen]
        found: Tensor = self.norm(state + self.say(F.relu(self.think(torch.cat(parts, -1)))))
        return found

    def look_up(self, query: Tensor, memory: Tensor, hidden: Tensor | None = None) -> Tensor:
        """Attend from queries (..., T, D) to memory (..., S, D); `hidden` (..., 1, S): padding."""
        assert self.look is not None
        scores = self.look(query) @ memory.transpose(-1, -2) / memory.shape[-1] ** 0.5
        if hidden is not None:
            scores = scores.masked_fill(hidden, -torch.inf)
        return scores.softmax(-1) @ memory


def scoring_weight(decoder: Any) -> Tensor:
    """Return the output projection of a decoder (V, D)."""
    head = decoder.head.scores if isinstance(decoder.head, Capped) else decoder.head
    weight: Tensor = head.weight if isinstance(head, nn.Linear) else decoder.embedding.table.weight
    return weight


class HeadDrafter:
    """Guess from the states of a network while it writes one sequence after another, or from a
    table if that is surer."""

    def __init__(
        self, head: DraftHead, network: Any, known: DraftTable = NO_TABLE, stops: Ids = ()
    ):
        """`stops` are tokens after which it guesses nothing."""
        self.head, self.entries, self.stops, self.pace = head.eval(), known, stops, DraftPace()
        self.decoder, self.known = getattr(network, "decoder", network), head.words.tolist()
        self.prepare()
        self.states, self.begun = self.read[:0], 0  # how many sources of the last batch are begun
        self.memory = Memory(self.read[None, :0], line(0))
        if head.look is not None:
            network.encoder.register_forward_hook(self.keep_memory)
        self.decoder.head.register_forward_pre_hook(self.keep_states)

    @torch.no_grad()
    def prepare(self) -> None:
        """Precompute products of the embeddings of all words, and the scores of the words it can
        guess, from the current weights on their current device."""
        self.made_of, embedding = self.find_weights(), self.decoder.embedding
        head = self.head.to(embedding.table.weight.device)
        parts = head.think.weight.split(head.norm.weight.shape[0], 1)
        every = torch.arange(embedding.table.num_embeddings, device=head.words.device)
        self.read = embedding(every[None])[0].float()
        self.thought = F.linear(self.read, parts[1], head.think.bias)  # (V, hidden)
        self.scored = scoring_weight(self.decoder)[head.words].float().T  # (D, N)
        self.by_state, self.by_seen = parts[0].T, parts[-1].T
        if head.beat > 1:
            self.beaten = self.read @ self.by_seen  # (V, hidden)

    def find_weights(self) -> tuple[int, int]:
        """Return the address and the version of the embedding weights."""
        weight = self.decoder.embedding.table.weight
        return weight.data_ptr(), 0 if weight.is_inference() else weight._version

    def keep_memory(self, module: Any, given: Any, states: Tensor) -> None:
        self.memory, self.begun = Memory(states.detach(), given[0].at, given[0].seen), 0

    def keep_states(self, module: Any, given: tuple[Tensor, ...]) -> None:
        self.states = given[0][0].detach()  # (T, D)

    def start(self, source: Sequence[int]) -> Draft:
        """Begin the draft of the next source of the last batch; or of a prompt's continuation."""
        if self.made_of != self.find_weights():  # weights were moved or trained
            self.prepare()
        if self.head.look is None:
            return HeadDraft(self, source)
        (states, _, _), rows = self.memory, len(self.memory.states)
        row, self.begun = self.begun % rows, self.begun + 1
        length = lengths_of(self.memory, rows)[row] if rows > 1 else None
        return HeadDraft(self, source, states[row, :length].float())


class HeadDraft:
    """The guesses of one sequence."""

    def __init__(self, known: HeadDrafter, source: Sequence[int], memory: Tensor | None = None):
        self.known, self.parts = known, known.entries.prepare(source)
        # A prompt comes before the tokens; a source of a translation does not.
        self.before = [*source[-BACK:]] if memory is None else []
        self.state: Tensor | None = None  # the state that predicted the last token
        self.looked: tuple[Tensor, Tensor] | None = None
        if memory is not None and known.head.look is not None:
            with torch.no_grad():  # shared by all tokens: (D, S), (S, hidden)
                keys = (memory @ known.head.look.weight).T / memory.shape[-1] ** 0.5
                self.looked = keys, memory @ known.by_seen

    def tell(self, ids: Sequence[int], beyond: Sequence[int], after: int = 0) -> None:
        # Less than none: a window that moved was read in parts, and only the last one was seen.
        at = len(self.known.states) - 1 - len(beyond) - after
        self.state = self.known.states[at : at + 1].float() if ids and at >= 0 else None

    def think(self, state: Tensor, ids: Sequence[int], new: int) -> tuple[Tensor, Entry]:
        """Return the state after these tokens, the last `new` of which it has not read, and the
        likeliest next word: as `DraftHead.forward`, with precomputed products.
        """
        known, head = self.known, self.known.head
        for end in range(len(ids) - new + 1, len(ids) + 1):
            token = slice(ids[end - 1], ids[end - 1] + 1)
            thought = torch.addmm(known.thought[token], state, known.by_state)
            if self.looked is not None:
                keys, values = self.looked
                thought.addmm_(((state + known.read[token]) @ keys).softmax(-1), values)
            elif 1 < head.beat <= end:
                thought += known.beaten[ids[end - head.beat]]
            state = head.norm(state + head.say(thought.relu_()))
        best = (state @ known.scored).softmax(-1)[0].max(-1)
        return state, (known.known[int(best.indices)], float(best.values))

    @torch.no_grad()
    def propose(self, ids: Sequence[int], most: int) -> list[int]:
        whole, state, likely = [*self.before, *ids], self.state, 1.0
        guessed, unread = 0, min(1, len(ids))
        while guessed < most and not (guessed and whole[-1] in self.known.stops):
            found = self.known.entries.look_up(self.parts, whole)
            token, share = max(found, key=lambda one: one[1], default=(0, 0.0))
            if state is not None and share < ENOUGH:  # the table is cheaper than the head
                state, own = self.think(state, whole, unread)
                unread = 0
                token, share = max((token, share), own, key=lambda one: one[1])
            likely *= share
            if likely < (STILL if guessed else SURE):
                break
            whole.append(token)
            guessed, unread = guessed + 1, unread + 1
        return whole[len(whole) - guessed :]
