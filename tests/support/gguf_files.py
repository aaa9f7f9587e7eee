"""GGUF files of tiny Llamas, as llama.cpp and Ollama write them."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from gguf import GGUFWriter
from transformers import PreTrainedTokenizerBase

from attribot_rag.model.local_model import LocalModel

_NAMES = {
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "lm_head": "output",
    "model.layers.": "blk.",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
    "post_attention_layernorm": "ffn_norm",
    "input_layernorm": "attn_norm",
}


def write_gguf(
    file: Path,
    language_model: LocalModel,
    *,
    without: str | None = None,
    tensors: Mapping[str, torch.Tensor] | None = None,
    **fields: str,
) -> Path:
    """A Llama with byte-level tokens in float32.

    Without one tensor, with more `tensors`, and with more `fields`, whose names have _ for dots.
    """
    model = language_model.model
    config: Any = model.config
    writer = GGUFWriter(file, "llama")
    writer.add_vocab_size(config.vocab_size)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_rope_dimension_count(config.head_dim)
    writer.add_rope_freq_base(config.rope_parameters["rope_theta"])
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    _add_tokenizer(writer, language_model.tokenizer)
    for name, value in fields.items():
        writer.add_string(name.replace("_", "."), value)
    for name, tensor in model.state_dict().items():
        gguf_name = name
        for theirs, ours in _NAMES.items():
            gguf_name = gguf_name.replace(theirs, ours)
        if gguf_name == without:
            continue
        for part, heads in (
            (".attn_q.", "num_attention_heads"),
            (".attn_k.", "num_key_value_heads"),
        ):
            if part in gguf_name:
                tensor = _interleaved(tensor, getattr(config, heads))
        writer.add_tensor(gguf_name, tensor.float().numpy())
    for name, tensor in (tensors or {}).items():
        writer.add_tensor(name, tensor.numpy())
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return file


def _interleaved(weights: torch.Tensor, num_heads: int) -> torch.Tensor:
    """Rows of a projection in llama.cpp's order: the halves of each head in turn."""
    halves = weights.reshape(num_heads, 2, -1, weights.shape[-1])
    return halves.swapaxes(1, 2).reshape(weights.shape).contiguous()


def _add_tokenizer(writer: GGUFWriter, tokenizer: PreTrainedTokenizerBase) -> None:
    vocabulary = tokenizer.get_vocab()
    added = set(tokenizer.added_tokens_decoder)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("smollm")
    writer.add_token_list(sorted(vocabulary, key=vocabulary.__getitem__))
    writer.add_token_types([3 if index in added else 1 for index in range(len(vocabulary))])
    backend: Any = tokenizer.backend_tokenizer
    merges = json.loads(backend.to_str())["model"]["merges"]
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(tokenizer.bos_token_id)
    writer.add_eos_token_id(tokenizer.eos_token_id)
    writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_add_bos_token(False)
    if tokenizer.chat_template:
        writer.add_chat_template(tokenizer.chat_template)
