"""What a name of a model refers to: a known model, a GGUF file, a folder, or a hub id."""

from __future__ import annotations

from pathlib import Path

from draftscope.base.errors import DraftscopeError
from draftscope.models.files.gguf_file import is_gguf
from draftscope.models.loading.converted import converted, weights_of
from draftscope.models.loading.known import Source, known, located


def source_of(name: str | Path, revision: str | None = None, progress: bool = False) -> Source:
    """Where the model is. Known models are downloaded and GGUF files converted, once; `progress` shows bars.

    Raises DraftscopeError. Whether a folder or hub id exists is not checked.
    """
    if (model := known(name)) is not None:
        return located(model, revision, progress)
    path = Path(name)
    if path.is_dir():
        return Source(str(name), path.name, weights_of(path))
    if is_gguf(path):
        if revision is not None:
            raise DraftscopeError(f"revision = '{revision}': '{name}' is a file without revisions; leave it out.")
        folder = converted(path, progress)
        return Source(str(folder), path.stem, weights_of(folder))
    if path.is_file():
        raise DraftscopeError(
            f"'{name}' is a file, but no GGUF file; name a GGUF file, or a folder written by save_pretrained."
        )
    return Source(str(name), str(name))
