"""What an evaluation says, for a person and for a program."""

import json
from collections.abc import Iterator

import pytest
from typed import learned

from manyheads.data.sources import Example
from manyheads.decoding.config import DecodingConfig
from manyheads.metrics.report import format_report
from manyheads.models import load
from manyheads.tasks.seq2seq.evaluation import Evaluation, evaluate_texts
from manyheads.tasks.seq2seq.model import Translator, Written

EXAMPLES = [Example("ba du", "one two", 1), Example("ki lo", "three four", 2)]


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Translator:
    return load(learned(tmp_path_factory.getbasetemp()), "cpu")


@pytest.fixture
def evaluation(model: Translator) -> Evaluation:
    return evaluate_texts(model, EXAMPLES, DecodingConfig(beam=2))


def test_what_was_written_is_worth_what_it_says(evaluation: Evaluation) -> None:
    assert evaluation.lines() == ["one two", "three four"]
    assert evaluation.measured["chrf"].value == 100


def test_a_report_is_plain_values_and_reads_as_a_table(evaluation: Evaluation) -> None:
    told = evaluation.report(evaluation)
    assert json.loads(json.dumps(told)) == told
    lines = format_report(told).splitlines()
    assert lines[4] == "  words read      bleu   examples"
    assert lines[5].startswith("  under 10    ")
    assert lines[5].endswith("          2")
    assert lines[-1].endswith("ours +0.00, 95% within +0.00 and +0.00, p = 1.000")


def test_all_that_is_written_is_shown_as_it_passes(model: Translator) -> None:
    seen = []

    def shown(written: Iterator[list[Written]]) -> Iterator[list[Written]]:
        for best in written:
            seen.append(best[0].text)
            yield best

    evaluation = evaluate_texts(model, EXAMPLES, DecodingConfig(), shown=shown)
    assert seen == evaluation.outputs


def test_nothing_to_evaluate_is_refused(model: Translator) -> None:
    with pytest.raises(ValueError, match=r"^there is nothing to evaluate: the files are empty$"):
        evaluate_texts(model, [], DecodingConfig())
