"""The settings, presets and commands of a task, without torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, NamedTuple, Self, get_type_hints

from manyheads.config.declare import Settings, setting
from manyheads.modules.config import CONFIGS, Layout, NetworkConfig, TransformerConfig, change_kind
from manyheads.training.config import Training

NOTHING: Mapping[str, Any] = MappingProxyType({})
START_FROM = (
    "Fine-tune: start with the vocabulary, network and weights of a run or an imported model."
)


class Choice(NamedTuple):
    """What the user chose beside the files and the settings."""

    device: str = "cpu"
    network: str | None = None
    preset: str | None = None
    start: Any = None  # the recipe of the run to start from


class Preset(NamedTuple):
    """A network and its training settings, for corpora of some size."""

    about: str
    network: Any
    epochs: int
    batch: int  # tokens
    learning_rate: float
    codec: Any = None
    context: int | None = None
    training: Mapping[str, Any] = NOTHING  # other settings that differ
    rates: Mapping[str, float] = NOTHING  # learning rates of other kinds of networks


def gated_layers(width: int) -> dict[str, Any]:
    """Return settings of a network with gated feed-forward layers that have as many weights as
    without gates: 8/3 of the width, rounded up to a multiple of 64.
    """
    gates = {"ffn_width": (8 * width // 3 + 63) // 64 * 64, "feed_forward": "swiglu"}
    return {"width": width, **gates, "norm": "rms", "bias": False}


COMPILE_FROM = 4e16  # operations: about four minutes on a current GPU


class TrainingPlan(NamedTuple):
    """How many steps, warm-up steps and validations there are, for all presets; other settings."""

    settings: dict[str, Any]
    least_steps: int = 200
    warmup: tuple[int, int, int] = (20, 2000, 20)  # at least, at most, this part of all steps
    validations: int = 20
    of_an_epoch: int = 0  # validations in each epoch; 0: `validations` in all
    least_between: int = 50  # steps from a validation to the next

    def training(self, preset: Preset, tokens: int, cuda: bool) -> Training:
        """Return the training settings of a preset for a corpus of `tokens` tokens."""
        steps = max(self.least_steps, preset.epochs * tokens // preset.batch)
        times = self.of_an_epoch * preset.epochs or self.validations
        every = max(self.least_between, steps // times)
        least, most, part = self.warmup
        chosen: dict[str, Any] = {
            "steps": steps,
            "tokens_per_batch": preset.batch,
            "learning_rate": preset.learning_rate,
            "warmup_steps": max(least, min(most, steps // part)),
            "precision": "bfloat16" if cuda else "float32",
            "validate_every": every,
            "checkpoint_every": every,
            "log_every": max(1, min(50, every // 2)),
        }
        chosen |= {**self.settings, **preset.training}
        half = chosen["steps"] // 2  # a warm-up is never longer
        return Training(**{**chosen, "warmup_steps": min(chosen["warmup_steps"], half)})


def pays_to_compile(network: Any, training: Training) -> bool:
    """Whether a GPU trains so long that the time saved by compiled blocks, about a third, is more
    than the minute that compiling takes.
    """
    weights = 12 * network.width**2 * sum(network.depths)  # of the blocks, about
    operations = 6 * weights * training.tokens_per_batch * training.steps
    return bool(network.packs) and operations > COMPILE_FROM


@dataclass(frozen=True)
class Options:
    """What a command was asked for: each field of a subclass is an option."""

    typed: ClassVar[frozenset[str]] = frozenset()  # the names of the options that were typed

    @classmethod
    def of(cls, **typed: Any) -> Self:
        """Make options of what was typed; refuse contradictions before a model is loaded."""
        return cls(**typed)


class Verb(NamedTuple):
    """A command that uses a model."""

    options: type[Options]
    run: str  # "module:function", called with the model and the options


class Recipe(Settings):
    """All settings of a run, and how those that are not given are chosen.

    A subclass is a frozen dataclass with the fields `task`, `data`, `network`, `training`,
    `start_from` and what else there is to set.
    """

    implementation: ClassVar[str]  # "module:class" of the Task
    files: ClassVar[tuple[str, ...]] = ()  # the fields of `data` that are options of `train`
    example: ClassVar[str] = ""  # options that are enough, as they are typed
    use: ClassVar[str] = "predict"  # the command that a trained model is for
    verbs: ClassVar[Mapping[str, Verb]] = {}
    networks: ClassVar[tuple[str, ...]] = ("transformer",)  # the kinds of network that it can use
    configs: ClassVar[Mapping[str, Any]] = CONFIGS  # the settings class of each kind
    starts_from: ClassVar[tuple[str, ...]] = ()  # the tasks whose runs it can start from
    presets: ClassVar[Mapping[str, Preset]] = {}
    plan: ClassVar[TrainingPlan] = TrainingPlan({})
    many_tokens: ClassVar[float] = float("inf")  # from this many on, a GPU gets the base preset
    fine_tuning_epochs: ClassVar[int | None] = None  # None: as many as from nothing
    has_new_head: ClassVar[bool] = False  # one that the run it starts from did not train
    packs_on_cpu: ClassVar[bool] = True

    @classmethod
    def data_of(cls, files: Mapping[str, Any]) -> Any:
        """Return the `data` settings for the files that were given as options."""
        return get_type_hints(cls)["data"](**files)

    @classmethod
    def choose(cls, task: Any, data: Any, tokens: int, choice: Choice = Choice()) -> Self:
        """Return a recipe with every setting chosen for a corpus of about `tokens` tokens."""
        if not cls.presets:
            own: Any = cls(task, data)  # type: ignore[call-arg]
            kind = cls.network_of_kind(task, own.network, choice.network)
            return replace(own, network=kind)
        start, cuda = choice.start, choice.device == "cuda"
        if start is not None and not cls.starts_from:
            raise ValueError(f"{task} starts from no other run; leave out start_from")
        if start is not None and start.task not in cls.starts_from:
            raise ValueError(
                f"{task} starts from a run of {', '.join(cls.starts_from)}; "
                f"the run to start from learned {start.task}"
            )
        preset = cls.find_preset(choice.preset, data, tokens, cuda)
        if start is not None:
            preset = cls.start_preset(preset, start)
        network = cls.network_of_kind(task, preset.network, choice.network)
        preset = cls.preset_of_kind(preset, network)
        training = cls.plan.training(preset, tokens, cuda)
        unsaid = "compile" not in {**cls.plan.settings, **preset.training}
        if cuda and unsaid and pays_to_compile(network, training):
            training = replace(training, compile=True)
        chosen = {"network": network, "training": training}
        if start is not None:
            chosen["training"] = cls.fine_tune(chosen["training"], network)
        if preset.codec is not None:
            chosen["codec"] = preset.codec
        if preset.context is not None:
            data = replace(data, context=preset.context)
        if "layout" in get_type_hints(cls):
            packed = network.packs and (cuda or cls.packs_on_cpu)
            chosen["layout"] = "packed" if packed else "padded"
        return cls(task, data, **chosen)  # type: ignore[call-arg]

    @classmethod
    def find_preset(cls, name: str | None, data: Any, tokens: int, cuda: bool) -> Preset:
        presets, name = cls.presets_for(data), name or cls.fitting_preset(tokens, cuda)
        if name not in presets:
            raise ValueError(f"there is no preset {name!r}; there are {', '.join(presets)}")
        return presets[name]

    @classmethod
    def fitting_preset(cls, tokens: int, cuda: bool) -> str:
        """Return the name of the preset for a corpus of `tokens` tokens on this machine."""
        if not cuda:
            return "tiny"
        return "small" if tokens < cls.many_tokens else "base"

    @classmethod
    def presets_for(cls, data: Any) -> Mapping[str, Preset]:
        return cls.presets

    @classmethod
    def start_preset(cls, preset: Preset, start: Any) -> Preset:
        """Return the preset with the network, codec and context of the run it starts from."""
        context = None if preset.context is None else start.data.context
        preset = preset._replace(network=start.network, codec=start.codec, context=context)
        if cls.fine_tuning_epochs is None:
            return preset
        return preset._replace(epochs=cls.fine_tuning_epochs, training={})

    @classmethod
    def preset_of_kind(cls, preset: Preset, network: Any) -> Preset:
        """Return the preset with this network and the learning rate of its kind."""
        rate = preset.rates.get(network.kind, preset.learning_rate)
        return preset._replace(network=network, learning_rate=rate)

    @classmethod
    def network_of_kind(cls, task: str, network: Any, kind: str | None) -> Any:
        if kind is None:
            return network
        if kind not in cls.networks:
            raise ValueError(f"{task} is learned by {' or '.join(cls.networks)}, not by {kind}")
        return change_kind(network, kind, cls.configs)

    @classmethod
    def fine_tune(cls, training: Training, network: Any) -> Training:
        """Lower the learning rate far below that of training from nothing, and limit weight decay,
        so that what was learned before changes little.
        """
        rate = float(f"{cls.fine_tuning_rate(network.width):.1e}")
        return replace(training, learning_rate=rate, weight_decay=min(training.weight_decay, 0.01))

    @classmethod
    def fine_tuning_rate(cls, width: int) -> float:
        """Return a learning rate, lower for wider networks: 5.2e-5 for 768, 2e-5 for 2,048.

        With a new head it is 8e-4 for 128, 2e-4 for 256, 2.2e-5 for 768. Where little was learned
        before, lower rates stay far behind (results/README.md).
        """
        return min(8e-4, 13 / width**2) if cls.has_new_head else min(3e-4, 0.04 / width)


def check_layout(network: NetworkConfig, layout: str) -> None:
    if layout == "packed" and not network.packs:
        raise ValueError(
            f"a {network.kind} network reads one sequence a row; layout: padded would do"
        )


def check_room(
    network: NetworkConfig, longest: int, what: str = "windows", field: str = "data.context"
) -> None:
    """Refuse sequences that are longer than the learned positions."""
    room = network.places
    if room is not None and room < longest:
        raise ValueError(
            f"a learned position for {room} places meets {what} of {longest} tokens; "
            f"network.position: Learned({longest}) or {field}: {room} would do"
        )


@dataclass(frozen=True)
class ContinuationRecipe(Recipe):
    """The recipe of a model that continues what it is given."""

    use = "generate"
    networks = ("transformer", "recurrent")
    plan = TrainingPlan(
        {
            "schedule": "cosine",
            "weight_decay": 0.1,
            "betas": (0.9, 0.99),
            "best_by": "loss",
            "ema": 0.99,
        }
    )
    many_tokens = 100_000_000
    judged: ClassVar[str]  # the subject of an error message
    written: ClassVar[str]  # the beginning of an error message

    task: Any = setting(about="The task.")
    data: Any = setting(about="Training data.")
    codec: Any = setting(None, "Tokenizer.")
    network: Any = setting(TransformerConfig(), "Network.")
    training: Training = setting(Training(best_by="loss"), "Training.")
    layout: Layout = setting(
        "packed", "Batch layout: several sequences in each row (packed), or one per row (padded)."
    )
    start_from: Path | None = setting(None, START_FROM)

    def __post_init__(self) -> None:
        if self.training.best_by != "loss":
            raise ValueError(f"{self.judged} is judged by its loss; training.best_by: loss")
        if self.network.kind == "convolutional":
            raise ValueError(
                f"{self.written} a transformer or a recurrent network; "
                "network.kind: recurrent would do"
            )
        check_layout(self.network, self.layout)
        check_room(self.network, self.data.context)
        self.network.one_depth()
