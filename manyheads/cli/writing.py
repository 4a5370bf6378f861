"""translate, evaluate."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from io import BufferedIOBase
from itertools import tee
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from manyheads.cli.incoming import Incoming
from manyheads.cli.options import (
    BEAM,
    CHANCE,
    SEARCH,
    DeviceOption,
    LeastTokens,
    LengthPenalty,
    ModelOption,
    Seed,
    TopK,
    TopP,
    given,
    loaded_as,
    option,
    refuse_unwritable,
)
from manyheads.tasks.music import commands as of_music

if TYPE_CHECKING:
    from manyheads.tasks.seq2seq.model import Translator, Written
    from manyheads.tasks.seq2seq.settings import Kind

STDIN = Path("stdin")
MUSIC = "Music"
OF_MUSIC = ("split", "count", "seconds")


def translate(
    texts: Annotated[
        list[str] | None,
        typer.Argument(metavar="TEXT", help="What to read; without any, the lines of stdin."),
    ] = None,
    model: ModelOption = "de-en",
    records: Annotated[
        bool,
        typer.Option(
            "--records",
            help="Stdin has a JSON object a line, as for train: a source, document, or context "
            "with a question or several.",
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Write a JSON object a line: scores, word alignments.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="All that is written begins with this.")] = "",
    min_new_tokens: LeastTokens = 0,
    max_new_tokens: Annotated[
        int, typer.Option(help="Write no more than this; 0: by the source's length.")
    ] = 0,
    beam: Annotated[
        int | None,
        typer.Option(
            help="Go on with so many beginnings at once.",
            show_default=str(BEAM),
            rich_help_panel=SEARCH,
        ),
    ] = None,
    nbest: Annotated[
        int | None,
        typer.Option(
            help="Write the best so many, each with the number of its source (from 1) and the "
            "score by which they are ranked, log-probability / length ** penalty; tabs between.",
            show_default="the best alone, as it is",
            rich_help_panel=SEARCH,
        ),
    ] = None,
    length_penalty: LengthPenalty = 1.0,
    long: Annotated[
        str | None,
        typer.Option(
            help="What becomes of several sentences on a line, and of more than can be read: split "
            "reads each sentence by itself, truncate the beginning, refuse ends the command.",
            show_default="split for translations, else truncate",
        ),
    ] = None,
    temperature: Annotated[
        float,
        typer.Option(help="Above 0: draw, more boldly the higher.", rich_help_panel=CHANCE),
    ] = 0.0,
    top_k: TopK = 0,
    top_p: TopP = 1.0,
    seed: Seed = 0,
    device: DeviceOption = None,
) -> None:
    """Translate, summarize or answer: whatever the model has learned.

    A line is written for each line read, in the same order and as they come:
    who sends one and waits is answered.
    Documents and questions have lines of their own: give them with --records,
    as they stand in a .jsonl file.
    """
    from manyheads.decoding.config import DecodingConfig, choose_beam
    from manyheads.tasks.seq2seq.model import AT_ONCE, Translator

    if records and texts:
        raise ValueError("--records reads stdin, and texts were given too; one of them is enough")
    drawn = temperature != 0
    if drawn and nbest is not None and nbest > 1:
        raise ValueError("a --temperature draws one, --nbest lists what a beam found; ask for one")
    if not drawn and top_p != 1:
        raise ValueError("--top-p narrows what is drawn; give a --temperature too")
    how = DecodingConfig(
        beam=choose_beam(beam, temperature),
        nbest=1 if nbest is None else nbest,
        length_penalty=length_penalty,
        temperature=temperature,
        top_k=top_k,
        top_p=top_p,
        seed=seed,
        min_new_tokens=min_new_tokens,
        max_new_tokens=max_new_tokens,
    )
    loaded = loaded_as(Translator, model, device)
    spoken = not texts and sys.stdin.isatty()
    if spoken:
        print("a line is read at a time; Ctrl-D ends", file=sys.stderr)
    read, ready = (texts, lambda: True) if texts else piped(loaded.task.kind, records)
    sources, shown = tee(read)
    at_once = 1 if spoken else AT_ONCE
    written = loaded.write(
        sources,
        how,
        prefix=prefix,
        long=cast(Any, long),
        at_once=at_once,
        ready=ready,
        told=partial(print, file=sys.stderr),
    )
    for number, (best, source) in enumerate(zip(written, shown, strict=False), start=1):
        if as_json:
            print(json.dumps(described(loaded, source, best), ensure_ascii=False), flush=True)
        elif nbest is None:
            print(on_a_line(best[0]), flush=True)
        elif not source.strip():
            print(f"{number}\t\t", flush=True)
        else:
            for one in best:
                print(f"{number}\t{one.score:.4f}\t{on_a_line(one)}", flush=True)


def on_a_line(written: Written) -> str:
    return " ".join(written.text.split("\n"))


def piped(kind: Kind, records: bool) -> tuple[Iterable[str], Callable[[], bool]]:
    """What stdin has to be read, and whether more of it has come."""
    coming = Incoming(cast(BufferedIOBase, sys.stdin.buffer), blank=not records)
    lines = typed(coming)
    return recorded(lines, kind) if records else lines, coming.ready


def typed(coming: Incoming) -> Iterator[str]:
    """The lines of stdin."""
    from manyheads.data.sources import decoded

    for number, raw in enumerate(coming, start=1):
        yield decoded(raw, STDIN, number)


def recorded(lines: Iterator[str], kind: Kind) -> Iterator[str]:
    """What a model of this kind reads, from each JSON object of stdin."""
    from manyheads.data.sources import parsed
    from manyheads.tasks.seq2seq.kinds import KINDS

    for number, record in parsed(lines, STDIN):
        yield from KINDS[kind].records.all_sources(record, f"{STDIN}:{number}")


def described(model: Translator, source: str, best: list[Written]) -> dict[str, Any]:
    aligned = [model.align(source, written) for written in best]
    return {
        "source": source,
        "words": aligned[0].read,
        "best": [
            {
                "text": written.text,
                "score": round(written.score, 4),
                "log_prob": round(written.log_prob, 4),
                "finished": written.finished,
                "words": each.written,
                "alignment": each.links,
            }
            for written, each in zip(best, aligned, strict=True)
        ],
    }


def evaluate(
    context: typer.Context,
    model: ModelOption,
    source: Annotated[Path | None, typer.Option(help="Texts to read, one a line.")] = None,
    reference: Annotated[Path | None, typer.Option(help="What is wanted for each.")] = None,
    pairs: Annotated[Path | None, typer.Option(help="Or both in one file, .tsv or .jsonl.")] = None,
    text: Annotated[
        list[Path] | None, typer.Option(help="For a language model: files, folders, .jsonl.")
    ] = None,
    data: Annotated[
        Path | None, typer.Option(help="For a model that judges: texts with their labels.")
    ] = None,
    music: Annotated[
        list[Path] | None,
        typer.Option(
            help="For a model of music: MIDI files, folders, an .npz.", rich_help_panel=MUSIC
        ),
    ] = None,
    split: Annotated[
        str, typer.Option(help="Which part of an .npz.", rich_help_panel=MUSIC)
    ] = "valid",
    count: Annotated[
        int,
        typer.Option(min=1, help="Pieces to draw, to compare the music.", rich_help_panel=MUSIC),
    ] = 8,
    seconds: Annotated[
        float,
        typer.Option(help="Of each, and of the start of those given.", rich_help_panel=MUSIC),
    ] = of_music.SECONDS,
    against: Annotated[
        str | None, typer.Option(help="Another model: is the difference more than chance?")
    ] = None,
    write_to: Annotated[
        Path | None, typer.Option("--write", help="Put what the model writes into this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
    beam: Annotated[
        int, typer.Option(help="Go on with so many beginnings at once.", rich_help_panel=SEARCH)
    ] = BEAM,
    length_penalty: LengthPenalty = 1.0,
    tokenize: Annotated[
        str | None,
        typer.Option(
            help="How sacreBLEU splits words: 13a, zh, ja-mecab, char; none where they are split.",
            show_default="by the script of the references",
        ),
    ] = None,
    metric: Annotated[
        list[str] | None,
        typer.Option(help="Measure by this one too; it may be given several times."),
    ] = None,
    device: DeviceOption = None,
) -> None:
    """Measure a model on a test set, alone or against another.

    By BLEU and chrF (sacreBLEU) for translations, ROUGE for summaries,
    exact match and F1 for answers; bits per byte and perplexity for text that goes on;
    accuracy and F1, or correlations, for what is said about texts;
    nats a token and how it compares with what the model writes, for music.
    """
    from manyheads.metrics.report import format_report

    if not music and (name := next((n for n in OF_MUSIC if n in given(context)), None)):
        raise ValueError(f"{option(name)} goes with --music, which was not given")
    if "split" in given(context):
        from manyheads.tasks.music.settings import is_grids

        if not any(map(is_grids, music or ())):
            raise ValueError("--split names a part of an .npz, and --music names none")
    asked = {"--text": text, "--data": data, "--music": music}
    first = next((name for name, value in asked.items() if value), None)
    if first is not None:
        others: dict[str, Any] = {"--source": source, "--reference": reference, "--pairs": pairs}
        others |= {"--against": against, "--write": write_to, "--metric": metric}
        others |= {**asked, first: None}
        alone(first, others)
        if text:
            told = measured_text(model, text, device)
        elif music:
            from manyheads.tasks.music.evaluation import music_table

            told = of_music.measured(model, music, split, (count, seconds), device)
        else:
            told = measured_examples(model, Path(data or ""), device)
        shown_as = music_table if music else format_report
        print(json.dumps(told, ensure_ascii=False, indent=2) if as_json else shown_as(told))
        return
    from manyheads.cli.screen import passing
    from manyheads.decoding.config import DecodingConfig
    from manyheads.metrics.scripts import check_tokenizer, fitting_tokenizer
    from manyheads.metrics.table import find_metric
    from manyheads.tasks.seq2seq.corpus import read_pairs
    from manyheads.tasks.seq2seq.evaluation import evaluate_texts
    from manyheads.tasks.seq2seq.model import Translator

    refuse_half({"--source": source, "--reference": reference, "--pairs": pairs})
    if write_to is not None:
        refuse_unwritable("--write", write_to)
    if tokenize is not None:
        check_tokenizer(tokenize)
    for name in metric or ():
        find_metric(name)
    how = DecodingConfig(beam=beam, length_penalty=length_penalty)
    models = [loaded_as(Translator, name, device) for name in (model, against) if name]
    kinds = [loaded.task.kind for loaded in models]
    if len(set(kinds)) > 1:
        raise ValueError(f"{model} is for {kinds[0]}, {against} for {kinds[1]}: nothing to compare")
    examples = list(read_pairs(kinds[0], source, reference, pairs))
    if tokenize is None:
        tokenize, reason = fitting_tokenizer(example.target for example in examples)
        if reason and kinds[0] == "translation":
            print(f"{reason}; --tokenize would change it", file=sys.stderr)
    shown = partial(passing, total=len(examples))
    judge = partial(
        evaluate_texts,
        examples=examples,
        how=how,
        tokenize=tokenize,
        shown=shown,
        metrics=metric or (),
    )
    ours = judge(models[0])
    if write_to is not None:
        write_to.write_text("".join(f"{line}\n" for line in ours.lines()), encoding="utf-8")
    told = ours.report(*map(judge, models[1:]))
    print(json.dumps(told, ensure_ascii=False, indent=2) if as_json else format_report(told))


def alone(asked: str, others: dict[str, Any]) -> None:
    if other := next((name for name, value in others.items() if value), None):
        raise ValueError(f"{asked} is evaluated by itself, {other} was given too")


def measured_text(model: str, text: list[Path], device: str | None) -> dict[str, Any]:
    from manyheads.cli.screen import passing
    from manyheads.data.documents import documents
    from manyheads.tasks.language.evaluation import evaluate_documents
    from manyheads.tasks.language.model import LanguageModel

    loaded = loaded_as(LanguageModel, model, device)
    read = [document.text for document in documents(text)]
    return evaluate_documents(loaded, passing(read, len(read), "documents", "read"))


def measured_examples(model: str, path: Path, device: str | None) -> dict[str, Any]:
    """By the task itself, where it knows how; else by labels."""
    from manyheads.data.sources import lines
    from manyheads.models import load
    from manyheads.tasks.model import Predictor

    loaded = load(model, device)
    if not isinstance(loaded, Predictor):
        return measured_labels(model, path, device)
    began, found = time.perf_counter(), loaded.evaluate(path)
    return {
        "model": model,
        "examples": sum(1 for _ in lines(path)),
        "seconds": round(time.perf_counter() - began, 2),
        "scores": {n: {"value": round(value, 4), "signature": ""} for n, value in found.items()},
    }


def measured_labels(model: str, data: Path | None, device: str | None) -> dict[str, Any]:
    from manyheads.cli.screen import filling
    from manyheads.data.labelled import labelled, tagged
    from manyheads.tasks.classification.evaluation import evaluate_labels
    from manyheads.tasks.classification.model import Classifier

    loaded, path = loaded_as(Classifier, model, device), Path(data or "")
    examples = [*tagged(path)] if loaded.kind == "labelling" else [*labelled(path)]
    with filling(len(examples), "texts", "read") as progress:
        told = evaluate_labels(loaded, examples, progress)
    if unseen := told.get("unseen"):
        named = ", ".join(f"{label!r} ({count:,})" for label, count in unseen.items())
        known = ", ".join(loaded.task.labels.names)
        print(
            f"manyheads: {path} has labels that the model never saw, and so never says: {named}; "
            f"it knows {known}",
            file=sys.stderr,
        )
    return told


def refuse_half(files: dict[str, Path | None]) -> None:
    """Refuse half of a pair of files, and more than one."""
    given = [name for name, path in files.items() if path is not None]
    if given not in (["--source", "--reference"], ["--pairs"]):
        raise ValueError(
            "a test set is --source with --reference, or --pairs alone; "
            f"got {' and '.join(given) or 'none of them'}"
        )
