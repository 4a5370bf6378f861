"""How fast does a GPT-2 of 124M learn and write: ours, nanoGPT's and Hugging Face's.

    python bench/language.py --nanogpt ../nanoGPT/model.py   both tables on this machine
    python bench/language.py --part sampling                 one of them
    python bench/language.py --only ours --way "compiled"    one network, one way
    python bench/language.py --json results/x.json           write the results to a file
    python bench/language.py --quick                         toy sizes, to see that it runs

Learning: the same step, the same batch and the same count of operations for all three: forward,
loss, backward and AdamW over whole rows, in bfloat16 by autocast, compiled. nanoGPT's own file is
read from where it is; without it that row is left out.
Writing: the same number of tokens after a prompt, sampled from the whole vocabulary, weights in
bfloat16. Ours is also checked: the log-probability of each written token is the same as in one
forward pass over all of them.

B batch, T tokens, V vocabulary.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import importlib.util
import io
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from manyheads import Bounds, CachedStep, Decoder, Everything, Sampling, Tokens, line, sample
from manyheads.decoding.cuda_graph import CudaGraphDecoder
from manyheads.modules.build import build_decoder
from manyheads.modules.config import NetworkConfig, TransformerConfig

PEAK_FLOPS = 790e12  # of an H200 in bfloat16
APART = 0.05  # largest mean error of a log-probability in bfloat16


@dataclass(frozen=True)
class Size:
    """The sizes of the network, of its batch and of what it writes."""

    width: int = 768
    depth: int = 12
    heads: int = 12
    vocabulary: int = 50_304  # as nanoGPT rounds it
    written_vocabulary: int = 50_257
    longest: int = 1024
    batch: int = 32
    prompt: int = 16
    new: int = 256
    batches: tuple[int, ...] = (1, 64)  # sequences that are written together

    @property
    def tokens(self) -> int:
        return self.batch * self.longest

    def operations(self) -> int:
        """Return the operations of one training step, as nanoGPT counts: 6 N + 12 L H Q T per
        token.
        """
        blocks = self.depth * 12 * self.width**2
        weights = self.vocabulary * self.width + blocks + (2 * self.depth + 1) * self.width
        return (6 * weights + 12 * self.depth * self.width * self.longest) * self.tokens

    def network(self, bias: bool) -> NetworkConfig:
        return TransformerConfig(
            width=self.width,
            depth=self.depth,
            heads=self.heads,
            ffn_width=4 * self.width,
            feed_forward="gelu-tanh",
            bias=bias,
            init="gpt2",
            position=f"Learned({self.longest})",
            scale_embeddings=False,
            dropout=0.0,
        )


TOY = Size(
    width=32,
    depth=2,
    heads=2,
    vocabulary=320,
    written_vocabulary=301,
    longest=64,
    batch=2,
    new=20,
    batches=(1, 3),
)


def of_hugging_face(size: Size, vocabulary: int) -> Any:
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=vocabulary,
        n_positions=size.longest,
        n_embd=size.width,
        n_layer=size.depth,
        n_head=size.heads,
        resid_pdrop=0.0,
        embd_pdrop=0.0,
        attn_pdrop=0.0,
        bos_token_id=0,
        eos_token_id=0,
        attn_implementation="sdpa",
    )
    return GPT2LMHeadModel(config)


# ---- learning ----------------------------------------------------------------------------------

Loss = Callable[[Tensor, Tensor], Tensor]  # ids (B, T), next ids (B, T) -> mean loss


def cross_entropy(scores: Tensor, labels: Tensor) -> Tensor:
    return F.cross_entropy(scores.flatten(0, 1).float(), labels.flatten())


def ours(size: Size, asked: argparse.Namespace) -> tuple[nn.Module, Loss]:
    model = build_decoder(size.network(bias=False), size.vocabulary).to(asked.device)
    at, seen = line(size.longest, device=asked.device), Everything()
    # The pattern is given: torch.compile cannot handle its default value.
    return model, lambda ids, labels: cross_entropy(model(Tokens(ids, at, seen)), labels)


def nanogpt(size: Size, asked: argparse.Namespace) -> tuple[nn.Module, Loss]:
    if asked.nanogpt is None:
        raise LookupError("--nanogpt says where its model.py is")
    described = importlib.util.spec_from_file_location("nanogpt_model", asked.nanogpt)
    if described is None or described.loader is None:
        raise LookupError(f"{asked.nanogpt} is no Python file")
    module = importlib.util.module_from_spec(described)
    sys.modules[described.name] = module  # torch.compile looks it up by its name
    described.loader.exec_module(module)
    config = module.GPTConfig(
        block_size=size.longest,
        vocab_size=size.vocabulary,
        n_layer=size.depth,
        n_head=size.heads,
        n_embd=size.width,
        dropout=0.0,
        bias=False,
    )
    with contextlib.redirect_stdout(io.StringIO()):  # it prints its size
        model = module.GPT(config).to(asked.device)
    return model, lambda ids, labels: model(ids, labels)[1]


def hugging_face(size: Size, asked: argparse.Namespace) -> tuple[nn.Module, Loss]:
    model = of_hugging_face(size, size.vocabulary).to(asked.device)
    return model, lambda ids, labels: cross_entropy(
        model(input_ids=ids, use_cache=False).logits, labels
    )


LEARNERS: dict[str, Callable[[Size, argparse.Namespace], tuple[nn.Module, Loss]]] = {
    "ours": ours,
    "nanoGPT": nanogpt,
    "Hugging Face": hugging_face,
}
LEARNING: dict[str, dict[str, Any] | None] = {"compiled": {"dynamic": False}, "eager": None}


class Step:
    """One training step, repeated on the same batch."""

    def __init__(self, network: str, way: str, size: Size, asked: argparse.Namespace):
        torch.manual_seed(0)
        self.device = torch.device(asked.device)
        self.model, loss = LEARNERS[network](size, asked)
        self.model.train()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4, fused=True)
        shape = (2, size.batch, size.longest)
        self.batch = torch.randint(size.vocabulary, shape, device=self.device)
        options = LEARNING[way]
        self.loss = loss if options is None else torch.compile(loss, **options)

    def __call__(self) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16):
            loss = self.loss(*self.batch)
        loss.backward()
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return loss.detach()


def learned(name: str, way: str, size: Size, asked: argparse.Namespace) -> dict[str, Any]:
    """Return one row: build, warm up, measure; the memory is freed when this returns."""
    began, cuda = time.perf_counter(), torch.device(asked.device).type == "cuda"
    step = Step(name, way, size, asked)
    first = float(step())
    ready = time.perf_counter() - began
    steps, blocks = (1, 1) if asked.quick else (5, 4)
    seconds(step, steps)
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    took = statistics.median(seconds(step, steps) for _ in range(blocks)) / steps
    last = float(step())
    if not last < first:
        raise ValueError(f"{name}, {way} learned nothing: its loss went from {first} to {last}")
    return {
        "part": "training",
        "network": name,
        "way": way,
        "batch": size.batch,
        "parameters": sum(p.numel() for p in step.model.parameters()),
        "ms": took * 1000,
        "tokens_per_second": size.tokens / took,
        "mfu": size.operations() / took / PEAK_FLOPS if cuda else None,
        "gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
        "first_seconds": ready,
        "loss": [first, last],
    }


# ---- writing -----------------------------------------------------------------------------------

Write = Callable[[Tensor], Tensor]  # prompt (B, T) -> new tokens (B, new)
TUNED = {"options": {"coordinate_descent_tuning": True}}
TRIED = {"mode": "max-autotune-no-cudagraphs"}


def prepared(size: Size, asked: argparse.Namespace) -> Decoder:
    made: Any = build_decoder(size.network(bias=True), size.written_vocabulary)
    return made.to(asked.device, torch.bfloat16).eval()


def ours_step_by_step(size: Size, batch: int, asked: argparse.Namespace) -> Write:
    network = prepared(size, asked)

    def write(prompt: Tensor) -> Tensor:
        found = sample(CachedStep(network), prompt, Bounds(None, size.new), drawn(asked))
        return torch.tensor([one.ids for one in found])

    return write


def ours_recorded(
    compile: dict[str, Any] | None,
    size: Size,
    batch: int,
    asked: argparse.Namespace,
    fused: bool = False,
) -> Write:
    network = prepared(size, asked)
    network.stack.fused = fused
    recorder = CudaGraphDecoder(network, batch, size.prompt + size.new, compile=compile)

    def write(prompt: Tensor) -> Tensor:
        found = recorder.sample(prompt, Bounds(None, size.new), drawn(asked))
        ids = torch.tensor([one.ids for one in found])
        if not checked:
            checked.append(True)
            off = apart(network, prompt, ids, torch.tensor([one.logs for one in found]))
            if not off < APART:
                raise ValueError(f"what was recorded is off by {off:.3f} on average")
        return ids

    checked: list[bool] = []
    return write


@torch.no_grad()
def apart(network: Decoder, prompt: Tensor, ids: Tensor, logs: Tensor) -> float:
    """Return how far these log-probabilities are from those of one pass over all tokens, on
    average.
    """
    whole = torch.cat([prompt, ids.to(prompt.device)], 1)
    scores = network(Tokens(whole, line(whole.shape[1], device=whole.device)))
    wanted = scores[:, prompt.shape[1] - 1 : -1].log_softmax(-1, dtype=torch.float32)
    found = wanted.gather(2, whole[:, prompt.shape[1] :, None])[:, :, 0]
    return float((found - logs.to(found.device)).abs().mean())


def drawn(asked: argparse.Namespace) -> Sampling:
    return Sampling(top_k=asked.top_k, top_p=asked.top_p)


def generated(cache: str, size: Size, batch: int, asked: argparse.Namespace) -> Write:
    """Use Hugging Face's generate; with a static cache on CUDA it compiles its own step."""
    model = of_hugging_face(size, size.written_vocabulary).to(asked.device, torch.bfloat16).eval()
    model.generation_config.eos_token_id = None  # no end token to check for
    model.generation_config.pad_token_id = 0
    options: dict[str, Any] = {} if cache == "dynamic" else {"cache_implementation": cache}

    def write(prompt: Tensor) -> Tensor:
        found: Tensor = model.generate(
            prompt,
            attention_mask=torch.ones_like(prompt),
            max_new_tokens=size.new,
            do_sample=True,
            temperature=1.0,
            top_k=asked.top_k,
            top_p=asked.top_p,
            **options,
        )
        return found[:, prompt.shape[1] :].cpu()

    return write


WRITERS: dict[tuple[str, str], Callable[[Size, int, argparse.Namespace], Write]] = {
    ("Hugging Face", "static cache, compiled"): partial(generated, "static"),
    ("Hugging Face", "eager"): partial(generated, "dynamic"),
    ("ours", "recorded"): partial(ours_recorded, None),
    ("ours", "fused"): partial(ours_recorded, None, fused=True),
    ("ours", "compiled"): partial(ours_recorded, {}),
    ("ours", "compiled, tuned"): partial(ours_recorded, TUNED),
    ("ours", "compiled, products tried out"): partial(ours_recorded, TRIED),
    ("ours", "step by step"): ours_step_by_step,
}
LATE = {"compiled, products tried out", "step by step"}  # only when asked for: they take long
ALONE = {"compiled, tuned"}  # the same for several sequences: one sequence is what is tuned


def wrote(name: str, way: str, batch: int, size: Size, asked: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(0)
    began, cuda = time.perf_counter(), torch.device(asked.device).type == "cuda"
    write = WRITERS[name, way](size, batch, asked)
    shape = (batch, size.prompt)
    prompt = torch.randint(size.written_vocabulary, shape, device=asked.device)
    found = write(prompt)
    ready = time.perf_counter() - began
    if found.shape != (batch, size.new):
        raise ValueError(f"{name}, {way} wrote {tuple(found.shape)}")
    write(prompt)
    if cuda:
        torch.cuda.reset_peak_memory_stats()
    times = [seconds(lambda: write(prompt), 1) for _ in range(1 if asked.quick else 5)]
    took = statistics.median(times)
    return {
        "part": "sampling",
        "network": name,
        "way": way,
        "batch": batch,
        "ms": took * 1000 / size.new,
        "tokens_per_second": batch * size.new / took,
        "mfu": None,
        "gib": torch.cuda.max_memory_allocated() / 2**30 if cuda else None,
        "first_seconds": ready,
        "seconds": times,
    }


# ---- measuring ---------------------------------------------------------------------------------


def seconds(work: Callable[[], Any], times: int) -> float:
    """Return the seconds of some runs, with nothing running on the device before and after."""
    settle = torch.cuda.synchronize if torch.cuda.is_available() else lambda: None
    settle()
    began = time.perf_counter()
    for _ in range(times):
        work()
    settle()
    return time.perf_counter() - began


def freed() -> None:
    """Free the memory of a row and its compiled code before the next one."""
    torch.compiler.reset()
    gc.collect()
    if torch.cuda.is_available():
        torch.cuda.empty_cache()


def shown(row: dict[str, Any]) -> str:
    mfu, gib = ("" if row[name] is None else f"{row[name]:.3f}" for name in ("mfu", "gib"))
    return (
        f"{row['network']:14}{row['way']:30}{row['batch']:5}{row['ms']:10.3f}"
        f"{row['tokens_per_second']:13,.0f}{mfu:>8}{gib:>9}{row['first_seconds']:9.1f}"
    )


def claims(rows: list[dict[str, Any]]) -> list[str]:
    """Compare our best with the best of each other, for each part and batch, in this run."""
    said = []
    for part, batch in dict.fromkeys((row["part"], row["batch"]) for row in rows):
        best: dict[str, dict[str, Any]] = {}
        for row in rows:
            if (row["part"], row["batch"]) == (part, batch):
                best[row["network"]] = max(
                    row, best.get(row["network"], row), key=lambda one: one["tokens_per_second"]
                )
        if us := best.pop("ours", None):
            said += [
                f"{part}, batch {batch}: ours, {us['way']}: "
                f"{us['tokens_per_second'] / them['tokens_per_second']:.2f} x {name}, {them['way']}"
                for name, them in best.items()
            ]
    return said


def work(size: Size, asked: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the rows that were asked for, each with the function that measures it."""

    def wanted(part: str, name: str, way: str, late: bool) -> bool:
        chosen = way in asked.way if asked.way else not late
        return chosen and asked.part in (None, part) and asked.only in (None, name)

    for batch in size.batches:
        for name, way in WRITERS:
            late = way in LATE or (way in ALONE and batch > 1)
            if wanted("sampling", name, way, late):
                yield name, partial(wrote, name, way, batch, size, asked)
    for name in LEARNERS:
        for way in LEARNING:
            if wanted("training", name, way, way != "compiled"):
                yield name, partial(learned, name, way, size, asked)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--json", type=Path, help="keep the figures in this file")
    options.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    options.add_argument("--part", choices=["training", "sampling"], help="one of the two")
    options.add_argument("--only", choices=LEARNERS, help="one of the three")
    ways = dict.fromkeys([*LEARNING, *(way for _, way in WRITERS)])
    options.add_argument("--way", choices=ways, action="append", help="this way, and no others")
    options.add_argument("--nanogpt", type=Path, help="nanoGPT's model.py")
    options.add_argument("--top-k", type=int, default=0, help="of the likeliest, 0 for all")
    options.add_argument("--top-p", type=float, default=1.0, help="the likeliest of this share")
    asked = options.parse_args()
    size = TOY if asked.quick else Size()
    torch.set_float32_matmul_precision("high")
    name = torch.cuda.get_device_name() if asked.device.startswith("cuda") else "CPU"
    machine = f"{name}, torch {torch.__version__}, bfloat16"
    print(f"{machine}\n{size}, {size.operations() / size.tokens:.4g} operations a token learned\n")
    titles = ("B", 5), ("ms a step", 10), ("tokens/s", 13), ("MFU", 8), ("GiB", 9), ("first s", 9)
    print(f"{'network':14}{'way':30}" + "".join(f"{title:>{width}}" for title, width in titles))
    rows: list[dict[str, Any]] = []
    for name, row in work(size, asked):
        try:
            rows.append(row())
        except ModuleNotFoundError as missing:
            print(f"{name}: left out, `pip install {missing.name}` would do", flush=True)
            continue
        except LookupError as missing:
            print(f"{name}: left out, {missing}", flush=True)
            continue
        except RuntimeError as failed:  # in one way to compile, say: still measure the others
            print(f"{name}: failed, {str(failed).splitlines()[0]}", flush=True)
            freed()
            continue
        freed()
        print(shown(rows[-1]), flush=True)
        if asked.json:  # after each: an interrupted run keeps its results
            kept = {"machine": machine, "size": vars(size), "rows": rows, "claims": claims(rows)}
            asked.json.write_text(json.dumps(kept, indent=1) + "\n")
    print("", *claims(rows), sep="\n")


if __name__ == "__main__":
    main()
