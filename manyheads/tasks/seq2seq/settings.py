"""Text in, text out: settings, and good ones for those who give none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

from manyheads.config.declare import setting
from manyheads.data.layout import Layout
from manyheads.metrics.scripts import check_tokenizer, fitting_tokenizer
from manyheads.modules.build import BUILDERS, Network
from manyheads.tasks.family import Asked, check_layout, fine_tuned
from manyheads.tasks.seq2seq import prepare as corpora
from manyheads.tasks.seq2seq.kinds import KINDS, Kind
from manyheads.tasks.seq2seq.model import Translator
from manyheads.tasks.seq2seq.prepare import Gathered, corpus, load_codecs
from manyheads.tasks.seq2seq.reading import Data
from manyheads.tasks.seq2seq.task import Codec, Codecs, HeldOut, Learning, Texts
from manyheads.training.learner import Training
from manyheads.training.run import CORPUS, Run

FILES: tuple[str, ...] = (
    "source",
    "target",
    "pairs",
    "valid_source",
    "valid_target",
    "valid_pairs",
)
USE = "translate"


@dataclass(frozen=True)
class Recipe:
    """What to learn, from what, with what."""

    task: Kind = setting(about="What is learned.")
    data: Data = setting(about="Where it is learned from.")
    codec: Codec = setting(Codec(), "How it becomes numbers.")
    network: Network = setting(Network(), "What learns it.")
    training: Training = setting(Training(), "How long, how fast and on how much at a time.")
    layout: Layout = setting(
        "packed", "Sequences behind each other in full rows (packed), or one a row (padded)."
    )
    bleu_tokenizer: str | None = setting(
        None, "How BLEU finds words, one of sacreBLEU's; null: by the script of the targets."
    )
    start_from: Path | None = setting(
        None, "A run or an imported model: its vocabulary, its network and its weights."
    )

    def __post_init__(self) -> None:
        check_layout(self.network, self.layout)
        if self.training.compile and self.network.kind == "recurrent":
            raise ValueError(
                "a recurrent network runs as it is, there is nothing to compile; "
                "training.compile: false would do"
            )
        if self.bleu_tokenizer is not None and self.task != "translation":
            raise ValueError(
                f"bleu_tokenizer is for translation, {self.task} is not judged by BLEU; "
                "bleu_tokenizer: null would do"
            )
        room, longest = self.network.longest, self.data.longest_tokens
        if self.network.position == "learned" and room < longest:
            raise ValueError(
                f"a learned position for {room} places meets texts of {longest} tokens; "
                f"network.longest: {longest} or data.longest_tokens: {room} would do"
            )


# ---- presets: functions, so that a choice may follow from the corpus and the machine ------------


def tiny(corpus: int, cuda: bool) -> dict[str, Any]:
    """For a first look on a laptop: minutes."""
    return {
        "codec": Codec(size=4000),
        "network": Network(width=128, depth=2, heads=4, inner=512, dropout=0.1),
        "training": scaled(corpus, cuda, epochs=10, tokens=4096),
    }


def small(corpus: int, cuda: bool) -> dict[str, Any]:
    """For tens of thousands of pairs."""
    return {
        "codec": Codec(size=8000),
        "network": Network(width=256, depth=4, heads=4, inner=1024, dropout=0.3),
        "training": scaled(corpus, cuda, epochs=60, tokens=16384),
    }


def base(corpus: int, cuda: bool) -> dict[str, Any]:
    """The Transformer as first published, for millions of pairs."""
    return {
        "codec": Codec(size=32000),
        "network": Network(width=512, depth=6, heads=8, inner=2048, dropout=0.1),
        "training": scaled(corpus, cuda, epochs=20, tokens=25600),
    }


PRESETS: dict[str, Any] = {"tiny": tiny, "small": small, "base": base}

# Learning rates by preset and kind of network (results/README.md says how they were found).
RATES = {
    "tiny": {"transformer": 3e-3, "recurrent": 6e-3, "convolutional": 6e-3},
    "small": {"transformer": 4e-3, "recurrent": 1e-3, "convolutional": 1e-3},
    "base": {"transformer": 7e-4, "recurrent": 7e-4, "convolutional": 7e-4},
}


def fitting(corpus: int, cuda: bool) -> str:
    """The preset for a corpus of so many tokens on this machine."""
    if not cuda:
        return "tiny"
    return "small" if corpus < 20_000_000 else "base"


def scaled(corpus: int, cuda: bool, *, epochs: int, tokens: int) -> Training:
    """So many epochs, validated some twenty times."""
    steps = max(200, epochs * corpus // tokens)
    every = max(50, steps // 20)
    return Training(
        steps=steps,
        tokens_per_batch=tokens,
        schedule="inverse-square-root",
        warmup_steps=max(50, min(4000, steps // 8)),
        label_smoothing=0.1,
        precision="bfloat16" if cuda else "float32",
        compile=False,
        validate_every=every,
        checkpoint_every=every,
        log_every=max(1, min(50, every // 2)),
        ema=0.995 if steps >= 1000 else 0.98,
    )


def recipe_for(task: Kind, data: Data, tokens: int, asked: Asked = Asked()) -> Recipe:
    """All settings for a corpus of so many tokens on this device, where none were given."""
    cuda = asked.device == "cuda"
    data = replace(data, filters=data.filters or KINDS[task].filters)
    name = asked.preset or fitting(tokens, cuda)
    if name not in PRESETS:
        raise ValueError(f"there is no preset {name!r}; there are {', '.join(PRESETS)}")
    parts = PRESETS[name](tokens, cuda)
    if asked.start is not None:
        if asked.start.task not in KINDS:
            raise ValueError(
                f"{task} starts from a run of {', '.join(KINDS)}; "
                f"the run to start from learned {asked.start.task}"
            )
        parts["network"], parts["codec"] = asked.start.network, asked.start.codec
    if asked.network is not None:
        if asked.network not in BUILDERS:
            raise ValueError(
                f"there is no network {asked.network!r}; there are {', '.join(BUILDERS)}"
            )
        parts["network"] = replace(parts["network"], kind=asked.network)
    rate = RATES[name][parts["network"].kind]
    parts["training"] = replace(parts["training"], learning_rate=rate)
    if asked.start is not None:
        parts["training"] = fine_tuned(parts["training"], parts["network"])
    # Packed rows need attention that knows documents, which on a CPU is slower than padding.
    layout: Layout = "packed" if cuda and parts["network"].packs else "padded"
    return Recipe(task, data, layout=layout, **parts)


# ---- from files to a job ---------------------------------------------------------------------


def data_of(files: Mapping[str, Any]) -> Data:
    return Data(**cast(dict[str, Any], files))


def gather(recipe: Recipe) -> Gathered:
    data = recipe.data
    if data.pairs is None and data.source is None:
        raise ValueError(f"nothing to learn from: {data.imported} is a model, not pairs of texts")
    if recipe.bleu_tokenizer is not None:
        check_tokenizer(recipe.bleu_tokenizer)
    return corpora.gather(recipe.task, data, recipe.training.seed)


def with_tokenizer(recipe: Recipe, gathered: Gathered) -> Recipe:
    """How BLEU finds words, by the script of the targets where nothing was said."""
    if recipe.task != "translation" or recipe.bleu_tokenizer is not None:
        return recipe
    chosen = fitting_tokenizer(example.target for example in gathered.valid)
    return replace(recipe, bleu_tokenizer=chosen.tokenizer)


def tokens(gathered: Gathered, recipe: Recipe) -> int:
    return gathered.tokens()


def counted(gathered: Gathered) -> str:
    return f"{len(gathered.train):,} pairs to train on, {len(gathered.valid):,} to validate on"


def prepare(gathered: Gathered, recipe: Recipe, run: Run) -> None:
    """With the vocabulary of the run it starts from, where there is one."""
    codecs = begun(recipe)
    longest, capitals = recipe.data.longest_tokens, recipe.data.capitals
    corpora.prepare(gathered, recipe.codec, longest, run, codecs, capitals)
    if recipe.task != "translation":
        return
    fits = fitting_tokenizer(example.target for example in gathered.valid)
    if recipe.bleu_tokenizer in (None, fits.tokenizer) and fits.reason:
        run.write(CORPUS, f"{fits.reason}; bleu_tokenizer=... would change it\n")


def begun(recipe: Recipe) -> Codecs | None:
    return None if recipe.start_from is None else load_codecs(recipe.start_from)


def job(recipe: Recipe, run: Run) -> Learning:
    codecs = load_codecs(run.folder)
    held = held_out(run, codecs)
    tokenize = recipe.bleu_tokenizer or fitting_tokenizer(r[0] for r in held.references).tokenizer
    check_tokenizer(tokenize)
    return Learning(
        Texts(recipe.task, codecs, recipe.network, tokenize),
        corpus(run, "train", codecs),
        held,
        layout=recipe.layout,
        tokens=recipe.training.tokens_per_batch,
        seed=recipe.training.seed,
        capitals=recipe.data.capitals,
    )


def held_out(run: Run, codecs: Codecs) -> HeldOut:
    lines = (run / "data" / "valid.jsonl").read_text(encoding="utf-8").split("\n")
    records = [json.loads(line) for line in lines if line]
    sources = [record["source"] for record in records]
    references = [record["references"] for record in records]
    return HeldOut(sources, references, corpus(run, "valid", codecs))


def model(recipe: Recipe, folder: Path, name: str) -> Translator:
    task = Texts(recipe.task, load_codecs(folder), recipe.network)
    return Translator(task, task.network(), name)
