"""Weights of a checkpoint that its network has no place for: transformers drops them and only logs it, and a model that
lacks a scale, a bias or a layer writes another model's text."""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from draftscope.base.errors import DraftscopeError

# Without effect on the text: masks and angles that are computed anew, and scales of inputs and of a quantised cache,
# neither of which is rounded here.
WITHOUT_EFFECT = re.compile(
    r"inv_freq$|rotary\w*\.|position_ids$|masked_bias$|causal_mask$|\b(attn|attention)\.bias$|_proj\.(input|k|v)_scale$"
)
AHEAD = re.compile(r"(^|\.)(mtp|nextn)\b|\.(eh_proj|enorm|hnorm|shared_head)\.")  # layers that draft, of several kinds
ADAPTER = re.compile(r"(^|[._])lora_")
SCALES = re.compile(r"scale|zero|absmax|quant")
PER_WEIGHT = (".weight_scale", ".weight_scale_inv")  # of a float8 weight, as ModelOpt and others name it


def refuse_lacking(source: str, missing: Collection[str], mismatched: Collection[tuple[str, Any, Any]]) -> None:
    """Raises `DraftscopeError` for weights that a checkpoint lacks or has in another shape: they would be random."""
    if missing:
        raise DraftscopeError(
            f"'{source}' lacks {len(missing)} weights, for example '{min(missing)}', which would be random; choose a "
            "complete checkpoint."
        )
    for name, there, needed in sorted(mismatched, key=lambda wrong: str(wrong[0])):
        raise DraftscopeError(
            f"'{source}' has {list(there)} values in '{name}', and its config.json needs {list(needed)}; put its own "
            "config.json beside the weights, or, if they are packed, choose a checkpoint that is not quantised."
        )


def unused(network: Any, source: str, names: Collection[str], folder: Path | None) -> list[str]:
    """The weights among `names`, for which `network` has no place, that are lost.

    Scales of float8 weights in `folder` are multiplied into them. Raises `DraftscopeError` for weights of layers, norms
    and other modules that the network has, unless transformers reads a quantisation, which has names of its own.
    """
    names = {name for name in names if not WITHOUT_EFFECT.search(name)}
    names -= _drafting(network, names)
    if getattr(network, "hf_quantizer", None) is None:
        names -= _rescaled(network, names, folder)
        _refuse(source, sorted(name for name in names if _belongs(network, name)), network)
    return sorted(names)


def _drafting(network: Any, names: Collection[str]) -> set[str]:
    """Those of layers for multi-token prediction, which the configuration does not count."""
    config = network.config.get_text_config()
    first = int(config.num_hidden_layers)
    after = range(first, first + int(getattr(config, "num_nextn_predict_layers", None) or 0))
    layers = {layer for name in names if AHEAD.search(name) and (layer := _layer(name))}
    layers |= {layer for name in names if (layer := _layer(name)) and int(layer.rsplit(".", 1)[1]) in after}
    return {name for name in names if AHEAD.search(name) or _layer(name) in layers}


def _layer(name: str) -> str:
    """'model.layers.7' of a weight in that layer; empty for others."""
    match = re.match(r"(?:.*?\.)?(?:layers|h|blocks)\.\d+(?=\.)", name)
    return match[0] if match else ""


def _belongs(network: nn.Module, name: str) -> bool:
    """Whether a weight is of a module or a layer that the network has, or of one more of its layers."""
    module = network
    for part in name.split(".")[:-1]:
        inner = module._modules.get(part)
        if isinstance(module, nn.ModuleList) or inner is None:
            return isinstance(module, nn.ModuleList)
        module = inner
    return True


def _refuse(source: str, names: list[str], network: Any) -> None:
    if not names:
        return
    layers = network.config.get_text_config().num_hidden_layers
    beyond = [name for name in names if (layer := _layer(name)) and int(layer.rsplit(".", 1)[1]) >= layers]
    remedy = "put its own config.json beside them"
    if any(map(ADAPTER.search, names)):
        what, remedy = "of an adapter", "merge it with peft (merge_and_unload, then save_pretrained)"
    elif any(SCALES.search(name.rsplit(".", 1)[-1]) for name in names):
        what, remedy = "quantised in a way that is not read here", "choose the original checkpoint"
    elif beyond:
        what = f"of more layers than the {layers} of its config.json"
    else:
        what = "that its config.json has no place for"
    raise DraftscopeError(
        f"'{source}' has weights {what} ({len(names):,} such as '{(beyond or names)[0]}'), and without them its text "
        f"would be another model's; {remedy}."
    )


@torch.no_grad()
def _rescaled(network: nn.Module, names: Collection[str], folder: Path | None) -> set[str]:
    """The scales among `names` by which float8 weights were multiplied: one for a weight, or one for each row."""
    scales = {name: name.rsplit(".", 1)[0] + ".weight" for name in names if name.endswith(PER_WEIGHT)}
    done: set[str] = set()
    if not scales or folder is None:
        return done
    parameters = dict(network.named_parameters())
    float8, values = _read(folder, scales)
    for name, weight in scales.items():
        into, scale = parameters.get(weight), values.get(name)
        if into is None or into.is_meta or scale is None or weight not in float8 or scale.numel() not in (1, len(into)):
            continue
        scale = scale.reshape(-1, *[1] * (into.dim() - 1)).to(into.device, torch.float32)
        into.copy_(into.float() * scale)
        done.add(name)
    return done


def _read(folder: Path, scales: dict[str, str]) -> tuple[set[str], dict[str, Tensor]]:
    """Which weights are stored in float8, and the values of their scales."""
    weights = set(scales.values())
    float8: set[str] = set()
    values: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in file.keys():  # noqa: SIM118 (the file is no mapping)
                if name in scales:
                    values[name] = file.get_tensor(name)
                elif name in weights and file.get_slice(name).get_dtype().startswith("F8_"):
                    float8.add(name)
    return float8, values
