"""Drafters before training, and what trains them."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from draftscope.base.errors import DraftscopeError
from draftscope.models import head_kinds
from draftscope.models.cache.layers import by_layer, shape_of
from draftscope.models.files.pretrained import loaded
from draftscope.models.head_kinds import SMALL_MODEL
from draftscope.models.heads import Head, HeadShape, SharedWeights, kind_of, load_head
from draftscope.models.heads.lessons import Distillation, DraftModelLesson
from draftscope.models.loading.embedded import WHOLE, Member
from draftscope.train.data.batches import Batches
from draftscope.train.data.corpus import END
from draftscope.train.data.saved_answers import TargetAnswer
from draftscope.train.data.writing import TokenizedPrompt
from draftscope.train.students.shapes import ROPE, SHAPES, build, quiet

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


def load_student(kind: str, place: Path, target: Any) -> Any:
    """The drafter of `kind` in the folder `place`, in fp32 on the target's device, to continue training."""
    if kind in WHOLE:
        return load_model(place).to(target.device)
    return load_head(kind, place, SharedWeights.of(target)).float()


def load_model(folder: Path) -> Any:
    """The model in `folder` in fp32, to train it or to distill from it."""
    if not (folder / "config.json").exists():
        raise DraftscopeError(f"There is no model in '{folder}': train one or name another folder.")
    return loaded(AutoModelForCausalLM, str(folder), sys.stderr.isatty(), dtype=torch.float32)


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
    """One layer of the target's width, with the heads of its first one and a small MLP."""
    config = by_layer(target.config)[0]
    key_value_heads, width = shape_of(config)
    return HeadShape(
        hidden=config.hidden_size,
        heads=config.num_attention_heads,
        key_value_heads=key_value_heads,
        head_width=width,
        mlp=2 * config.hidden_size,
        rope=rope,
        positions=config.max_position_embeddings,
    )


DRAFT_LAYERS, MAX_WIDTH, HEAD = 2, 512, 32  # of a draft model: layers, greatest width, width of an attention head
VOCABULARY = 8192  # tokens that an EAGLE-3 or DSpark head drafts; at most half of the target's


def first_student(
    kind: str, target: Any, answers: Sequence[TargetAnswer], prompts: Sequence[TokenizedPrompt], seed: int
) -> Any:
    """A drafter of `kind` for `target`, before training. `prompts` are all that the target may be asked."""
    torch.manual_seed(seed)
    if kind == SMALL_MODEL:
        return small_llama(target).to(target.device)
    shared = SharedWeights.of(target)
    shares = token_shares(answers, prompts, shared.vocabulary)
    tokens = frequent_tokens(shares, min(VOCABULARY, shared.vocabulary // 2), _ends(target))
    return new_head(kind, target, tokens, rope_of(target))


def token_shares(answers: Sequence[TargetAnswer], prompts: Sequence[TokenizedPrompt], vocabulary: int) -> Tensor:
    """[vocabulary]: how often each token is used, by the answers and by the prompts.

    Both count as much in all: a first few answers have too few different tokens.
    """
    answered = torch.cat([answer.ids[answer.prompt :] for answer in answers])
    prompted = torch.tensor([token for prompt in prompts for token in prompt.tokens])
    return sum((torch.bincount(ids, minlength=vocabulary) / len(ids) for ids in (answered, prompted)), torch.zeros(()))


def frequent_tokens(shares: Tensor, count: int, always: Sequence[int]) -> Tensor:
    """[count]: the most used tokens, in ascending order; `always` are among them."""
    chosen = shares.index_fill(0, torch.tensor(always, dtype=torch.long), 2.0)
    return chosen.argsort(descending=True, stable=True)[:count].sort().values


def small_llama(target: Any) -> Any:
    """A Llama of two layers, a third as wide as the target, that reads the target's tokens.

    Its embedding starts as the main components of the target's, so that similar tokens are near each other from the
    start; its layers add nothing at first.
    """
    source = target.config
    width = max(HEAD, min(MAX_WIDTH, source.hidden_size // 3) // HEAD * HEAD)
    config = LlamaConfig(
        vocab_size=source.vocab_size,
        hidden_size=width,
        num_hidden_layers=DRAFT_LAYERS,
        num_attention_heads=width // HEAD,
        num_key_value_heads=width // HEAD // 3 if width // HEAD % 3 == 0 else width // HEAD,
        intermediate_size=8 * width // 3,
        max_position_embeddings=source.max_position_embeddings,
        rope_parameters=rope_of(target),
        bos_token_id=source.bos_token_id,
        eos_token_id=source.eos_token_id,
        pad_token_id=source.pad_token_id,
        tie_word_embeddings=True,
        attn_implementation="sdpa",
    )
    draft = LlamaForCausalLM(config)
    with torch.no_grad():
        draft.get_input_embeddings().weight.copy_(main_components(target.get_input_embeddings().weight, width))
    return quiet(draft)


def main_components(rows: Tensor, width: int) -> Tensor:
    """[V, H] -> [V, width]: the rows along the `width` directions in which they differ most, at the same mean norm."""
    if width > rows.shape[1]:
        raise DraftscopeError(f"A draft of width {width} is wider than its target ({rows.shape[1]}).")
    whole = rows.detach().float().cpu()
    directions: Tensor = torch.linalg.eigh(whole.T @ whole).eigenvectors  # ascending
    narrow = whole @ directions[:, -width:].flip(1)
    return narrow.mul(float(whole.norm() / narrow.norm()))


def rope_of(target: Any) -> dict[str, Any]:
    """The target's rotary embedding, if it is the usual one."""
    rope = dict(getattr(target.config, "rope_parameters", None) or {})
    theta = rope.get("rope_theta", ROPE["rope_theta"])
    return {"rope_type": "default", "rope_theta": theta}


def _ends(target: Any) -> list[int]:
    """The target's EOS ids."""
    ids = getattr(target.generation_config, "eos_token_id", None)
    return [token for token in (ids if isinstance(ids, list) else [ids]) if token is not None]
