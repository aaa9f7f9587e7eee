"""Tiny models of all architectures with a tokenizer of bytes, which fits their vocabulary."""

import torch
from architectures import ARCHITECTURES, VOCABULARY_SIZE, Architecture
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import (
    ByT5Tokenizer,
    PreTrainedTokenizerFast,
    T5Config,
    T5ForConditionalGeneration,
)

from attribot_rag.language_model import LanguageModel


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Ids 0, 1 and 2 are padding, BOS and EOS, as in the configurations of the tiny models."""
    pieces = ["<pad>", "<bos>", "<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>"
    )


def build(name: str) -> LanguageModel:
    return LanguageModel(architecture(name).build(), byte_tokenizer())


def byt5_encoder_decoder() -> LanguageModel:
    """An encoder-decoder with the slow tokenizer of bytes that T5 models have."""
    tokenizer = ByT5Tokenizer()
    torch.manual_seed(0)
    config = T5Config(
        vocab_size=len(tokenizer),
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        initializer_factor=2.0,
    )
    config.decoder_start_token_id = 0
    model = T5ForConditionalGeneration(config)
    model.train(False)
    return LanguageModel(model, tokenizer)


def architecture(name: str) -> Architecture:
    return next(one for one in ARCHITECTURES if one.name == name)


def prompt(length: int, seed: int = 0) -> torch.Tensor:
    """[1, length] of ids that are neither special nor outside the tokenizer's vocabulary."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(3, min(VOCABULARY_SIZE, 259), (1, length), generator=generator)


def left_padded(lengths: tuple[int, ...], pad_id: int) -> tuple[torch.Tensor, torch.Tensor]:
    """A batch of prompts and its attention mask."""
    width = max(lengths)
    ids = torch.full((len(lengths), width), pad_id)
    for row, length in enumerate(lengths):
        ids[row, width - length :] = prompt(length, seed=row)[0]
    mask = torch.arange(width) >= width - torch.tensor(lengths)[:, None]
    return ids, mask.long()
