"""Text to numbers and back.

A codec is trained on lines, kept as one `tokenizer.json`, and gives back what it was given, as it
was normalised: `render(encode(line)) == line` where nothing is, always for bytes and byte pairs,
else if all characters are known.
One that was made elsewhere has its `tokenizer.signs.json` beside it, which says what its signs are.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

PAD, BOS, EOS, UNK = range(4)
SPECIAL_TOKEN_NAMES = ["<pad>", "<s>", "</s>", "<unk>"]  # in the order of their numbers
MASK = "<mask>"
SIGNS = ".signs.json"  # tokenizer.json has its tokenizer.signs.json beside it
# As files beside older tokenizers have them.
FORMER_NAMES = {"stop": "eos", "starts": "bos", "opens": "encoder_bos", "ends": "other_eos"}


@dataclass(frozen=True)
class SpecialTokens:
    """The numbers that are no text.

    What is read is [*encoder_bos, ..., eos]; what is written begins after `bos` and ends with eos.
    """

    pad: int = PAD
    eos: int = EOS
    bos: tuple[int, ...] = (BOS,)
    encoder_bos: tuple[int, ...] = ()
    unknown: int | None = UNK
    mask: int | None = None
    other_eos: tuple[int, ...] = ()  # they end what is written, as eos does
    forbidden: tuple[int, ...] = ()  # others that are not written

    @property
    def all_eos(self) -> tuple[int, ...]:
        """All that end what is written."""
        return (self.eos, *self.other_eos)

    @property
    def skipped(self) -> frozenset[int]:
        """Those that a text is shown without."""
        return frozenset({self.pad, *self.all_eos, *self.bos, *self.encoder_bos})

    @property
    def all(self) -> frozenset[int]:
        """Those, and the ones that a text is shown with."""
        shown = {one for one in (self.unknown, self.mask) if one is not None}
        return self.skipped | shown

    @property
    def never(self) -> tuple[int, ...]:
        """Those that are not written: the end is."""
        return tuple(sorted({self.pad, *self.bos, *self.forbidden} - {*self.all_eos}))


class Text:
    """Lines of text as numbers, the signs around them left to whoever lays out a batch."""

    def __init__(self, tokenizer: Tokenizer, special: SpecialTokens | None = None):
        found = [tokenizer.token_to_id(sign) for sign in SPECIAL_TOKEN_NAMES]
        if special is None and found != [PAD, BOS, EOS, UNK]:
            named = " ".join(SPECIAL_TOKEN_NAMES)
            raise ValueError(f"a tokenizer of ours numbers {named} 0 to 3, this one has {found}")
        # A line that happens to hold "</s>" is text like any other, and must not end a sentence.
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
        """The same, and the character of the line that each number goes up to."""
        found = self.tokenizer.encode(line, add_special_tokens=False)
        return list(found.ids), [end for _, end in found.offsets]

    def encode_all(self, lines: Sequence[str]) -> list[list[int]]:
        """Many at once, on all cores."""
        return [list(e.ids) for e in self.tokenizer.encode_batch(lines, add_special_tokens=False)]

    def encode_special(self, lines: Sequence[str]) -> list[list[int]]:
        """The same, but "</s>" in a line is the sign and no text."""
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
        """The text of each number by itself, to label a picture with."""
        special = self.special_tokens.all
        return [
            str(self.tokenizer.id_to_token(i) if i in special else self.tokenizer.decode([i]))
            for i in ids
        ]

    def save(self, path: Path) -> None:
        path.write_text(self.tokenizer.to_str(pretty=True), encoding="utf-8")
        if self.special_tokens == SpecialTokens():
            path.with_suffix(SIGNS).unlink(missing_ok=True)  # another codec's
        else:
            held = json.dumps(asdict(self.special_tokens))
            path.with_suffix(SIGNS).write_text(held + "\n", encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Text:
        if path.exists() and not path.is_file():  # a pipe would be waited for
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
        """A codec of at most `size` numbers, learned from these lines.

        With `masked`, one of its own for a hidden word, and a sign before every text.
        """
        if kind not in KINDS:
            raise ValueError(f"there is no codec {kind!r}; there are {', '.join(KINDS)}")
        special = [*SPECIAL_TOKEN_NAMES, MASK] if masked else SPECIAL_TOKEN_NAMES
        if size <= len(special):
            raise ValueError(f"a vocabulary needs more than its {len(special)} signs, got {size}")
        tokenizer, trainer = KINDS[kind](size, special)
        if normalize != "none":
            tokenizer.normalizer = build_normalizer(normalize)
        tokenizer.train_from_iterator(lines, trainer)
        mask = tokenizer.token_to_id(MASK) if masked else None
        return Text(tokenizer, SpecialTokens(encoder_bos=(BOS,), mask=mask) if masked else None)


def read_special_tokens(path: Path, size: int) -> SpecialTokens | None:
    """What was saved beside a tokenizer of so many numbers; none beside one of ours."""
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


# ---- before the text is cut -------------------------------------------------------------------

Normalize = Literal["nfkc", "nfc", "none"]
FORMS = {"nfkc": normalizers.NFKC, "nfc": normalizers.NFC}
UNSEEN = (
    "\u00ad\u200b\u2060\ufeff"  # a soft hyphen, a break and a joint of no width, a mark of order
)


def build_normalizer(form: str) -> normalizers.Normalizer:
    """One way to write what looks alike; spaces of all kinds become one, and none at either end.

    Lines stay apart: a document has several.
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
    """Bytes, and the pairs of them that are met most: knows every text there is."""
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
    """256 numbers for 256 bytes, whatever size is asked for."""
    return byte_pairs(len(special) + len(pre_tokenizers.ByteLevel.alphabet()), special)


def pieces_of_words(size: int, special: list[str]) -> Parts:
    """Pieces chosen by their likelihood (unigram), spaces among them."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    return tokenizer, trainers.UnigramTrainer(
        vocab_size=size,
        special_tokens=special,
        unk_token=SPECIAL_TOKEN_NAMES[UNK],
        show_progress=False,
    )


def words(size: int, special: list[str]) -> Parts:
    """What stands between spaces."""
    tokenizer = Tokenizer(models.WordLevel(unk_token=SPECIAL_TOKEN_NAMES[UNK]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer, whole_words(size, special)


def characters(size: int, special: list[str]) -> Parts:
    """Each character by itself."""
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
else:  # as recipes name them; given: that of a model from elsewhere
    VocabularyKind = Literal[(*KINDS, "given")]
