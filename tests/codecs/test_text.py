"""Text that comes back as it went in."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from manyheads.codecs.text import (
    BOS,
    EOS,
    KINDS,
    PAD,
    SPECIAL_TOKEN_NAMES,
    UNK,
    SpecialTokens,
    Text,
)

LINES = ["Ein Hund rennt.", "Zwei Hunde rennen schnell.", "Ein Kind lacht über den Hund."] * 20
BPE = Text.train(LINES, "bpe", 300)


@given(st.text())
def test_byte_pairs_give_back_any_text(line: str) -> None:
    assert BPE.render(BPE.encode(line)) == line


@given(st.text())
def test_bytes_give_back_any_text(line: str) -> None:
    codec = Text.train(LINES, "byte")
    assert codec.size == 260
    assert codec.render(codec.encode(line)) == line


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_gives_back_what_it_was_trained_on(kind: str, tmp_path: Path) -> None:
    codec = Text.train(LINES, kind, 300)
    assert [codec.render(codec.encode(line)) for line in LINES] == LINES
    assert codec.encode_all(LINES) == [codec.encode(line) for line in LINES]
    codec.save(tmp_path / "tokenizer.json")
    again = Text.load(tmp_path / "tokenizer.json")
    assert again.encode_all(LINES) == codec.encode_all(LINES)
    assert again.encode("a</s>b<pad>") == codec.encode("a</s>b<pad>")


@pytest.mark.parametrize("kind", ["word", "character", "unigram"])
def test_what_was_never_met_is_unknown(kind: str) -> None:
    assert UNK in Text.train(LINES, kind, 300).encode("漢字")


def test_training_twice_gives_the_same_codec(tmp_path: Path) -> None:
    for name in ("one", "two"):
        Text.train(LINES, "bpe", 300).save(tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_text_that_looks_like_a_sign_is_text() -> None:
    ids = BPE.encode("a </s> b <pad>")
    assert not {PAD, BOS, EOS} & set(ids)
    assert BPE.render([BOS, *ids, EOS, PAD]) == "a </s> b <pad>"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("masked", [False, True])
def test_a_sign_in_a_corpus_is_no_special_token_in_any_vocabulary(kind: str, masked: bool) -> None:
    signs = [*SPECIAL_TOKEN_NAMES, *["<mask>"][:masked]]
    lines = [f"the {sign} cat {sign}x {sign}{sign}" for sign in signs] + [*signs, *LINES] * 3
    codec = Text.train(lines, kind, 300, masked, normalize="nfkc")
    assert [codec.tokenizer.token_to_id(sign) for sign in signs] == [*range(len(signs))]
    for line in (*lines, "\uff1c/s\uff1e"):  # the last one is "</s>" after normalisation
        assert not {*codec.encode(line)} & ({*range(len(signs))} - {UNK})
    assert codec.encode("cat")[0] >= len(signs)


def test_a_word_like_a_special_token_is_unknown() -> None:
    codec = Text.train(["a <unk> b </s>"], "word", 300)
    assert [i == UNK for i in codec.encode("a <unk> b </s>")] == [False, True, False, True]


def test_pieces_label_each_number() -> None:
    assert "".join(BPE.pieces(BPE.encode("Ein Hund"))) == "Ein Hund"
    assert BPE.pieces([EOS]) == ["</s>"]


def test_signs_are_kept_beside_a_codec_and_go_with_it(tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    special = SpecialTokens(encoder_bos=(BOS, 5), unknown=None, mask=7)
    Text(BPE.tokenizer, special).save(path)
    assert Text.load(path).special_tokens == special
    BPE.save(path)  # over the other: its signs are not ours
    assert Text.load(path).special_tokens == SpecialTokens()


def test_signs_are_read_by_their_former_names_too(tmp_path: Path) -> None:
    BPE.save(tmp_path / "tokenizer.json")
    held = '{"pad": 1, "stop": 2, "starts": [2, 9], "opens": [0], "ends": [5], "forbidden": [7]}'
    (tmp_path / "tokenizer.signs.json").write_text(held)
    found = Text.load(tmp_path / "tokenizer.json").special_tokens
    assert found == SpecialTokens(1, 2, (2, 9), (0,), other_eos=(5,), forbidden=(7,))


@pytest.mark.parametrize(
    ("held", "sentence"),
    [
        ("[]", r"tokenizer\.signs\.json beside it does not say what its signs are"),
        ('{"bos": [1], "encoder_bos": [], "last": 2}', "does not say what its signs are"),
        ('{"bos": [1], "pad": [2]}', "does not say what its signs are"),
        ('{"bos": [999], "encoder_bos": []}', f"names signs that are not 0 to {BPE.size - 1}"),
    ],
)
def test_signs_that_cannot_be_are_refused(held: str, sentence: str, tmp_path: Path) -> None:
    BPE.save(tmp_path / "tokenizer.json")
    (tmp_path / "tokenizer.signs.json").write_text(held)
    with pytest.raises(ValueError, match=sentence):
        Text.load(tmp_path / "tokenizer.json")


def test_impossible_codecs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="there is no codec 'bep'; there are bpe, unigram, word"):
        Text.train(LINES, "bep")
    with pytest.raises(ValueError, match="byte pairs need 260 numbers for all bytes, got 100"):
        Text.train(LINES, "bpe", 100)
    with pytest.raises(ValueError, match="more than its 4 signs, got 3"):
        Text.train(LINES, "word", 3)
    with pytest.raises(ValueError, match="byte pairs need 261 numbers for all bytes, got 260"):
        Text.train(LINES, "bpe", 260, masked=True)
    with pytest.raises(ValueError, match="more than its 5 signs, got 5"):
        Text.train(LINES, "word", 5, masked=True)
    with pytest.raises(
        ValueError, match="unigram vocabulary holds every character of its text, and 8"
    ):
        Text.train(LINES, "unigram", 8)
    (tmp_path / "t.json").write_text("{}")
    with pytest.raises(ValueError, match=r"t\.json is not a tokenizer\.json"):
        Text.load(tmp_path / "t.json")
    from tokenizers import Tokenizer, models

    Tokenizer(models.BPE()).save(str(tmp_path / "foreign.json"))
    with pytest.raises(ValueError, match="a tokenizer of ours numbers <pad> <s> </s> <unk> 0 to 3"):
        Text.load(tmp_path / "foreign.json")


ALIKE = {
    "la\u0308uft": "läuft",  # decomposed, as file names of one system are
    "Ich\u00a0habe\tkeine \u202fZeit": "Ich habe keine Zeit",
    " Ｈｅｌｌｏ\u3000ﬁn ": "Hello fin",
    "Ver\u00adbot\ufeff": "Verbot",
    "eins\u2003\nzwei": "eins \nzwei",  # lines stay apart
}


@pytest.mark.parametrize("kind", ["bpe", "unigram", "character", "byte"])
def test_what_looks_alike_becomes_the_same_numbers(kind: str, tmp_path: Path) -> None:
    codec = Text.train([*LINES, *ALIKE.values()], kind, 300, normalize="nfkc")
    codec.save(tmp_path / "tokenizer.json")
    again = Text.load(tmp_path / "tokenizer.json")
    for text, plain in ALIKE.items():
        assert again.encode(text) == codec.encode(plain)
        assert again.render(again.encode(text)) == plain


def test_what_has_another_meaning_is_kept_by_nfc_and_folded_by_nfkc() -> None:
    texts = {form: Text.train(LINES, "byte", normalize=form) for form in ("nfc", "nfkc")}
    written = {form: one.render(one.encode("5\u00a0m² …")) for form, one in texts.items()}
    assert written == {"nfc": "5 m² …", "nfkc": "5 m2 ..."}
    with pytest.raises(ValueError, match="text is normalised by nfkc, nfc or none, got 'nfd'"):
        Text.train(LINES, "byte", normalize="nfd")  # type: ignore[arg-type]
