"""What can this very model take? It is asked: logits through the engine's cache against logits from scratch.

A model that ignores the mask, counts positions by slot (ALiBi), or keeps a recurrent state gives other logits, whatever
it is called; so no list of architectures has to be believed. What no short probe can see, windows longer than it, is
read from the configuration (`masks.reaches`) and tested for each architecture.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from draftscope.models.files.pretrained import quiet
from draftscope.verify.tree import chain, full

if TYPE_CHECKING:
    from draftscope.models.model import Model

PROMPTS = (5, 3)  # lengths: the second sequence's rows lie at other slots than the first's
SHAPE = (6, 2)
EXACT = 1e-4  # relative error of fp32 logits; a right mask gives about 1e-6
ROUNDING = 0.02  # what 16-bit adds where it happens to leave the rows that lie in order untouched
WRONG = 0.1  # beyond it no rounding is an excuse: 32 layers in bf16 give 0.01 to 0.05, a mask ignored 0.2 to 0.7


def takes_trees(model: Model) -> bool:
    """Do two ragged sequences, a branching tree each, get the logits of every path read alone?"""
    form = full(SHAPE, len(PROMPTS), model.device)
    prompts = [_tokens(model, length, b).tolist() for b, length in enumerate(PROMPTS)]
    rows = torch.stack([_tokens(model, form.nodes + 1, 7 + b) for b in range(len(PROMPTS))])
    leaves = range(form.nodes - SHAPE[0] * SHAPE[1] + 1, form.nodes + 1)
    try:
        cache = model.cache(len(PROMPTS), max(PROMPTS) + form.nodes + 1)
        model.read(cache, prompts)
        logits = model.forward(cache, rows, form.depth, form.ancestors)
        noise, errors = [], []
        for b, prompt in enumerate(prompts):
            paths = [form.ancestors[b, leaf].nonzero()[:, 0] for leaf in leaves]
            texts = torch.stack([torch.cat([rows.new_tensor(prompt), rows[b, path]]) for path in paths])
            alone = _from_scratch(model, texts)[:, len(prompt) :]
            found = torch.stack([logits[b, path] for path in paths])  # [paths, root and 2 levels, V]
            # Root and first child lie in order, slot by slot: in the longer sequence, what is off there is rounding.
            noise.append(_error(found[0, :2], alone[0, :2]))
            errors.append(_error(found[1:, 1:], alone[1:, 1:]))
    except torch.OutOfMemoryError:
        raise
    except Exception:  # a mask, a cache or an argument that this model does not know
        return False
    limit = min(WRONG, 4 * noise[0] + _floor(model))
    return all(error <= limit for error in errors)  # NaN is not


def takes_chains(model: Model) -> bool:
    """Does one sequence, prompt and two chains, get the logits of every prefix read alone?

    With the model's own masks. Of the first chain two rows stay and the others go, as after a rejection.
    """
    form, start = chain(3, 1, model.device), PROMPTS[0]
    text = _tokens(model, start + form.nodes + 3, 0)
    rejected = _tokens(model, form.nodes - 1, 5)
    try:
        cache = model.cache(1, 2 * len(text))
        model.read(cache, [text[:start].tolist()])
        first = model.forward(cache, torch.cat([text[start : start + 2], rejected])[None], form.depth)[0, :2]
        cache.keep_first(torch.tensor([2], device=model.device), start + 2)
        logits = torch.cat([first, model.forward(cache, text[None, start + 2 :], form.depth)[0]])
        ends = range(start + 1, len(text) + 1)
        error = _error(logits, torch.cat([_from_scratch(model, text[None, :end])[0, -1:] for end in ends]))
    except torch.OutOfMemoryError:
        raise
    except Exception:
        return False
    return error <= (EXACT if model.dtype == torch.float32 else WRONG)  # NaN is not


@torch.inference_mode()
def _from_scratch(model: Model, texts: Tensor) -> Tensor:
    """Logits [B, T, V] by the model's plain forward: no cache, no mask, no positions of ours."""
    with quiet():  # transformers names kernels that it misses and that are not used here
        return model.network(input_ids=texts, use_cache=False).logits  # type: ignore[no-any-return]


def _error(found: Tensor, right: Tensor) -> float:
    """Median over rows of the error of the logits, relative to their spread. [..., V] each.

    The median, since rounding may route a token of a mixture of experts elsewhere: one row off is no wrong mask.
    """
    found, right = found.double(), right.double()
    spread = (right - right.mean(-1, keepdim=True)).norm(dim=-1)
    return float(((found - right).norm(dim=-1) / spread).flatten().quantile(0.5))


def _floor(model: Model) -> float:
    return EXACT if model.dtype == torch.float32 else ROUNDING


def _tokens(model: Model, count: int, start: int) -> Tensor:
    """[count] different-looking token ids within any vocabulary."""
    spread = (torch.arange(count) * 7919 + 104729 * (start + 1)) % model.vocabulary
    return spread.to(model.device)
