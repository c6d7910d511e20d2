"""Small random networks that tests write as GGUF files, and what they look at when these are loaded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM

from draftscope import DraftscopeError
from draftscope.models.loading.checkpoints import CheckpointOptions, find, load_model
from draftscope.models.model import Model
from tests.support import gguf_files

HOW = CheckpointOptions(torch.float32, torch.device("cpu"))
TOKENIZER = gguf_files.tokenizer_with_merges()
SHAPE: dict[str, Any] = {
    "vocab_size": len(TOKENIZER), "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 16384, "initializer_range": 0.3,
    "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip


def made(config: Any, seed: int = 0) -> Any:
    """A random network whose norms are no ones."""
    torch.manual_seed(seed)
    network = AutoModelForCausalLM.from_config(config).eval()
    for name, weight in network.named_parameters():
        if "norm" in name:
            weight.data.normal_(0.0 if "gemma" in config.model_type else 1.0, 0.3)
    return network


def loaded(path: Path) -> Model:
    return load_model(find(path, HOW), HOW)


def logits(network: Any) -> torch.Tensor:
    tokens = torch.randint(3, 280, (2, 40), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        return network(input_ids=tokens).logits  # type: ignore[no-any-return]


def refused(path: Path | str) -> str:
    """The one sentence."""
    with pytest.raises(DraftscopeError) as error:
        find(path, HOW)
    assert str(error.value).count(". ") == 0 and str(error.value).endswith(".")
    return str(error.value)
