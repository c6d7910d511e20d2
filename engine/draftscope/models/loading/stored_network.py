"""A transformers network whose matrices stay as they lie in a GGUF file, mapped from the disk."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM, GenerationConfig

from draftscope.models.files.pretrained import quiet
from draftscope.models.forward.stored import WIDE, StoredEmbedding, StoredLinear, keep_exact
from draftscope.models.loading.converted import Readable
from draftscope.models.loading.gguf_weights import FileWeight
from draftscope.models.native.available import stored_kinds
from draftscope.models.native.stored_weight import StoredRows, StoredWeight


def stored_network(model: Readable) -> Any:
    """The network of a file. Types of tensors that no program reads are widened to bfloat16."""
    with torch.device("meta"), quiet():
        network = AutoModelForCausalLM.from_config(model.config, dtype=WIDE)
    body = network.base_model
    body.rotary_emb = type(body.rotary_emb)(model.config)  # its angles are computed, not read
    weights: dict[str, StoredWeight] = {}
    for path, module in list(network.named_modules()):
        if isinstance(module, nn.Linear | nn.Embedding):
            name = f"{path}.weight" if f"{path}.weight" in model.weights else "model.embed_tokens.weight"  # tied
            if name not in weights:
                weights[name] = _stored(model.weights[name])
            bias = model.weights.get(f"{path}.bias")
            _replace(network, path, _like(module, weights[name], bias))
        else:
            _fill(path, module, model.weights)
    network.generation_config = GenerationConfig.from_model_config(model.config)
    network.generation_config.eos_token_id = list(model.file.ends) or None
    network.name_or_path = str(model.file.path)
    return network.requires_grad_(False)


def _stored(weight: FileWeight) -> StoredWeight:
    if weight.kind not in stored_kinds():
        return StoredWeight([weight.widened(WIDE).contiguous()])
    data, forget = weight.tensor.mapped()
    order = weight.in_order if weight.heads else None
    return StoredWeight([StoredRows(weight.kind, data, weight.tensor.shape[-1], order, forget)])


def _like(module: nn.Module, weight: StoredWeight, bias: FileWeight | None) -> nn.Module:
    if isinstance(module, nn.Embedding):
        return StoredEmbedding(weight, getattr(module, "scalar_embed_scale", 1.0))
    value = None if bias is None else bias.widened(torch.float32)
    linear = StoredLinear(weight, value)
    if value is not None:
        keep_exact(linear, "bias", value)
    return linear


def _replace(network: nn.Module, path: str, module: nn.Module) -> None:
    parent, _, name = path.rpartition(".")
    setattr(network.get_submodule(parent), name, module)


def _fill(path: str, module: nn.Module, weights: dict[str, FileWeight]) -> None:
    """A norm's weight, in bfloat16 and as exactly as the file has it."""
    for name, _ in list(module.named_parameters(recurse=False)):
        value = weights[f"{path}.{name}"].widened(torch.float32)
        setattr(module, name, nn.Parameter(value.to(WIDE)))
        keep_exact(module, name, value)
