"""Make a built-in model from a run: its weights in 16 bits, its recipe, its vocabulary and a card.

python results/builtin.py RUN NAME --source test.de.gz --reference test.en.gz

The test set is translated with a beam of 5 on this machine, and the card holds the scores.
"""

from __future__ import annotations

import argparse
import json
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from manyheads.catalog import BUILT_IN
from manyheads.config import write
from manyheads.decoding.config import DecodingConfig
from manyheads.models import load
from manyheads.tasks.seq2seq.corpus import read_pairs
from manyheads.tasks.seq2seq.evaluation import evaluate_texts
from manyheads.tasks.table import load_recipe
from manyheads.training.files import read_tensors, write_tensors, write_text
from manyheads.training.run import RECIPE, WEIGHTS

LANGUAGES = {"de": "German", "en": "English"}
ABOUT = """\
# {name}

{source} to {target}: short everyday sentences, BLEU {bleu} on {examples:,} held-out sentences.

| | |
|---|---|
| network | Transformer, {depth} + {depth} layers, width {width}, {parameters:,} parameters |
| vocabulary | {vocabulary:,} byte pairs, one for both languages |
| size | {megabytes:.1f} MB, weights in 16 bits |
| trained on | {pairs:,} sentence pairs, {steps:,} steps of {tokens:,} tokens |
| BLEU, beam 5 | {bleu} ({bleu_signature}) |
| chrF, beam 5 | {chrf} ({chrf_signature}) |
| speed | {speed:.0f} sentences a second, beam 5, {threads} CPU threads |

It knows the short sentences of language learners: greetings, questions, "Tom" and "Mary". Long
sentences, names and technical words it has not met come out badly; it is here so that everything
can be tried at once, not to replace a large model.

## What it was trained on

Sentence pairs from the Tatoeba project (tatoeba.org) as published by manythings.org/anki, licensed
under Creative Commons Attribution 2.0 France (CC BY 2.0 FR); the authors of each sentence are named
on tatoeba.org. Pairs that share a sentence with the test set were kept out of the training set.

## Some of what it writes

| {source} | {target} by this model | reference |
|---|---|---|
{samples}
"""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("run", type=Path)
    options.add_argument("name", help="de-en")
    options.add_argument("--source", type=Path, required=True)
    options.add_argument("--reference", type=Path, required=True)
    asked = options.parse_args()
    folder = BUILT_IN / asked.name
    recipe = packed(asked.run, folder)
    model = load(folder, "cpu")
    examples = list(read_pairs("translation", asked.source, asked.reference, None))
    began = time.perf_counter()
    evaluation = evaluate_texts(model, examples, DecodingConfig(beam=5), "13a")
    seconds = time.perf_counter() - began
    told = evaluation.report()
    metrics = [json.loads(line) for line in (asked.run / "metrics.jsonl").open()]
    kept = (asked.run / "corpus.txt").read_text(encoding="utf-8").split(", ")[1].split(" ")[0]
    source, target = asked.name.split("-")
    apart = len(examples) // 12
    samples = "\n".join(
        f"| {examples[i].source} | {evaluation.outputs[i]} | {examples[i].target} |"
        for i in range(apart // 2, len(examples), apart)
    )
    card = ABOUT.format(
        name=asked.name,
        source=LANGUAGES[source],
        target=LANGUAGES[target],
        bleu=f"{told['scores']['bleu']['value']:.1f}",
        bleu_signature=told["scores"]["bleu"]["signature"].replace("|", " "),
        chrf=f"{told['scores']['chrf']['value']:.1f}",
        chrf_signature=told["scores"]["chrf"]["signature"].replace("|", " "),
        examples=len(examples),
        depth=recipe.network.depth,
        width=recipe.network.width,
        parameters=sum(p.numel() for p in model.network.parameters()),
        vocabulary=model.task.codecs.source.size,
        megabytes=sum(path.stat().st_size for path in folder.iterdir()) / 1e6,
        pairs=int(kept.replace(",", "")),
        steps=max(line["step"] for line in metrics if "valid" in line),
        tokens=recipe.training.tokens_per_batch,
        speed=len(examples) / seconds,
        threads=torch.get_num_threads(),
        samples=samples,
    )
    write_text(folder / "README.md", card)
    print(card)


def packed(run: Path, folder: Path) -> Any:
    """Copy all that a model needs from a run, without the paths of its corpus."""
    folder.mkdir(parents=True, exist_ok=True)
    recipe = load_recipe(run / RECIPE)
    files = {name: named(value) for name, value in vars(recipe.data).items()}
    recipe = replace(recipe, data=replace(recipe.data, **files))
    write_text(folder / RECIPE, write(recipe))
    for name in ("tokenizer.json", "codec.json", "pixels.json"):
        if (run / name).exists():
            shutil.copyfile(run / name, folder / name)
    weights, note = read_tensors(run / WEIGHTS)
    write_tensors(folder / WEIGHTS, {name: one.half() for name, one in weights.items()}, note)
    return recipe


def named(value: Any) -> Any:
    """Return only the name of a path, or of each path in a tuple."""
    if isinstance(value, tuple):
        return tuple(map(named, value))
    return Path(value.name) if isinstance(value, Path) else value


if __name__ == "__main__":
    main()
