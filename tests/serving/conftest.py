import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from attribot_rag import LanguageModel


@pytest.fixture(scope="session")
def chatty(smollm2: LanguageModel) -> LanguageModel:
    """Random weights, and the tokenizer and the chat template of the embedded model."""
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(smollm2.tokenizer),
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        pad_token_id=smollm2.tokenizer.pad_token_id,
        eos_token_id=None,
    )
    model = LlamaForCausalLM(config)
    model.train(False)
    return LanguageModel(model, smollm2.tokenizer)
