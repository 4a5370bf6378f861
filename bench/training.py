"""How fast does a Transformer-base learn: ours, Hugging Face's Marian and torch's nn.Transformer.

    python bench/training.py                        a table on this machine
    python bench/training.py --json results/x.json  write the results to a file
    python bench/training.py --only ours            one of the three, in every way
    python bench/training.py --quick                toy sizes, to see that it runs

One claim: the same step, the same batch and the same count of operations for all three, in one
process, each after the memory of the one before is freed. A step is forward, loss, backward and
AdamW, without padding. Each network is as its authors build it, with the same sizes: nn.Transformer
also has dropout on attention weights, Marian adds a bias to its logits.

B batch, S source tokens, T target tokens, V vocabulary.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads import (
    Causal,
    Decoder,
    Embedding,
    Encoder,
    EncoderDecoder,
    Everything,
    Sinusoidal,
    Stack,
    Tied,
    Tokens,
    TransformerConfig,
    line,
)

PEAK_FLOPS = 790e12  # of an H200 in bfloat16
SMOOTHING = 0.1
DROPOUT = 0.1


@dataclass(frozen=True)
class Size:
    """The sizes of the network and of its batch."""

    width: int = 512
    depth: int = 6  # of the encoder and of the decoder, each
    heads: int = 8
    inner: int = 2048
    vocabulary: int = 32_000
    batch: int = 400
    length: int = 64  # of each source and each target

    @property
    def tokens(self) -> int:
        return self.batch * self.length  # target tokens

    def operations(self) -> int:
        """Return the operations of one step: 6 for each weight of a matrix product and each token.

        2 forward and 4 backward. Attention compares each token with `length` others, causal or not.
        """
        attention, feed_forward = 4 * self.width**2, 2 * self.width * self.inner
        encoder = attention + feed_forward
        decoder = 2 * attention + feed_forward  # half of its second attention reads the source
        weights = self.depth * (encoder + decoder) + self.width * self.vocabulary
        # Query times key and weight times value: as two square matrices of length x width.
        pairs = 3 * self.depth * 2 * self.length * self.width
        return 6 * (weights + pairs) * self.tokens


TOY = Size(width=32, depth=1, heads=4, inner=64, vocabulary=100, batch=4, length=16)


# ---- the three ---------------------------------------------------------------------------------

Scores = Callable[[Tensor, Tensor], Tensor]  # (B, S), (B, T) -> (B, T, V)


def ours(size: Size, device: torch.device) -> tuple[nn.Module, Scores]:
    shape = TransformerConfig(
        width=size.width,
        depth=size.depth,
        heads=size.heads,
        ffn_width=size.inner,
        dropout=DROPOUT,
    )
    words = Embedding(size.vocabulary, size.width)
    reads = Stack.of(shape, position=Sinusoidal())
    writes = Stack.of(shape, Causal(), position=Sinusoidal(), cross=True)
    model = EncoderDecoder(Encoder(words, reads), Decoder(words, writes, Tied(words))).to(device)
    at, seen = line(size.length, device=device), Everything()
    # The pattern is given: torch.compile cannot handle its default value.
    return model, lambda source, target: model(Tokens(source, at, seen), Tokens(target, at, seen))


def marian(size: Size, device: torch.device) -> tuple[nn.Module, Scores]:
    from transformers import MarianConfig, MarianMTModel

    sides = ("encoder", "decoder")
    config = MarianConfig(
        vocab_size=size.vocabulary,
        d_model=size.width,
        **{f"{side}_layers": size.depth for side in sides},
        **{f"{side}_attention_heads": size.heads for side in sides},
        **{f"{side}_ffn_dim": size.inner for side in sides},
        activation_function="relu",
        dropout=DROPOUT,
        attention_dropout=0.0,
        activation_dropout=0.0,
        scale_embedding=True,
        max_position_embeddings=size.length,
        pad_token_id=0,
        eos_token_id=1,
        decoder_start_token_id=0,
        use_cache=False,
        attn_implementation="sdpa",
    )
    model: Any = MarianMTModel(config).to(device)
    return (
        model,
        lambda source, target: (
            model(input_ids=source, decoder_input_ids=target, use_cache=False).logits
        ),
    )


def of_torch(size: Size, device: torch.device) -> tuple[nn.Module, Scores]:
    model = OfTorch(size).to(device)
    return model, model


class OfTorch(nn.Module):
    """nn.Transformer with what it lacks: tied embeddings and sinusoidal positions."""

    mask: Tensor
    waves: Tensor

    def __init__(self, size: Size):
        super().__init__()
        self.words, self.dropout = Embedding(size.vocabulary, size.width), nn.Dropout(DROPOUT)
        self.transformer = nn.Transformer(
            size.width,
            size.heads,
            size.depth,
            size.depth,
            size.inner,
            dropout=DROPOUT,
            batch_first=True,
        )
        mask = nn.Transformer.generate_square_subsequent_mask(size.length)
        waves = Sinusoidal().waves(size.width, line(size.length), torch.float32)
        self.register_buffer("mask", mask)
        self.register_buffer("waves", waves)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        x, y = (self.dropout(self.words(ids) + self.waves) for ids in (source, target))
        states = self.transformer(x, y, tgt_mask=self.mask, tgt_is_causal=True)
        return F.linear(states, self.words.table.weight)


NETWORKS: dict[str, Callable[[Size, torch.device], tuple[nn.Module, Scores]]] = {
    "ours": ours,
    "Marian": marian,
    "nn.Transformer": of_torch,
}


# ---- the ways ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Way:
    """How to run a step: plain or compiled with these options; and the dtype of the weights."""

    compile: dict[str, Any] | None = None
    weights: torch.dtype = torch.float32  # with 16 bits, AdamW updates a float32 copy
    who: frozenset[str] = field(default_factory=lambda: frozenset(NETWORKS))


OURS = frozenset({"ours"})
WAYS: dict[str, Way] = {
    "eager": Way(),
    "compiled": Way({"dynamic": False}),
    "compiled, CUDA graphs": Way({"mode": "reduce-overhead"}, who=OURS),
    "compiled, bf16 weights": Way({"dynamic": False}, torch.bfloat16, OURS),
}


class Step:
    """One training step, repeated on the same batch."""

    def __init__(self, network: str, way: Way, size: Size, device: torch.device):
        torch.manual_seed(0)
        self.device, self.low = device, way.weights != torch.float32
        self.model, scores = NETWORKS[network](size, device)
        self.model.train()
        self.masters = [p.detach().clone() for p in self.model.parameters()] if self.low else []
        self.model.to(way.weights)
        self.weights = list(self.model.parameters())
        self.optimizer = torch.optim.AdamW(self.masters or self.weights, lr=1e-4, fused=True)
        shape = (3, size.batch, size.length)
        # Ids from 2: Marian takes 0 for padding and 1 for the end.
        self.batch = torch.randint(2, size.vocabulary, shape, device=device)

        def loss(source: Tensor, target: Tensor, labels: Tensor) -> Tensor:
            found = scores(source, target).flatten(0, 1).float()
            return F.cross_entropy(found, labels.flatten(), label_smoothing=SMOOTHING)

        self.loss = loss if way.compile is None else torch.compile(loss, **way.compile)

    def __call__(self) -> Tensor:
        torch.compiler.cudagraph_mark_step_begin()
        with torch.autocast(self.device.type, torch.bfloat16, enabled=not self.low):
            loss = self.loss(*self.batch)
        loss.backward()
        for master, weight in zip(self.masters, self.weights, strict=False):
            master.grad = weight.grad.float()  # type: ignore[union-attr]
        self.optimizer.step()
        with torch.no_grad():
            for master, weight in zip(self.masters, self.weights, strict=False):
                weight.copy_(master)
        self.model.zero_grad()
        self.optimizer.zero_grad()
        return loss.detach()


# ---- measuring ---------------------------------------------------------------------------------


class Clock:
    """Measures the milliseconds of a block of steps in a row, by the device's own clock."""

    def __init__(self, device: torch.device):
        self.cuda = device.type == "cuda"

    def block(self, step: Callable[[], Any], steps: int) -> float:
        if not self.cuda:
            began = time.perf_counter()
            for _ in range(steps):
                step()
            return (time.perf_counter() - began) * 1000 / steps
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(steps):
            step()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) / steps


def measured(name: str, how: str, size: Size, device: torch.device, blocks: int) -> dict[str, Any]:
    """Return one row: build, warm up, measure; the memory is freed when this returns."""
    began, clock, cuda = time.perf_counter(), Clock(device), device.type == "cuda"
    step = Step(name, WAYS[how], size, device)
    first = float(step())
    ready = time.perf_counter() - began
    clock.block(step, 10)
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    milliseconds = statistics.median(clock.block(step, 10) for _ in range(blocks))
    last = float(step())
    if not last < first:
        raise ValueError(f"{name}, {how} learned nothing: its loss went from {first} to {last}")
    return {
        "network": name,
        "way": how,
        "parameters": sum(p.numel() for p in step.model.parameters()),
        "ms": milliseconds,
        "tokens_per_second": size.tokens / milliseconds * 1000,
        "mfu": size.operations() / (milliseconds / 1000) / PEAK_FLOPS if cuda else None,
        "gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
        "first_step_seconds": ready,
        "loss": [first, last],
    }


def freed() -> None:
    """Free the memory of a row and its compiled code before the next one."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def shown(row: dict[str, Any]) -> str:
    mfu, gib = ("" if row[name] is None else f"{row[name]:.3f}" for name in ("mfu", "gib"))
    return (
        f"{row['network']:15}{row['way']:24}{row['ms']:9.2f}{row['tokens_per_second']:12,.0f}"
        f"{mfu:>8}{gib:>9}{row['first_step_seconds']:9.1f}"
    )


def claim(rows: list[dict[str, Any]]) -> str:
    """Compare our best with the best of the others, both in this run."""
    best = {
        mine: max(
            (row for row in rows if (row["network"] == "ours") == mine),
            key=lambda row: row["tokens_per_second"],
            default=None,
        )
        for mine in (True, False)
    }
    us, them = best[True], best[False]
    if us is None or them is None:
        return ""
    return (
        f"ours, {us['way']}: {us['tokens_per_second'] / them['tokens_per_second']:.2f} x "
        f"{them['network']}, {them['way']}"
    )


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--json", type=Path, help="keep the figures in this file")
    options.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    options.add_argument("--only", choices=NETWORKS, help="one of the three")
    options.add_argument("--way", choices=WAYS, action="append", help="this way, and no others")
    asked = options.parse_args()
    device = torch.device(asked.device)
    size, blocks = (TOY, 1) if asked.quick else (Size(), 7)
    name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
    machine = f"{name}, torch {torch.__version__}, bfloat16"
    print(f"{machine}\n{size}, {size.operations() / size.tokens:.4g} operations a target token\n")
    rows: list[dict[str, Any]] = []
    titles = ("ms", 9), ("tokens/s", 12), ("MFU", 8), ("GiB", 9), ("first s", 9)
    print(f"{'network':15}{'way':24}" + "".join(f"{title:>{width}}" for title, width in titles))
    for network in NETWORKS:
        for how, way in WAYS.items():
            unasked = asked.only not in (None, network) or how not in (asked.way or WAYS)
            if network not in way.who or unasked:
                continue
            try:
                rows.append(measured(network, how, size, device, blocks))
            except ModuleNotFoundError as missing:
                print(f"{network}: left out, `pip install {missing.name}` would do", flush=True)
                break
            freed()
            print(shown(rows[-1]), flush=True)
            if asked.json:  # after each: an interrupted run keeps its results
                kept = {"machine": machine, "size": vars(size), "rows": rows, "claim": claim(rows)}
                asked.json.write_text(json.dumps(kept, indent=1) + "\n")
    print(f"\n{claim(rows)}")


if __name__ == "__main__":
    main()
