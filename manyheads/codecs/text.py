"""Text to numbers and back.

A codec is trained on lines, kept as one `tokenizer.json`, and gives back what it was given:
`render(encode(line)) == line`, always for bytes and byte pairs, else if all characters are known.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

PAD, START, STOP, UNKNOWN = range(4)
SIGNS = ["<pad>", "<s>", "</s>", "<unk>"]  # in the order of their numbers


class Text:
    """Lines of text as numbers, START and STOP around them left to whoever lays out a batch."""

    def __init__(self, tokenizer: Tokenizer):
        found = [tokenizer.token_to_id(sign) for sign in SIGNS]
        if found != [PAD, START, STOP, UNKNOWN]:
            raise ValueError(
                f"a tokenizer of ours numbers {' '.join(SIGNS)} 0 to 3, this one has {found}"
            )
        # A line that happens to hold "</s>" is text like any other, and must not end a sentence.
        tokenizer.encode_special_tokens = True
        self.tokenizer = tokenizer

    @property
    def size(self) -> int:
        return int(self.tokenizer.get_vocab_size())

    def encode(self, line: str) -> list[int]:
        """ "Ein Hund." -> [412, 87, 18]"""
        return list(self.tokenizer.encode(line, add_special_tokens=False).ids)

    def encode_all(self, lines: Sequence[str]) -> list[list[int]]:
        """Many at once, on all cores."""
        return [list(e.ids) for e in self.tokenizer.encode_batch(lines, add_special_tokens=False)]

    def render(self, ids: Sequence[int]) -> str:
        """[412, 87, 18] -> "Ein Hund." """
        return str(self.tokenizer.decode([i for i in ids if i not in (PAD, START, STOP)]))

    def pieces(self, ids: Sequence[int]) -> list[str]:
        """The text of each number by itself, to label a picture with."""
        return [SIGNS[i] if i < len(SIGNS) else str(self.tokenizer.decode([i])) for i in ids]

    def save(self, path: Path) -> None:
        path.write_text(self.tokenizer.to_str(pretty=True), encoding="utf-8")

    @staticmethod
    def load(path: Path) -> Text:
        try:
            tokenizer = Tokenizer.from_str(path.read_text(encoding="utf-8"))
        except OSError:
            raise
        except Exception:  # the library raises plain Exception for a file it cannot read
            raise ValueError(f"{path} is not a tokenizer.json") from None
        try:
            return Text(tokenizer)
        except ValueError as error:
            raise ValueError(f"{path}: {error}") from None

    @staticmethod
    def train(lines: Iterable[str], kind: str = "bpe", size: int = 8000) -> Text:
        """A codec of at most `size` numbers, learned from these lines."""
        if kind not in KINDS:
            raise ValueError(f"there is no codec {kind!r}; there are {', '.join(KINDS)}")
        if size <= len(SIGNS):
            raise ValueError(f"a vocabulary needs more than its {len(SIGNS)} signs, got {size}")
        tokenizer, trainer = KINDS[kind](size)
        tokenizer.train_from_iterator(lines, trainer)
        return Text(tokenizer)


# ---- kinds -----------------------------------------------------------------------------------

Parts = tuple[Tokenizer, Any]


def byte_pairs(size: int) -> Parts:
    """Bytes, and the pairs of them that are met most: knows every text there is."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    least = len(SIGNS) + len(alphabet)
    if size < least:
        raise ValueError(f"byte pairs need {least} numbers for all bytes, got {size}")
    return tokenizer, trainers.BpeTrainer(
        vocab_size=size, special_tokens=SIGNS, initial_alphabet=alphabet, show_progress=False
    )


def bytes_alone(size: int) -> Parts:
    """256 numbers for 256 bytes, whatever size is asked for."""
    return byte_pairs(len(SIGNS) + len(pre_tokenizers.ByteLevel.alphabet()))


def pieces_of_words(size: int) -> Parts:
    """Pieces chosen by their likelihood (unigram), spaces among them."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="never")
    return tokenizer, trainers.UnigramTrainer(
        vocab_size=size, special_tokens=SIGNS, unk_token=SIGNS[UNKNOWN], show_progress=False
    )


def words(size: int) -> Parts:
    """What stands between spaces."""
    tokenizer = Tokenizer(models.WordLevel(unk_token=SIGNS[UNKNOWN]))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer, whole_words(size)


def characters(size: int) -> Parts:
    """Each character by itself."""
    tokenizer = Tokenizer(models.WordLevel(unk_token=SIGNS[UNKNOWN]))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer, whole_words(size)


def whole_words(size: int) -> trainers.WordLevelTrainer:
    return trainers.WordLevelTrainer(vocab_size=size, special_tokens=SIGNS, show_progress=False)


KINDS: dict[str, Callable[[int], Parts]] = {
    "bpe": byte_pairs,
    "unigram": pieces_of_words,
    "word": words,
    "character": characters,
    "byte": bytes_alone,
}
