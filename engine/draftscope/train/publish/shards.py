"""Finished folders as one tar file, split into small pieces: `cat NAME.tar.* | tar x` unpacks them."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

PIECE = 16 * 10**6  # bytes


def pack(folders: list[Path], into: Path, piece: int = PIECE) -> None:
    """Writes the folders to `into` as NAME.tar.00, NAME.tar.01, ... of `piece` bytes. NAME is that of the first."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w") as tar:
        for folder in folders:
            tar.add(folder, arcname=folder.name)
    into.mkdir(parents=True, exist_ok=True)
    for number, start in enumerate(range(0, whole.getbuffer().nbytes, piece)):
        (into / f"{folders[0].name}.tar.{number:02}").write_bytes(whole.getbuffer()[start : start + piece])
