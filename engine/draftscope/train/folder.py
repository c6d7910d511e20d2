"""Model folders: plain Transformers checkpoints in bf16, with their tokenizer."""

from __future__ import annotations

from pathlib import Path

import torch
from tokenizers import Tokenizer
from transformers import LlamaForCausalLM

from draftscope.errors import DraftscopeError
from draftscope.train import tokenizer as bpe


def save(model: LlamaForCausalLM, tokenizer: Tokenizer, folder: Path) -> LlamaForCausalLM:
    """Write `model` as bf16 and return it as anyone else will load it."""
    model.to(torch.bfloat16).save_pretrained(folder)
    bpe.save(tokenizer, folder, model.config.max_position_embeddings)
    return load(folder).to(torch.bfloat16)


def load(folder: Path) -> LlamaForCausalLM:
    """The model in `folder`, in fp32 to be trained or taught from."""
    if not (folder / "config.json").exists():
        raise DraftscopeError(f"There is no model in {folder}: train one or name another folder.")
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
