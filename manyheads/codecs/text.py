"""Text to token ids and back.

A codec is trained on lines and saved as one `tokenizer.json`. Without normalisation
`render(encode(line)) == line`: always for bytes and byte pairs, for other kinds if all characters
are known. With it, the normalised line comes back.
A tokenizer from another model has a `tokenizer.signs.json` beside it, with its special tokens.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

PAD, BOS, EOS, UNK = range(4)
SPECIAL_TOKEN_NAMES = ["<pad>", "<s>", "</s>", "<unk>"]  # in the order of their ids
MASK = "<mask>"
SIGNS = ".signs.json"  # tokenizer.json has its tokenizer.signs.json beside it
# Names in files of older versions.
FORMER_NAMES = {"stop": "eos", "starts": "bos", "opens": "encoder_bos", "ends": "other_eos"}


@dataclass(frozen=True)
class SpecialTokens:
    """The ids of special tokens.

    A source is [*encoder_bos, ..., eos]; a target begins after `bos` and ends with eos.
    """

    pad: int = PAD
    eos: int = EOS
    bos: tuple[int, ...] = (BOS,)
    encoder_bos: tuple[int, ...] = ()
    unknown: int | None = UNK
    mask: int | None = None
    other_eos: tuple[int, ...] = ()  # they end a target, as eos does
    forbidden: tuple[int, ...] = ()  # others that are never generated

    @property
    def all_eos(self) -> tuple[int, ...]:
        """All ids that end a target."""
        return (self.eos, *self.other_eos)

    @property
    def skipped(self) -> frozenset[int]:
        """The ids that `render` leaves out."""
        return frozenset({self.pad, *self.all_eos, *self.bos, *self.encoder_bos})

    @property
    def all(self) -> frozenset[int]:
        """The skipped ids, and the special tokens that `render` shows."""
        shown = {one for one in (self.unknown, self.mask) if one is not None}
        return self.skipped | shown

    @property
    def never(self) -> tuple[int, ...]:
        """The ids that are never generated; those that end a target are."""
        return tuple(sorted({self.pad, *self.bos, *self.forbidden} - {*self.all_eos}))


class Text:
    """Lines of text as token ids; special tokens around them are added when a batch is made."""

    def __init__(self, tokenizer: Tokenizer, special: SpecialTokens | None = None):
        found = [tokenizer.token_to_id(sign) for sign in SPECIAL_TOKEN_NAMES]
        if special is None and found != [PAD, BOS, EOS, UNK]:
            named = " ".join(SPECIAL_TOKEN_NAMES)
            raise ValueError(f"a tokenizer of ours numbers {named} 0 to 3, this one has {found}")
        # "</s>" inside a line is ordinary text, and must not end a sentence.
        tokenizer.encode_special_tokens = True
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer, self.special_tokens = tokenizer, special or SpecialTokens()

    @property
    def size(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    def encode(self, line: str) -> list[int]:
        """ "Ein Hund." -> [412, 87, 18]"""
        return list(self.tokenizer.encode(line, add_special_tokens=False).ids)

    def encode_with_ends(self, line: str) -> tuple[list[int], list[int]]:
        """Return the ids, and for each the index in the line where its text ends."""
        found = self.tokenizer.encode(line, add_special_tokens=False)
        return list(found.ids), [end for _, end in found.offsets]

    def encode_all(self, lines: Sequence[str]) -> list[list[int]]:
        """Encode many lines at once, on all cores."""
        return [list(e.ids) for e in self.tokenizer.encode_batch(lines, add_special_tokens=False)]

    def encode_special(self, lines: Sequence[str]) -> list[list[int]]:
        """The same, but "</s>" in a line is the special token and not text."""
        self.tokenizer.encode_special_tokens = False
        try:
            return self.encode_all(lines)
        finally:
            self.tokenizer.encode_special_tokens = True

    def render(self, ids: Sequence[int]) -> str:
        """[412, 87, 18] -> "Ein Hund." """
        skipped = self.special_tokens.skipped
        return str(self.tokenizer.decode([i for i in ids if i not in skipped]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """Return the text of each id, as labels for a picture."""
        special = self.special_tokens.all
        return [
            str(self.tokenizer.id_to_token(i) if i in special else self.tokenizer.decode([i]))
            for i in ids
        ]

    def save(self, path: Path) -> None:
        path.write_text(self.tokenizer.to_str(pretty=True), encoding="utf-8")
        if self.special_tokens == SpecialTokens():
            path.with_suffix(SIGNS).unlink(missing_ok=True)  # left by another codec
        else:
            held = json.dumps(asdict(self.special_tokens))
            path.with_suffix(SIGNS).write_text(held + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Text:
        if path.exists() and not path.is_file():  # reading a pipe would block
            raise ValueError(f"{path} is no file")
        try:
            tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except OSError:
            raise
        except Exception:  # the library raises plain Exception for a file it cannot read
            raise ValueError(f"{path} is not a tokenizer.json") from None
        try:
            return Text(
                tokenizer, read_special_tokens(path.with_suffix(SIGNS), tokenizer.get_vocab_size())
            )
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @staticmethod
    def train(
        lines: Iterable[str],
        kind: str = "bpe",
        size: int = 8000,
        masked: bool = False,
        normalize: Normalize = "none",
    ) -> Text:
        """Train a codec with at most `size` ids on these lines.

        With `masked` it has a mask token, and a start token before every text.
        """
        if kind not in KINDS:
            raise ValueError(f"there is no codec {kind!r}; there are {', '.join(KINDS)}")
        special = [*SPECIAL_TOKEN_NAMES, MASK] if masked else SPECIAL_TOKEN_NAMES
        if size <= len(special):
            raise ValueError(f"a vocabulary needs more than its {len(special)} signs, got {size}")
        tokenizer, trainer = KINDS[kind](size, special)
        if normalize != "none":
            form, own = build_normalizer(normalize), tokenizer.normalizer
            tokenizer.normalizer = normalizers.Sequence([form, own]) if own else form
        parting = tokenizer.pre_tokenizer
        # A word "<unk>" that is counted too would take the number of the special token away.
        uncounted = pre_tokenizers.Split(Regex(rf"^(?:{'|'.join(special)})$"), "removed")
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence([parting, uncounted])
        try:
            tokenizer.train_from_iterator(lines, trainer)
        except Exception as error:  # the library raises plain Exception
            if "contain all chars" not in str(error):
                raise
            raise ValueError(
                f"a {kind} vocabulary holds every character of its text, and {size} are too few "
                "for them; a larger size or bpe would do"
            ) from None
        tokenizer.pre_tokenizer = parting
        mask = tokenizer.token_to_id(MASK) if masked else None
        return Text(tokenizer, SpecialTokens(encoder_bos=(BOS,), mask=mask) if masked else None)


def read_special_tokens(path: Path, size: int) -> SpecialTokens | None:
    """Read the special tokens saved beside a tokenizer of `size` ids; None if there is no file."""
    if not path.exists():
        return None
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        held = {FORMER_NAMES.get(name, name): value for name, value in held.items()}
        for name in ("bos", "encoder_bos", "other_eos", "forbidden"):
            held[name] = tuple(held.get(name, ()))
        special = SpecialTokens(**held)
        numbers = special.all | {*special.forbidden}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path.name} beside it does not say what its signs are") from None
    if not all(isinstance(number, int) and 0 <= number < size for number in numbers):
        raise ValueError(f"{path.name} beside it names signs that are not 0 to {size - 1}")
    return special


# ---- normalisation, before tokenization -------------------------------------------------------

Normalize = Literal["nfkc", "nfc", "none"]
FORMS = {"nfkc": normalizers.NFKC, "nfc": normalizers.NFC}
UNSEEN = "\u00ad\u200b\u2060\ufeff"  # soft hyphen, zero-width space, word joiner, byte order mark


def build_normalizer(form: str) -> normalizers.Normalizer:
    """Normalise Unicode, replace runs of white space by one space, and strip both ends.

    Line breaks stay: a document has several lines.
    """
    if form not in FORMS:
        raise ValueError(f"text is normalised by {', '.join(FORMS)} or none, got {form!r}")
    return normalizers.Sequence(
        [
            FORMS[form](),
            normalizers.Replace(Regex(f"[{UNSEEN}]"), ""),
            normalizers.Replace(Regex(r"[^\S\n]+"), " "),
            normalizers.Strip(),
        ]
    )


# ---- kinds -----------------------------------------------------------------------------------

Parts = tuple[Tokenizer, Any]


def byte_pairs(size: int, special: list[str]) -> Parts:
    """Byte-level BPE: bytes and the most frequent pairs; it can encode any text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    least = len(special) + len(alphabet)
    if size < least:
        raise ValueError(f"byte pairs need {least} numbers for all bytes, got {size}")
    return tokenizer, trainers.BpeTrainer(
        vocab_size=size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
    )


def bytes_alone(size: int, special: list[str]) -> Parts:
    """256 ids for 256 bytes, for any `size`."""
    return byte_pairs(len(special) + len(pre_tokenizers.ByteLevel.alphabet()), special)


def pieces_of_words(size: int, special: list[str]) -> Parts:
    """Subwords of a unigram language model, with spaces as part of them."""
    tokenizer = Tokenizer(models.Unigram())
    # "</s>" in a text falls into two parts, neither of which is the special token.
    cut = pre_tokenizers.Split(Regex(rf"<(?=(?:{'|'.join(s[1:] for s in special)}))"), "isolated")
    spaces = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, spaces])
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    return tokenizer, trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=special,
        unk_token=SPECIAL_TOKEN_NAMES[UNK],
        show_progress=False,
    )


def words(size: int, special: list[str]) -> Parts:
    """Words, split at white space; one that is written like a special token is unknown."""
    unknown = SPECIAL_TOKEN_NAMES[UNK]
    tokenizer = Tokenizer(models.WordLevel(unk_token=unknown))
    signs = Regex(rf"(?<!\S)(?:{'|'.join(special)})(?!\S)")
    tokenizer.normalizer = normalizers.Replace(signs, unknown)
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer, whole_words(size, special)


def characters(size: int, special: list[str]) -> Parts:
    """Single characters."""
    tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKEN_NAMES[UNK]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer, whole_words(size, special)


def whole_words(size: int, special: list[str]) -> trainers.WordLevelTrainer:
    return trainers.WordLevelTrainer(vocab_size=size, special_tokens=special, show_progress=False)


KINDS: dict[str, Callable[[int, list[str]], Parts]] = {
    "bpe": byte_pairs,
    "unigram": pieces_of_words,
    "word": words,
    "character": characters,
    "byte": bytes_alone,
}

if TYPE_CHECKING:
    VocabularyKind: TypeAlias = str
else:  # names in recipes; given: the tokenizer of an imported model
    VocabularyKind = Literal[(*KINDS, "given")]
