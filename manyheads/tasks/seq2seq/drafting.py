"""A table and a head that guess for a model, made of what it writes for its training sources.

B batch, T tokens, D model width, N words that a head knows.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from manyheads.decoding.config import DecodingConfig
from manyheads.decoding.draft_heads import DraftHead
from manyheads.decoding.draft_table import NO_TABLE, DraftTable, make_table
from manyheads.modules.transformer import Tokens
from manyheads.tasks.seq2seq.writing import Ids, write_targets
from manyheads.training.files import WEIGHTS, read_tensors, write_tensors

if TYPE_CHECKING:
    from manyheads.tasks.seq2seq.model import Translator

DRAFTS = "drafts.safetensors"
SOURCES = 100_000  # at most
AT_ONCE = 2048  # sources between two words of how far it is
WRITING = 0.35  # of the time is for what the model writes, at most
WORDS = 1024  # that a head knows: most of what is written is of a few
BATCH = 128  # sequences
RATE, WARM_UP = 3e-3, 100  # the highest learning rate, and the steps until then
AHEAD = (1.0, 0.6, 0.4)  # tokens that a head learns to guess, and how much each counts


class DraftFile(NamedTuple):
    """What a file of drafts holds."""

    table: DraftTable = NO_TABLE
    head: DraftHead | None = None


# ---- the file --------------------------------------------------------------------------------


def hash_weights(folder: Path) -> str:
    return hashlib.sha256((folder / WEIGHTS).read_bytes()).hexdigest()


def write_drafts(folder: Path, made: DraftFile) -> None:
    """Beside the weights that they are of."""
    assert made.head is not None
    tensors = {f"table.{name}": one for name, one in made.table.tensors().items()}
    for name, one in made.head.state_dict().items():
        tensors[f"head.{name}"] = one.half() if one.is_floating_point() else one.short()
    note = {"weights": hash_weights(folder), "reads": made.table.reads}
    write_tensors(folder / DRAFTS, tensors, note)


def read_drafts(folder: Path) -> DraftFile:
    """Nothing where there is no file; one of other weights is refused."""
    if not (folder / DRAFTS).exists():
        return DraftFile()
    tensors, note = read_tensors(folder / DRAFTS)
    if note.get("weights") != hash_weights(folder):
        raise ValueError(
            f"{folder / DRAFTS} guesses for other weights than those beside it; "
            f"`manyheads train drafts --model {folder} --out {folder}` makes it anew"
        )
    parts: dict[str, dict[str, Tensor]] = {"table": {}, "head": {}}
    for name, one in tensors.items():
        kind, _, rest = name.partition(".")
        parts[kind][rest] = one
    own = {name: x.float() if x.is_floating_point() else x for name, x in parts["head"].items()}
    hidden, width = own["think.weight"].shape[0], own["norm.weight"].shape[0]
    head = DraftHead(width, own["words"].long(), hidden)
    head.load_state_dict(own)
    return DraftFile(DraftTable.of(parts["table"], bool(note["reads"])), head)


# ---- how it is made --------------------------------------------------------------------------


def make_drafts(
    model: Translator, sources: Sequence[Ids], minutes: float, say: Callable[[str], None]
) -> DraftFile:
    """In about so many minutes."""
    if (kind := model.task.recipe.network.kind) != "transformer":
        raise ValueError(f"drafts are trained for a transformer, {model.name} is a {kind} network")
    began = time.monotonic()
    some = Random(0).sample(sources, min(SOURCES, len(sources)))
    pairs = write_some(model, some, began + 60 * WRITING * minutes, say)
    table = make_table((source, ids) for source, ids in pairs)
    say(f"a table of {len(table.entries):,} entries")
    head = train_head(model, pairs, began + 60 * minutes, say)
    return DraftFile(table, head)


Pairs = list[tuple[Ids, list[int]]]  # a source, and what was written for it, the stop too


def write_some(
    model: Translator, sources: Sequence[Ids], until: float, say: Callable[[str], None]
) -> Pairs:
    pairs, eos = Pairs(), model.special_tokens[1].eos
    for first in range(0, len(sources), AT_ONCE):
        some = sources[first : first + AT_ONCE]
        how, special = DecodingConfig(), model.special_tokens
        found = write_targets(model.network, some, how, special=special, tokens=4096)
        pairs += [(s, [*one.ids, eos]) for s, (one, *_) in zip(some, found, strict=True)]
        say(f"{len(pairs):,} of {len(sources):,} sources are written")
        if time.monotonic() > until:
            break
    return pairs


def train_head(
    model: Translator, pairs: Pairs, until: float, say: Callable[[str], None]
) -> DraftHead:
    """By what the model wrote, its own weights untouched."""
    torch.manual_seed(0)
    often = Counter(token for _, ids in pairs for token in ids).most_common(WORDS)
    words = torch.tensor(sorted(token for token, _ in often), device=model.device)
    head = DraftHead(model.network.decoder.stack.width, words).to(model.device)
    optimizer = torch.optim.AdamW(head.parameters(), RATE, weight_decay=0.01)
    ordered, began, step = sorted(pairs, key=lambda pair: len(pair[1])), time.monotonic(), 0
    starts, chance = [*range(0, len(ordered), BATCH)], Random(0)
    while (part := (time.monotonic() - began) / max(1e-9, until - began)) < 1 or not step:
        first = chance.choice(starts)
        for group in optimizer.param_groups:
            falling = (1 + math.cos(math.pi * min(1, part))) / 2
            group["lr"] = RATE * max(0.02, min((step + 1) / WARM_UP, falling))
        loss = draft_loss(model, head, ordered[first : first + BATCH])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step % 200 == 0:
            say(f"step {step}, {100 * part:.0f} % of the time: loss {float(loss):.3f}")
    return head.eval()


def draft_loss(model: Translator, head: DraftHead, pairs: Pairs) -> Tensor:
    """How unlikely the head finds what the model wrote, one token ahead and more."""
    network, (reads, writes) = model.network, model.special_tokens
    rows = [[*reads.encoder_bos, *source, reads.eos] for source, _ in pairs]
    spare = [writes.eos] * len(AHEAD)
    starts = [[*writes.bos[-1:], *ids, *spare] for _, ids in pairs]
    source, target = (Tokens.padded(x, reads.pad).to(model.device) for x in (rows, starts))
    with torch.no_grad():
        memory = network.encode(source)
        states: Any = network.decoder.states(
            target.ids, target.at, target.seen, None, memory
        ).float()
        every = network.decoder.embedding(target.ids).float()  # (B, T, D)
        table = network.decoder.embedding.table.weight[head.words].float()
    read, ends = (torch.tensor([*map(len, x)], device=model.device) for x in (rows, starts))
    hidden = (torch.arange(source.ids.shape[1], device=read.device) >= read[:, None])[:, None]
    known = torch.full((network.decoder.embedding.table.num_embeddings,), -1, device=read.device)
    known[head.words] = torch.arange(len(head.words), device=read.device)
    count, total = target.ids.shape[1] - len(AHEAD) - 1, states.new_zeros(())
    states, at = states[:, :count], torch.arange(count, device=read.device)
    for i, share in enumerate(AHEAD, start=1):
        states = head(states, every[:, i : i + count], memory.states.float(), hidden)
        wanted = known[target.ids[:, i + 1 : i + 1 + count]]
        kept = (wanted >= 0) & (at + i + 1 < (ends - len(spare))[:, None])
        total = total + share * F.cross_entropy(states[kept] @ table.T, wanted[kept])
    return total
