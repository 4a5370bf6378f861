"""translate and evaluate, for models that point at answers."""

from __future__ import annotations

from manyheads.decoding.config import DecodingConfig
from manyheads.tasks.pointing.model import Pointer
from manyheads.tasks.pointing.verbs import AnswerOptions, EvaluateAnswersOptions
from manyheads.tasks.seq2seq.commands import (
    leave_out_unanswered,
    report_models,
    write_lines,
)
from manyheads.tasks.seq2seq.corpus import read_pairs


def answer(model: Pointer, options: AnswerOptions) -> None:
    count = max(1, options.nbest)
    write_lines(model, options, DecodingConfig(beam=count, nbest=count))


def evaluate_answers(model: Pointer, options: EvaluateAnswersOptions) -> None:
    examples = leave_out_unanswered("answering", read_pairs("answering", None, None, options.pairs))
    report_models(model, options, examples, lambda _: DecodingConfig())
