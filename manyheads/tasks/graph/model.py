"""A graph model: predict properties of graphs or nodes, and inspect graphs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from manyheads.inspect.attention_page import AttentionPage
from manyheads.inspect.interventions import Intervention
from manyheads.tasks.graph.inspection import inspect_graph
from manyheads.tasks.graph.schema import RawGraph
from manyheads.tasks.model import Predictor
from manyheads.tasks.portable import Portable

if TYPE_CHECKING:
    from manyheads.tasks.graph.task import GraphTask


class GraphModel(Predictor):
    """A trained network that reads molecules and other graphs."""

    task: GraphTask

    def predict(self, graphs: Any) -> Any:
        """model.predict("CCO") -> "-0.31"; a list gives a list.

        A graph is a molecule as SMILES, JSON, or what `from_networkx` and `from_pyg` make; for a
        model of the nodes of one graph, give names of nodes.
        """
        if isinstance(graphs, RawGraph):
            return super().predict([graphs])[0]  # type: ignore[type-var]
        return super().predict(graphs)

    def portable(self) -> Portable:
        raise ValueError(
            f"{self.name} is a model for graphs, whose nodes and edges have no counterpart "
            "elsewhere; models of text are exported"
        )

    @torch.no_grad()
    def inspect(
        self, graph: str | RawGraph, *, what_if: Sequence[Intervention] = ()
    ) -> AttentionPage:
        """Return a page of what every head attends to, for a notebook or `.save("page.html")`.

        The graph is a molecule as SMILES, or JSON; `what_if` lists interventions such as
        `Off("2.self", 5)`.
        """
        return inspect_graph(self, graph, what_if)
