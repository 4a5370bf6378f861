"""One training step: loss, backward pass, update; and the tensors of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from manyheads.tasks.task import sum_terms
from manyheads.training.causality import ROUNDING, largest_leak
from manyheads.training.config import Training
from manyheads.training.distributed import World
from manyheads.training.files import refuse_other_tensors
from manyheads.training.optimizers import FROM_ZERO, allocate_state, make_optimizers
from manyheads.training.recorded import (
    RecordedStep,
    can_be_recorded,
    planned_by_host,
    reads_lengths,
)
from manyheads.training.weights import Average, load_weights, weights_of

B = TypeVar("B")
Loss = Callable[[Any, B], dict[str, Tensor]]  # network, batch -> terms, each summed over the batch


class Learner:
    """A network and its optimizers: all that a checkpoint must hold to resume exactly.

    Random numbers in a step follow from the seed and the number of the step, so the state of the
    random generator is not kept.
    """

    def __init__(
        self, network: nn.Module, loss_of: Loss[Any], training: Training, world: World = World()
    ):
        self.network, self.loss_of = network.to(world.device), loss_of
        self.training, self.world = training, world
        self.taken = 0  # steps
        self.optimizers = make_optimizers(network, training)
        self.average = Average(network, training.ema) if training.ema else None
        self.recorded: RecordedStep | None = None
        self.shared: nn.Module = network
        if world.size > 1:
            self.shared = DistributedDataParallel(network)

    def step(self, batches: Sequence[Any], count: int) -> dict[str, Tensor]:
        """Take one step on the parts of a batch that holds `count` tokens over all processes.

        Return the mean of each loss term per token, still on the device: reading it would wait.
        """
        self.network.train()
        torch.manual_seed(self.seed_of(self.taken))
        recorded = self.recorded
        if recorded is not None and len(batches) == 1 and recorded.fits(batches[0]):
            total = recorded.play(batches[0], count)
            recorded.step(self.training.rate(self.taken))
        else:
            total = self.learn(batches, count)
            self.update_weights()
        self.taken += 1
        if self.average is not None:
            self.average.update(self.taken)
        return total

    def learn(self, batches: Sequence[Any], count: int) -> dict[str, Tensor]:
        """Compute the gradients of the parts of a batch; return the mean of each term per token."""
        total: dict[str, Tensor] = {}
        for i, batch in enumerate(batches):
            with self.sync_gradients(last=i == len(batches) - 1):
                terms = self.terms_of(batch)
                # DistributedDataParallel takes the mean of the gradients, but we need the sum.
                (sum_terms(terms) / count * self.world.size).backward()
            for name, term in terms.items():
                part = term.detach() / count
                total[name] = total[name] + part if name in total else part
        return total

    def terms_of(self, batch: Any) -> dict[str, Tensor]:
        with self.autocast():
            return self.loss_of(self.shared, batch)

    def update_weights(self) -> None:
        """Clip the gradients, set the learning rates and take a step of each optimizer."""
        if self.training.clip_norm:
            nn.utils.clip_grad_norm_(self.network.parameters(), self.training.clip_norm)
        for optimizer in self.optimizers:
            for group in optimizer.param_groups:
                group["lr"] = group["initial_lr"] * self.training.rate(self.taken)
            optimizer.step()
            optimizer.zero_grad()

    def record(self, batch: Any, other: Any, count: int) -> None:
        """Record a step as a CUDA graph, to be replayed for batches with the layout of these two.

        The recording of `batch` is tried on `other`; if it does not compute what the network does,
        raise an error before anything is learned.
        """
        self.network.train()
        clip = self.training.clip_norm
        try:
            recorded = RecordedStep(self.network, self.optimizers, self.terms_of, batch, clip)
        except torch.OutOfMemoryError:
            self.network.zero_grad()  # a recording that was cut off leaves gradients of no batch
            raise
        if reason := recorded.refuse(other, count):
            raise ValueError(
                f"a recorded step is not what the network computes: {reason}; "
                "training.cuda_graph=false does without"
            )
        self.recorded = recorded

    def can_record(self, batch: Any) -> bool:
        """Whether steps can be recorded: one GPU, and nothing in a step comes from the host."""
        device = self.world.device
        able = all(can_be_recorded(one, device) for one in self.optimizers)
        able = able and not reads_lengths(self.network) and not planned_by_host(batch)
        one_gpu = device.type == "cuda" and self.world.size == 1
        return self.training.cuda_graph and one_gpu and able

    def probe_memory(self, batch: Any) -> None:
        """Run forward and backward once, so that a batch too large for the memory fails here."""
        with self.sync_gradients(last=False):
            loss = sum_terms(self.terms_of(batch))
        loss.backward()
        self.network.zero_grad()

    def refuse_leaks(self, batch: Any) -> bool:
        """Refuse a network in which a token sees what it must not see, before it is trained; return
        whether it was tested: only a network that writes from left to right is.
        """
        if not getattr(self.network, "causal", False):
            return False
        self.network.train()
        leak = self.leak(batch)
        if leak <= ROUNDING:
            return True
        raise ValueError(
            f"this network would learn from what it must not see: {self.explain_leak(batch)} "
            f"(scores moved by {leak:.2g} of the largest)"
        )

    def leak(self, batch: Any, exactly: bool = False, documents: bool = False) -> float:
        """Return how far scores of a batch move with hidden tokens; `exactly`: without autocast."""

        def run() -> None:
            with self.sync_gradients(last=False), nullcontext() if exactly else self.autocast():
                self.loss_of(self.shared, batch)

        return largest_leak(self.network, run, documents=documents)

    def explain_leak(self, batch: Any) -> str:
        """Say what was seen, and because of which setting: the one without which it is not seen."""
        own = self.leak(batch, documents=True) <= ROUNDING
        what = "a token sees a later one" if own else "a document sees another one of its row"
        settings = {}
        if self.training.precision != "float32":
            settings["training.precision=float32"] = self.leak(batch, exactly=True)
        self.network.eval()  # then nothing is compiled
        if self.training.compile:
            settings["training.compile=false"] = self.leak(batch)
        self.network.train()
        without = [name for name, leak in settings.items() if leak <= ROUNDING]
        if without:
            return f"{what}, and does not with {without[0]}"
        if not own:
            return f"{what}; layout=padded gives each a row"
        return f"{what}, whatever training.* says: it is what the network's patterns allow"

    def sync_gradients(self, last: bool) -> AbstractContextManager[Any]:
        """Let processes exchange gradients only after the last part of a batch."""
        if last or self.world.size == 1:
            return nullcontext()
        return cast(DistributedDataParallel, self.shared).no_sync()

    def autocast(self) -> AbstractContextManager[Any]:
        """Use bfloat16 only where it was asked for: float32 is the reference."""
        if self.training.precision == "float32":
            return nullcontext()
        return torch.autocast(self.world.device.type, dtype=torch.bfloat16)

    def seed_of(self, step: int) -> int:
        """Return a different seed for each step and process."""
        return ((self.training.seed * 1_000_003 + step) * 4096 + self.world.rank) % 2**63

    def weights(self) -> dict[str, Tensor]:
        """Return the weights of the result: the moving average where there is one."""
        return weights_of(self.network) if self.average is None else self.average.weights()

    # ---- checkpoints ---------------------------------------------------------------------------

    def state(self) -> dict[str, Tensor]:
        """Return all tensors of a checkpoint, by name."""
        held = {f"network.{name}": tensor for name, tensor in weights_of(self.network).items()}
        held |= {
            f"optimizer.{part}.{name}": tensor
            for name, kept in self.optimizer_states().items()
            for part, tensor in kept.items()
        }
        if self.average is not None:
            held |= {f"average.{name}": tensor for name, tensor in self.average.kept.items()}
        return held

    def restore(self, held: dict[str, Tensor], taken: int, path: Path) -> None:
        """Load a checkpoint; refuse that of another network before anything changes."""
        self.allocate_states(strip_prefix("optimizer.", held))
        refuse_other_tensors(held, self.state(), path)
        load_weights(self.network, strip_prefix("network.", held))
        if self.average is not None:
            self.average.restore(strip_prefix("average.", held))
        for name, kept in self.optimizer_states().items():
            for part, tensor in kept.items():
                tensor.copy_(held[f"optimizer.{part}.{name}"])
        self.taken = taken

    def allocate_states(self, held: dict[str, Tensor]) -> None:
        """Allocate what optimizers had for each weight by the checkpoint's step: none of them has
        anything for a weight that never had a gradient.
        """
        names: dict[Any, str] = {p: name for name, p in self.network.named_parameters()}
        for optimizer in self.optimizers:
            if type(optimizer) in FROM_ZERO:
                continue
            allocate_state(optimizer)
            for weight, kept in [*optimizer.state.items()]:
                if not any(f"{part}.{names[weight]}" in held for part in kept):
                    del optimizer.state[weight]

    def optimizer_states(self) -> dict[str, dict[str, Tensor]]:
        """Return the optimizer state of each parameter, by its name."""
        names: dict[Any, str] = {p: name for name, p in self.network.named_parameters()}
        return {
            names[parameter]: kept
            for optimizer in self.optimizers
            for parameter, kept in optimizer.state.items()
        }


def strip_prefix(prefix: str, held: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): t for name, t in held.items() if name.startswith(prefix)}
