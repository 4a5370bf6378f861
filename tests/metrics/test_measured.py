"""What all metrics share: one shape in, one shape out, and what they refuse."""

from functools import partial
from pathlib import Path

import numpy as np
import pytest
from installed import install

from manyheads.metrics.answers import exact_match, word_f1
from manyheads.metrics.bleu import bleu, chrf
from manyheads.metrics.measured import how_many, list_references, percent
from manyheads.metrics.rouge import rouge_l, rouge_n
from manyheads.metrics.table import find_metric

METRICS = {
    "bleu": bleu,
    "chrf": chrf,
    "rouge-1": partial(rouge_n, n=1),
    "rouge-2": partial(rouge_n, n=2),
    "rouge-l": rouge_l,
    "exact-match": exact_match,
    "word-f1": word_f1,
}

OUTPUTS = ["the cat sat on the mat", "a dog barks", "nothing alike here"]
REFERENCES = ["the cat sat on a mat", "a dog barks loudly", "quite other words"]
LONG = ["five words are in here", "and six words are in here", "and many more are here"]


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_is_100_for_the_reference_itself_and_0_for_nothing(name: str) -> None:
    assert METRICS[name](LONG, LONG).value == pytest.approx(100)
    assert METRICS[name](["", "", ""], LONG).value == 0


@pytest.mark.parametrize("name", METRICS)
def test_an_output_is_perfect_where_it_is_any_of_its_references(name: str) -> None:
    both = [[one, other] for one, other in zip(REFERENCES, LONG, strict=True)]
    assert METRICS[name](LONG, both).value == pytest.approx(100)
    assert METRICS[name](LONG, REFERENCES).value < 100


@pytest.mark.parametrize("name", METRICS)
def test_one_reference_may_stand_alone_or_in_a_list(name: str) -> None:
    alone = METRICS[name](OUTPUTS, REFERENCES)
    listed = METRICS[name](OUTPUTS, [[one] for one in REFERENCES])
    mixed = METRICS[name](OUTPUTS, [REFERENCES[0], [REFERENCES[1]], (REFERENCES[2],)])
    assert alone.value == listed.value == mixed.value
    assert alone.signature == listed.signature == mixed.signature


@pytest.mark.parametrize("name", METRICS)
def test_the_signature_tells_how_many_references_there_were(name: str) -> None:
    assert "|nrefs:1|" in METRICS[name](OUTPUTS, REFERENCES).signature
    two = [["a", "b"]] * 3
    assert "|nrefs:2|" in METRICS[name](OUTPUTS, two).signature
    assert "|nrefs:var|" in METRICS[name](OUTPUTS, [*two[:2], "a"]).signature


@pytest.mark.parametrize("name", METRICS)
def test_a_result_over_some_examples_is_that_of_measuring_them_alone(name: str) -> None:
    whole = METRICS[name](OUTPUTS, REFERENCES)
    some = METRICS[name]([OUTPUTS[0], OUTPUTS[0], OUTPUTS[1]], [REFERENCES[i] for i in (0, 0, 1)])
    assert whole.over(np.array([2.0, 1.0, 0.0])) == pytest.approx(some.value)


@pytest.mark.parametrize("name", METRICS)
def test_what_cannot_be_paired_is_refused(name: str) -> None:
    with pytest.raises(ValueError, match="3 outputs cannot be held against 2 references; each"):
        METRICS[name](OUTPUTS, REFERENCES[:2])
    with pytest.raises(ValueError, match="nothing can be measured on 0 outputs; at least one is"):
        METRICS[name]([], [])


def test_what_is_not_a_list_of_texts_is_refused() -> None:
    with pytest.raises(ValueError, match=r"outputs must be a list of texts, got one text; \[text"):
        list_references("one", ["one"])
    with pytest.raises(ValueError, match="references must be a list of texts, got one text"):
        list_references(["o", "n", "e"], "one")
    with pytest.raises(ValueError, match="output 1 must be a text, got a NoneType"):
        list_references(["a", None], ["a", "b"])  # type: ignore[list-item]
    with pytest.raises(ValueError, match=r"output 1 needs one text or several .*, got \[\]"):
        list_references(["a", "b"], ["a", []])
    with pytest.raises(ValueError, match=r"output 0 needs one text or several .*, got \[None\]"):
        list_references(["a"], [[None]])  # type: ignore[list-item]


def test_a_mean_prints_with_how_it_was_got() -> None:
    assert str(percent([1.0, 0.0, 0.0], "hits|nrefs:1")) == "33.33 hits|nrefs:1"
    assert how_many([["a", "b"], ["c", "d"]]) == "2"


OWN = """
from manyheads.metrics.measured import percent

def share(outputs, references):
    return 0.5

def one(outputs, references):
    return percent([0.5], "one")

def fine(outputs, references):
    return percent([0.5] * len(outputs), "fine")
"""


@pytest.mark.parametrize(
    ("name", "sentence"),
    [
        (
            "share",
            r"the metric 'share' returns float; a metric returns a Measured, which percent",
        ),
        ("one", "the metric 'one' returns counts of 1 examples for 3 outputs; each output has its"),
    ],
)
def test_a_metric_from_outside_returns_what_others_return(
    name: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    points = "\n".join(f"{each} = my_metrics:{each}" for each in ("share", "one", "fine"))
    install(tmp_path, monkeypatch, OWN, "manyheads.metrics", points)
    assert find_metric("fine")(OUTPUTS, REFERENCES).value == 50
    with pytest.raises(ValueError, match=sentence):
        find_metric(name)(OUTPUTS, REFERENCES)
