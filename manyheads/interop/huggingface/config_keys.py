"""What import does with every key of a config.json, for each family; needs no torch."""

from __future__ import annotations

from manyheads.interop.huggingface.file_keys import (
    AROUND,
    BACK,
    SPEED,
    TOKENIZER_READ,
    WRITING,
    name_keys,
)
from manyheads.interop.huggingface.keys import Field, Idle, Key, Keys, Left, Only, Read, Same

LEARNING = Idle("used only in training, where this package has its own dropout")
PLACES = Idle("from an older version; the family has one fixed form")

PLACES_TOO, BOTH = "positions, and the context length", ", the same on both sides"

# Theirs to ours; if several mean the same, export writes the last.
ACTIVATIONS = {
    "relu": "relu",
    "gelu": "gelu",
    "gelu_pytorch_tanh": "gelu-tanh",
    "gelu_new": "gelu-tanh",
    "swish": "silu",
    "silu": "silu",
}
GATES = {"gelu": "geglu", "swish": "swiglu", "silu": "swiglu"}

EVERY: dict[str, Key] = {
    **WRITING,
    "model_type": Read("the family", "word"),
    "architectures": Read("the model class", "words", null=True),
    "vocab_size": Read("size of the vocabulary", "size"),
    "tie_word_embeddings": Read("whether input and output embeddings are tied", "flag"),
    "unk_token_id": Read("the unknown token", null=True),
    "mask_token_id": Read("the mask token", null=True),
    **name_keys(Idle("weights are always converted to float32"), "dtype torch_dtype"),
    **name_keys(AROUND, "sep_token_id cls_token_id"),
    **name_keys(Idle("origin of the model"), "_name_or_path name_or_path finetuning_task"),
    **name_keys(BACK, "return_dict use_return_dict torchscript output_past"),
    **name_keys(Idle("only for new weights"), "initializer_range init_std initializer_factor"),
    **name_keys(
        SPEED,
        """
        _attn_implementation _attn_implementation_autoset attn_implementation
        gradient_checkpointing use_bfloat16 xla_device pretraining_tp
        """,
    ),
    **name_keys(
        Idle("the model has no labels"), "id2label label2id num_labels _num_labels problem_type"
    ),
    "task_specific_params": Idle("settings of pipelines"),
    "tokenizer_class": TOKENIZER_READ,
    "transformers.js_config": Idle("for another library"),
    "prefix": Left("put it before a text", (None, "")),
    "chunk_size_feed_forward": Only((0,)),
    "pruned_heads": Only((None, {})),
    **name_keys(Only((False,)), "add_cross_attention tie_encoder_decoder"),
    **name_keys(Only((None,)), "cross_attention_hidden_size quantization_config auto_map"),
}

# ---- each family -----------------------------------------------------------------------------

GPT2: dict[str, Key] = {
    **EVERY,
    "is_encoder_decoder": Only((False,)),
    "is_causal": Only((True,)),
    "is_decoder": Idle("it always is"),
    "n_embd": Field("width", "size", default=768),
    "n_layer": Field("depth", "layers", default=12),
    "n_head": Field("heads", "size", default=12),
    "n_inner": Read("ffn_width; null: four times the width", "size", null=True),
    "n_positions": Read(PLACES_TOO, "size"),
    "activation_function": Field("feed_forward", "word", default="gelu_new", values=ACTIVATIONS),
    "layer_norm_epsilon": Field("norm_epsilon", default=1e-5),
    "resid_pdrop": Field("dropout", default=0.1),
    "attn_pdrop": Field("attention_dropout", default=0.1),
    "embd_pdrop": LEARNING,
    "scale_attn_weights": Only((True,)),
    "scale_attn_by_inverse_layer_idx": Only((False,)),
    "reorder_and_upcast_attn": Idle("the same in float32"),
    "n_ctx": Idle("from an older version; n_positions is read"),
    "hidden_size": Same("n_embd"),
    "num_hidden_layers": Same("n_layer"),
    "num_attention_heads": Same("n_head"),
    "max_position_embeddings": Same("n_positions"),
    **name_keys(
        Idle("for another head"),
        """
        summary_type summary_use_proj summary_activation summary_proj_to_labels
        summary_first_dropout n_special predict_special_tokens
        """,
    ),
}

ROTARY: dict[str, Key] = {
    **name_keys(Only((None, "default")), "rope_type type"),
    "rope_theta": Read("the base of rotary positions"),
    "partial_rotary_factor": Only((None, 1.0)),
}
LLAMA: dict[str, Key] = {
    **EVERY,
    "is_encoder_decoder": Only((False,)),
    "is_causal": Only((True,)),
    "is_decoder": Idle("it always is"),
    "hidden_size": Field("width", "size"),
    "num_hidden_layers": Field("depth", "layers"),
    "num_attention_heads": Field("heads", "size"),
    "num_key_value_heads": Read("key_heads; null: as many as heads", "size", null=True),
    "head_dim": Read("refused unless it is width / heads, or null", null=True),
    "intermediate_size": Field("ffn_width", "size"),
    "hidden_act": Field("feed_forward", "word", default="silu", values=GATES),
    "rms_norm_eps": Field("norm_epsilon", default=1e-6),
    "max_position_embeddings": Read("the context", "span"),
    "attention_dropout": Field("attention_dropout", default=0.0),
    "rope_theta": Read("the base of rotary positions"),
    "rope_parameters": Read("the base of rotary positions", "object", null=True),
    "rope_scaling": Read("as rope_parameters, which it must agree with", "object", null=True),
    "partial_rotary_factor": Only((None, 1.0)),
    "rope_interleaved": Only((False,)),
    "attention_bias": Field("bias", "flag", default=False),
    "mlp_bias": Read("refused unless it is attention_bias", "flag"),
    **name_keys(Idle("for another program"), "max_sequence_length is_llama_config"),
}
MISTRAL: dict[str, Key] = {
    **LLAMA,
    **name_keys(Only((False,)), "attention_bias mlp_bias"),
    "sliding_window": Read("pattern; null: everything", "span", null=True),
}

BERT: dict[str, Key] = {
    **EVERY,
    **name_keys(Only((False,)), "is_encoder_decoder is_decoder"),
    "hidden_size": Field("width", "size", default=768),
    "num_hidden_layers": Field("depth", "layers", default=12),
    "num_attention_heads": Field("heads", "size", default=12),
    "intermediate_size": Field("ffn_width", "size", default=3072),
    "hidden_act": Field("feed_forward", "word", default="gelu", values=ACTIVATIONS),
    "layer_norm_eps": Field("norm_epsilon", default=1e-12),
    "max_position_embeddings": Read(PLACES_TOO, "size"),
    "type_vocab_size": Field("token_types", "size", default=2),
    "hidden_dropout_prob": Field("dropout", default=0.1),
    "attention_probs_dropout_prob": Field("attention_dropout", default=0.1),
    "classifier_dropout": LEARNING,
    "position_embedding_type": Only(("absolute",)),
    "id2label": Read("the labels", "object", null=True),
    "label2id": Idle("id2label is read"),
    "num_labels": Read("number of labels, if they have no names", "size", null=True),
    "_num_labels": Idle("num_labels is read"),
    "problem_type": Read("a class or a number", "word", null=True),
    "sbert_ce_default_activation_function": Left(
        "scores are printed without an activation", (None, "torch.nn.modules.linear.Identity")
    ),
    "sentence_transformers": Left("scores are printed without an activation"),
    **name_keys(
        PLACES,
        """
        directionality pooler_fc_size pooler_num_attention_heads pooler_num_fc_layers
        pooler_size_per_head pooler_type
        """,
    ),
}

BART: dict[str, Key] = {
    **EVERY,
    "is_encoder_decoder": Only((True,)),
    "is_decoder": Only((False,)),
    "d_model": Field("width", "size"),
    **name_keys(Read("depth of each side", "layers"), "encoder_layers decoder_layers"),
    **name_keys(
        Field("heads", "size", more=BOTH), "encoder_attention_heads decoder_attention_heads"
    ),
    **name_keys(Field("ffn_width", "size", more=BOTH), "encoder_ffn_dim decoder_ffn_dim"),
    "activation_function": Field("feed_forward", "word", default="gelu", values=ACTIVATIONS),
    "max_position_embeddings": Read(PLACES_TOO, "span"),
    "dropout": Field("dropout", default=0.1),
    "attention_dropout": Field("attention_dropout", default=0.0),
    "scale_embedding": Field("scale_embeddings", "flag", default=False),
    "hidden_size": Same("d_model"),
    "num_hidden_layers": Same("encoder_layers"),
    "num_attention_heads": Same("encoder_attention_heads"),
    **name_keys(
        LEARNING,
        "activation_dropout classif_dropout classifier_dropout encoder_layerdrop decoder_layerdrop",
    ),
    **name_keys(
        PLACES,
        """
        static_position_embeddings extra_pos_embeddings normalize_before normalize_embedding
        add_final_layer_norm add_bias_logits do_blenderbot_90_layernorm save_step
        """,
    ),
    "force_bos_token_to_be_generated": Idle("from an older version; forced_bos_token_id is read"),
}
MARIAN: dict[str, Key] = {
    **BART,
    "share_encoder_decoder_embeddings": Read("one vocabulary, or two", "flag"),
    "decoder_vocab_size": Read("size of the second vocabulary", "size", null=True),
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
