"""BLEU and chrF: sacrebleu's own numbers, taken from counts that add up."""

import logging
import math

import pytest
import sacrebleu

from manyheads.metrics.bleu import bleu, chrf

OUTPUTS = ["The cat sat on the mat.", "It is raining, again!", "A man rides a horse.", ""]
FIRST = ["The cat sat on a mat.", "It's raining again!", "A man is riding a horse.", "Nothing."]
SECOND = ["A cat sat on the mat.", "Again it rains, it is raining.", "Man rides horse.", "No."]
BOTH = [[one, other] for one, other in zip(FIRST, SECOND, strict=True)]


def test_bleu_is_sacrebleus() -> None:
    assert bleu(OUTPUTS, FIRST).value == sacrebleu.corpus_bleu(OUTPUTS, [FIRST]).score
    assert bleu(OUTPUTS, BOTH).value == sacrebleu.corpus_bleu(OUTPUTS, [FIRST, SECOND]).score


def test_chrf_is_sacrebleus() -> None:
    assert chrf(OUTPUTS, FIRST).value == sacrebleu.corpus_chrf(OUTPUTS, [FIRST]).score
    both = sacrebleu.corpus_chrf(OUTPUTS, [FIRST, SECOND], word_order=2).score
    assert chrf(OUTPUTS, BOTH, word_order=2).value == both


def test_bleu_of_a_small_example_is_what_it_is_by_hand() -> None:
    # 5 of 6 words, 4 of 5 pairs, 3 of 4 threes, 2 of 3 fours; 6 words for 7: exp(1 - 7/6).
    value = bleu(["a b c d e x"], ["a b c d e f g"], tokenize="none").value
    assert value == pytest.approx(
        100 * math.exp(1 - 7 / 6) * (5 / 6 * 4 / 5 * 3 / 4 * 2 / 3) ** (1 / 4)
    )


def test_the_signature_says_what_a_number_depends_on() -> None:
    version = sacrebleu.__version__
    assert bleu(OUTPUTS, FIRST).signature == (
        f"BLEU|nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{version}"
    )
    assert bleu(OUTPUTS, BOTH, tokenize="none", lowercase=True).signature == (
        f"BLEU|nrefs:2|case:lc|eff:no|tok:none|smooth:exp|version:{version}"
    )
    assert chrf(OUTPUTS, FIRST, word_order=2).signature == (
        f"chrF2++|nrefs:1|case:mixed|eff:yes|nc:6|nw:2|space:no|version:{version}"
    )


def test_case_counts_unless_it_is_told_not_to() -> None:
    shouted = [output.upper() for output in FIRST]
    for metric in (bleu, chrf):
        assert metric(shouted, FIRST).value < 50
        assert metric(shouted, FIRST, lowercase=True).value == pytest.approx(100)


def test_only_tokenised_text_is_taken_as_it_stands(caplog: pytest.LogCaptureFixture) -> None:
    outputs, references = ["it rains on a mat ."] * 100, ["it rains on a mat."] * 100
    with caplog.at_level(logging.WARNING, logger="sacrebleu"):
        assert bleu(outputs, references, tokenize="none").value < 90
        assert not caplog.records
        assert bleu(outputs, references).value == pytest.approx(100)
    assert "forgot to detokenize" in caplog.text


def test_what_sacrebleu_cannot_do_is_refused_in_words() -> None:
    with pytest.raises(ValueError, match="sacrebleu has no tokenizer 'moses'; it has none, zh, 13"):
        bleu(OUTPUTS, FIRST, tokenize="moses")
    with pytest.raises(ValueError, match="chrF cannot count -1 words in a row; 0 is chrF, 2 is"):
        chrf(OUTPUTS, FIRST, word_order=-1)
