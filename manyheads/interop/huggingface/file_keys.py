"""What import does with every key of the files beside config.json."""

from __future__ import annotations

from manyheads.interop.huggingface.keys import Idle, Key, Left, Only, Read


def name_keys(key: Key, names: str) -> dict[str, Key]:
    """Return a table in which several names have the same key."""
    return dict.fromkeys(names.split(), key)


BACK = Idle("additional outputs of a call")
SPEED = Idle("speed only; the results are the same")
AROUND = Idle("tokenizer.json says which tokens surround a text")
TOKENIZER_READ = Idle("tokenizer.json is read")

# The defaults of generation: generation_config.json, or config.json if there is no such file.
WRITING: dict[str, Key] = {
    "pad_token_id": Read("the padding token", null=True),
    "eos_token_id": Read("the end token, or several end tokens", null=True),
    "bos_token_id": AROUND,
    "decoder_start_token_id": Read("the first token of the decoder", null=True),
    "forced_bos_token_id": Read("the token that follows it", null=True),
    "forced_eos_token_id": Idle("a text of maximum length ends there anyway"),
    "bad_words_ids": Read("tokens that are never written; single tokens only", "list", null=True),
    "suppress_tokens": Read("tokens that are never written", "list", null=True),
    "max_length": Left("--max-new-tokens, which counts only new tokens", (None, 20)),
    "max_new_tokens": Left("--max-new-tokens"),
    "min_length": Left("--min-new-tokens, which counts only new tokens", (None, 0)),
    "min_new_tokens": Left("--min-new-tokens", (None, 0)),
    "early_stopping": Left(
        "beam search ends when as many texts are complete as the beam is wide", (None, False, True)
    ),
    "do_sample": Left("--temperature above 0 samples", (None, False)),
    "num_beams": Left("--beam", (None, 1)),
    "temperature": Left("--temperature", (None, 1.0)),
    "top_k": Left("--top-k", (None, 0, 50)),
    "top_p": Left("--top-p", (None, 1.0)),
    "min_p": Left("--min-p", (None, 0.0)),
    "repetition_penalty": Left("--repetition-penalty of `generate`", (None, 1.0)),
    "no_repeat_ngram_size": Left("not supported: outputs may repeat n-grams", (None, 0)),
    "length_penalty": Left("--length-penalty", (None, 1.0)),
    "num_return_sequences": Left("--nbest or --count", (None, 1)),
    "stop_strings": Left("--stop"),
    "max_time": Left("not supported"),
    "renormalize_logits": Left("scores are log-probabilities of the model", (None, False)),
    **name_keys(
        Only((None,)), "top_h exponential_decay_length_penalty watermarking_config dola_layers"
    ),
    **name_keys(Only((None, 1.0)), "typical_p encoder_repetition_penalty guidance_scale"),
    **name_keys(Only((None, 0.0)), "epsilon_cutoff eta_cutoff penalty_alpha diversity_penalty"),
    "encoder_no_repeat_ngram_size": Only((None, 0)),
    **name_keys(
        Only((None, [])), "begin_suppress_tokens forced_decoder_ids constraints force_words_ids"
    ),
    "sequence_bias": Only((None, {}, [])),
    "token_healing": Only((None, False)),
    "num_beam_groups": Only((None, 1)),
    "remove_invalid_values": Idle("weights that are NaN or infinite are refused"),
    **name_keys(
        SPEED,
        """
        use_cache cache_implementation cache_config max_cache_len return_legacy_cache use_mtp
        is_assistant num_assistant_tokens num_assistant_tokens_schedule
        assistant_confidence_threshold assistant_early_exit assistant_lookbehind
        assistant_ensemble_weight target_lookbehind prompt_lookup_num_tokens
        max_matching_ngram_size speculation_type compile_config disable_compile
        continuous_batching_config low_memory prefill_chunk_size
        """,
    ),
    **name_keys(
        BACK,
        "output_attentions output_hidden_states output_scores output_logits "
        "return_dict_in_generate",
    ),
    **name_keys(Idle("origin of the file"), "_from_model_config _commit_hash"),
    "transformers_version": Idle("version that wrote the file"),
}

# ---- the tokenizer's files -------------------------------------------------------------------

SIGN_NAMES = ("eos_token", "pad_token", "unk_token", "mask_token")

SPECIAL_TOKENS: dict[str, Key] = {
    **dict.fromkeys(SIGN_NAMES, Read("the token, if no id is given", null=True)),
    **name_keys(AROUND, "bos_token cls_token sep_token"),
    "additional_special_tokens": Read("each must be in tokenizer.json", "list", null=True),
}

AGREES = "refused unless tokenizer.json has the same"
TOKENIZING: dict[str, Key] = {
    **SPECIAL_TOKENS,
    "added_tokens_decoder": Read("each must be in tokenizer.json under its id", "object"),
    "extra_special_tokens": Read("each must be in tokenizer.json", "list or object", null=True),
    **name_keys(
        Read(AGREES, "flag", null=True),
        "do_lower_case strip_accents tokenize_chinese_chars add_prefix_space",
    ),
    "tokenizer_class": Read("whether add_bos_token and add_eos_token change it", null=True),
    **name_keys(Read(AGREES + ", of a Llama's", "flag", null=True), "add_bos_token add_eos_token"),
    "clean_up_tokenization_spaces": Left("tokenizer.json decides about spaces", (None, False)),
    "chat_template": Read("the template of `generate --chat`", null=True),
    "auto_map": Only((None,)),
    **name_keys(
        Read("maximum number of tokens of an embedding model without max_seq_length", null=True),
        "model_max_length max_len",
    ),
    **name_keys(Idle("the model sets the context length"), "max_length padding truncation stride"),
    **name_keys(
        Idle("format of the inputs of a call"),
        """
        padding_side truncation_side truncation_strategy pad_to_multiple_of pad_token_type_id
        model_input_names split_special_tokens spaces_between_special_tokens trim_offsets errors
        return_token_type_ids
        """,
    ),
    **name_keys(
        Idle("origin of the file"),
        """
        name_or_path _name_or_path tokenizer_file special_tokens_map_file vocab_file merges_file
        source_spm target_spm target_vocab_file processor_class backend is_local local_files_only
        use_fast from_slow trust_remote_code use_auth_token token revision cache_dir
        force_download device_map torch_dtype transformers_version
        """,
    ),
    **name_keys(
        TOKENIZER_READ,
        """
        do_basic_tokenize never_split wordpieces_prefix legacy sp_model_kwargs
        use_default_system_prompt source_lang target_lang src_lang tgt_lang language_codes
        separate_vocabs offset mask_token_sent
        """,
    ),
}

# ---- sentence-transformers' files ------------------------------------------------------------

MODULES: dict[str, Key] = {
    "idx": Idle("modules come in order"),
    "name": Idle("a name"),
    "path": Read("folder of the module", "word"),
    "type": Read("Transformer, Pooling or Normalize", "word"),
    "kwargs": Only((None, [], {})),
}
SENTENCES: dict[str, Key] = {
    "__version__": Idle("version that wrote the file"),
    "model_type": Only((None, "SentenceTransformer")),
    "prompts": Read("prompts before a text, by name", "object", null=True),
    "default_prompt_name": Read("the prompt before every text", "word", null=True),
    "truncate_dim": Read("keep this many first numbers of a vector", "size", null=True),
    "similarity_fn_name": Left("compare vectors as you like", (None, "cosine", "dot")),
}
PLAIN_TEXT = {"text": {"method": "forward", "method_output_name": "last_hidden_state"}}
READING: dict[str, Key] = {
    "max_seq_length": Read("maximum number of tokens", "span", null=True),
    "do_lower_case": Read("lower-case the text", "flag"),
    "transformer_task": Only((None, "feature-extraction")),
    "modality_config": Only((None, PLAIN_TEXT)),
    "module_output_name": Only((None, "token_embeddings")),
    "unpad_inputs": SPEED,
    **name_keys(
        Only((None, {})),
        """
        processing_kwargs model_args tokenizer_args config_args model_kwargs processor_kwargs
        config_kwargs
        """,
    ),
    **name_keys(
        Only((None,)), "query_length document_length query_expansion tokenizer_name_or_path"
    ),
}
MODES = {"cls": "cls_token", "mean": "mean_tokens"}  # since version 6, and before
POOLING: dict[str, Key] = {
    **name_keys(
        Read("the width of the model", "size"), "word_embedding_dimension embedding_dimension"
    ),
    "pooling_mode": Read("cls or mean"),
    **name_keys(
        Read("the one that is true", "flag"), "pooling_mode_cls_token pooling_mode_mean_tokens"
    ),
    **name_keys(
        Read("refused if it is true", "flag"),
        """
        pooling_mode_max_tokens pooling_mode_mean_sqrt_len_tokens
        pooling_mode_weightedmean_tokens pooling_mode_lasttoken
        """,
    ),
    "include_prompt": Only((True,)),
}
NORMALIZE: dict[str, Key] = name_keys(
    Only((None, "sentence_embedding")), "module_input_name module_output_name"
)
