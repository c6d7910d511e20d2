"""A head's vocabulary where it is a selection of the target's, as it is published.

`d2t` holds offsets: token i of the head is token i + d2t[i] of the target. `t2d` marks these among the target's.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from draftscope.models.heads.formats.head_files import Checkpoint
from draftscope.models.heads.head import Head, Lender


def selected(found: Checkpoint, layer: dict[str, Any], tensors: dict[str, Tensor], lender: Lender) -> int | None:
    """How many of the target's tokens the head drafts, or None for all of them: then `d2t` is taken out of `tensors`.

    `layer` is the decoder layer's configuration, where the target's size of vocabulary stands.
    """
    whole = found.config.get("draft_vocab_size") is None
    width = found.number("vocab_size", layer) if whole else found.number("draft_vocab_size")
    offsets = tensors.get("d2t")
    if offsets is None or (width == lender.vocabulary and not offsets.any()):
        tensors.pop("d2t", None)
        if width != lender.vocabulary:
            raise found.wrong(
                f"drafts {width:,} tokens of the target's {lender.vocabulary:,} and does not say which ('d2t'); choose "
                "a head that was trained for this target."
            )
        return None
    tensors["d2t"] = offsets = offsets.long()
    chosen = torch.arange(len(offsets)) + offsets
    inside = len(offsets) == width and bool(((chosen >= 0) & (chosen < lender.vocabulary)).all())
    if not inside or len(set(chosen.tolist())) != width or not _marked(found, chosen, lender):
        raise found.wrong(
            f"names its {width:,} tokens wrongly ('d2t', 't2d') for a target of {lender.vocabulary:,}; choose a head "
            "that was trained for this target."
        )
    return width


def _marked(found: Checkpoint, chosen: Tensor, lender: Lender) -> bool:
    """Does `t2d`, where there is one, mark just the chosen tokens?"""
    marked = found.tensors.get("t2d")
    expected = torch.zeros(lender.vocabulary, dtype=torch.bool).index_fill_(0, chosen, True)
    return marked is None or torch.equal(marked.bool(), expected)


def marks(head: Head) -> dict[str, Tensor]:
    """`t2d` [V] bool, beside the `d2t` that the head has itself; nothing for a whole vocabulary."""
    if head.d2t is None:
        return {}
    none = torch.zeros(head.lender.vocabulary, dtype=torch.bool)
    return {"t2d": none.index_fill_(0, head.targets.cpu(), True)}
