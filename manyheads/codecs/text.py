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
from typing import Any, Literal

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

PAD, START, STOP, UNKNOWN = range(4)
SIGNS = ["<pad>", "<s>", "</s>", "<unk>"]  # in the order of their numbers
MASK = "<mask>"


@dataclass(frozen=True)
class Signs:
    """The numbers that are no text.

    What is read is [*opens, ..., stop]; what is written begins after `starts` and ends with stop.
    """

    pad: int = PAD
    stop: int = STOP
    starts: tuple[int, ...] = (START,)
    opens: tuple[int, ...] = ()
    unknown: int | None = UNKNOWN
    mask: int | None = None
    ends: tuple[int, ...] = ()  # others that end what is written, as the stop does
    forbidden: tuple[int, ...] = ()  # others that are not written

    @property
    def stops(self) -> tuple[int, ...]:
        """All that end what is written."""
        return (self.stop, *self.ends)

    @property
    def silent(self) -> frozenset[int]:
        """Those that a text is shown without."""
        return frozenset({self.pad, *self.stops, *self.starts, *self.opens})

    @property
    def never(self) -> tuple[int, ...]:
        """Those that are not written: the end is."""
        return tuple(sorted({self.pad, *self.starts, *self.forbidden} - {*self.stops}))


class Text:
    """Lines of text as numbers, the signs around them left to whoever lays out a batch."""

    def __init__(self, tokenizer: Tokenizer, signs: Signs | None = None):
        found = [tokenizer.token_to_id(sign) for sign in SIGNS]
        if signs is None and found != [PAD, START, STOP, UNKNOWN]:
            raise ValueError(
                f"a tokenizer of ours numbers {' '.join(SIGNS)} 0 to 3, this one has {found}"
            )
        # A line that happens to hold "</s>" is text like any other, and must not end a sentence.
        tokenizer.encode_special_tokens = True
        tokenizer.no_padding()
        tokenizer.no_truncation()
        self.tokenizer, self.signs = tokenizer, signs or Signs()

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
        return str(self.tokenizer.decode([i for i in ids if i not in self.signs.silent]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each number by itself, to label a picture with."""
        signs = {*self.signs.silent, self.signs.unknown, self.signs.mask}
        return [
            str(self.tokenizer.id_to_token(i) if i in signs else self.tokenizer.decode([i]))
            for i in ids
        ]

    def save(self, path: Path) -> None:
        path.write_text(self.tokenizer.to_str(pretty=True), encoding="utf-8")
        if self.signs == Signs():
            beside(path).unlink(missing_ok=True)  # another codec's
        else:
            beside(path).write_text(json.dumps(asdict(self.signs)) + "\n", encoding="utf-8")

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
            return Text(tokenizer, read_signs(beside(path), tokenizer.get_vocab_size()))
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
        signs = [*SIGNS, MASK] if masked else SIGNS
        if size <= len(signs):
            raise ValueError(f"a vocabulary needs more than its {len(signs)} signs, got {size}")
        tokenizer, trainer = KINDS[kind](size, signs)
        if normalize != "none":
            tokenizer.normalizer = normalizer(normalize)
        tokenizer.train_from_iterator(lines, trainer)
        mask = tokenizer.token_to_id(MASK) if masked else None
        return Text(tokenizer, Signs(opens=(START,), mask=mask) if masked else None)


def beside(path: Path) -> Path:
    """runs/x/tokenizer.json -> runs/x/tokenizer.signs.json"""
    return path.with_suffix(".signs.json")


def read_signs(path: Path, size: int) -> Signs | None:
    """What was saved beside a tokenizer of so many numbers; none beside one of ours."""
    if not path.exists():
        return None
    try:
        held = json.loads(path.read_text(encoding="utf-8"))
        for name in ("starts", "opens", "ends", "forbidden"):
            held[name] = tuple(held.get(name, ()))
        signs = Signs(**held)
    except (ValueError, KeyError, TypeError, AttributeError):
        raise ValueError(f"{path.name} beside it does not say what its signs are") from None
    numbers = [signs.pad, *signs.stops, *signs.starts, *signs.opens, *signs.forbidden]
    numbers += [sign for sign in (signs.unknown, signs.mask) if sign is not None]
    if not all(isinstance(number, int) and 0 <= number < size for number in numbers):
        raise ValueError(f"{path.name} beside it names signs that are not 0 to {size - 1}")
    return signs


# ---- before the text is cut -------------------------------------------------------------------

Normalize = Literal["nfkc", "nfc", "none"]
FORMS = {"nfkc": normalizers.NFKC, "nfc": normalizers.NFC}
UNSEEN = (
    "\u00ad\u200b\u2060\ufeff"  # a soft hyphen, a break and a joint of no width, a mark of order
)


def normalizer(form: str) -> normalizers.Normalizer:
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


def byte_pairs(size: int, signs: list[str]) -> Parts:
    """Bytes, and the pairs of them that are met most: knows every text there is."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    least = len(signs) + len(alphabet)
    if size < least:
        raise ValueError(f"byte pairs need {least} numbers for all bytes, got {size}")
    return tokenizer, trainers.BpeTrainer(
        vocab_size=size, special_tokens=signs, initial_alphabet=alphabet, show_progress=False
    )


def bytes_alone(size: int, signs: list[str]) -> Parts:
    """256 numbers for 256 bytes, whatever size is asked for."""
    return byte_pairs(len(signs) + len(pre_tokenizers.ByteLevel.alphabet()), signs)


def pieces_of_words(size: int, signs: list[str]) -> Parts:
    """Pieces chosen by their likelihood (unigram), spaces among them."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    return tokenizer, trainers.UnigramTrainer(
        vocab_size=size, special_tokens=signs, unk_token=SIGNS[UNKNOWN], show_progress=False
    )


def words(size: int, signs: list[str]) -> Parts:
    """What stands between spaces."""
    tokenizer = Tokenizer(models.WordLevel(unk_token=SIGNS[UNKNOWN]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer, whole_words(size, signs)


def characters(size: int, signs: list[str]) -> Parts:
    """Each character by itself."""
    tokenizer = Tokenizer(models.WordLevel(unk_token=SIGNS[UNKNOWN]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer, whole_words(size, signs)


def whole_words(size: int, signs: list[str]) -> trainers.WordLevelTrainer:
    return trainers.WordLevelTrainer(vocab_size=size, special_tokens=signs, show_progress=False)


KINDS: dict[str, Callable[[int, list[str]], Parts]] = {
    "bpe": byte_pairs,
    "unigram": pieces_of_words,
    "word": words,
    "character": characters,
    "byte": bytes_alone,
}
