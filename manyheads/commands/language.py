"""generate, score."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from manyheads.commands.options import (
    CHANCE,
    SEARCH,
    DeviceOption,
    LeastTokens,
    LengthPenalty,
    ModelOption,
    Seed,
    TopK,
    TopP,
    loaded_as,
)

if TYPE_CHECKING:
    from manyheads.trained.language import Scored


def generate(
    model: ModelOption,
    prompt: Annotated[
        str | None, typer.Option(help="What to go on from; without it, all of stdin.")
    ] = None,
    count: Annotated[int, typer.Option(min=1, help="Write so many, each drawn anew.")] = 1,
    max_new_tokens: Annotated[int, typer.Option(help="Write no more than this.")] = 200,
    min_new_tokens: LeastTokens = 0,
    stop: Annotated[
        list[str] | None, typer.Option(help="End before this text; may be given again.")
    ] = None,
    truncate: Annotated[
        bool,
        typer.Option(
            "--truncate",
            help="Take the end of a prompt longer than the context; else refuse it.",
        ),
    ] = False,
    temperature: Annotated[
        float,
        typer.Option(help="0: the likeliest; more boldly the higher.", rich_help_panel=CHANCE),
    ] = 0.8,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    min_p: Annotated[
        float,
        typer.Option(
            help="Only those with this share of the likeliest one's chance.",
            rich_help_panel=CHANCE,
        ),
    ] = 0.0,
    repetition_penalty: Annotated[
        float,
        typer.Option(help="Above 1: what was written is less likely.", rich_help_panel=CHANCE),
    ] = 1.0,
    seed: Seed = 0,
    beam: Annotated[
        int,
        typer.Option(
            help="Above 1: search with so many beginnings at once.", rich_help_panel=SEARCH
        ),
    ] = 1,
    length_penalty: LengthPenalty = 1.0,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write a JSON object for each: prompt, text, score.")
    ] = False,
    device: DeviceOption = None,
) -> None:
    """Write on from a prompt, word by word as it comes."""
    from manyheads.tasks.generation import Generation
    from manyheads.trained.language import LanguageModel

    how = Generation(
        max_new_tokens=max_new_tokens,
        min_new_tokens=min_new_tokens,
        temperature=0.0 if beam > 1 else temperature,
        top_k=top_k,
        top_p=top_p,
        min_p=min_p,
        repetition_penalty=repetition_penalty,
        stop=tuple(stop or ()),
        seed=seed,
        beam=beam,
        length_penalty=length_penalty,
        truncate=truncate,
    )
    loaded = loaded_as(LanguageModel, model, device)
    begin = piped().removesuffix("\n") if prompt is None else prompt
    if as_json or count > 1 or beam > 1:
        for one, *_ in loaded.write([begin] * count, how):
            told = {"prompt": begin, "text": one.text, "score": round(one.score, 4)}
            print(json.dumps(told, ensure_ascii=False) if as_json else begin + one.text, flush=True)
            if count > 1 and not as_json:
                print("-" * 20, flush=True)
        return
    pieces = loaded.stream(begin, how)
    first = next(pieces, "")  # what is refused is refused before anything is written
    print(begin + first, end="", flush=True)
    for piece in pieces:
        print(piece, end="", flush=True)
    print(flush=True)


def score(
    model: ModelOption,
    lines: Annotated[
        bool, typer.Option("--lines", help="Each line of stdin is a text of its own.")
    ] = False,
    stride: Annotated[
        int,
        typer.Option(
            help="Of a text longer than the context, move the window by so many tokens; "
            "0: half the context."
        ),
    ] = 0,
    as_json: Annotated[
        bool,
        typer.Option("--json", help="A JSON object a text, with each token's log-probability."),
    ] = False,
    device: DeviceOption = None,
) -> None:
    """How likely a model finds the text on stdin: bits per byte, perplexity."""
    from manyheads.trained.language import LanguageModel

    loaded = loaded_as(LanguageModel, model, device)
    nothing = True
    for text in texts(lines):
        nothing = False
        found = loaded.score(text, stride)
        print(json.dumps(described(found)) if as_json else summary(found), flush=True)
    if nothing:
        raise ValueError("there is nothing to score: stdin has no lines")


def texts(lines: bool) -> Iterator[str]:
    text = piped()
    if not lines:
        yield text
        return
    for line in text.split("\n"):
        if line:
            yield line


def piped() -> str:
    """All of stdin, as text."""
    from manyheads.data.sources import decoded

    if sys.stdin.isatty():
        print("reading from the terminal; Ctrl-D ends", file=sys.stderr)
    raw = sys.stdin.buffer.read().split(b"\n")
    each = (line.removesuffix(b"\r") for line in raw)  # as a corpus is read
    return "\n".join(decoded(line, Path("stdin"), i) for i, line in enumerate(each, start=1))


def summary(found: Scored) -> str:
    return (
        f"{found.bits_per_byte:.4f} bits per byte  perplexity {found.perplexity:.4g}  "
        f"{len(found.logs):,} tokens  {found.bytes:,} bytes"
    )


def described(found: Scored) -> dict[str, object]:
    return {
        "bits_per_byte": found.bits_per_byte,
        "perplexity": found.perplexity if math.isfinite(found.perplexity) else None,
        "bytes": found.bytes,
        "tokens": [
            {"text": piece, "log": round(log, 6)}
            for piece, log in zip(found.pieces, found.logs, strict=True)
        ],
    }
