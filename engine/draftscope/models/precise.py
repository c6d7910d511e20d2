"""A model's logits in fp32, whatever it decodes in: what its weights say without the rounding of 16-bit arithmetic;
and beside them those of its own precision.

Every module's own weights are fp32 while it runs, so this takes the memory of one more module, not of one more model.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import torch
from torch import Tensor

from draftscope.models.files.memory_needed import fits
from draftscope.models.files.pretrained import quiet
from draftscope.models.forward.stored import WIDE, StoredEmbedding, exact
from draftscope.models.model import Model


def fp32_logits(model: Model, tokens: list[int]) -> Tensor:
    """Logits [T, V] after each of `tokens` [T], by the network's own forward without our cache and mask."""
    return fp32_rows(model, [tokens])[0]


@torch.no_grad()
def fp32_rows(model: Model, rows: list[list[int]]) -> Tensor:
    """The same for texts of equal length: `rows` [B, T] -> [B, T, V]."""
    tokens = torch.tensor(rows, device=model.device)
    with quiet(), _without_emulation(model), _in_fp32(model.network):
        return model.network(input_ids=tokens, use_cache=False).logits.float()  # type: ignore[no-any-return]


def can_widen(model: Model) -> bool:
    """Whether its network has weights in 16 bits, and the memory for its largest module in fp32."""
    if model.dtype == torch.float32 or model.stateful:
        return False
    largest = max(sum(part.numel() for part in module.parameters(recurse=False)) for module in model.network.modules())
    return fits(4 * largest, model.device)


@contextmanager
def in_fp32(model: Model) -> Iterator[Model]:
    """The same model, computing in fp32 by its network's own forward, with our cache and mask."""
    wide = copy(model)
    wide.run, wide.dtype, wide.graphs = model.network, torch.float32, None
    wide.additive = torch.float32 if model.additive is not None else None
    with _without_emulation(model), _in_fp32(model.network):
        yield wide


@torch.inference_mode()
def rounded_logits(model: Model, prompt: Sequence[int], written: Sequence[int]) -> Tensor:
    """Logits [T, V] in the model's own precision, by its own forward on an empty cache, from which each of `written`
    [T] was to be chosen."""
    tokens = torch.tensor([[*prompt, *written[:-1]]], device=model.device)
    offsets = torch.arange(tokens.shape[1], device=model.device)[None]
    return model.forward(model.cache(1, tokens.shape[1]), tokens, offsets)[0, len(prompt) - 1 :]


@contextmanager
def _in_fp32(network: Any) -> Iterator[None]:
    """16-bit weights are replaced by fp32 copies while the module that holds them runs."""
    kept: dict[int, list[tuple[Any, Tensor]]] = {}

    def before(module: Any, _: Any) -> None:
        tensors = [*module.named_parameters(recurse=False), *module.named_buffers(recurse=False)]
        short = [(name, one) for name, one in tensors if one.is_floating_point() and one.dtype != torch.float32]
        kept[id(module)] = [(tensor, tensor.data) for _, tensor in short]
        for name, tensor in short:
            tensor.data = exact(module, name)

    def after(module: Any, *_: Any) -> None:
        for tensor, data in kept.pop(id(module), []):
            tensor.data = data

    handles = []
    embedding = network.get_input_embeddings()
    if isinstance(embedding, StoredEmbedding):
        embedding.dtype = torch.float32  # with which every product is the file's own
    for module in network.modules():
        handles += [module.register_forward_pre_hook(before), module.register_forward_hook(after, always_call=True)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()
        if isinstance(embedding, StoredEmbedding):
            embedding.dtype = WIDE


@contextmanager
def _without_emulation(model: Model) -> Iterator[None]:
    """EmulatedSize adds zeros in the model's own dtype, through a hook on the embedding."""
    hooks = model.network.get_input_embeddings()._forward_hooks if model.emulated is not None else {}
    ours = dict(hooks)
    hooks.clear()
    try:
        yield
    finally:
        hooks.update(ours)
