"""Drafters for any target, before training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LlamaConfig, LlamaForCausalLM

from draftscope.base.errors import DraftscopeError
from draftscope.models.head_kinds import SMALL_MODEL
from draftscope.models.heads import SharedWeights
from draftscope.train.data.answers import TargetAnswer
from draftscope.train.data.writing import TokenizedPrompt
from draftscope.train.students.shapes import ROPE, quiet
from draftscope.train.students.students import new_head

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
    tokens = most_frequent(shares, min(VOCABULARY, shared.vocabulary // 2), _ends(target))
    return new_head(kind, target, tokens, rope_of(target))


def token_shares(answers: Sequence[TargetAnswer], prompts: Sequence[TokenizedPrompt], vocabulary: int) -> Tensor:
    """[vocabulary]: how often each token is used, by the answers and by the prompts.

    Both count as much in all: a first few answers have too few different tokens.
    """
    answered = torch.cat([answer.ids[answer.prompt :] for answer in answers])
    prompted = torch.tensor([token for prompt in prompts for token in prompt.tokens])
    return sum((torch.bincount(ids, minlength=vocabulary) / len(ids) for ids in (answered, prompted)), torch.zeros(()))


def most_frequent(shares: Tensor, count: int, always: Sequence[int]) -> Tensor:
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
