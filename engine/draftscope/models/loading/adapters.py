"""LoRA adapters: alone they are no model, and beside a model's weights they are not applied."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from transformers.utils import is_peft_available

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.models.files.contents import refuse_size

ADAPTER = "adapter_config.json"
WEIGHTS = "adapter_model"  # how the names of an adapter's own weight files begin
MERGE = "merge it with peft (merge_and_unload, then save_pretrained)"


def refuse_alone(source: str, names: Collection[str], config: Path | None) -> None:
    """Raises `DraftscopeError` if the files `names` of a checkpoint are an adapter without the model it adapts."""
    weights = (".safetensors", ".bin", ".pt", ".pth")
    if ADAPTER in names and not any(n.endswith(weights) and not n.startswith(WEIGHTS) for n in names if "/" not in n):
        raise DraftscopeError(
            f"'{source}' is an adapter (LoRA){_of(config)}, not a model; {MERGE} and name the folder that this writes."
        )


def beside(source: str, names: Collection[str], config: Path | None) -> str:
    """What becomes of an adapter beside a model's weights, as a sentence; empty if there is none."""
    if ADAPTER not in names:
        return ""
    sentence = f"'{source}' has an adapter (LoRA){_of(config)} beside its weights"
    if is_peft_available():  # transformers would put its layers into the network
        raise DraftscopeError(f"{sentence}; {MERGE}, or move {ADAPTER} elsewhere to load the weights without it.")
    return f"{sentence}, which is not applied; to use it, {MERGE}."


def _of(config: Path | None) -> str:
    """' of' the model that an adapter names; empty if it names none."""
    if config is None or not config.is_file():
        return ""
    refuse_size(config)
    try:
        base = json.loads(config.read_bytes())["base_model_name_or_path"]
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return ""
    return f" of '{quoted(base)}'" if isinstance(base, str) and base else ""
