"""Text in, text out: settings, and good ones for those who give none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from manyheads.codecs.text import Normalize
from manyheads.config.declare import check, setting
from manyheads.data.filters import Filters
from manyheads.modules.config import NETWORK_KINDS, Layout, Network
from manyheads.tasks.presets import check_layout, chosen_preset, fine_tuned
from manyheads.tasks.recipe import Choice
from manyheads.training.config import Training

Kind = Literal["translation", "summarization", "answering"]

# A summary and an answer are meant to be shorter; how long a text may be its tokens say.
SHORTER = Filters(longest_characters=0, ratio=0.0)
FILTERS: dict[Kind, Filters] = {
    "translation": Filters(),
    "summarization": SHORTER,
    "answering": SHORTER,
}

FILES = ("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs")


@dataclass(frozen=True)
class PairData:
    """Where examples come from, and which are left out.

    Two files of lines, or one of pairs: .tsv with a tab between, .jsonl with an object a line.
    """

    source: Path | None = setting(None, "Texts to read, one a line.")
    target: Path | None = setting(None, "What is to be written for each.")
    valid_source: Path | None = setting(None, "Texts to read, for validation.")
    valid_target: Path | None = setting(None, "What is wanted for each of those.")
    pairs: Path | None = setting(None, "Both in one file, .tsv or .jsonl.")
    valid_pairs: Path | None = setting(None, "Both in one file, for validation.")
    held_out: int = setting(
        500, "Pairs to validate on, where no files for it are given; a tenth at most.", least=1
    )
    longest_tokens: int = setting(
        512, "Pairs with a longer side are not learned from.", least=2, most=10**7
    )
    filters: Filters | None = setting(None, "Which pairs are left out; null: as suits the task.")
    capitals: float = setting(
        0.05,
        "Share of the pairs, drawn anew in each epoch, that are learned in ALL CAPS.",
        least=0,
        most=1,
    )
    imported: Path | None = setting(None, "Where a model came from that was not trained here.")

    def __post_init__(self) -> None:
        check(self, self.misfits())

    def misfits(self) -> Iterator[str]:
        yield from self.halves("source", "target", "pairs")
        yield from self.halves("valid_source", "valid_target", "valid_pairs")
        if not (self.pairs or self.source or self.target or self.imported):
            yield "nothing to learn from: give source and target, or pairs"

    def halves(self, source: str, target: str, pairs: str) -> Iterator[str]:
        """Two files that belong together, or one that holds both; not half of either."""
        one, other, both = (getattr(self, name) is not None for name in (source, target, pairs))
        if one != other:
            here, missing = (source, target) if one else (target, source)
            yield f"{here} was given without {missing}; they come together"
        elif one and both:
            yield f"{source} and {target} were given and {pairs} too; one of them is enough"


@dataclass(frozen=True)
class PairCodec:
    """How text becomes numbers."""

    kind: Literal["bpe", "unigram", "word", "character", "byte", "given"] = setting(
        "bpe", "What text is cut into; given: the vocabulary of a model from elsewhere."
    )
    size: int = setting(8000, "Pieces of a vocabulary, at most.", least=1, most=10**7)
    joint: bool = setting(True, "One vocabulary for both sides, or one each.")
    normalize: Normalize = setting(
        "nfkc",
        "Before a text is cut: nfkc writes … as ... and ² as 2, nfc does not; both fold spaces.",
    )

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class Seq2SeqRecipe:
    """What to learn, from what, with what."""

    task: Kind = setting(about="What is learned.")
    data: PairData = setting(about="Where it is learned from.")
    codec: PairCodec = setting(PairCodec(), "How it becomes numbers.")
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
        "codec": PairCodec(size=4000),
        "network": Network(width=128, depth=2, heads=4, inner=512, dropout=0.1),
        "training": scaled(corpus, cuda, epochs=10, tokens=4096),
    }


def small(corpus: int, cuda: bool) -> dict[str, Any]:
    """For tens of thousands of pairs."""
    return {
        "codec": PairCodec(size=8000),
        "network": Network(width=256, depth=4, heads=4, inner=1024, dropout=0.3),
        "training": scaled(corpus, cuda, epochs=60, tokens=16384),
    }


def base(corpus: int, cuda: bool) -> dict[str, Any]:
    """The Transformer as first published, for millions of pairs."""
    return {
        "codec": PairCodec(size=32000),
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


def recipe_for(task: Kind, data: PairData, tokens: int, choice: Choice = Choice()) -> Seq2SeqRecipe:
    """All settings for a corpus of so many tokens on this device, where none were given."""
    cuda = choice.device == "cuda"
    data = replace(data, filters=data.filters or FILTERS[task])
    name = choice.preset or fitting(tokens, cuda)
    parts = chosen_preset(PRESETS, name)(tokens, cuda)
    if choice.start is not None:
        if choice.start.task not in FILTERS:
            raise ValueError(
                f"{task} starts from a run of {', '.join(FILTERS)}; "
                f"the run to start from learned {choice.start.task}"
            )
        parts["network"], parts["codec"] = choice.start.network, choice.start.codec
    if choice.network is not None:
        if choice.network not in NETWORK_KINDS:
            raise ValueError(
                f"there is no network {choice.network!r}; there are {', '.join(NETWORK_KINDS)}"
            )
        parts["network"] = replace(parts["network"], kind=choice.network)
    rate = RATES[name][parts["network"].kind]
    parts["training"] = replace(parts["training"], learning_rate=rate)
    if choice.start is not None:
        parts["training"] = fine_tuned(parts["training"], parts["network"])
    # Packed rows need attention that knows documents, which on a CPU is slower than padding.
    layout: Layout = "packed" if cuda and parts["network"].packs else "padded"
    return Seq2SeqRecipe(task, data, layout=layout, **parts)
