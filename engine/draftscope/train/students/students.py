"""Drafters before training, and what trains them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from draftscope.base.errors import DraftscopeError
from draftscope.models import head_kinds
from draftscope.models.heads import Head, HeadShape, SharedWeights, kind_of, load_head
from draftscope.models.heads.lessons.lesson import Distillation, DraftModelLesson
from draftscope.models.loading.embedded import Member
from draftscope.train.data.batches import Batches
from draftscope.train.data.tokenizer import END
from draftscope.train.students.shapes import (
    DRAFT,
    DRAFT_2L,
    DRAFT_HOPELESS,
    DRAFT_TINY,
    EXPERTS,
    MAMBA2,
    ROPE,
    TARGET,
    AnyShape,
    build,
    quiet,
)

SHAPES: dict[str, AnyShape] = {  # of the members that are whole models, not heads
    "target": TARGET,
    "draft": DRAFT,
    "draft-2l": DRAFT_2L,
    "draft-tiny": DRAFT_TINY,
    "draft-hopeless": DRAFT_HOPELESS,
    "mamba2": MAMBA2,
    "experts": EXPERTS,
    "experts-draft": DRAFT,
}
EAGLE3_VOCABULARY = 2048  # tokens that EAGLE-3's own output weights cover
COUNTED = 64  # tokens are counted in the text of this many steps


def first_model(member: Member, seed: int) -> Any:
    """A member that is a whole model, before training."""
    return build(SHAPES[member.name], seed)


def first_head(member: Member, target: Any, batches: Batches, seed: int) -> Head:
    """A member that is a head, before training, on its target's device."""
    torch.manual_seed(seed)
    tokens = frequent(batches, min(EAGLE3_VOCABULARY, SharedWeights.of(target).vocabulary // 2))
    return new_head(member.kind, target, tokens, ROPE)


def new_head(kind: str, target: Any, tokens: Tensor, rope: Mapping[str, Any]) -> Head:
    """A head before training, on its target's device. `tokens` is the vocabulary of one that drafts only some."""
    network = head_kinds.find(kind).network()
    head: Head = quiet(network.first(_shape(target, rope), SharedWeights.of(target), tokens))
    return head.to(target.device)


def start_as(student: Any, elder: Any) -> bool:
    """Copies into `student` the weights of a trained model of the same class that agree in name and shape; whether
    there were any.

    An additional layer ends in zeros, so it changes nothing at first. Models of another class start from scratch:
    tied embeddings without the layers that follow them are useless.
    """
    weights = elder.state_dict() if type(student) is type(elder) else {}
    shared = {
        name: weight
        for name, weight in student.state_dict().items()
        if name in weights and weights[name].shape == weight.shape
    }
    for name, weight in shared.items():
        weight.copy_(weights[name])
    return bool(shared)


def load_student(member: Member, place: Path, target: Any) -> Any:
    """The drafter in the folder `place`, in fp32 on the target's device, to continue training."""
    if member.is_head:
        return load_head(member.kind, place, SharedWeights.of(target))
    return load_model(place).to(target.device)


def load_model(folder: Path) -> Any:
    """The model in `folder` in fp32, to train it or to distill from it."""
    if not (folder / "config.json").exists():
        raise DraftscopeError(f"There is no model in {folder}: train one or name another folder.")
    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)


def lesson_for(target: Any, student: nn.Module) -> Distillation:
    """The lesson of a head's kind, or of a draft model."""
    if not isinstance(student, Head):
        return DraftModelLesson(target, student)
    lesson: Distillation = head_kinds.find(kind_of(student)).network().lesson(target, student)
    return lesson


def frequent(batches: Batches, count: int) -> Tensor:
    """[count]: the tokens that a drafter reads most often, in ascending order; always includes the end token."""
    seen = torch.cat([batches.rows(step, 512)[1].flatten() for step in range(COUNTED)])
    counts = torch.bincount(seen, minlength=count)
    counts[END] = len(seen)
    return counts.argsort(descending=True, stable=True)[:count].sort().values


def _shape(target: Any, rope: Mapping[str, Any]) -> HeadShape:
    """One layer of the target's width with a small MLP."""
    config = target.config
    return HeadShape(
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        key_value_heads=config.num_key_value_heads,
        head_width=getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads,
        mlp=2 * config.hidden_size,
        rope=rope,
        positions=config.max_position_embeddings,
    )
