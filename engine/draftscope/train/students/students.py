"""Drafters before training, and the lesson that trains each kind."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM

from draftscope.base.errors import DraftscopeError
from draftscope.models.heads import (
    Block,
    BlockConfig,
    DSpark,
    DSparkConfig,
    Eagle1,
    Eagle1Config,
    Eagle3,
    Eagle3Config,
    Head,
    HeadShape,
    Medusa,
    MedusaConfig,
    Mtp,
    MtpConfig,
    OwnWeights,
    SharedWeights,
    default_layers,
    load_head,
)
from draftscope.models.loading.embedded import Member
from draftscope.train.data.batches import Batches
from draftscope.train.data.tokenizer import END, PAD
from draftscope.train.fit.lesson import Distillation, DraftModelLesson
from draftscope.train.students.parallel import Blocks, MarkovBlocks, ParallelHeads
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
from draftscope.train.students.unrolled import Eagle1Lesson, Unrolled

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
MEDUSA_HEADS = 4
BLOCK, DSPARK_BLOCK = 9, 7  # tokens in a block, including the given first one
DSPARK_RANK = 64
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
    """A head before training, on its target's device. `tokens` is the vocabulary of an EAGLE-3 or DSpark head."""
    shared = SharedWeights.of(target)
    shape = _shape(target, rope)
    head: Head
    if kind == "eagle3":
        head = _eagle3(shape, shared, tokens)
    elif kind == "eagle":
        head = Eagle1(Eagle1Config(shape), shared)
    elif kind == "mtp":
        head = Mtp(MtpConfig(shape), shared)
    elif kind == "medusa":
        # Its blocks start at zero, so it starts with the target's own output.
        return Medusa(MedusaConfig(MEDUSA_HEADS, shared=True), shared).to(target.device)
    elif kind == "dspark":
        head = _dspark(replace(shape, qk_norm=True), shared, tokens)
    else:
        with_norms = replace(shape, qk_norm=True)
        head = Block(BlockConfig(with_norms, 1, BLOCK, PAD, default_layers(shared.layers)), shared)
    quiet(head)
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
    """The lesson for a drafter's class. EAGLE-1 trains one step but is evaluated as deep as EAGLE-3."""
    match student:
        case Eagle3():
            return Unrolled(target, student, decaying(4, 0.8))
        case Eagle1():
            return Eagle1Lesson(target, student, decaying(4, 0.8))
        case Mtp():
            return Unrolled(target, student, decaying(3, 0.8))
        case Medusa():
            return ParallelHeads(target, student, decaying(student.config.heads, 0.8))
        case DSpark():
            return MarkovBlocks(target, student, decaying(student.config.size - 1, math.exp(-1 / 4)))
        case Block():
            return Blocks(target, student, decaying(student.config.size - 1, math.exp(-1 / 4)))
        case _:
            return DraftModelLesson(target, student)


def decaying(depth: int, factor: float) -> tuple[float, ...]:
    """The weight of each depth, decreasing: a token is only useful if all tokens before it were accepted."""
    return tuple(factor**k for k in range(depth))


def frequent(batches: Batches, count: int) -> Tensor:
    """[count]: the tokens that a drafter reads most often, in ascending order; always includes the end token."""
    seen = torch.cat([batches.rows(step, 512)[1].flatten() for step in range(COUNTED)])
    counts = torch.bincount(seen, minlength=count)
    counts[END] = len(seen)
    return counts.argsort(descending=True, stable=True)[:count].sort().values


def _eagle3(shape: HeadShape, shared: SharedWeights, tokens: Tensor) -> Eagle3:
    """Each hidden state is normalised before it is fused (EAGLE 3.1): the target's grow to a hundred times its
    embeddings, and training would be far slower without."""
    weights = OwnWeights(lm_head=True, vocabulary=len(tokens))
    head = Eagle3(Eagle3Config(shape, default_layers(shared.layers), weights, fc_norm=True), shared)
    _select(head, tokens)
    return head


def _dspark(shape: HeadShape, shared: SharedWeights, tokens: Tensor) -> DSpark:
    weights = OwnWeights(lm_head=True, vocabulary=len(tokens))
    layers = default_layers(shared.layers)
    head = DSpark(DSparkConfig(shape, 1, DSPARK_BLOCK, PAD, layers, weights, DSPARK_RANK), shared)
    _select(head, tokens)
    return head


def _select(head: Head, tokens: Tensor) -> None:
    """The head drafts `tokens`; its output weights start as the target's."""
    assert head.d2t is not None and head.lm_head is not None
    head.d2t.copy_(tokens - torch.arange(len(tokens)))
    with torch.no_grad():
        head.lm_head.weight.copy_(head.shared.lm_head[tokens.to(head.shared.lm_head.device)])


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
