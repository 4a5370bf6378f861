"""What stands around a text, as another library's files say it and as they are told it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tokenizers import Tokenizer, processors

from manyheads.codecs.text import Signs, Text
from manyheads.door.family import Kind
from manyheads.door.folders import CONFIG, GENERATION, Config, read_json, special_tokens

# ---- in --------------------------------------------------------------------------------------


def read_signs(folder: Path, tokenizer: Tokenizer, config: Config, kind: Kind) -> Signs:
    """The signs of a model's own tokenizer: laid around a text as it lays them.

    A language model that begins with no sign has no `starts`.
    """
    named = special_tokens(folder)
    said = config.held | {
        name: value for name, value in read_json(folder / GENERATION).items() if value is not None
    }

    def sign(name: str) -> int | None:
        """ "eos" -> the number that the settings give, else that of the sign so called."""
        value = said.get(f"{name}_token_id")
        called = named.get(f"{name}_token")
        number = None if called is None else tokenizer.token_to_id(called)
        if isinstance(value, list):  # several that end a text: the tokenizer's own, else the first
            value = number if number in value else next(iter(value), None)
        value = number if value is None else value
        if value is not None and not (isinstance(value, int) and 0 <= value < size):
            raise ValueError(f"{CONFIG}: {name}_token_id is 0 to {size - 1}, got {value!r}")
        return value

    size = tokenizer.get_vocab_size()
    before, after = around(tokenizer)
    if kind == "language":
        stop, starts = ending(sign("eos")), before
    else:
        stop, starts = one_sign(tokenizer, after), before
    if kind == "translation":
        starts = started(sign("decoder_start"), sign("forced_bos"))
        if (end := sign("eos")) not in (None, stop):
            raise ValueError(
                f"what is read ends with number {stop} and what is written with {end}; "
                "one sign ends both here"
            )
    pad = sign("pad")
    return Signs(
        pad=stop if pad is None else pad,
        stop=stop,
        starts=starts,
        opens=() if kind == "language" else before,
        unknown=sign("unk"),
        mask=sign("mask"),
    )


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
        # A text that happens to hold "</s>" is text, as here; only a hidden word is asked for so.
        "split_special_tokens": kind != "masked",
        **{f"{n}_token": names(number) for n, number in numbers.items() if number is not None},
    }


def settings(codec: Text, kind: Kind) -> dict[str, Any]:
    """The signs by their numbers, for config.json."""
    signs = codec.signs
    held: dict[str, Any] = {"pad_token_id": signs.pad}
    if kind in ("language", "translation"):
        held["eos_token_id"] = signs.stop
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
