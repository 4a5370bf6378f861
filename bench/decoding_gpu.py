"""How fast is a translation written on a GPU: ours against Hugging Face's `generate`.

    python bench/decoding_gpu.py --json results/decoding-h200.json
    python bench/decoding_gpu.py --quick        toy sizes, to see that it runs

Transformer-base in bfloat16 with random weights, 32 tokens read and 32 written for each sentence,
greedily and with a beam of 4; networks of the same size, one after the other. Each is warmed up
with two runs and timed over several more; tokens are those of the best sequence.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from training import TOY, Size, marian, ours

from manyheads import DecodingConfig
from manyheads.codecs.text import SpecialTokens
from manyheads.tasks.seq2seq.writing import write_targets

READ = WRITTEN = 32
BATCHES = 1, 64, 512
BEAMS = 1, 4


def sources_of(batch: int, vocabulary: int) -> list[list[int]]:
    chance = torch.Generator().manual_seed(0)
    return torch.randint(4, vocabulary, (batch, READ - 1), generator=chance).tolist()


def our_writer(size: Size, device: torch.device, fused: bool) -> Callable[[int, int], Any]:
    torch.manual_seed(0)
    network: Any = ours(size, device)[0].eval().to(torch.bfloat16)
    network.decoder.stack.fused = fused

    def write(batch: int, beam: int) -> Any:
        how = DecodingConfig(beam=beam, min_new_tokens=WRITTEN, max_new_tokens=WRITTEN)
        special = (SpecialTokens(), SpecialTokens())
        sources = sources_of(batch, size.vocabulary)
        return write_targets(network, sources, how, special=special, tokens=10**6)

    return write


def their_writer(size: Size, device: torch.device) -> Callable[[int, int], Any]:
    torch.manual_seed(0)
    network: Any = marian(size, device)[0].eval().to(torch.bfloat16)
    network.config.use_cache = network.generation_config.use_cache = True

    def write(batch: int, beam: int) -> Any:
        ids = torch.tensor(sources_of(batch, size.vocabulary), device=device)
        return network.generate(
            ids, num_beams=beam, min_new_tokens=WRITTEN, max_new_tokens=WRITTEN, do_sample=False
        )

    return write


def measure(write: Callable[[int, int], Any], batch: int, beam: int, times: int) -> float:
    """Return the tokens per second, the median of some runs."""
    seconds = []
    for i in range(2 + times):
        began = time.perf_counter()
        write(batch, beam)
        if torch.cuda.is_available():
            torch.cuda.synchronize()
        if i >= 2:
            seconds.append(time.perf_counter() - began)
    return batch * WRITTEN / statistics.median(seconds)


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--json", type=Path, help="keep the figures in this file")
    options.add_argument("--fused", action="store_true", help="ours by fused programs")
    options.add_argument("--quick", action="store_true", help="toy sizes, to see that it runs")
    asked = options.parse_args()
    device = torch.device(asked.device)
    size = replace(TOY, length=64) if asked.quick else Size(length=64)
    batches, times = ((1, 3), 1) if asked.quick else (BATCHES, 3)
    writers = {"ours": our_writer(size, device, asked.fused)}
    try:
        writers["Marian"] = their_writer(size, device)
    except ModuleNotFoundError as missing:
        print(f"Marian: left out, `pip install {missing.name}` would do")
    rows = []
    print(f"{'beam':>5}{'batch':>7}" + "".join(f"{name:>12}" for name in writers) + "   tokens/s")
    for beam in BEAMS:
        for batch in batches:
            found = {name: measure(write, batch, beam, times) for name, write in writers.items()}
            rows.append({"beam": beam, "batch": batch, **found})
            ratio = f"{found['ours'] / found['Marian']:8.2f} x" if "Marian" in found else ""
            shown = "".join(f"{one:12,.0f}" for one in found.values())
            print(f"{beam:5}{batch:7}{shown}{ratio}", flush=True)
            if asked.json:
                name = torch.cuda.get_device_name() if torch.cuda.is_available() else "CPU"
                kept = {"machine": f"{name}, torch {torch.__version__}", "rows": rows}
                asked.json.write_text(json.dumps(kept, indent=1) + "\n")


if __name__ == "__main__":
    main()
