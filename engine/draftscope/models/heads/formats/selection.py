"""The published form of a head's vocabulary that is a subset of the target's.

`d2t` holds offsets: token i of the head is token i + d2t[i] of the target. `t2d` [V] marks these tokens.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from draftscope.models.heads.formats.head_files import Checkpoint
from draftscope.models.heads.head import Head, SharedWeights


def selected(found: Checkpoint, layer: dict[str, Any], tensors: dict[str, Tensor], shared: SharedWeights) -> int | None:
    """The number of the target's tokens that the head drafts, or None for all; `d2t` is then removed from `tensors`.

    `layer` is the decoder layer's configuration, which contains the target's vocabulary size.
    """
    whole = found.config.get("draft_vocab_size") is None
    width = found.number("vocab_size", layer) if whole else found.number("draft_vocab_size")
    offsets = tensors.get("d2t")
    if offsets is None or (width == shared.vocabulary and not offsets.any()):
        tensors.pop("d2t", None)
        if width != shared.vocabulary:
            raise found.wrong(
                f"drafts {width:,} of the target's {shared.vocabulary:,} tokens but does not contain 'd2t', which says "
                "which ones; choose a head that was trained for this target."
            )
        return None
    tensors["d2t"] = offsets = offsets.long()
    tokens = torch.arange(len(offsets)) + offsets
    inside = len(offsets) == width and bool(((tokens >= 0) & (tokens < shared.vocabulary)).all())
    if not inside or len(set(tokens.tolist())) != width or not _marked(found, tokens, shared):
        raise found.wrong(
            f"has an invalid 'd2t' or 't2d' for {width:,} of the target's {shared.vocabulary:,} tokens; choose a head "
            "that was trained for this target."
        )
    return width


def _marked(found: Checkpoint, tokens: Tensor, shared: SharedWeights) -> bool:
    """Whether `t2d` is missing or marks exactly `tokens`."""
    marked = found.tensors.get("t2d")
    expected = torch.zeros(shared.vocabulary, dtype=torch.bool).index_fill_(0, tokens, True)
    return marked is None or torch.equal(marked.bool(), expected)


def marks(head: Head) -> dict[str, Tensor]:
    """`t2d` [V] bool, to save beside the head's own `d2t`; nothing if the head drafts the whole vocabulary."""
    if head.d2t is None:
        return {}
    unmarked = torch.zeros(head.shared.vocabulary, dtype=torch.bool)
    return {"t2d": unmarked.index_fill_(0, head.targets.cpu(), True)}
