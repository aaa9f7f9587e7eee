"""Tiny random models: of every architecture, with small real tokenizers of every kind."""

import copy
import json
from functools import cache
from pathlib import Path
from typing import Any

import torch
from tokenizers import (
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)
from transformers import (
    AutoTokenizer,
    BertConfig,
    BertForSequenceClassification,
    BertTokenizer,
    ByT5Tokenizer,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from attribot_rag.model.loading import smollm2_file
from attribot_rag.model.local_model import LocalModel
from support.architectures import ARCHITECTURES, VOCABULARY_SIZE, Architecture

CORPUS = """\
The treaty was signed in the old town hall in October of 1648, after five years of talks between
the envoys of the emperor, the queen and the free cities. The harbour of the town had been closed
for two winters, and the merchants who lived there asked for one thing only: that the river should
be open again. In the spring the first ships came up the river with salt, wool and timber. What was
not written in the treaty was settled in letters; many of them are lost. The town hall burned down
in 1683 and was built again with a higher tower. Today the room is a museum, and visitors can see
the table, the seals and a copy of the treaty. Question: who signed it? Answer from the context.
Die Stadt am Fluss war lange geschlossen. Café, naïve, déjà vu. 条約は町で署名された。 🙂🙂
"""

CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}"
    "<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)

_INFERENCE = ("contradiction", "entailment", "neutral")


@cache
def byte_level() -> LocalModel:
    """Byte-level BPE with single digits and chat markers, like SmolLM2."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=600,
        special_tokens=["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator([CORPUS], trainer)
    return with_tokenizer(
        PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_object=tokenizer,
            bos_token="<|im_start|>",
            eos_token="<|im_end|>",
            pad_token="<|endoftext|>",
            chat_template=CHAT_TEMPLATE,
        )
    )


def unshared() -> LocalModel:
    """A copy of `byte_level` that nothing else records or changes."""
    shared = byte_level()
    return LocalModel(copy.deepcopy(shared.model), shared.tokenizer)


@cache
def larger() -> LocalModel:
    """Fifty times the parameters of `byte_level`, with its tokenizer."""
    return _llama(
        byte_level().tokenizer,
        hidden_size=256,
        intermediate_size=512,
        num_attention_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.06,
        eos_token_id=None,
    )


@cache
def metaspace() -> LocalModel:
    """SentencePiece-like BPE over whole texts, like Llama 2.

    A space is put before a text and before what follows a special token, a BOS is added, and
    characters that are not in the vocabulary become bytes.
    """
    trained = Tokenizer(models.BPE())
    trained.pre_tokenizer = pre_tokenizers.Metaspace()
    trained.train_from_iterator(
        [CORPUS.replace("条約は町で署名された。 🙂🙂", "")],
        trainers.BpeTrainer(vocab_size=300, show_progress=False),
    )
    learned = json.loads(trained.to_str())["model"]
    pieces = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += sorted(learned["vocab"], key=learned["vocab"].__getitem__)
    tokenizer = Tokenizer(
        models.BPE(
            vocab={piece: index for index, piece in enumerate(pieces)},
            merges=[tuple(merge) for merge in learned["merges"]],
            unk_token="<unk>",
            fuse_unk=True,
            byte_fallback=True,
        )
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")]
    )
    tokenizer.decoder = decoders.Sequence(
        [
            decoders.Replace("▁", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(content=" ", left=1),
        ]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)]
    )
    return with_tokenizer(
        PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
            tokenizer_object=tokenizer, unk_token="<unk>", bos_token="<s>", eos_token="</s>"
        )
    )


@cache
def byt5() -> LocalModel:
    """A slow tokenizer without offsets, whose tokens are bytes."""
    return with_tokenizer(ByT5Tokenizer())


TOKENIZERS = (byte_level, metaspace, byt5)


def with_tokenizer(tokenizer: PreTrainedTokenizerBase) -> LocalModel:
    """A Llama whose wide weights make every prompt token matter, and which may end its answers."""
    return _llama(
        tokenizer,
        hidden_size=16,
        intermediate_size=32,
        num_attention_heads=2,
        max_position_embeddings=4096,
        initializer_range=0.25,
        bos_token_id=tokenizer.bos_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )


@cache
def smollm2_tokenizer() -> PreTrainedTokenizerBase:
    """The embedded model's tokenizer and chat template, without the model."""
    file = smollm2_file()
    loaded: PreTrainedTokenizerBase = AutoTokenizer.from_pretrained(
        file.parent, gguf_file=file.name
    )
    return loaded


def endless(tokenizer: PreTrainedTokenizerBase, *, seed: int = 0) -> LocalModel:
    """A Llama with the usual narrow weights, which answers until it is stopped."""
    return _llama(
        tokenizer,
        seed,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=2048,
        eos_token_id=None,
    )


def _llama(tokenizer: PreTrainedTokenizerBase, seed: int = 0, **settings: Any) -> LocalModel:
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=len(tokenizer),
        num_hidden_layers=2,
        pad_token_id=tokenizer.pad_token_id,
        **settings,
    )
    model = LlamaForCausalLM(config)
    model.train(False)
    return LocalModel(model, tokenizer)


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Ids 0, 1 and 2 are padding, BOS and EOS, as in the configurations of the tiny models."""
    pieces = ["<pad>", "<bos>", "<eos>", *sorted(pre_tokenizers.ByteLevel.alphabet())]
    tokenizer = Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, pad_token="<pad>", bos_token="<bos>", eos_token="<eos>"
    )


def build(name: str) -> LocalModel:
    return LocalModel(architecture(name).build(), byte_tokenizer())


def architecture(name: str) -> Architecture:
    return next(architecture for architecture in ARCHITECTURES if architecture.name == name)


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


def entailment_classifier(
    folder: Path, *, says: str = "entailment", labels: tuple[str, ...] = _INFERENCE
) -> Path:
    """A folder with a BERT of random weights that gives nearly all pairs of texts one label."""
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *map(chr, range(33, 127))]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    BertTokenizer(str(folder / "vocab.txt"), model_max_length=64).save_pretrained(folder)
    torch.manual_seed(0)
    names = dict(enumerate(labels))
    config = BertConfig(
        vocab_size=len(words),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=32,
        max_position_embeddings=64,
        id2label=names,
        label2id={label: number for number, label in names.items()},
    )
    model = BertForSequenceClassification(config)
    if says in labels:
        torch.nn.init.constant_(model.classifier.bias[labels.index(says)], 5.0)
    model.save_pretrained(folder)
    return folder
