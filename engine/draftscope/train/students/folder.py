"""Model folders: standard Transformers checkpoints in bf16, with their tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM

from draftscope.base.errors import DraftscopeError
from draftscope.train.data import tokenizer as bpe
from draftscope.train.loop.precision import precision
from draftscope.train.students.shapes import TARGET


def save(model: Any, tokenizer: Tokenizer, folder: Path) -> Any:
    """Saves `model` in bf16 and returns it loaded again, as users will load it, on the same device."""
    place = model.device
    model.to(torch.bfloat16).save_pretrained(folder)
    bpe.save(tokenizer, folder, TARGET.positions)
    return load(folder).to(place, precision(place.type))


def load(folder: Path) -> Any:
    """The model in `folder` in fp32, to train it or to distill from it."""
    if not (folder / "config.json").exists():
        raise DraftscopeError(f"There is no model in {folder}: train one or name another folder.")
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
