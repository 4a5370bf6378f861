"""translate, evaluate."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from manyheads.models import Model, Written

ModelOption = Annotated[str, typer.Option(help="A run's folder, or a built-in model: de-en.")]
Device = Annotated[str | None, typer.Option(help="cpu or cuda; else what there is.")]
BeamOption = Annotated[int, typer.Option(help="Go on with so many beginnings at once.")]


def translate(
    texts: Annotated[
        list[str] | None, typer.Argument(help="Sentences; without any, the lines of stdin.")
    ] = None,
    model: ModelOption = "de-en",
    beam: BeamOption = 5,
    nbest: Annotated[int, typer.Option(help="So many different translations of each.")] = 1,
    length_penalty: Annotated[
        float, typer.Option(help="Above 0 favours long ones: score / length ** penalty.")
    ] = 1.0,
    temperature: Annotated[float, typer.Option(help="Above 0: draw at random.")] = 0.0,
    top_k: Annotated[int, typer.Option(help="Draw among the likeliest so many.")] = 0,
    top_p: Annotated[float, typer.Option(help="Draw among what makes up this share.")] = 1.0,
    seed: Annotated[int, typer.Option(help="The same seed draws the same.")] = 0,
    min_new_tokens: Annotated[int, typer.Option(help="No shorter than this.")] = 0,
    max_new_tokens: Annotated[
        int, typer.Option(help="No longer than this; 0: by the source's length.")
    ] = 0,
    prefix: Annotated[str, typer.Option(help="Every translation begins with this.")] = "",
    as_json: Annotated[
        bool, typer.Option("--json", help="A JSON object a line: scores and word alignments.")
    ] = False,
    device: Device = None,
) -> None:
    """Translate lines of text, or summarize or answer: whatever the model has learned."""
    from manyheads.models import load
    from manyheads.tasks.writing import Writing

    how = Writing(
        beam=1 if temperature else beam,
        nbest=nbest,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        min_new_tokens=min_new_tokens,
        max_new_tokens=max_new_tokens,
    )
    loaded = load(model, device)
    kept: list[str] = []
    sources = remembered(texts or typed(), kept)
    for best in loaded.write(sources, how, prefix=prefix):
        source = kept.pop(0)
        if as_json:
            print(json.dumps(described(loaded, source, best), ensure_ascii=False), flush=True)
        else:
            for written in best:
                score = f"{written.score:.3f}\t" if nbest > 1 else ""
                print(score + " ".join(written.text.split("\n")), flush=True)


def typed() -> Iterator[str]:
    """The lines of stdin."""
    from manyheads.data.sources import decoded

    for number, raw in enumerate(sys.stdin.buffer, start=1):
        yield decoded(raw.removesuffix(b"\n").removesuffix(b"\r"), Path("stdin"), number)


def remembered(texts: Iterable[str], kept: list[str]) -> Iterator[str]:
    for text in texts:
        kept.append(text)
        yield text


def described(model: Model, source: str, best: list[Written]) -> dict[str, Any]:
    return {
        "source": source,
        "best": [
            {
                "text": written.text,
                "score": round(written.score, 4),
                "finished": written.finished,
                "alignment": model.alignment(source, written),
            }
            for written in best
        ],
    }


def evaluate(
    model: ModelOption,
    source: Annotated[Path | None, typer.Option(help="Sentences to read, one a line.")] = None,
    reference: Annotated[Path | None, typer.Option(help="What should be written.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="Or both: .tsv or .jsonl.")] = None,
    against: Annotated[
        str | None, typer.Option(help="Another model: is the difference more than chance?")
    ] = None,
    beam: BeamOption = 5,
    length_penalty: Annotated[float, typer.Option(help="As in translate.")] = 1.0,
    tokenize: Annotated[
        str, typer.Option(help="How sacreBLEU splits words; none where they are split.")
    ] = "13a",
    write_to: Annotated[
        Path | None, typer.Option("--write", help="Put what is written into this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    device: Device = None,
) -> None:
    """Measure a model: sacreBLEU and chrF, ROUGE for summaries, exact match and F1 for answers."""
    from manyheads.evaluating import Evaluation, report, table
    from manyheads.models import load
    from manyheads.tasks.reading import Data, read
    from manyheads.tasks.writing import Writing

    how = Writing(beam=beam, length_penalty=length_penalty)
    loaded = load(model, device)
    Data(source, reference, pairs=pairs)  # refuses half of a pair
    examples = list(read(loaded.task.kind, source, reference, pairs))
    ours = Evaluation.of(loaded, examples, how, tokenize)
    if write_to is not None:
        write_to.write_text("".join(f"{line}\n" for line in ours.lines()), encoding="utf-8")
    theirs = Evaluation.of(load(against, device), examples, how, tokenize) if against else None
    told = report(ours, theirs)
    print(json.dumps(told, ensure_ascii=False, indent=2) if as_json else table(told))
