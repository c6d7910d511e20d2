"""Finds out what a model can do by running it: logits through the engine's cache against logits from scratch.

A model that ignores the mask, counts positions by slot (ALiBi), or keeps a recurrent state gives other logits, whatever
its name is; so no list of architectures has to be believed. What a short probe cannot see, windows longer than it, is
read from the configuration (`masks.reaches`) and tested for each architecture.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models.cache.state import StateCache
from draftscope.models.capabilities import Capabilities
from draftscope.models.files.pretrained import quiet
from draftscope.models.forward.hybrid import Hybrid, HybridCache
from draftscope.models.model import Model
from draftscope.verify.tree import chain, full

LOG = logging.getLogger(__name__)
ENGINE = Path(__file__).parents[1]
TORCH = Path(torch.__file__).parent

PROMPTS = (5, 3)  # lengths: the second sequence's rows lie at other slots than the first's
SHAPE = (6, 2)
EXACT = 1e-4  # relative error of fp32 logits; a right mask gives about 1e-6
ROUNDING = 0.02  # what 16-bit adds where it happens to leave the rows that lie in order untouched
WRONG = 0.1  # beyond it no rounding is an excuse: 32 layers in bf16 give 0.01 to 0.05, a mask ignored 0.2 to 0.7

# These count slots inside their attention. A probe finds most of that too, but ALiBi's slight slopes could hide in
# 16-bit rounding, and GPT-Neo's local window is longer than any probe.
COUNT_SLOTS = ("bloom", "mpt", "gpt_neo")
# What a model's own code raises for a mask, a cache or an argument that it does not know.
UNKNOWN = (RuntimeError, ValueError, TypeError, AttributeError, LookupError)


def probed(network: Any, name: str, digest: str = "") -> Model:
    """The model of a transformers network, with the capabilities that the network was found to have.

    Raises `DraftscopeError` where even a chain gets other logits than from scratch. A bug of the engine is raised as it
    is: it says nothing of the model.
    """
    model = Model(network, name, digest, capabilities=Capabilities(trees=True))
    found = _found(model)
    if found is None:
        kind = network.config.get_text_config().model_type
        raise DraftscopeError(
            f"'{name}' ({kind}) gives other logits through this engine's cache than from scratch, so its output could "
            "not be trusted; 'python -m draftscope.models.architectures' lists models that can be used."
        )
    return model.with_capabilities(found)


def _found(model: Model) -> Capabilities | None:
    """The most that this model can do; None where it cannot even verify chains."""
    hybrid = isinstance(model.run, Hybrid)
    may_branch = model.network.config.get_text_config().model_type not in COUNT_SLOTS and not hybrid
    tries = [(Capabilities(trees=True), takes_trees)] if may_branch else []
    tries.append((Capabilities(trees=False), takes_chains))
    if hybrid:
        tries.append((Capabilities(trees=False, row_by_row=True), takes_chains))
    for capabilities, holds in tries:
        able = model.with_capabilities(capabilities)
        if holds(able):
            return replace(capabilities, state_bytes=_state_bytes(able))
    return None


def _state_bytes(model: Model) -> int:
    """Bytes of one sequence's states, where some layers keep one: their shapes are known once they have run."""
    if not model.stateful:
        return 0
    cache = model.cache(1, 4)
    model.read(cache, [[0, 1]])
    assert isinstance(cache, StateCache | HybridCache)
    return cache.sequence_bytes


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
    except UNKNOWN as error:
        return _refused_by(model, error)
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
    except UNKNOWN as refusal:
        return _refused_by(model, refusal)
    return error <= (EXACT if model.dtype == torch.float32 else WRONG)  # NaN is not


def _refused_by(model: Model, error: Exception) -> bool:
    """False, "it does not take that", where the model's own code raised the error; the engine's own is raised again."""
    files = [Path(frame.f_code.co_filename) for frame, _ in walk_tb(error.__traceback__)]
    raised_in = [file for file in files if TORCH not in file.parents][-1]
    if isinstance(error, torch.OutOfMemoryError) or ENGINE in raised_in.parents:
        raise error
    LOG.info("'%s' refused a probe and is used without what was probed.", model.name, exc_info=error)
    return False


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
