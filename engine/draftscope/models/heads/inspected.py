"""Which kind a head's files are of, and what is wrong with them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models import head_kinds
from draftscope.models.heads.formats import ANY, load_head
from draftscope.models.heads.head import SharedWeights
from draftscope.models.heads.head_files import Checkpoint, Defect, read

COPIED = 0.01  # share of output rows that may equal the row before


def kind_of_files(head: Checkpoint) -> str:
    """The kind of head, from its configuration. Raises `DraftscopeError` where it does not say."""
    config = head.config
    if named := config.get("speculators_model_type"):
        return str(named)
    architecture = str((config.get("architectures") or [""])[0])
    for kind in head_kinds.kinds().values():
        if any(mark in name for mark in kind.marks for name in (architecture, *config)):
            return kind.name
    if "fc.weight" in head.tensors and "d2t" in head.tensors:
        return head_kinds.EAGLE3.name
    raise head.wrong("does not say which kind of head it is; write KIND:MODEL, such as eagle3:FOLDER.")


def inspect(kind: str, source: str | Path, shared: SharedWeights) -> list[Defect]:
    """Everything found; empty where nothing is wrong. Raises `DraftscopeError` for unreadable files."""
    head = read(source)
    checks = () if kind == ANY else head_kinds.find(kind).network().checks
    defects = [defect for check in (*checks, _values) for defect in check(head, shared)]
    if not defects:
        try:
            load_head(kind, source, shared)
        except DraftscopeError as error:
            defects.append(Defect("refused", str(error), ("here",)))
    return defects


def _values(head: Checkpoint, shared: SharedWeights) -> Iterator[Defect]:
    del shared
    for name, tensor in head.tensors.items():
        if not tensor.is_floating_point():
            if tensor.dtype in (torch.int8, torch.uint8) and tensor.dim() > 1:
                yield Defect("type", f"'{name}' is {tensor.dtype}: quantised, and no engine reads a head so")
            continue
        values = tensor.float()
        if not bool(values.isfinite().all()):
            yield Defect("not finite", f"'{name}' holds NaN or infinity: every draft is then the same token")
        elif values.numel() > 1 and bool((values == values.flatten()[0]).all()):
            yield Defect("never trained", f"'{name}': every entry is {float(values.flatten()[0]):g}")
        elif tensor.dim() == 2 and (copies := _copied(values)):
            yield Defect("copied rows", f"'{name}': {copies:,} of its {len(tensor):,} rows equal the row before")


def _copied(values: Tensor) -> int:
    """Rows that equal the row before, if they are more than chance and padding give."""
    copies = int((values[1:] == values[:-1]).all(-1).sum())
    return copies if copies > COPIED * len(values) else 0
