"""What says something about graphs, and shows what its nodes look at."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import torch

from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention
from manyheads.tasks.graph.inspection import inspect_graph
from manyheads.tasks.graph.schema import RawGraph
from manyheads.tasks.model import Predictor

if TYPE_CHECKING:
    from manyheads.tasks.graph.task import GraphTask


class GraphModel(Predictor):
    """A trained network that reads molecules and other graphs."""

    task: GraphTask

    @torch.no_grad()
    def inspect(
        self, graph: str | RawGraph, *, what_if: Sequence[Intervention] = ()
    ) -> AttentionPage:
        """What every head looks at, as a page: a notebook shows it, `.save("page.html")` keeps it.

        The graph is a molecule as SMILES, or JSON; `what_if` says what is to be otherwise, as
        `Off("2.self", 5)` does.
        """
        return inspect_graph(self, graph, what_if)
