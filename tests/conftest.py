"""Small random models, made here: no test needs a network, a corpus or the embedded weights."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from draftscope.lab import Lab
from draftscope.model import Model

torch.set_num_threads(1)


def random_llama(seed: int, vocabulary: int, layers: int = 2, hidden: int = 32, sharp: float = 4.0) -> LlamaForCausalLM:
    """A random Llama whose laws are far from flat: `sharp` scales its output."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=1,
    )
    model = LlamaForCausalLM(config)
    model.lm_head.weight.data *= sharp / 4
    return model


def letters(count: int) -> PreTrainedTokenizerFast:
    """A tokenizer of `count` one-letter words, for laws small enough to enumerate."""
    vocabulary = {chr(ord("a") + i): i for i in range(count)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="a")


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Every byte is a token (byte-level BPE without merges), plus an end of text with id 0."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<|endoftext|>": 0, "<|pad|>": 1} | {char: i + 2 for i, char in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>", pad_token="<|pad|>"
    )


@pytest.fixture(scope="session")
def tiny() -> Lab:
    """A pair over five tokens whose joint laws can be enumerated. No token ends a text."""
    target = Model(random_llama(1, 5), "tiny-target")
    draft = Model(random_llama(2, 5, layers=1, hidden=16), "tiny-draft")
    lab = Lab(target, draft, letters(5))
    lab.eos = frozenset()
    return lab


@pytest.fixture(scope="session")
def pair() -> Lab:
    """A random pair over bytes: tokens are bytes, so texts are often not UTF-8."""
    target = Model(random_llama(3, 258), "byte-target")
    draft = Model(random_llama(4, 258, layers=1, hidden=16), "byte-draft")
    return Lab(target, draft, byte_tokenizer())


@pytest.fixture(scope="session")
def pair_folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The byte pair as two checkpoint folders: target, draft."""
    root = tmp_path_factory.mktemp("pair")
    folders = root / "target", root / "draft"
    for folder, model in zip(folders, (random_llama(3, 258), random_llama(4, 258, 1, 16)), strict=True):
        model.save_pretrained(folder)
        byte_tokenizer().save_pretrained(folder)
    return folders
