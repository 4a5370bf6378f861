"""Evaluate a language model on texts."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from typing import Any

from manyheads.metrics.report import sign_values
from manyheads.tasks.continuation import score_tokens
from manyheads.tasks.language.model import LanguageModel


def evaluate_documents(model: LanguageModel, documents: Iterable[str]) -> dict[str, Any]:
    """Return a report of how likely the model finds test documents."""
    began = time.perf_counter()
    found = map(model.score, documents)
    each = [(-sum(one.logs), len(one.logs), one.bytes, one.unknown) for one in found]
    nats, tokens, size, unknown = map(sum, zip((0.0, 0, 0, 0), *each, strict=True))
    context = model.task.context
    window = f"context:{context}|stride:{max(1, context // 2)}"
    bits = nats / math.log(2) / max(1, size)
    values = {"bits_per_byte": bits, **score_tokens(nats, max(1, tokens))}
    return {
        "model": model.name,
        "examples": len(each),
        "tokens": tokens,
        "unknown": unknown,
        "seconds": round(time.perf_counter() - began, 2),
        "scores": sign_values(values, window),
    }
