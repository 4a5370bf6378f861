"""How fast is a file of sentences translated: ours against Hugging Face, the same weights.

    manyheads train translation --pairs multi30k.tsv --preset base --minutes 2 --out runs/base
    python bench/translating.py runs/base --sentences train.de --json results/x.json
    python bench/translating.py de-en --sentences test.de --count 60 --quick     to see that it runs

The sentences are of mixed lengths. The model is exported to Hugging Face and read from there, so
that both write nearly the same text; how often they do is printed. Ours gets the whole file at
once. Theirs gets batches of sentences of like length; several sizes are tried on a part of the
file, and the fastest then translates all of it. Timed is from text to text, with a beam of 5, in
bfloat16 on CUDA, after a part was translated to warm up.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any, cast

import torch

from manyheads.models import load
from manyheads.tasks.seq2seq.model import Translator

BEAM = 5
BATCHES = (32, 64, 128, 256, 512)
PART = 20  # one of so many sentences is translated to warm up and to try batch sizes

Translate = Callable[[Sequence[str]], list[str]]


def read_sentences(path: Path, count: int) -> list[str]:
    """Return `count` random lines of a file, in random order."""
    opened = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8") as file:
        lines = [line.strip() for line in file if line.strip()]
    return Random(0).sample(lines, min(count, len(lines)))


def read_exported(name: str, device: torch.device, dtype: torch.dtype) -> Any:
    """Export a model to Hugging Face and read the folder."""
    from transformers import AutoModelForSeq2SeqLM

    with tempfile.TemporaryDirectory() as scratch:
        at = Path(scratch) / "exported"
        words = "export", str(at), "--model", name, "--to", "huggingface"
        subprocess.run([sys.executable, "-m", "manyheads", *words], check=True, capture_output=True)
        return cast(Any, AutoModelForSeq2SeqLM.from_pretrained(at, dtype=dtype)).eval().to(device)


def their_translate(model: Any, ours: Translator, batch: int, longest: int) -> Translate:
    source, target = ours.task.codecs.source, ours.task.codecs.target
    stop, pad = model.generation_config.eos_token_id, model.generation_config.pad_token_id

    def translate(sentences: Sequence[str]) -> list[str]:
        ids = [[*one, stop] for one in source.encode_all(sentences)]
        order = sorted(range(len(ids)), key=lambda i: len(ids[i]), reverse=True)
        found: dict[int, str] = {}
        for first in range(0, len(order), batch):
            rows = order[first : first + batch]
            padded = torch.nn.utils.rnn.pad_sequence(
                [torch.tensor(ids[i]) for i in rows], True, pad
            )
            padded = padded.to(model.device)
            with torch.inference_mode():
                written = model.generate(
                    input_ids=padded,
                    attention_mask=(padded != pad).long(),
                    num_beams=BEAM,
                    early_stopping=True,  # the faster of both ways to stop
                    do_sample=False,
                    max_new_tokens=longest,
                )
            for i, row in zip(rows, written[:, 1:].tolist(), strict=True):
                end = row.index(stop) if stop in row else len(row)
                found[i] = target.render([token for token in row[:end] if token != pad])
        return [found[i] for i in range(len(ids))]

    return translate


def time_once(translate: Translate, sentences: Sequence[str]) -> tuple[float, list[str]]:
    began = time.perf_counter()
    found = translate(sentences)
    return time.perf_counter() - began, found


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("model", help="a run, or a built-in model")
    options.add_argument("--sentences", type=Path, required=True)
    options.add_argument("--count", type=int, default=10_000)
    options.add_argument("--longest", type=int, default=128, help="tokens of an output")
    options.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options.add_argument("--json", type=Path, help="keep the figures in this file")
    options.add_argument("--quick", action="store_true", help="two batch sizes")
    asked = options.parse_args()
    device = torch.device(asked.device)
    dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
    sentences = read_sentences(asked.sentences, asked.count)
    some = sentences[:: max(1, min(PART, len(sentences) // 10))]

    ours = cast(Translator, load(asked.model, str(device)))
    ours.network.to(dtype)

    def our_translate(texts: Sequence[str]) -> list[str]:
        return ours.translate(list(texts), beam=BEAM, max_new_tokens=asked.longest)

    time_once(our_translate, some)
    rows: list[dict[str, Any]] = []

    def note(who: str, seconds: float, batch: int | None = None) -> None:
        speed = len(sentences) / seconds
        rows.append({"who": who, "sentences_per_second": speed, "batch": batch})
        print(f"{who:14} {speed:10,.1f} sentences/s" + (f", batches of {batch}" if batch else ""))

    seconds, mine = time_once(our_translate, sentences)
    note("ours", seconds)
    model = read_exported(asked.model, device, dtype)
    tried: dict[int, float] = {}
    for batch in BATCHES[:2] if asked.quick else BATCHES:
        translate = their_translate(model, ours, batch, asked.longest)
        time_once(translate, some[:batch])
        tried[batch] = time_once(translate, some)[0]
    best = min(tried, key=tried.__getitem__)
    translate = their_translate(model, ours, best, asked.longest)
    seconds, theirs = time_once(translate, sentences)
    note("Hugging Face", seconds, best)
    ratio = rows[0]["sentences_per_second"] / rows[1]["sentences_per_second"]
    same = sum(a == b for a, b in zip(mine, theirs, strict=True)) / len(mine)
    print(f"{ratio:.2f} times as fast; {same:.1%} of the outputs are the same")
    if asked.json:
        name = torch.cuda.get_device_name() if device.type == "cuda" else "CPU"
        kept = {"machine": f"{name}, torch {torch.__version__}", "sentences": len(sentences)}
        told = {**kept, "rows": rows, "same": same, "tried": tried}
        asked.json.write_text(json.dumps(told, indent=1) + "\n")


if __name__ == "__main__":
    main()
