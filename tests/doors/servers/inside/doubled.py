"""The embedded pair for two ranks: they cannot share its three KV heads, so a copy has each head twice."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from safetensors.torch import load_file, save_file

from draftscope.base.assets import assets


def doubled(name: str, folder: Path) -> None:
    """A copy in `folder` that computes the same."""
    copy = Path(shutil.copytree(assets() / "models" / name, folder / name))
    config = json.loads((copy / "config.json").read_text())
    heads = config["num_key_value_heads"]
    weights = load_file(copy / "model.safetensors")
    for key, value in weights.items():
        if key.endswith(("k_proj.weight", "v_proj.weight")):
            weights[key] = value.unflatten(0, (heads, -1)).repeat_interleave(2, 0).flatten(0, 1)  # type: ignore[no-untyped-call]
    save_file(weights, copy / "model.safetensors", {"format": "pt"})
    (copy / "config.json").write_text(json.dumps(config | {"num_key_value_heads": 2 * heads}))
