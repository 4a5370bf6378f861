"""Read and write the special tokens around a text, as Hugging Face's files have them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors

from manyheads.codecs.text import SpecialTokens, Text
from manyheads.interop.huggingface.family import Kind
from manyheads.interop.huggingface.file_keys import SIGN_NAMES, WRITING
from manyheads.interop.huggingface.folders import GENERATION, TOKENIZER_CONFIG, read_json, sign_text
from manyheads.interop.huggingface.keys import CONFIG, Config, check_keys

# ---- import ----------------------------------------------------------------------------------


def read_writing(folder: Path, config: Config) -> tuple[Config, list[str]]:
    """Read the defaults of generation, and notes. If there is a generation_config.json, only token
    ids that it lacks are taken from config.json.
    """
    if not (folder / GENERATION).exists():
        return config, []
    held = read_json(folder / GENERATION)
    notes = check_keys(held, WRITING, GENERATION)
    said = {name: value for name, value in held.items() if value is not None}
    kept = {name: value for name, value in config.held.items() if name.endswith("_token_id")}
    return Config(kept | said, config.keys), notes


class SignNumbers:
    """The ids of special tokens, from the settings, or else from the tokenizer's token names."""

    def __init__(self, names: dict[str, Any], tokenizer: Tokenizer, writing: Config):
        self.called = {name: sign_text(names.get(name)) for name in SIGN_NAMES}
        self.tokenizer, self.writing = tokenizer, writing

    def check(self, name: str, value: Any) -> int:
        size = self.tokenizer.get_vocab_size()
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < size:
            raise ValueError(f"{CONFIG}: {name} is 0 to {size - 1}, got {value!r}")
        return value

    def find_all(self, name: str) -> list[int]:
        """Return all ids of a token that the settings give; the one with that name first."""
        called = self.called.get(f"{name}_token")
        own = None if called is None else self.tokenizer.token_to_id(called)
        value = self.writing.get(f"{name}_token_id", own)
        given = value if isinstance(value, list) else [value]
        found = [self.check(f"{name}_token_id", one) for one in given if one is not None]
        return sorted(dict.fromkeys(found), key=lambda one: one != own)

    def find_one(self, name: str) -> int | None:
        found = self.find_all(name)
        if len(found) > 1:
            raise ValueError(f"{CONFIG}: {name}_token_id is one number, got {found}")
        return found[0] if found else None

    def list_forbidden(self, special: SpecialTokens) -> tuple[int, ...]:
        """Return forbidden tokens that are not special tokens which are never generated anyway."""
        found = set()
        for words in self.writing.get("bad_words_ids", []):
            if not isinstance(words, list) or len(words) != 1:
                raise ValueError(
                    f"bad_words_ids: {words} is not computed here; lists of one token each would do"
                )
            found.add(self.check("bad_words_ids", words[0]))
        found -= {*special.all_eos}
        for one in self.writing.get("suppress_tokens", []):
            found.add(self.check("suppress_tokens", one))
        if ended := found & {*special.all_eos}:
            raise ValueError(
                f"suppress_tokens forbids {min(ended)}, which ends a text; nothing would"
            )
        return tuple(sorted(found - {*special.never}))


def read_special_tokens(
    names: dict[str, Any], tokenizer: Tokenizer, writing: Config, kind: Kind
) -> SpecialTokens:
    """Read the special tokens of a model's tokenizer, and where it puts them around a text.

    A language model without a start token has an empty `bos`.
    """
    numbers = SignNumbers(names, tokenizer, writing)
    before, after = find_frame(tokenizer)
    stops = numbers.find_all("eos") if kind in ("language", "translation") else []
    starts = find_starts(numbers) if kind == "translation" else before
    if kind == "language":
        if not stops:
            raise ValueError(f"{CONFIG} names no eos_token_id, the sign that ends a text")
        stop = stops[0]
    else:
        stop = check_end(tokenizer, after)
    if stops and stop not in stops:
        raise ValueError(
            f"what is read ends with number {stop} and what is written with {stops[0]}; "
            "one sign ends both here"
        )
    pad = numbers.find_one("pad")
    special = SpecialTokens(
        pad=stop if pad is None else pad,
        eos=stop,
        bos=starts,
        encoder_bos=() if kind == "language" else before,
        unknown=numbers.find_one("unk"),
        mask=numbers.find_one("mask"),
        other_eos=tuple(end for end in stops if end != stop),
    )
    if kind not in ("language", "translation"):
        return special
    return replace(special, forbidden=numbers.list_forbidden(special))


def find_starts(numbers: SignNumbers) -> tuple[int, ...]:
    start, forced = numbers.find_one("decoder_start"), numbers.find_one("forced_bos")
    if start is None:
        raise ValueError(f"{CONFIG} names no decoder_start_token_id, which all writing begins with")
    return (start,) if forced is None else (start, forced)


def find_frame(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the ids that the tokenizer puts before and after a text."""
    for text in ("a", "1", *tokenizer.get_vocab()):
        framed = tokenizer.encode(text, add_special_tokens=True)
        own = [i for i, sign in enumerate(framed.special_tokens_mask) if not sign]
        bare = tokenizer.encode(text, add_special_tokens=False).ids
        if own and framed.ids[own[0] : own[-1] + 1] == bare:
            return tuple(framed.ids[: own[0]]), tuple(framed.ids[own[-1] + 1 :])
    raise ValueError("its tokenizer.json knows no text at all")


def check_end(tokenizer: Tokenizer, after: tuple[int, ...]) -> int:
    if len(after) != 1:
        names = " ".join(str(tokenizer.id_to_token(i)) for i in after) or "none"
        raise ValueError(f"a text is read with one sign after it, its tokenizer puts {names} there")
    return after[0]


# ---- tokenizer.json against tokenizer_config.json --------------------------------------------

PARTS = {
    "do_lower_case": ("normalizer", "BertNormalizer", "lowercase"),
    "strip_accents": ("normalizer", "BertNormalizer", "strip_accents"),
    "tokenize_chinese_chars": ("normalizer", "BertNormalizer", "handle_chinese_chars"),
    "add_prefix_space": ("pre_tokenizer", "ByteLevel", "add_prefix_space"),
}


def check_tokenizer(tokenizer: Tokenizer, names: dict[str, Any]) -> None:
    """Refuse tokenizer_config.json if tokenizer.json differs: transformers would change it."""
    for name, there, here in compare_tokenizer(tokenizer, names):
        if there != here:
            raise ValueError(
                f"{TOKENIZER_CONFIG}: {name}: {there}, where tokenizer.json has {here}; "
                "AutoTokenizer.from_pretrained(...).save_pretrained(...) makes them one"
            )


def compare_tokenizer(
    tokenizer: Tokenizer, names: dict[str, Any]
) -> Iterator[tuple[str, Any, Any]]:
    """Yield (name, value in tokenizer_config.json, value in tokenizer.json)."""
    state = json.loads(tokenizer.to_str())
    found = [
        (name, one[field])
        for name, (part, kind, field) in PARTS.items()
        for one in walk_parts(state[part])
        if one["type"] == kind
    ]
    if "Llama" in str(names.get("tokenizer_class")):
        before, after = find_frame(tokenizer)
        found += [("add_bos_token", bool(before)), ("add_eos_token", bool(after))]
    yield from ((name, names[name], here) for name, here in found if names.get(name) is not None)
    for number, sign in names.get("added_tokens_decoder", {}).items():
        here = tokenizer.id_to_token(int(number)) if number.isdecimal() else None
        yield f"added_tokens_decoder: {number}", sign_text(sign), here
    for name in ("additional_special_tokens", "extra_special_tokens"):
        more = names.get(name) or []
        for sign in more.values() if isinstance(more, dict) else more:
            text = sign_text(sign)
            yield name, text, None if tokenizer.token_to_id(str(text)) is None else text


def walk_parts(state: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """Yield a normalizer or pre-tokenizer, and the members of a sequence."""
    if state is not None:
        yield state
        for name in ("normalizers", "pretokenizers"):
            for one in state.get(name, []):
                yield from walk_parts(one)


# ---- export ----------------------------------------------------------------------------------


def frame_tokenizer(codec: Text, kind: Kind) -> str:
    """Return a tokenizer.json that adds the special tokens around a text."""
    tokenizer = Tokenizer.from_str(codec.tokenizer.to_str())
    special, names = codec.special_tokens, lambda i: str(tokenizer.id_to_token(i))
    before = [names(i) for i in (special.bos if kind == "language" else special.encoder_bos)]
    after = [] if kind == "language" else [names(special.eos)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, "$B:1", *(f"{name}:1" for name in after)],
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in {*before, *after}],
    )
    text: str = tokenizer.to_str(pretty=True)
    return text


def describe_tokenizer(codec: Text, kind: Kind, context: int, types: int) -> dict[str, Any]:
    """Return the contents of tokenizer_config.json."""
    special, names = codec.special_tokens, codec.tokenizer.id_to_token
    begin = special.bos if kind in ("language", "translation") else special.encoder_bos
    numbers = {"pad": special.pad, "eos": special.eos, "unk": special.unknown, "mask": special.mask}
    numbers["bos"] = begin[0] if begin else None
    if kind not in ("language", "translation"):
        numbers |= {"cls": numbers["bos"], "sep": special.eos}
    parts = ["input_ids", *(["token_type_ids"] if types > 1 else []), "attention_mask"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "model_input_names": parts,
        "clean_up_tokenization_spaces": False,
        **{f"{n}_token": names(number) for n, number in numbers.items() if number is not None},
    }


def list_numbers(codec: Text, kind: Kind) -> dict[str, Any]:
    """Return the ids of special tokens for config.json."""
    special = codec.special_tokens
    held: dict[str, Any] = {"pad_token_id": special.pad}
    if kind in ("language", "translation"):
        held["eos_token_id"] = [*special.all_eos] if special.other_eos else special.eos
        held["bos_token_id"] = special.bos[0] if special.bos else special.eos
    if kind == "translation":
        if len(special.bos) not in (1, 2):
            raise ValueError(
                f"writing begins with 1 or 2 signs in Hugging Face's models, "
                f"here with {len(special.bos)}"
            )
        held["decoder_start_token_id"] = special.bos[0]
        held["forced_bos_token_id"] = special.bos[1] if len(special.bos) == 2 else None
        held["forced_eos_token_id"] = None
    return held


def describe_writing(codec: Text, kind: Kind, context: int) -> dict[str, Any]:
    """Return generation_config.json: the same ids, and tokens that are never generated."""
    held = {name: value for name, value in list_numbers(codec, kind).items() if value is not None}
    never = [i for i in codec.special_tokens.never if i != held.get("forced_bos_token_id")]
    return {**held, "max_length": context, **({"suppress_tokens": never} if never else {})}
