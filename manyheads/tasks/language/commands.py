"""generate, score, evaluate, compress and decompress, for language models."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

from manyheads.cli.incoming import read_stdin
from manyheads.cli.screen import count_amount, count_items, print_json, print_report
from manyheads.data.documents import read_documents
from manyheads.data.packed import write_packed
from manyheads.metrics.report import make_report, sign_values
from manyheads.tasks.continuation import score_tokens
from manyheads.tasks.language.model import NOTHING, LanguageModel, Scored
from manyheads.tasks.language.verbs import (
    CompressTextOptions,
    DecompressTextOptions,
    EvaluateTextOptions,
    GenerateOptions,
    ScoreOptions,
)
from manyheads.tasks.packing import open_packed
from manyheads.tasks.row_packing import compress_rows, decompress_rows

AT_ONCE = 64  # texts in a batch


def generate(model: LanguageModel, options: GenerateOptions) -> None:
    prompt = options.prompt
    if prompt is None:
        prompt = read_stdin() if options.keep_newline else read_stdin().removesuffix("\n")
    if options.as_json or options.count > 1 or options.chosen not in ("greedy", "sample"):
        write_all(model, prompt, options)
    else:
        write_one(model, prompt, options)
    ids, unknown = model.task.codec.encode(prompt), model.task.codec.special_tokens.unknown
    if unknown in ids:
        print(
            f"{ids.count(unknown):,} of {len(ids):,} tokens of the prompt are unknown to the model",
            file=sys.stderr,
        )


def write_one(model: LanguageModel, prompt: str, options: GenerateOptions) -> None:
    """Write a text piece by piece."""
    pieces = model.stream(prompt, options)
    first = next(pieces, "")  # errors are raised before anything is printed
    print(first if options.chat else prompt + first, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print(flush=True)


def write_all(model: LanguageModel, prompt: str, options: GenerateOptions) -> None:
    """Write in batches, so that `count` has no limit."""
    several = max(options.count, options.nbest) > 1
    for first in range(0, options.count, AT_ONCE):
        prompts = [prompt] * min(AT_ONCE, options.count - first)
        for one in chain.from_iterable(model.write(prompts, options, first)):
            if options.as_json:
                print_json({"prompt": prompt, "text": one.text, "score": round(one.score, 4)})
                continue
            print(one.text if options.chat else prompt + one.text, flush=True)
            if several:
                print("-" * 20, flush=True)


def score(model: LanguageModel, options: ScoreOptions) -> None:
    nothing = True
    for text in options.texts or read_texts(options.lines):
        nothing = False
        # A blank line also gets an output line, so that output line n belongs to input line n.
        scored = text or not options.lines
        found = model.score(text, options.stride, options.context) if scored else NOTHING
        if options.as_json:
            print_json(describe_score(found))
        else:
            print(summarise(found) if text else "", flush=True)
        tell_unknown(found.unknown, len(found.logs))
    if nothing:
        raise ValueError("there is nothing to score: stdin has no lines")


def read_texts(lines: bool) -> Iterator[str]:
    """Yield all of stdin, or each of its lines."""
    text = read_stdin()
    if not lines:
        yield text
        return
    *whole, last = text.split("\n")
    yield from [*whole, last] if last else whole


def summarise(found: Scored) -> str:
    if not found.logs:
        return "nothing is scored: a first token needs a start sign or --context before it"
    return (
        f"{found.bits_per_byte:.4f} bits per byte  perplexity {found.perplexity:.4g}  "
        f"{len(found.logs):,} tokens  {found.bytes:,} bytes"
    )


def tell_unknown(unknown: int, tokens: int) -> None:
    """Warn on stderr about unknown tokens: they make the bits per byte too low."""
    if unknown:
        print(
            f"{unknown:,} of {tokens:,} tokens are unknown to the model: that something unknown "
            "comes is scored, what it is is not",
            file=sys.stderr,
        )


def describe_score(found: Scored) -> dict[str, object]:
    return {
        "bits_per_byte": finite_or_none(found.bits_per_byte),
        "perplexity": finite_or_none(found.perplexity),
        "bytes": found.bytes,
        "unknown": found.unknown,
        "tokens": [
            {"text": piece, "log": finite_or_none(round(log, 6))}
            for piece, log in zip(found.pieces, found.logs, strict=True)
        ],
    }


def finite_or_none(number: float) -> float | None:
    """Return None, null in JSON, for NaN and infinity, which JSON does not have."""
    return number if math.isfinite(number) else None


def evaluate_text(model: LanguageModel, options: EvaluateTextOptions) -> None:
    split = options.split or model.task.recipe.data.split
    read = [document.text for document in read_documents(options.text, split)]
    report = evaluate_documents(model, count_items(read, len(read), "documents", "read"))
    tell_unknown(report["unknown"], report["tokens"])
    print_report(report, options.as_json)


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
    scores = sign_values(values, window)
    return make_report(model.name, len(each), began, scores, tokens=tokens, unknown=unknown)


def pack_text(model: LanguageModel, options: CompressTextOptions) -> None:
    assert options.out is not None
    text = read_whole(options.files[0])
    rows = cut_rows(model, text)
    with count_amount(sum(map(len, rows)), "tokens", "compressed") as told:
        head, parts = compress_rows(model, rows, told)
    size, before = write_packed(options.out, head, parts), len(text.encode())
    print(f"{options.out}: {size:,} of {before:,} bytes, {8 * size / before:.3f} bits a byte")


def unpack_text(model: LanguageModel, options: DecompressTextOptions) -> None:
    assert options.out is not None
    head, parts = open_packed(model, options.file[0])
    with count_amount(sum(head["lengths"]), "tokens", "decompressed") as told:
        rows = decompress_rows(model, head, parts, told)
    text = model.task.codec.render([*chain.from_iterable(rows)]).encode()
    options.out.write_bytes(text)
    print(f"{options.out}: {len(text):,} bytes")


def cut_rows(model: LanguageModel, text: str) -> list[list[int]]:
    """Cut the tokens of a text into rows that fit the context."""
    codec = model.task.codec
    ids = codec.encode(text)
    if codec.render(ids) != text:
        raise ValueError(
            "the vocabulary of the model does not give this text back as it is; one of bytes, "
            "codec.kind: byte, gives back every text"
        )
    count = -(-len(ids) // model.task.context)
    longest = -(-len(ids) // count)
    return [ids[i : i + longest] for i in range(0, len(ids), longest)]


def read_whole(path: Path) -> str:
    if not path.is_file():
        raise ValueError(f"there is no file {path}")
    try:
        text = path.read_bytes().decode()
    except UnicodeDecodeError:
        raise ValueError(f"{path} is no text in UTF-8") from None
    if not text:
        raise ValueError(f"{path} is empty")
    return text
