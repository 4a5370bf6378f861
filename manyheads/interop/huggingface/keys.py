"""What becomes of every key of a Hugging Face folder's files: one closed table for each file.

A key that stands in no table is refused by its name, for nobody here knows what it changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, TypeAlias

Of = Literal["", "size", "layers", "span", "flag", "word", "words", "object"]
LONGEST = 2**24  # tokens of a context: no model reads more


class Read(NamedTuple):
    """It is asked for."""

    what: str
    of: Of = ""  # what it must be, where whoever asks does not look
    null: bool = False  # whether null may stand there, and says nothing


class Idle(NamedTuple):
    """Whatever it says, the same is computed."""

    why: str


class Only(NamedTuple):
    """Refused unless it has one of these values."""

    values: tuple[Any, ...]
    why: str = "nothing else is computed here"


class Same(NamedTuple):
    """Another name of a key: refused unless both say the same."""

    name: str


class Left(NamedTuple):
    """What a call does unless it is told otherwise: left to the call here, which `import` tells."""

    how: str  # what to do instead
    values: tuple[Any, ...] = (None,)  # those that say nothing


Key: TypeAlias = Read | Idle | Only | Same | Left
Keys: TypeAlias = Mapping[str, Key]


class Measure(NamedTuple):
    """What is there to hold sizes against, before anything of that size is made."""

    largest: int  # rows or columns of any tensor
    tensors: int


# ---- asking ----------------------------------------------------------------------------------


def check(
    held: Mapping[str, Any], keys: Keys, file: str, measure: Measure | None = None
) -> list[str]:
    """Refuse what has no place here, by its name; what is left to the call, a note each."""
    notes = []
    for name, value in held.items():
        key = keys.get(name)
        if key is None:
            raise ValueError(
                f"{file}: {name} is not known here, so nobody can tell what it changes; "
                "take it out if it changes nothing"
            )
        if isinstance(key, Read):
            fit(name, value, key, file, measure)
        elif isinstance(key, Only) and not among(value, key.values):
            raise ValueError(
                f"{file}: {name}: {brief(value)} is not computed here; {said(key.values)} would do"
            )
        elif isinstance(key, Same) and key.name in held and value != held[key.name]:
            raise ValueError(
                f"{file}: {name}: {brief(value)} and {key.name}: {brief(held[key.name])} are two "
                "names of one setting and differ"
            )
        elif isinstance(key, Same) and key.name not in held:
            raise ValueError(f"{file}: {name} is called {key.name} here; that name would do")
        elif isinstance(key, Left) and not among(value, key.values):
            notes.append(f"{name}: {brief(value)} ({key.how})")
    return notes


def among(value: Any, values: Sequence[Any]) -> bool:
    """Whether it is one of them; 1 is not true."""
    return any(value == each and (value is True) == (each is True) for each in values)


def said(values: Sequence[Any]) -> str:
    return " or ".join("nothing" if value is None else brief(value) for value in values)


def brief(value: Any) -> str:
    text = str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


FORMS: dict[str, tuple[str, Any]] = {
    "flag": ("true or false", lambda value: isinstance(value, bool)),
    "word": ("a word", lambda value: isinstance(value, str)),
    "words": (
        "a list of words",
        lambda value: isinstance(value, list) and all(isinstance(one, str) for one in value),
    ),
    "object": ("an object", lambda value: isinstance(value, dict)),
}


def fit(name: str, value: Any, key: Read, file: str, measure: Measure | None) -> None:
    if value is None and key.null:
        return
    if key.of in FORMS:
        wanted, holds = FORMS[key.of]
        if not holds(value):
            raise ValueError(f"{file}: {name} is {wanted}, got {brief(value)}")
    elif key.of and isinstance(value, int):  # what is no number is refused where it is asked for
        most = {"span": LONGEST, **(measure._asdict() if measure else {})}
        bound = {"size": "largest", "layers": "tensors"}.get(key.of, "span")
        if value > most.get(bound, value):
            there = {
                "size": f"no tensor has more than {most.get('largest')} rows or columns",
                "layers": f"there are {most.get('tensors')} tensors",
                "span": f"{LONGEST} tokens are the most",
            }
            raise ValueError(f"{file}: {name} is {value}, and {there[key.of]}")
    elif value is None:
        raise ValueError(f"{file}: {name} is null; leave it out, or say it")


# ---- what all of them share ------------------------------------------------------------------

LEARNING = "only while it learns, which here has a dropout of its own"
GIVEN = "the weights are given"
BACK = "what a call gives back beside the result"
PLACES = "an older version's; what there is, is as the family has it"
SPEED = "faster, not other"
SIGN = "laid around a text as tokenizer.json says"

# What a call does unless told otherwise: generation_config.json, and config.json where there is
# no such file.
WRITING: dict[str, Key] = {
    "pad_token_id": Read("the sign that fills a row", null=True),
    "eos_token_id": Read("the sign that ends a text; several: each ends it", null=True),
    "bos_token_id": Idle(SIGN),
    "decoder_start_token_id": Read("the sign that all writing begins with", null=True),
    "forced_bos_token_id": Read("the sign that follows it", null=True),
    "forced_eos_token_id": Idle("a text as long as it may be ends there"),
    "bad_words_ids": Read("not written; of single tokens alone", null=True),
    "suppress_tokens": Read("not written", null=True),
    "max_length": Left("--max-new-tokens counts what is new", (None, 20)),
    "max_new_tokens": Left("--max-new-tokens"),
    "min_length": Left("--min-new-tokens counts what is new", (None, 0)),
    "min_new_tokens": Left("--min-new-tokens", (None, 0)),
    "early_stopping": Left("a beam ends with as many texts as it is wide", (None, False, True)),
    "do_sample": Left("--temperature draws", (None, False)),
    "num_beams": Left("--beam", (None, 1)),
    "temperature": Left("--temperature", (None, 1.0)),
    "top_k": Left("--top-k", (None, 0, 50)),
    "top_p": Left("--top-p", (None, 1.0)),
    "min_p": Left("--min-p", (None, 0.0)),
    "repetition_penalty": Left("--repetition-penalty of `generate`", (None, 1.0)),
    "no_repeat_ngram_size": Left("not done here: what is written may repeat itself", (None, 0)),
    "length_penalty": Left("--length-penalty", (None, 1.0)),
    "num_return_sequences": Left("--nbest or --count", (None, 1)),
    "stop_strings": Left("--stop"),
    "max_time": Left("not done here"),
    "renormalize_logits": Left("scores are the model's own", (None, False)),
    **{
        name: Only((None, *plain))
        for name, plain in {
            "top_h": (),
            "typical_p": (1.0,),
            "epsilon_cutoff": (0.0,),
            "eta_cutoff": (0.0,),
            "encoder_repetition_penalty": (1.0,),
            "encoder_no_repeat_ngram_size": (0,),
            "exponential_decay_length_penalty": (),
            "begin_suppress_tokens": ([],),
            "forced_decoder_ids": ([],),
            "sequence_bias": ({}, []),
            "token_healing": (False,),
            "guidance_scale": (1.0,),
            "watermarking_config": (),
            "penalty_alpha": (0.0,),
            "dola_layers": (),
            "diversity_penalty": (0.0,),
            "num_beam_groups": (1,),
            "constraints": ([],),
            "force_words_ids": ([],),
        }.items()
    },
    "remove_invalid_values": Idle("weights that are no numbers are refused"),
    **dict.fromkeys(
        (
            "use_cache",
            "cache_implementation",
            "cache_config",
            "max_cache_len",
            "return_legacy_cache",
            "use_mtp",
            "is_assistant",
            "num_assistant_tokens",
            "num_assistant_tokens_schedule",
            "assistant_confidence_threshold",
            "assistant_early_exit",
            "assistant_lookbehind",
            "assistant_ensemble_weight",
            "target_lookbehind",
            "prompt_lookup_num_tokens",
            "max_matching_ngram_size",
            "speculation_type",
            "compile_config",
            "disable_compile",
            "continuous_batching_config",
            "low_memory",
            "prefill_chunk_size",
        ),
        Idle(SPEED),
    ),
    **dict.fromkeys(
        ("output_attentions", "output_hidden_states", "output_scores", "output_logits"), Idle(BACK)
    ),
    "return_dict_in_generate": Idle(BACK),
    **dict.fromkeys(("_from_model_config", "_commit_hash"), Idle("where it came from")),
    "transformers_version": Idle("who wrote it"),
}


# ---- the tokenizer's files -------------------------------------------------------------------

SIGN_NAMES = ("eos_token", "pad_token", "unk_token", "mask_token")

SPECIAL_TOKENS: dict[str, Key] = {
    **dict.fromkeys(SIGN_NAMES, Read("the sign, where no number is said", null=True)),
    **dict.fromkeys(("bos_token", "cls_token", "sep_token"), Idle(SIGN)),
    "additional_special_tokens": Read("each is in tokenizer.json", null=True),
}

AGREES = "refused unless tokenizer.json has the same"
TOKENIZING: dict[str, Key] = {
    **SPECIAL_TOKENS,
    "added_tokens_decoder": Read("each is in tokenizer.json by its number", "object"),
    "extra_special_tokens": Read("each is in tokenizer.json", null=True),
    "do_lower_case": Read(AGREES, "flag", null=True),
    "strip_accents": Read(AGREES, "flag", null=True),
    "tokenize_chinese_chars": Read(AGREES, "flag", null=True),
    "add_prefix_space": Read(AGREES, "flag", null=True),
    "tokenizer_class": Read("whether add_bos_token and add_eos_token change it", null=True),
    "add_bos_token": Read(AGREES + ", of a Llama's", "flag", null=True),
    "add_eos_token": Read(AGREES + ", of a Llama's", "flag", null=True),
    "clean_up_tokenization_spaces": Left("spaces are as tokenizer.json has them", (None, False)),
    "chat_template": Read("how `generate --chat` lays out a prompt", null=True),
    "auto_map": Only((None,)),
    **dict.fromkeys(
        ("model_max_length", "max_len", "max_length", "padding", "truncation", "stride"),
        Idle("how much is read at once is the model's"),
    ),
    **dict.fromkeys(
        (
            "padding_side",
            "truncation_side",
            "truncation_strategy",
            "pad_to_multiple_of",
            "pad_token_type_id",
            "model_input_names",
            "split_special_tokens",
            "spaces_between_special_tokens",
            "trim_offsets",
            "errors",
            "return_token_type_ids",
        ),
        Idle("how a call lays out a batch or a text"),
    ),
    **dict.fromkeys(
        (
            "name_or_path",
            "_name_or_path",
            "tokenizer_file",
            "special_tokens_map_file",
            "vocab_file",
            "merges_file",
            "source_spm",
            "target_spm",
            "target_vocab_file",
            "processor_class",
            "backend",
            "is_local",
            "local_files_only",
            "use_fast",
            "from_slow",
            "trust_remote_code",
            "use_auth_token",
            "token",
            "revision",
            "cache_dir",
            "force_download",
            "device_map",
            "torch_dtype",
            "transformers_version",
        ),
        Idle("where it came from"),
    ),
    **dict.fromkeys(
        (
            "do_basic_tokenize",
            "never_split",
            "wordpieces_prefix",
            "legacy",
            "sp_model_kwargs",
            "use_default_system_prompt",
            "source_lang",
            "target_lang",
            "src_lang",
            "tgt_lang",
            "language_codes",
            "separate_vocabs",
            "offset",
            "mask_token_sent",
        ),
        Idle("tokenizer.json is read"),
    ),
}

# ---- sentence-transformers' files ------------------------------------------------------------

MODULES: dict[str, Key] = {
    "idx": Idle("they come in their order"),
    "name": Idle("a name"),
    "path": Read("the folder of its settings", "word"),
    "type": Read("Transformer, Pooling or Normalize", "word"),
    "kwargs": Only((None, [], {})),
}
SENTENCES: dict[str, Key] = {
    "__version__": Idle("who wrote it"),
    "model_type": Only((None, "SentenceTransformer")),
    "prompts": Read("what stands before a text, by a name", "object", null=True),
    "default_prompt_name": Read("which of them stands before every text", "word", null=True),
    "truncate_dim": Read("so many numbers of a vector, the first", "size", null=True),
    "similarity_fn_name": Left(
        "two vectors are compared by whoever has them", (None, "cosine", "dot")
    ),
}
PLAIN_TEXT = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
READING: dict[str, Key] = {
    "max_seq_length": Read("tokens of a text that are read", "span", null=True),
    "do_lower_case": Read("a text is read in small letters", "flag"),
    "transformer_task": Only((None, "feature-extraction")),
    "modality_config": Only((None, PLAIN_TEXT)),
    "module_output_name": Only((None, "token_embeddings")),
    "unpad_inputs": Idle(SPEED),
    **{
        name: Only((None, {}))
        for name in (
            "processing_kwargs",
            "model_args",
            "tokenizer_args",
            "config_args",
            "model_kwargs",
            "processor_kwargs",
            "config_kwargs",
        )
    },
    **{
        name: Only((None,))
        for name in (
            "query_length",
            "document_length",
            "query_expansion",
            "tokenizer_name_or_path",
        )
    },
}
MODES = {"cls": "cls_token", "mean": "mean_tokens"}  # since version 6, and before
POOLING: dict[str, Key] = {
    "word_embedding_dimension": Read("the width of the model", "size"),
    "embedding_dimension": Read("the width of the model", "size"),
    "pooling_mode": Read("cls or mean"),
    **{f"pooling_mode_{mode}": Read("the one that is true", "flag") for mode in MODES.values()},
    **{
        f"pooling_mode_{mode}": Read("refused where it is true", "flag")
        for mode in ("max_tokens", "mean_sqrt_len_tokens", "weightedmean_tokens", "lasttoken")
    },
    "include_prompt": Only((True,)),
}
NORMALIZE: dict[str, Key] = {
    "module_input_name": Only((None, "sentence_embedding")),
    "module_output_name": Only((None, "sentence_embedding")),
}


# ---- told ------------------------------------------------------------------------------------


def meaning(key: Key) -> str:
    """What becomes of it, in words."""
    if isinstance(key, Read):
        return f"read: {key.what}"
    if isinstance(key, Idle):
        return f"without effect: {key.why}"
    if isinstance(key, Same):
        return f"refused unless it is {key.name}"
    if isinstance(key, Left):
        return f"left to the call, told: {key.how}"
    return f"refused unless {said(key.values)}: {key.why}"


def table(keys: Keys) -> str:
    """As Markdown: keys of one meaning in one row."""
    rows: dict[str, list[str]] = {}
    for name, key in keys.items():
        rows.setdefault(meaning(key), []).append(f"`{name}`")
    lines = [f"| {', '.join(names)} | {what} |" for what, names in rows.items()]
    return "\n".join(["| key | what becomes of it |", "|---|---|", *lines])
