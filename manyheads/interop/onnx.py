"""Export to ONNX: an encoder, or one step of a decoder, for any batch size and length.

    encoder.onnx of an encoder      ids, mask (, types) -> states, or scores of its head
    encoder.onnx of a translation   ids, mask -> memory
    step.onnx of a translation      ids, past, memory, mask -> scores, present
    step.onnx of a language model   ids, past -> scores, present

`ids` (B, T) come with a `mask`: 1 for tokens, 0 for padding. `past` (L, 2, B, G, P, C) are the keys
and values of the earlier tokens, empty at first; `present` (L, 2, B, G, P + T, C) are the `past` of
the next step. `memory` (L, 2, B, G, S, C) are keys and values of the source, and `scores` (B, T, V)
the logits after each token. `types` (B, T) are the inputs of an encoder with token types: 0 for the
first part of a text, 1 for the second. In a decoder all tokens have type 0, here and in ONNX.

B batch, T tokens, P tokens before them, S tokens of a source, V vocabulary, L layers, H heads,
G key heads, C channels of one head, Q queries, K keys, D model width.
"""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import torch
from torch import Tensor, nn

from manyheads.attention.biases import Bias, DistanceBias
from manyheads.attention.cache import KeyValue, Slot
from manyheads.attention.kernels.base import Plan, repeat_heads
from manyheads.attention.layer import Attention
from manyheads.attention.patterns import Everything, Pattern
from manyheads.attention.places import Grid, Pair
from manyheads.attention.scores import Score
from manyheads.interop.format import Exporter, require, save_codecs
from manyheads.interop.parity import Runtime, token_mask
from manyheads.modules.config import TransformerConfig
from manyheads.modules.heads import EncoderHead
from manyheads.modules.stack import Block, Stack
from manyheads.modules.transformer import Decoder, Encoder, EncoderDecoder, Tokens, words_of
from manyheads.tasks.portable import Portable, Row

ENCODER, STEP = "encoder.onnx", "step.onnx"
ONE_FILE = 2**30  # bytes of weights; more go into a second file, since one holds at most twice this
NOISY = "torch.onnx._internal.exporter._registration"  # warns that torchvision is missing


class Onnx(Exporter):
    """Writes encoder.onnx, step.onnx or both."""

    needs = ("onnx", "onnxscript", "onnxruntime")

    def write(self, model: Portable, folder: Path, quantization: str) -> None:
        network, design = model.network, model.design
        if not isinstance(design, TransformerConfig):
            raise ValueError(f"kind: {design.kind} is not exported to ONNX; transformer is")
        for name in ("residual_scalars", "value_embeddings"):
            if value := getattr(design, name):
                raise ValueError(f"{name}: {value} is not exported to ONNX; {type(value)(0)} is")
        require("onnxscript")
        written = ["scores", "present"]
        if model.architecture == "encoder-decoder":
            write_graph(Remembering(network), design, folder / ENCODER, READ, ["memory"])
            write_graph(Stepping(network.decoder), design, folder / STEP, TRANSLATE, written)
        elif model.architecture == "decoder":
            write_graph(Stepping(network), design, folder / STEP, WRITE, written)
        else:
            bare = isinstance(network, Encoder) and isinstance(network.head, nn.Identity)
            inputs = {**READ, "types": READ["ids"]} if design.token_types > 1 else READ
            outputs = ["states" if bare else "scores"]
            write_graph(Understanding(network), design, folder / ENCODER, inputs, outputs)
        save_codecs(model.codecs, folder)

    def open(self, model: Portable, folder: Path) -> OnnxRuntime:
        return OnnxRuntime(model, folder)


# ---- a network for any shape -----------------------------------------------------------------


class Look:
    """Stands in for a Plan: plain attention with a mask, for shapes that are not known before."""

    def __init__(self, queries: Tensor, keys: Tensor, seen: Tensor | None, pattern: Pattern):
        pairs = SimpleNamespace(queries=make_line(queries), keys=make_line(keys))
        self.work = SimpleNamespace(pairs=pairs)
        q, k = (
            SimpleNamespace(order=places, row=places, axes=(places,))
            for places in (queries[:, None], keys[None])
        )
        self.pair = cast(Pair, SimpleNamespace(q=q, k=k, apart=(k.row - q.row,)))
        allowed = cast(Tensor, pattern.allows(self.pair))  # (Q, K)
        self.seen = allowed if seen is None else allowed & seen[:, None, None]  # or (B, 1, Q, K)

    def __call__(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        score: Score,
        biases: tuple[Bias, ...],
        dropout: float,
    ) -> Tensor:
        """(B, H, Q, C), two of (B, G, K, C) -> (B, H, Q, C)"""
        groups = query.shape[1] // key.shape[1]
        scores = score(query, repeat_heads(key, groups))
        for bias in biases:
            scores = scores + self.compute_bias(bias, score.scale(key.shape[-1]))
        lowest = torch.finfo(scores.dtype).min
        weights = scores.masked_fill(~self.seen, lowest).softmax(-1)
        return weights @ repeat_heads(value, groups)

    def compute_bias(self, bias: Bias, scale: float) -> Tensor:
        """Return (H, Q, K), or (B, H, Q, K) if the bias depends on the query."""
        (index,) = bias.rule.indices(self.pair)
        if isinstance(bias, DistanceBias):
            return bias.tables[0][:, index]
        by_distance = bias.query @ bias.key_tables[0].mT * scale
        return by_distance.gather(-1, index.expand(*by_distance.shape[:3], -1))


def make_line(places: Tensor) -> Grid:
    return Grid(places, (places,), (0,))


class Layer:
    """One layer's part of `past` and `memory`, instead of a cache."""

    def __init__(self, past: Tensor, memory: Tensor | None):
        self.past, self.memory, self.present = past, memory, past

    def extend(self, key: Tensor, value: Tensor) -> KeyValue:
        """Append the new keys and values to past (2, B, G, P, C)."""
        self.present = torch.cat([self.past, torch.stack([key, value])], 3)
        return self.present[0], self.present[1]

    def recall(self, make: Callable[[], KeyValue]) -> KeyValue:
        assert self.memory is not None
        return self.memory[0], self.memory[1]


def embed_tokens(side: Any, ids: Tensor, places: Tensor, types: Tensor | None = None) -> Tensor:
    stack = cast(Stack, side.stack)
    return stack.entry(stack.position(words_of(side.embedding, ids, types), make_line(places)))


def plan_blocks(
    stack: Stack, queries: Tensor, keys: Tensor, seen: Tensor | None = None
) -> list[tuple[Block, Plan]]:
    """Return each block with its self-attention; blocks with the same pattern share it."""
    looks = {each: Look(queries, keys, seen, each) for each in dict.fromkeys(stack.patterns)}
    plans = [cast(Plan, looks[each]) for each in stack.patterns]
    return list(zip(cast(list[Block], stack.blocks), plans, strict=True))


def read_states(side: Encoder, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
    """(B, T) -> states (B, T, D)"""
    places = torch.arange(ids.shape[1])
    x = embed_tokens(side, ids, places, types)
    for block, own in plan_blocks(side.stack, places, places, mask > 0):
        x = block(x, own)
    return side.stack.norm(x)


class Understanding(nn.Module):
    """An encoder with its head."""

    def __init__(self, network: Encoder | EncoderHead):
        super().__init__()
        self.network = network

    def forward(self, ids: Tensor, mask: Tensor, types: Tensor | None = None) -> Tensor:
        if isinstance(self.network, Encoder):
            return self.network.head(read_states(self.network, ids, mask, types))
        reader = self.network
        states = read_states(reader.encoder, ids, mask, types)
        if reader.pooler is not None:
            states = torch.tanh(reader.pooler(states[:, 0]))
        elif reader.pooling == "mean":
            counts = mask[..., None].to(states.dtype)
            states = (states * counts).sum(1) / counts.sum(1).clamp(min=1)
        return reader.head(states)


class Remembering(nn.Module):
    """Computes the source's keys and values for each decoder layer, once for all steps."""

    def __init__(self, network: EncoderDecoder):
        super().__init__()
        self.network = network

    def forward(self, ids: Tensor, mask: Tensor) -> Tensor:
        states, kept = read_states(self.network.encoder, ids, mask), []
        pairs = cast(Any, SimpleNamespace(keys=make_line(torch.arange(ids.shape[1]))))
        for block in self.network.decoder.stack.blocks:
            attention = cast(Attention, block.cross_attention.part)
            kept.append(torch.stack(attention.remember(states, pairs)))
        return torch.stack(kept)  # (L, 2, B, G, S, C)


class Stepping(nn.Module):
    """A decoder step that takes the whole cache as input and returns it."""

    def __init__(self, network: Decoder):
        super().__init__()
        self.network = network

    def forward(
        self, ids: Tensor, past: Tensor, memory: Tensor | None = None, mask: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        before, stack, kept = past.shape[4], self.network.stack, []
        keys = torch.arange(before + ids.shape[1])
        places, source = keys[before:], None
        if memory is not None and mask is not None:
            sources = torch.arange(memory.shape[4])
            source = Look(places, sources, mask > 0, Everything())
        x = embed_tokens(self.network, ids, places)
        for i, (block, own) in enumerate(plan_blocks(stack, places, keys)):
            layer = Layer(past[i], None if memory is None else memory[i])
            # Cross-attention takes keys and values from `layer`: the given states do not matter.
            x = block(x, own, x, cast(Plan, source), cast(Slot, layer))
            kept.append(layer.present)
        return self.network.head(stack.norm(x)), torch.stack(kept)


# ---- writing ---------------------------------------------------------------------------------

Axes = dict[int, str]  # the dynamic axes of an input, and their names
READ: dict[str, Axes] = {"ids": {0: "batch", 1: "tokens"}, "mask": {0: "batch", 1: "tokens"}}
WRITE: dict[str, Axes] = {"ids": {0: "batch", 1: "tokens"}, "past": {2: "batch", 4: "before"}}
TRANSLATE: dict[str, Axes] = {
    **WRITE,
    "memory": {2: "batch", 4: "source"},
    "mask": {0: "batch", 1: "source"},
}
EXAMPLE = {"batch": 2, "tokens": 3, "before": 4, "source": 5}  # the sizes for tracing


def write_graph(
    module: nn.Module,
    design: TransformerConfig,
    path: Path,
    inputs: dict[str, Axes],
    outputs: list[str],
) -> None:
    plain = copy.deepcopy(module).cpu().float().eval()
    weights = sum(tensor.numel() * tensor.element_size() for tensor in plain.parameters())
    with silence_exporter(), torch.no_grad():
        torch.onnx.export(
            plain,
            tuple(make_example(axes, design) for axes in inputs.values()),
            path,
            input_names=list(inputs),
            output_names=outputs,
            dynamic_shapes=tuple(inputs.values()),
            dynamo=True,
            external_data=weights > ONE_FILE,
            verbose=False,
        )


def make_example(axes: Axes, design: TransformerConfig) -> Tensor:
    """Return example ids, or example keys and values."""
    sizes = [EXAMPLE[name] for name in axes.values()]
    if len(sizes) == max(axes) + 1:
        return torch.ones(sizes, dtype=torch.long)
    heads, channels = design.key_heads or design.heads, design.width // design.heads
    batch, tokens = sizes
    return torch.zeros(design.depths[1], 2, batch, heads, tokens, channels)


@contextmanager
def silence_exporter() -> Iterator[None]:
    """Suppress the warnings of torch's exporter."""
    logger = logging.getLogger(NOISY)
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


# ---- running and comparing -------------------------------------------------------------------


class Session:
    """An ONNX file in onnxruntime: takes tensors by name, returns tensors."""

    def __init__(self, path: Path):
        runtime = require("onnxruntime")
        options = runtime.SessionOptions()
        options.log_severity_level = 3  # errors
        self.session = runtime.InferenceSession(str(path), options, ["CPUExecutionProvider"])
        # The shape of each input: numbers, and names of dynamic axes.
        self.inputs: dict[str, list[Any]] = {i.name: i.shape for i in self.session.get_inputs()}

    def __call__(self, **inputs: Tensor) -> list[Tensor]:
        given = {name: tensor.numpy() for name, tensor in inputs.items()}
        return [torch.from_numpy(found) for found in self.session.run(None, given)]


class OnnxStep:
    """A step.onnx as a decoding step, for `greedy`, `beam` and `sample`."""

    def __init__(self, session: Session, batch: int, source: dict[str, Tensor] | None = None):
        """`source` holds the memory and its mask."""
        layers, _, _, heads, _, channels = session.inputs["past"]
        self.session, self.source = session, source or {}
        self.past = torch.zeros(layers, 2, batch, heads, 0, channels)

    def __call__(self, ids: Tensor) -> Tensor:
        return self.scores(ids)[:, -1]

    def scores(self, ids: Tensor) -> Tensor:
        """Read new tokens (B, T); return the logits after each (B, T, V)."""
        scores, self.past = self.session(ids=ids, past=self.past, **self.source)
        return scores

    def select(self, rows: Tensor) -> None:
        self.reorder(rows)
        if self.source:
            memory, mask = self.source["memory"][:, :, rows], self.source["mask"][rows]
            self.source = {"memory": memory, "mask": mask}

    def reorder(self, rows: Tensor) -> None:
        self.past = self.past[:, :, rows]


class OnnxRuntime(Runtime):
    """Runs an exported folder in onnxruntime."""

    def __init__(self, model: Portable, folder: Path):
        super().__init__(model)
        self.encoder = Session(folder / ENCODER) if model.architecture != "decoder" else None
        self.stepping = Session(folder / STEP) if model.writes else None

    def batch(self, rows: Sequence[Row]) -> tuple[Tokens, ...]:
        """Give a text all token types that an encoder has: [0, 0, 1, 1] for four tokens."""
        batch = self.model.batch(rows)
        if self.encoder is None or "types" not in self.encoder.inputs:
            return batch
        ids, types = batch[0].ids, self.model.design.token_types
        parts = torch.arange(ids.shape[1]) * types // ids.shape[1]
        return (replace(batch[0], types=parts.expand(ids.shape).contiguous()),)

    def scores(self, batch: tuple[Tokens, ...]) -> Tensor:
        if self.stepping is not None:
            return self.step(batch).scores(batch[-1].ids)
        assert self.encoder is not None
        types = {} if batch[0].types is None else {"types": batch[0].types}
        return self.encoder(ids=batch[0].ids, mask=token_mask(batch[0]), **types)[0]

    def step(self, batch: tuple[Tokens, ...]) -> OnnxStep:
        """Encode the sources, if there are any, and return a decoding step."""
        assert self.stepping is not None
        ids, source = batch[0].ids, {}
        if self.encoder is not None:
            mask = token_mask(batch[0])
            source = {"memory": self.encoder(ids=ids, mask=mask)[0], "mask": mask}
        return OnnxStep(self.stepping, len(ids), source)

    def write(self, rows: Sequence[Row], longest: int) -> list[list[int]]:
        return self.model.write(rows, longest, lambda row: self.step(self.model.batch([row])))
