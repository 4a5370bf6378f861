"""Text in, text out: settings, and presets for those who give none."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, Self, get_args

from manyheads.codecs.text import Normalize, VocabularyKind
from manyheads.config.declare import Settings, setting
from manyheads.data.filters import Filters
from manyheads.modules.config import CONFIGS, Layout, NetworkConfig, TransformerConfig
from manyheads.tasks.recipe import (
    START_FROM,
    Choice,
    Preset,
    Recipe,
    TrainingPlan,
    check_layout,
    check_room,
)
from manyheads.tasks.seq2seq.parallel.config import PARALLEL, ParallelConfig, ParallelNetworkConfig
from manyheads.tasks.seq2seq.verbs import VERBS
from manyheads.training.config import Training

Kind = Literal["translation", "summarization", "answering"]

# Summaries and answers are meant to be shorter; data.longest_tokens limits the texts.
SHORTER = Filters(longest_characters=0, ratio=0.0)
FILTERS: dict[Kind, Filters] = {
    "translation": Filters(),
    "summarization": SHORTER,
    "answering": SHORTER,
}


@dataclass(frozen=True)
class PairData(Settings):
    """Where examples come from, and which are left out.

    Two files of lines, or one of pairs: .tsv with a tab between, .jsonl with an object a line.
    """

    source: Path | None = setting(None, "Source texts, one per line.")
    target: Path | None = setting(None, "Target texts, one per line.")
    valid_source: Path | None = setting(None, "Source texts for validation.")
    valid_target: Path | None = setting(None, "Target texts for validation.")
    pairs: Path | None = setting(None, "Source and target in one file, .tsv or .jsonl.")
    valid_pairs: Path | None = setting(None, "Source and target in one file, for validation.")
    held_out: int = setting(
        500,
        "Pairs to hold out for validation if you give no validation files; at most a tenth.",
        least=1,
    )
    longest_tokens: int = setting(
        512,
        "Leave out training pairs with more than this many tokens on one side.",
        least=2,
        most=10**7,
    )
    filters: Filters | None = setting(
        None, "Filters that leave out bad pairs; null: the filters of the task."
    )
    capitals: float = setting(
        0.05,
        "Share of the pairs to train in ALL CAPS, chosen again in each epoch.",
        least=0,
        most=1,
    )
    teacher: Path | None = setting(
        None,
        "Distillation: train on the translations of this model (beam 5) instead of the targets.",
    )
    imported: Path | None = setting(None, "Origin of an imported model.")

    def misfits(self) -> Iterator[str]:
        yield from self.check_halves("source", "target", "pairs")
        yield from self.check_halves("valid_source", "valid_target", "valid_pairs")
        if not (self.pairs or self.source or self.target or self.imported):
            yield "nothing to learn from: give source and target, or pairs"

    def check_halves(self, source: str, target: str, pairs: str) -> Iterator[str]:
        """Require two files that belong together, or one that holds both; not half of either."""
        one, other, both = (getattr(self, name) is not None for name in (source, target, pairs))
        if one != other:
            here, missing = (source, target) if one else (target, source)
            yield f"{here} was given without {missing}; they come together"
        elif one and both:
            yield f"{source} and {target} were given and {pairs} too; one of them is enough"


@dataclass(frozen=True)
class PairCodec(Settings):
    """How text becomes numbers."""

    kind: VocabularyKind = setting("bpe", "Kind of tokenizer; given: that of an imported model.")
    size: int = setting(8000, "Maximum size of each vocabulary.", least=1, most=10**7)
    joint: bool = setting(True, "One vocabulary for both sides; false: one for each.")
    normalize: Normalize = setting(
        "nfkc",
        "Unicode normalisation: nfkc turns … into ... and ² into 2, nfc does not; both normalise "
        "spaces.",
    )


# ---- presets ---------------------------------------------------------------------------------

# Learning rates by kind of network: results/README.md says how they were found.
PRESETS = {
    "tiny": Preset(
        "For a first look: minutes on a laptop.",
        TransformerConfig(width=128, depth=2, heads=4, dropout=0.1),
        epochs=10,
        batch=4096,
        learning_rate=3e-3,
        rates={"recurrent": 6e-3, "convolutional": 6e-3},
        codec=PairCodec(size=4000),
    ),
    "small": Preset(
        "For tens of thousands of pairs.",
        TransformerConfig(width=256, depth=4, heads=4, dropout=0.3),
        epochs=60,
        batch=16384,
        learning_rate=4e-3,
        rates={"recurrent": 1e-3, "convolutional": 1e-3, **dict.fromkeys(PARALLEL, 2e-3)},
        codec=PairCodec(size=8000),
    ),
    "base": Preset(
        "For millions of pairs: the size of the first published Transformer (base).",
        TransformerConfig(width=512, depth=6, heads=8, dropout=0.1),
        epochs=20,
        batch=25600,
        learning_rate=7e-4,
        codec=PairCodec(size=32000),
    ),
}


# ---- the recipe ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Seq2SeqRecipe(Recipe):
    """All settings of a run of translation, summarization or answering."""

    implementation = "manyheads.tasks.seq2seq.task:Seq2Seq"
    files = (
        *("source", "target", "pairs", "valid_source", "valid_target", "valid_pairs"),
        "teacher",
    )
    example = "--pairs train.jsonl"
    presets = PRESETS
    verbs = VERBS
    use = "translate"
    configs = {**CONFIGS, **PARALLEL}  # noqa: RUF012
    networks = tuple(configs)
    starts_from = get_args(Kind)
    plan = TrainingPlan(
        {"schedule": "inverse-square-root", "label_smoothing": 0.1, "cuda_graph": True},
        warmup=(50, 4000, 8),
    )
    many_tokens = 20_000_000
    # Packed rows need attention within documents, which is slower than padding on a CPU.
    packs_on_cpu = False

    task: Kind = setting(about="The task.")
    data: PairData = setting(about="Training data.")
    codec: PairCodec = setting(PairCodec(), "Tokenizer.")
    network: NetworkConfig | ParallelNetworkConfig = setting(TransformerConfig(), "Network.")
    training: Training = setting(Training(), "Training.")
    layout: Layout = setting(
        "packed", "Batch layout: several sequences in each row (packed), or one per row (padded)."
    )
    bleu_tokenizer: str | None = setting(
        None, "Tokenizer of sacreBLEU for BLEU; null: chosen by the script of the targets."
    )
    start_from: Path | None = setting(None, START_FROM)

    def __post_init__(self) -> None:
        check_layout(self.network, self.layout)
        if self.training.compile and self.network.kind == "recurrent":
            raise ValueError(
                "a recurrent network runs as it is, there is nothing to compile; "
                "training.compile: false would do"
            )
        if self.training.cuda_graph and isinstance(self.network, ParallelConfig):
            raise ValueError(
                f"steps of a {self.network.kind} network are not recorded: what they need differs "
                "from batch to batch; training.cuda_graph: false would do"
            )
        if self.bleu_tokenizer is not None and self.task != "translation":
            raise ValueError(
                f"bleu_tokenizer is for translation, {self.task} is not judged by BLEU; "
                "bleu_tokenizer: null would do"
            )
        check_room(self.network, self.data.longest_tokens, "texts", "data.longest_tokens")

    @classmethod
    def choose(cls, task: Any, data: Any, tokens: int, choice: Choice = Choice()) -> Self:
        data = replace(data, filters=data.filters or FILTERS[task])
        recipe = super().choose(task, data, tokens, choice)
        ema = 0.995 if recipe.training.steps >= 1000 else 0.98
        return replace(recipe, training=replace(recipe.training, ema=ema))

    @classmethod
    def preset_of_kind(cls, preset: Preset, network: Any) -> Preset:
        preset = super().preset_of_kind(preset, network)
        if not isinstance(network, ParallelConfig):
            return preset
        training = {**preset.training, "cuda_graph": False}
        return preset._replace(epochs=network.slower * preset.epochs, training=training)

    @classmethod
    def fine_tune(cls, training: Training, network: Any) -> Training:
        """Keep the settings of a parallel network: it starts from another kind and learns much
        anew.
        """
        parallel = isinstance(network, ParallelConfig)
        return training if parallel else super().fine_tune(training, network)
