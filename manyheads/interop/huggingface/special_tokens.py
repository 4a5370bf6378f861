"""What stands around a text, as another library's files say it and as they are told it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors

from manyheads.codecs.text import Signs, Text
from manyheads.interop.huggingface.family import Kind
from manyheads.interop.huggingface.folders import (
    CONFIG,
    GENERATION,
    TOKENIZER_CONFIG,
    Config,
    content,
    read_json,
)
from manyheads.interop.huggingface.keys import SIGN_NAMES, WRITING, check

# ---- in --------------------------------------------------------------------------------------


def read_writing(folder: Path, config: Config) -> tuple[Config, list[str]]:
    """How a model writes unless told otherwise, and notes: where there is a file for that,
    config.json says only the signs that it does not.
    """
    if not (folder / GENERATION).exists():
        return config, []
    held = read_json(folder / GENERATION)
    notes = check(held, WRITING, GENERATION)
    said = {name: value for name, value in held.items() if value is not None}
    kept = {name: value for name, value in config.held.items() if name.endswith("_token_id")}
    return Config(kept | said, config.keys), notes


def read_signs(
    dressing: dict[str, Any], tokenizer: Tokenizer, writing: Config, kind: Kind
) -> Signs:
    """The signs of a model's own tokenizer: laid around a text as it lays them.

    A language model that begins with no sign has no `starts`.
    """
    named = {name: content(dressing.get(name)) for name in SIGN_NAMES}
    size = tokenizer.get_vocab_size()

    def number(name: str, value: Any) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < size:
            raise ValueError(f"{CONFIG}: {name} is 0 to {size - 1}, got {value!r}")
        return value

    def several(name: str) -> list[int]:
        """The numbers that the settings give, else that of the sign so called, which is first."""
        value = writing.get(f"{name}_token_id")
        called = named.get(f"{name}_token")
        own = None if called is None else tokenizer.token_to_id(called)
        given = value if isinstance(value, list) else [own if value is None else value]
        found = [number(f"{name}_token_id", one) for one in given if one is not None]
        return sorted(dict.fromkeys(found), key=lambda one: one != own)

    def sign(name: str) -> int | None:
        found = several(name)
        if len(found) > 1:
            raise ValueError(f"{CONFIG}: {name}_token_id is one number, got {found}")
        return found[0] if found else None

    before, after = around(tokenizer)
    stops: list[int] = []
    if kind == "language":
        stops, starts = several("eos"), before
        stop = ending(stops[0] if stops else None)
    else:
        stop, starts = one_sign(tokenizer, after), before
    if kind == "translation":
        starts = started(sign("decoder_start"), sign("forced_bos"))
        stops = several("eos")
        if stops and stop not in stops:
            raise ValueError(
                f"what is read ends with number {stop} and what is written with {stops[0]}; "
                "one sign ends both here"
            )
    pad = sign("pad")
    signs = Signs(
        pad=stop if pad is None else pad,
        stop=stop,
        starts=starts,
        opens=() if kind == "language" else before,
        unknown=sign("unk"),
        mask=sign("mask"),
        ends=tuple(end for end in stops if end != stop),
    )
    if kind not in ("language", "translation"):
        return signs
    unwritten = {number("bad_words_ids", one) for one in single(writing)} - {*signs.stops}
    unwritten |= {number("suppress_tokens", one) for one in writing.get("suppress_tokens", [])}
    if ended := unwritten & {*signs.stops}:
        raise ValueError(f"suppress_tokens forbids {min(ended)}, which ends a text; nothing would")
    return replace(signs, forbidden=tuple(sorted(unwritten - {*signs.never})))


def single(writing: Config) -> Iterator[Any]:
    """The tokens that may not be written."""
    for words in writing.get("bad_words_ids", []):
        if not isinstance(words, list) or len(words) != 1:
            raise ValueError(
                f"bad_words_ids: {words} is not computed here; lists of one token each would do"
            )
        yield words[0]


def agree(tokenizer: Tokenizer, dressing: dict[str, Any]) -> None:
    """Refuse what is said of a tokenizer that is otherwise: others change it accordingly."""
    state = json.loads(tokenizer.to_str())
    table = {
        "do_lower_case": ("normalizer", "BertNormalizer", "lowercase"),
        "strip_accents": ("normalizer", "BertNormalizer", "strip_accents"),
        "tokenize_chinese_chars": ("normalizer", "BertNormalizer", "handle_chinese_chars"),
        "add_prefix_space": ("pre_tokenizer", "ByteLevel", "add_prefix_space"),
    }
    for name, (part, kind, field) in table.items():
        for one in parts(state[part]):
            if one["type"] == kind and dressing.get(name) not in (None, one[field]):
                differ(name, dressing[name], one[field])
    if "Llama" in str(dressing.get("tokenizer_class")):
        for name, laid in zip(("add_bos_token", "add_eos_token"), around(tokenizer), strict=True):
            if dressing.get(name) not in (None, bool(laid)):
                differ(name, dressing[name], bool(laid))
    for number, sign in dressing.get("added_tokens_decoder", {}).items():
        here = tokenizer.id_to_token(int(number)) if number.isdecimal() else None
        if here != content(sign):
            differ(f"added_tokens_decoder: {number}", content(sign), here)
    for name in ("additional_special_tokens", "extra_special_tokens"):
        more = dressing.get(name) or []
        for sign in more.values() if isinstance(more, dict) else more:
            if tokenizer.token_to_id(str(content(sign))) is None:
                differ(name, content(sign), None)


def differ(name: str, there: Any, here: Any) -> None:
    raise ValueError(
        f"{TOKENIZER_CONFIG}: {name}: {there}, where tokenizer.json has {here}; "
        "AutoTokenizer.from_pretrained(...).save_pretrained(...) makes them one"
    )


def parts(state: dict[str, Any] | None) -> Iterator[dict[str, Any]]:
    """A normalizer or a pre-tokenizer, or those that it is a sequence of."""
    if state is None:
        return
    yield state
    for name in ("normalizers", "pretokenizers"):
        for one in state.get(name, []):
            yield from parts(one)


def around(tokenizer: Tokenizer) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The numbers that it puts before and after a text."""
    for text in ("a", "1", *tokenizer.get_vocab()):
        laid = tokenizer.encode(text, add_special_tokens=True)
        own = [i for i, sign in enumerate(laid.special_tokens_mask) if not sign]
        if (
            own
            and laid.ids[own[0] : own[-1] + 1]
            == tokenizer.encode(text, add_special_tokens=False).ids
        ):
            return tuple(laid.ids[: own[0]]), tuple(laid.ids[own[-1] + 1 :])
    raise ValueError("its tokenizer.json knows no text at all")


def one_sign(tokenizer: Tokenizer, after: tuple[int, ...]) -> int:
    if len(after) != 1:
        names = " ".join(str(tokenizer.id_to_token(i)) for i in after) or "none"
        raise ValueError(f"a text is read with one sign after it, its tokenizer puts {names} there")
    return after[0]


def ending(stop: int | None) -> int:
    if stop is None:
        raise ValueError(f"{CONFIG} names no eos_token_id, the sign that ends a text")
    return stop


def started(start: int | None, forced: int | None) -> tuple[int, ...]:
    if start is None:
        raise ValueError(f"{CONFIG} names no decoder_start_token_id, which all writing begins with")
    return (start,) if forced is None else (start, forced)


# ---- out -------------------------------------------------------------------------------------


def dressed(codec: Text, kind: Kind) -> Tokenizer:
    """Its tokenizer, which now lays the signs around a text by itself."""
    tokenizer = Tokenizer.from_str(codec.tokenizer.to_str())
    signs, names = codec.signs, lambda i: str(tokenizer.id_to_token(i))
    before = [names(i) for i in (signs.starts if kind == "language" else signs.opens)]
    after = [] if kind == "language" else [names(signs.stop)]
    tokenizer.post_processor = processors.TemplateProcessing(
        single=[*before, "$A", *after],
        pair=[*before, "$A", *after, "$B:1", *(f"{name}:1" for name in after)],
        special_tokens=[(name, tokenizer.token_to_id(name)) for name in {*before, *after}],
    )
    return tokenizer


def tokenizer_config(codec: Text, kind: Kind, context: int, types: int) -> dict[str, Any]:
    signs, names = codec.signs, codec.tokenizer.id_to_token
    begin = signs.starts if kind in ("language", "translation") else signs.opens
    numbers = {"pad": signs.pad, "eos": signs.stop, "unk": signs.unknown, "mask": signs.mask}
    numbers["bos"] = begin[0] if begin else None
    if kind not in ("language", "translation"):
        numbers |= {"cls": numbers["bos"], "sep": signs.stop}
    parts = ["input_ids", *(["token_type_ids"] if types > 1 else []), "attention_mask"]
    return {
        "tokenizer_class": "PreTrainedTokenizerFast",
        "model_max_length": context,
        "model_input_names": parts,
        "clean_up_tokenization_spaces": False,
        **{f"{n}_token": names(number) for n, number in numbers.items() if number is not None},
    }


def settings(codec: Text, kind: Kind) -> dict[str, Any]:
    """The signs by their numbers, for config.json."""
    signs = codec.signs
    held: dict[str, Any] = {"pad_token_id": signs.pad}
    if kind in ("language", "translation"):
        held["eos_token_id"] = [*signs.stops] if signs.ends else signs.stop
        held["bos_token_id"] = signs.starts[0] if signs.starts else signs.stop
    if kind == "translation":
        if len(signs.starts) not in (1, 2):
            raise ValueError(
                f"writing begins with 1 or 2 signs in Hugging Face's models, "
                f"here with {len(signs.starts)}"
            )
        held["decoder_start_token_id"] = signs.starts[0]
        held["forced_bos_token_id"] = signs.starts[1] if len(signs.starts) == 2 else None
        held["forced_eos_token_id"] = None
    return held


def generation(codec: Text, kind: Kind, context: int) -> dict[str, Any]:
    """How it writes: the same signs, and those not written that are not here."""
    held = {name: value for name, value in settings(codec, kind).items() if value is not None}
    never = [i for i in codec.signs.never if i != held.get("forced_bos_token_id")]
    return {**held, "max_length": context, **({"suppress_tokens": never} if never else {})}
