"""A task that is not of the package: rows of numbers, sorted."""

from dataclasses import dataclass
from pathlib import Path

import torch
import torch.nn.functional as F

from manyheads.config.declare import setting
from manyheads.data.batches import ListBatches
from manyheads.modules.build import build_encoder
from manyheads.modules.config import NetworkConfig, TransformerConfig
from manyheads.modules.transformer import Tokens
from manyheads.tasks.recipe import Recipe
from manyheads.tasks.task import Examples, Sample, Task, Validation
from manyheads.training.config import Training


@dataclass(frozen=True)
class Rows:
    rows: Path = setting(Path("rows.txt"), "Numbers below 50, four a line.")


@dataclass(frozen=True)
class SortingRecipe(Recipe):
    implementation, files, networks = "sorting:Sorting", ("rows",), ("transformer", "recurrent")
    task: str
    data: Rows
    network: NetworkConfig = TransformerConfig(width=32, depth=2, heads=2, ffn_width=64, dropout=0)
    training: Training = Training(steps=400, validate_every=100, log_every=50, tokens_per_batch=512)
    start_from: Path | None = None


def read(path):
    return Examples([int(number) for number in line.split()] for line in path.open())


class Sorting(Task):
    Recipe = SortingRecipe

    @classmethod
    def gather(cls, recipe):
        return read(recipe.data.rows)

    @classmethod
    def prepare(cls, corpus, recipe, folder):
        (folder / "rows.txt").write_text(recipe.data.rows.read_text())
        (folder / "corpus.txt").write_text(f"{corpus}\n")

    def network(self):
        network = build_encoder(self.recipe.network, 50)
        network.head = torch.nn.Linear(32, 50)
        return network

    def batches(self, some=slice(20, None)):
        rows, training = read(self.held_in() / "rows.txt")[some], self.recipe.training
        return ListBatches(rows, lambda all: Tokens.padded(all or [[0]]), training.tokens_per_batch)

    def scores(self, network, tokens):
        states = network(tokens)
        return states if states.shape[-1] == 50 else network.head(states)

    def loss(self, network, batch):
        wanted = batch.ids.sort(1).values
        return {"loss": F.cross_entropy(self.scores(network, batch).mT, wanted, reduction="sum")}

    def predict(self, network, lines):
        tokens = Tokens.padded([[int(number) for number in line.split()] for line in lines])
        return [" ".join(map(str, row)) for row in self.scores(network, tokens).argmax(-1).tolist()]

    def evaluate(self, network, path):
        lines = [" ".join(map(str, row)) for row in read(path)]
        wanted = [" ".join(map(str, sorted(row))) for row in read(path)]
        right = [a == b for a, b in zip(self.predict(network, lines), wanted, strict=True)]
        return {"sorted": sum(right) / len(right)}

    def validate(self, network):
        scores = self.evaluate(network.eval(), self.held_in() / "rows.txt")
        loss = self.mean_loss(network, self.batches(slice(20)))
        return Validation({**scores, "loss": loss}, [Sample("3 1 2", "1 2 3", "")])
