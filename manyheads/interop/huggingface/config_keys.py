"""What becomes of every key of a config.json, for each family; read without loading torch."""

from __future__ import annotations

from manyheads.interop.huggingface.keys import (
    BACK,
    GIVEN,
    LEARNING,
    PLACES,
    SIGN,
    SPEED,
    WRITING,
    Idle,
    Key,
    Keys,
    Left,
    Only,
    Read,
    Same,
)

EVERY: dict[str, Key] = {
    **WRITING,
    "model_type": Read("the family", "word"),
    "architectures": Read("what it is for", "words", null=True),
    "vocab_size": Read("rows of the table of words", "size"),
    "tie_word_embeddings": Read("whether the table that reads words also scores them", "flag"),
    "unk_token_id": Read("the sign of what is unknown", null=True),
    "mask_token_id": Read("the sign of a hidden word", null=True),
    "dtype": Idle("weights are read as 32 bits, whatever they are kept as"),
    "torch_dtype": Idle("weights are read as 32 bits, whatever they are kept as"),
    **dict.fromkeys(("sep_token_id", "cls_token_id"), Idle(SIGN)),
    **dict.fromkeys(("_name_or_path", "name_or_path", "finetuning_task"), Idle("where it is from")),
    **dict.fromkeys(("return_dict", "use_return_dict", "torchscript", "output_past"), Idle(BACK)),
    **dict.fromkeys(("initializer_range", "init_std", "initializer_factor"), Idle(GIVEN)),
    **dict.fromkeys(
        (
            "_attn_implementation",
            "_attn_implementation_autoset",
            "attn_implementation",
            "gradient_checkpointing",
            "use_bfloat16",
            "xla_device",
            "pretraining_tp",
        ),
        Idle(SPEED),
    ),
    **dict.fromkeys(
        ("id2label", "label2id", "num_labels", "_num_labels", "problem_type"),
        Idle("it gives no labels"),
    ),
    "task_specific_params": Idle("what a pipeline asks for, by the name of a task"),
    "tokenizer_class": Idle("tokenizer.json is read"),
    "transformers.js_config": Idle("for another library"),
    "prefix": Left("put it before a text", (None, "")),
    "chunk_size_feed_forward": Only((0,)),
    "pruned_heads": Only((None, {})),
    "add_cross_attention": Only((False,)),
    "cross_attention_hidden_size": Only((None,)),
    "tie_encoder_decoder": Only((False,)),
    "quantization_config": Only((None,)),
    "auto_map": Only((None,)),
}

# ---- each family ------------------------------------------------------------------------------

GPT2: dict[str, Key] = {
    **EVERY,
    "is_encoder_decoder": Only((False,)),
    "is_causal": Only((True,)),
    "is_decoder": Idle("it is one"),
    "n_embd": Read("width", "size"),
    "n_layer": Read("depth", "layers"),
    "n_head": Read("heads", "size"),
    "n_inner": Read("inner; null: four times the width", "size", null=True),
    "n_positions": Read("longest, and the context", "size"),
    "activation_function": Read("feed_forward", "word"),
    "layer_norm_epsilon": Read("norm_epsilon"),
    "resid_pdrop": Read("dropout"),
    "attn_pdrop": Read("attention_dropout"),
    "embd_pdrop": Idle(LEARNING),
    "scale_attn_weights": Only((True,)),
    "scale_attn_by_inverse_layer_idx": Only((False,)),
    "reorder_and_upcast_attn": Idle("in 32 bits the same"),
    "n_ctx": Idle("an older version's; n_positions is read"),
    "hidden_size": Same("n_embd"),
    "num_hidden_layers": Same("n_layer"),
    "num_attention_heads": Same("n_head"),
    "max_position_embeddings": Same("n_positions"),
    **dict.fromkeys(
        (
            "summary_type",
            "summary_use_proj",
            "summary_activation",
            "summary_proj_to_labels",
            "summary_first_dropout",
            "n_special",
            "predict_special_tokens",
        ),
        Idle("of a head that is not this one"),
    ),
}

ROTARY: dict[str, Key] = {
    "rope_type": Only((None, "default")),
    "type": Only((None, "default")),
    "rope_theta": Read("longest_wave"),
    "partial_rotary_factor": Only((None, 1.0)),
}
LLAMA: dict[str, Key] = {
    **EVERY,
    "is_encoder_decoder": Only((False,)),
    "is_causal": Only((True,)),
    "is_decoder": Idle("it is one"),
    "hidden_size": Read("width", "size"),
    "num_hidden_layers": Read("depth", "layers"),
    "num_attention_heads": Read("heads", "size"),
    "num_key_value_heads": Read("key_heads; null: as many as heads", "size", null=True),
    "head_dim": Read("refused unless it is width / heads, or null", null=True),
    "intermediate_size": Read("inner", "size"),
    "hidden_act": Read("feed_forward", "word"),
    "rms_norm_eps": Read("norm_epsilon"),
    "max_position_embeddings": Read("the context", "span"),
    "attention_dropout": Read("attention_dropout"),
    "rope_theta": Read("longest_wave"),
    "rope_parameters": Read("longest_wave", "object", null=True),
    "rope_scaling": Read("as rope_parameters, which it must agree with", "object", null=True),
    "partial_rotary_factor": Only((None, 1.0)),
    "rope_interleaved": Only((False,)),
    "attention_bias": Read("bias", "flag"),
    "mlp_bias": Read("refused unless it is attention_bias", "flag"),
    **dict.fromkeys(("max_sequence_length", "is_llama_config"), Idle("of another program")),
}
MISTRAL: dict[str, Key] = {
    **LLAMA,
    "attention_bias": Only((False,)),
    "mlp_bias": Only((False,)),
    "sliding_window": Read("window; null: none", "span", null=True),
}

BERT: dict[str, Key] = {
    **EVERY,
    "is_encoder_decoder": Only((False,)),
    "is_decoder": Only((False,)),
    "hidden_size": Read("width", "size"),
    "num_hidden_layers": Read("depth", "layers"),
    "num_attention_heads": Read("heads", "size"),
    "intermediate_size": Read("inner", "size"),
    "hidden_act": Read("feed_forward", "word"),
    "layer_norm_eps": Read("norm_epsilon"),
    "max_position_embeddings": Read("longest, and the context", "size"),
    "type_vocab_size": Read("types", "size"),
    "hidden_dropout_prob": Read("dropout"),
    "attention_probs_dropout_prob": Read("attention_dropout"),
    "classifier_dropout": Idle(LEARNING),
    "position_embedding_type": Only(("absolute",)),
    "id2label": Read("the labels", "object", null=True),
    "label2id": Idle("id2label is read"),
    "num_labels": Read("how many labels, where no names are said", "size", null=True),
    "_num_labels": Idle("num_labels is read"),
    "problem_type": Read("a class or a number", "word", null=True),
    "sbert_ce_default_activation_function": Left(
        "scores are given as they are", (None, "torch.nn.modules.linear.Identity")
    ),
    "sentence_transformers": Left("scores are given as they are"),
    **dict.fromkeys(
        (
            "directionality",
            "pooler_fc_size",
            "pooler_num_attention_heads",
            "pooler_num_fc_layers",
            "pooler_size_per_head",
            "pooler_type",
        ),
        Idle(PLACES),
    ),
}

SIDES = ("encoder", "decoder")
BOTH = "the same on both sides"
BART: dict[str, Key] = {
    **EVERY,
    "is_encoder_decoder": Only((True,)),
    "is_decoder": Only((False,)),
    "d_model": Read("width", "size"),
    **dict.fromkeys([f"{side}_layers" for side in SIDES], Read(f"depth, {BOTH}", "layers")),
    **dict.fromkeys([f"{side}_attention_heads" for side in SIDES], Read(f"heads, {BOTH}", "size")),
    **dict.fromkeys([f"{side}_ffn_dim" for side in SIDES], Read(f"inner, {BOTH}", "size")),
    "activation_function": Read("feed_forward", "word"),
    "max_position_embeddings": Read("longest, and the context", "span"),
    "dropout": Read("dropout"),
    "attention_dropout": Read("attention_dropout"),
    "scale_embedding": Read("scaled", "flag"),
    "hidden_size": Same("d_model"),
    "num_hidden_layers": Same("encoder_layers"),
    "num_attention_heads": Same("encoder_attention_heads"),
    **dict.fromkeys(
        (
            "activation_dropout",
            "classif_dropout",
            "classifier_dropout",
            "encoder_layerdrop",
            "decoder_layerdrop",
        ),
        Idle(LEARNING),
    ),
    **dict.fromkeys(
        (
            "static_position_embeddings",
            "extra_pos_embeddings",
            "normalize_before",
            "normalize_embedding",
            "add_final_layer_norm",
            "add_bias_logits",
            "do_blenderbot_90_layernorm",
            "save_step",
        ),
        Idle(PLACES),
    ),
    "force_bos_token_to_be_generated": Idle("an older version's; forced_bos_token_id is read"),
}
MARIAN: dict[str, Key] = {
    **BART,
    "share_encoder_decoder_embeddings": Read("one vocabulary, or two", "flag"),
    "decoder_vocab_size": Read("rows of the second table", "size", null=True),
}

CONFIG_KEYS: dict[str, Keys] = {
    "gpt2": GPT2,
    "llama": LLAMA,
    "mistral": MISTRAL,
    "bert": BERT,
    "pegasus": BART,
    "marian": MARIAN,
    "bart": BART,
    "mbart": BART,
}
