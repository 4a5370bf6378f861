"""Does a small GPT learn as fast here as a plain one, from the first step on?

    python bench/initial.py book.txt                 both curves, 200 steps on a CPU
    python bench/initial.py book.txt --init xavier   ours with another initialization
    python bench/initial.py --quick                  toy sizes, to see that it runs

Both read the same batches with the same AdamW; only the code and the initialization differ. Without
a file the corpus inside the package is read.

B batch, T tokens, D model width, V vocabulary.
"""

from __future__ import annotations

import argparse
import gzip
from collections.abc import Callable, Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads.demo import CORPUS
from manyheads.modules.build import build_decoder
from manyheads.modules.config import TransformerConfig

VOCABULARY = 256  # bytes


class PlainBlock(nn.Module):
    """Attention and a feed-forward layer, with everything written out."""

    def __init__(self, width: int, heads: int):
        super().__init__()
        self.heads = heads
        self.norms = nn.ModuleList(nn.LayerNorm(width, bias=False) for _ in range(2))
        self.look = nn.Linear(width, 3 * width, bias=False)
        self.looked = nn.Linear(width, width, bias=False)
        self.think = nn.Linear(width, 4 * width, bias=False)
        self.thought = nn.Linear(4 * width, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.look(self.norms[0](x)).chunk(3, -1)
        query, key, value = (p.unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in parts)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.looked(mixed.transpose(1, 2).flatten(2))
        return x + self.thought(F.gelu(self.think(self.norms[1](x)), approximate="tanh"))


class Plain(nn.Module):
    """GPT-2 as it was published: its layers and its initialization."""

    def __init__(self, width: int, depth: int, heads: int, context: int):
        super().__init__()
        self.words, self.places = nn.Embedding(VOCABULARY, width), nn.Embedding(context, width)
        self.blocks = nn.Sequential(*(PlainBlock(width, heads) for _ in range(depth)))
        self.norm = nn.LayerNorm(width, bias=False)
        for name, weight in self.named_parameters():
            if weight.dim() > 1:
                adds = name.endswith(("looked.weight", "thought.weight"))
                nn.init.normal_(weight, std=0.02 * ((2 * depth) ** -0.5 if adds else 1))

    def forward(self, ids: Tensor) -> Tensor:
        x = self.words(ids) + self.places.weight[: ids.shape[1]]
        return F.linear(self.norm(self.blocks(x)), self.words.weight)


def ours(asked: argparse.Namespace) -> nn.Module:
    config = TransformerConfig(
        width=asked.width,
        depth=asked.depth,
        heads=asked.heads,
        feed_forward="gelu-tanh",
        bias=False,
        position=f"Learned({asked.context})",
        scale_embeddings=False,
        dropout=0.0,
        init=asked.init,
    )
    return build_decoder(config, VOCABULARY)


def batches(text: Tensor, count: int, asked: argparse.Namespace, seed: int) -> Iterator[Tensor]:
    """Yield batches of shape (B, T + 1), from random places in the text."""
    chosen = torch.Generator().manual_seed(seed)
    for _ in range(count):
        begins = torch.randint(len(text) - asked.context, (asked.batch, 1), generator=chosen)
        yield text[begins + torch.arange(asked.context + 1)]


def loss_of(network: nn.Module, batch: Tensor) -> Tensor:
    return F.cross_entropy(network(batch[:, :-1]).flatten(0, 1), batch[:, 1:].flatten())


def learn(network: nn.Module, text: Tensor, asked: argparse.Namespace) -> list[float]:
    """Train; return the validation loss after every tenth of the steps."""
    train, held_out = text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]
    matrices = [p for p in network.parameters() if p.dim() > 1]
    others = [p for p in network.parameters() if p.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}]
    optimizer, curve = torch.optim.AdamW(groups, asked.rate, (0.9, 0.95)), []
    for step, batch in enumerate(batches(train, asked.steps, asked, asked.seed), 1):
        for group in optimizer.param_groups:
            group["lr"] = asked.rate * min(1.0, 10 * step / asked.steps)  # a tenth is warm-up
        loss_of(network, batch).backward()
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % max(1, asked.steps // 10) == 0:
            with torch.no_grad():
                some = [loss_of(network, each).item() for each in batches(held_out, 8, asked, 0)]
            curve.append(sum(some) / len(some))
    return curve


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("text", type=Path, nargs="?")
    parser.add_argument("--init", default="gpt2", choices=["gpt2", "xavier", "zero"])
    parser.add_argument("--quick", action="store_true")
    numbers = {"width": 128, "depth": 4, "heads": 4, "context": 128, "batch": 16, "steps": 200}
    for name, value in {**numbers, "seed": 0}.items():
        parser.add_argument(f"--{name}", type=int, default=value)
    parser.add_argument("--rate", type=float, default=1e-3)
    asked = parser.parse_args()
    if asked.quick:
        asked.width, asked.depth, asked.context, asked.batch, asked.steps = 16, 2, 16, 4, 20
    return asked


def main() -> None:
    asked = options()
    raw = asked.text.read_bytes() if asked.text else gzip.decompress(CORPUS.read_bytes())
    text = torch.tensor(list(raw))
    kinds: dict[str, Callable[[], nn.Module]] = {
        "plain": lambda: Plain(asked.width, asked.depth, asked.heads, asked.context),
        f"ours, {asked.init}": lambda: ours(asked),
    }
    for name, make in kinds.items():
        torch.manual_seed(asked.seed)
        curve = learn(make(), text, asked)
        print(f"{name:>14}", *(f"{loss:.3f}" for loss in curve))


if __name__ == "__main__":
    main()
