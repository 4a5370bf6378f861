"""Make drafts for a model, a table and a head, from what the model writes itself.

B batch, T tokens, D model width, N words that a head knows.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.decoding.draft_heads import DraftHead, scoring_weight
from manyheads.decoding.draft_table import Ids, make_table
from manyheads.tasks.draft_file import DraftFile, Pairs
from manyheads.tasks.drafted import DraftedModel

SOURCES = 100_000  # at most
WRITING = 0.35  # largest share of the time in which the model writes
WORDS = 1024  # vocabulary of a head: most text uses few words
BATCH, TOKENS = 128, 8192  # largest number of sequences and of tokens in a batch
RATE, WARM_UP = 3e-3, 100  # the highest learning rate, and the steps to reach it
AHEAD = (1.0, 0.6, 0.4)  # loss weight of each token that a head guesses ahead


def make_drafts(
    model: DraftedModel, sources: Sequence[Ids], minutes: float, say: Callable[[str], None]
) -> DraftFile:
    """Make a draft table and train a draft head, in about `minutes` minutes."""
    if (kind := model.task.recipe.network.kind) != "transformer":
        raise ValueError(f"drafts are trained for a transformer, {model.name} is a {kind} network")
    began = time.monotonic()
    some = Random(0).sample(sources, min(SOURCES, len(sources)))
    pairs = write_some(model, some, began + 60 * WRITING * minutes, say)
    table = make_table((source if model.reads else (), ids) for source, ids in pairs)
    say(f"a table of {len(table.entries):,} entries")
    head = train_head(model, pairs, began + 60 * minutes, say)
    return DraftFile(table, head)


def write_some(
    model: DraftedModel, sources: Sequence[Ids], until: float, say: Callable[[str], None]
) -> Pairs:
    pairs, at_once = Pairs(), model.written_at_once
    for first in range(0, len(sources), at_once):
        some = sources[first : first + at_once]
        pairs += zip(some, model.write_for(some, first), strict=True)
        say(f"{len(pairs):,} of {len(sources):,} texts are written")
        if time.monotonic() > until:
            break
    return pairs


def train_head(
    model: DraftedModel, pairs: Pairs, until: float, say: Callable[[str], None]
) -> DraftHead:
    """Train a draft head on what the model wrote; the weights of the model do not change."""
    torch.manual_seed(0)
    often = Counter(token for _, ids in pairs for token in ids).most_common(WORDS)
    words = torch.tensor(sorted(token for token, _ in often), device=model.device)
    width = model.decoder.stack.width
    head = DraftHead(width, words, reads=model.reads, beat=model.beat).to(model.device)
    optimizer = torch.optim.AdamW(head.parameters(), RATE, weight_decay=0.01)
    ordered, began, step = sorted(pairs, key=lambda pair: len(pair[1])), time.monotonic(), 0
    batch = max(1, min(BATCH, TOKENS // max(1, len(ordered[-1][1]))))
    starts, chance = [*range(0, len(ordered), batch)], Random(0)
    while (part := (time.monotonic() - began) / max(1e-9, until - began)) < 1 or not step:
        first = chance.choice(starts)
        for group in optimizer.param_groups:
            falling = (1 + math.cos(math.pi * min(1, part))) / 2
            group["lr"] = RATE * max(0.02, min((step + 1) / WARM_UP, falling))
        loss = draft_loss(model, head, ordered[first : first + batch])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 200 == 0:
            say(f"step {step}, {100 * part:.0f} % of the time: loss {float(loss):.3f}")
    return head.eval()


def draft_loss(model: DraftedModel, head: DraftHead, pairs: Pairs) -> Tensor:
    """Return the loss of the head on what the model wrote, one to three tokens ahead."""
    with torch.no_grad():
        ids, lengths, states, memory, hidden = model.read_written(pairs, len(AHEAD))
        every = model.decoder.embedding(ids).float()  # (B, T, D)
        table = scoring_weight(model.decoder)[head.words].float()
    known = torch.full((model.decoder.embedding.table.num_embeddings,), -1, device=ids.device)
    known[head.words] = torch.arange(len(head.words), device=ids.device)
    count, total = ids.shape[1] - len(AHEAD) - 1, states.new_zeros(())
    states, at = states[:, :count], torch.arange(count, device=ids.device)
    # Zeros stand for the tokens one beat before the first beat, which do not exist.
    back = F.pad(every, (0, 0, head.beat, 0))
    for i, share in enumerate(AHEAD, start=1):
        word, seen = every[:, i : i + count], None
        if memory is not None:
            seen = head.look_up(states + word, memory, hidden)
        elif head.beat > 1:
            seen = back[:, i + 1 : i + 1 + count]
        states = head(states, word, seen)
        wanted = known[ids[:, i + 1 : i + 1 + count]]
        kept = (wanted >= 0) & (at + i + 1 < lengths[:, None])
        lost = F.cross_entropy(states[kept] @ table.T, wanted[kept], reduction="sum")
        total = total + share * lost / kept.sum().clamp(min=1)  # the mean of no tokens is 0
    return total
