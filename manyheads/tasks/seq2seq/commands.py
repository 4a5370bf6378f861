"""The commands translate, evaluate and distill."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import tee
from pathlib import Path
from typing import Any, cast

from manyheads.cli.incoming import STDIN, Incoming, decode_lines, is_terminal
from manyheads.cli.screen import count_items, print_json, print_report
from manyheads.data.sources import Example, parse_records
from manyheads.decoding.config import DecodingConfig
from manyheads.metrics.bleu import check_tokenizer, fitting_tokenizer
from manyheads.metrics.table import find_metric
from manyheads.models import load, set_precision
from manyheads.tasks.seq2seq.corpus import read_pairs
from manyheads.tasks.seq2seq.distillation import write_as_teacher
from manyheads.tasks.seq2seq.evaluation import evaluate_texts
from manyheads.tasks.seq2seq.kinds import KINDS
from manyheads.tasks.seq2seq.model import AT_ONCE, Translator, Written
from manyheads.tasks.seq2seq.settings import Kind
from manyheads.tasks.seq2seq.verbs import DistillOptions, EvaluateOptions, TranslateOptions


def translate(model: Translator, options: TranslateOptions) -> None:
    how = settle_decoding(model, options)
    write_lines(model, options, how, prefix=options.prefix, long=cast(Any, options.long))


def write_lines(model: Any, options: Any, how: DecodingConfig, **more: Any) -> None:
    """Print the output for each text as soon as it is written."""
    set_precision(model, options.precision)
    spoken = not options.texts and is_terminal()
    if spoken:
        print("a line is read at a time; Ctrl-D ends", file=sys.stderr)
    read, ready = read_sources(model.task.kind, options)
    lines: list[int] = []  # of each text
    sources, shown = tee(note_lines(read, lines))
    at_once = 1 if spoken else AT_ONCE
    told = partial(print, file=sys.stderr)
    written = model.write(
        sources,
        how,
        at_once=at_once,
        ready=ready,
        told=told,
        name=lambda number: f"line {lines[number - 1]}",
        **more,
    )
    for number, (best, source) in enumerate(zip(written, shown, strict=False), start=1):
        if options.as_json:
            print_json(describe_best(model, source, best))
        elif not options.nbest:
            print(join_lines(best[0]), flush=True)
        elif not source.strip():
            print(f"{number}\t\t", flush=True)
        else:
            for one in best:
                print(f"{number}\t{one.score:.4f}\t{join_lines(one)}", flush=True)


def settle_decoding(
    model: Translator, options: TranslateOptions | EvaluateOptions
) -> DecodingConfig:
    """Return how to decode, with the model's usual beam where none was asked for."""
    how = options.decoding()
    if "beam" in options.typed or how.nbest > 1:
        return how
    return replace(how, beam=model.usual_beam(how.beam))


def join_lines(written: Written) -> str:
    return " ".join(written.text.split("\n"))


Numbered = Iterable[tuple[int, str]]  # texts with their lines


def note_lines(texts: Numbered, lines: list[int]) -> Iterator[str]:
    """Yield the texts, and append the line of each to `lines`."""
    for number, text in texts:
        lines.append(number)
        yield text


def read_sources(kind: Kind, options: Any) -> tuple[Numbered, Callable[[], bool]]:
    """Return the texts that were given, or those of stdin, and a test whether the next is ready."""
    if options.texts:
        return enumerate(options.texts, start=1), lambda: True
    coming = Incoming(blank=not options.records)
    lines = decode_lines(coming)
    read = read_records(lines, kind) if options.records else enumerate(lines, start=1)
    return read, coming.has_next


def read_records(lines: Iterator[str], kind: Kind) -> Iterator[tuple[int, str]]:
    """Yield the sources for a model of this kind, from each JSON object of stdin."""
    for number, record in parse_records(lines, STDIN):
        for source in KINDS[kind].records.all_sources(record, f"{STDIN}:{number}"):
            yield number, source


def describe_best(model: Translator, source: str, best: list[Written]) -> dict[str, Any]:
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


def evaluate_pairs(model: Translator, options: EvaluateOptions) -> None:
    tokenize, kind = options.tokenize, model.task.kind
    if tokenize is not None:
        check_tokenizer(tokenize)
    examples = leave_out_unanswered(
        kind, read_pairs(kind, options.source, options.reference, options.pairs)
    )
    if tokenize is None:
        tokenize, reason = fitting_tokenizer(example.target for example in examples)
        if reason and kind == "translation":
            print(f"{reason}; --tokenize would change it", file=sys.stderr)
    settle = partial(settle_decoding, options=options)
    report_models(model, options, examples, settle, tokenize)


def leave_out_unanswered(kind: Kind, examples: Iterable[Example]) -> list[Example]:
    """Return all examples but questions without an answer, and say how many of these there are."""
    read = list(examples)
    if kind != "answering":
        return read
    kept = [one for one in read if any(one.references)]
    if less := len(read) - len(kept):
        print(f"{less:,} of {len(read):,} questions have no answer: left out", file=sys.stderr)
    return kept


def report_models(
    model: Any,
    options: Any,
    examples: Sequence[Example],
    settle: Callable[[Any], DecodingConfig],
    tokenize: str = "13a",
) -> None:
    """Print the scores of a model, compared with another where one is named; `settle` returns how
    a model decodes, since each has its own usual beam.
    """
    for name in options.metric:
        find_metric(name)
    models = [model]
    if options.against is not None:
        models.append(load_other(model, options.against))
    judge = partial(
        evaluate_texts,
        examples=examples,
        tokenize=tokenize,
        shown=partial(count_items, total=len(examples)),
        metrics=options.metric,
    )
    ours, *theirs = (judge(one, how=settle(one)) for one in models)
    if options.write_to is not None:
        text = "".join(f"{line}\n" for line in ours.lines())
        options.write_to.write_text(text, encoding="utf-8")
    print_report(ours.report(*theirs), options.as_json)


def distill(model: Translator, options: DistillOptions) -> None:
    task, out = model.task, Path(str(options.out))
    files = options.source, options.target, options.data
    read = [*read_pairs(task.kind, *files)]
    examples = [one for one in read if one.source.strip()]
    if not examples:
        raise ValueError(f"nothing is in {options.data or options.source} to write targets for")
    if less := len(read) - len(examples):
        print(f"{less:,} of {len(read):,} sources are empty: left out", file=sys.stderr)
    table = out.suffix == ".tsv"
    if table and (broken := sum("\n" in one.source.strip() for one in examples)):
        raise ValueError(
            f"{broken:,} of {len(examples):,} sources have line breaks, which {out} cannot hold; "
            "--out with a .jsonl file would do"
        )
    outputs, scores = write_as_teacher(task, model.network, examples, model.name, options.beam)
    with out.open("w", encoding="utf-8") as file:
        for example, output in zip(examples, outputs, strict=True):
            plain = "\t".join(" ".join(one.split()) for one in (example.source, output))
            record = KINDS[task.kind].records.make_record(example.source, output)
            file.write(f"{plain if table else json.dumps(record, ensure_ascii=False)}\n")
    told = ", ".join(f"{name} {value:.2f}" for name, value in scores.items())
    print(f"{len(outputs):,} targets in {out}: {told} against those there")


def load_other(model: Translator, name: str) -> Translator:
    """Load the model to compare with; refuse one for another task."""
    other = load(name, str(model.device))
    if other.kind != model.kind:
        raise ValueError(
            f"{model.name} is for {model.kind}, {name} for {other.kind}: nothing to compare"
        )
    return cast(Translator, other)
