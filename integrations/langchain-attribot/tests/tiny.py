"""A tiny model, for what does not depend on sense."""

import torch
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerBase

from attribot_rag import LanguageModel


def tiny_language_model(tokenizer: PreTrainedTokenizerBase, seed: int = 0) -> LanguageModel:
    """Random weights that are the same every time."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config).eval()
    model.name_or_path = "tiny"
    return LanguageModel(model, tokenizer)
