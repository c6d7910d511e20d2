"""Finds out what a model supports by running it: compares logits through the engine's cache with logits from scratch.

Rounding alone makes a difference too, in some models a large one, so where 16 bits leave a doubt the masks are judged
in fp32, and the rest is compared with the rounding that this model was measured to have.

A model that ignores the mask, counts positions by slot (ALiBi) or keeps a recurrent state gives other logits, so no
list of architectures is needed. Of a compiled forward, which computes all layers of a kind alike, only the first layers
run: a probe of all of them would be most of the time in which a large model is loaded. What a short probe cannot
detect, sliding windows longer than the probe, is read from the configuration (`masks.reaches`) and tested for each
architecture.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import isfinite
from pathlib import Path
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.models.cache.state import StateCache
from draftscope.models.counter import Capabilities
from draftscope.models.files.pretrained import quiet
from draftscope.models.forward.layers_with_state import Hybrid, HybridCache
from draftscope.models.forward.native import NativeDecoder
from draftscope.models.model import Model
from draftscope.models.precise import can_widen, in_fp32
from draftscope.verify.tree import chain, full

LOG = logging.getLogger(__name__)
ENGINE = Path(__file__).parents[1]
TORCH = Path(torch.__file__).parent

CUT = 2  # layers of a compiled forward that are run at least: the second reads what the first one wrote
PROMPTS = (5, 3)  # lengths, different so that the rows of the two sequences are at different slots
SHAPE = (6, 2)
EXACT = 1e-4  # relative error of fp32 logits; a correct mask gives about 1e-6
ROUNDING = 0.02  # rounding error of 16-bit logits that is always tolerated
DOUBTFUL = 0.1  # larger errors may be no rounding: 32 layers in bf16 give 0.01 to 0.05, an ignored mask 0.2 to 0.7
TIMES = 4  # how much larger than a measured rounding error another one may be

# These count slots inside their attention. A probe detects most of that too, but ALiBi's small slopes could hide in
# 16-bit rounding, and GPT-Neo's local window is longer than any probe.
COUNT_SLOTS = ("bloom", "mpt", "gpt_neo")
# What a model's own code may raise for an unsupported mask, cache or argument.
UNSUPPORTED = (RuntimeError, ValueError, TypeError, AttributeError, LookupError)


def probed(network: Any, name: str, digest: str = "", weights: str = "") -> Model:
    """The model of a transformers network, with the capabilities that the network was found to have.

    Raises `DraftscopeError` if even a chain gets other logits than from scratch. Exceptions of the engine's own code
    are not caught: they say nothing about the model.
    """
    model = Model(network, name, digest, weights, capabilities=Capabilities(trees=True))
    capabilities = _capabilities_of(_cut(model))
    if capabilities is None:
        kind = network.config.get_text_config().model_type
        raise DraftscopeError(
            f"'{name}' ({kind}) gives other logits through this engine's cache than from scratch, so its output could "
            "not be trusted; engine/draftscope/models/README.md lists the architectures that are supported."
        )
    return model.with_capabilities(capabilities)


def _cut(model: Model) -> Model:
    """The first layers of a compiled forward, among them every kind that it has; of other models all layers."""
    if not isinstance(model.run, NativeDecoder):
        return model
    kinds = model.run.decoder.kinds
    count = max(CUT, *(kinds.index(kind) + 1 for kind in set(kinds)))
    return model.first_layers(count) if count < model.layers else model


def _capabilities_of(model: Model) -> Capabilities | None:
    """The most that this model supports; None if it cannot even verify chains."""
    hybrid = isinstance(model.run, Hybrid)
    may_branch = model.network.config.get_text_config().model_type not in COUNT_SLOTS and not hybrid
    candidates = [(Capabilities(trees=True), takes_trees)] if may_branch else []
    candidates.append((Capabilities(trees=False), takes_chains))
    if hybrid:
        candidates.append((Capabilities(trees=False, row_by_row=True), takes_chains))
    for capabilities, test in candidates:
        candidate = model.with_capabilities(capabilities)
        if test(candidate):
            return replace(capabilities, state_bytes=_state_bytes(candidate))
    return None


def _state_bytes(model: Model) -> int:
    """Bytes of one sequence's states, if layers keep any; their shapes are known only after a forward."""
    if not model.stateful:
        return 0
    cache = model.cache(1, 4)
    model.read(cache, [[0, 1]])
    assert isinstance(cache, StateCache | HybridCache)
    return cache.sequence_bytes


@dataclass(frozen=True)
class Comparison:
    """The `error` of logits through the cache, NaN if some of them are; how much of it may be `rounding`; and logits
    `separate` [..., V] from scratch, of one sequence or several."""

    error: float
    rounding: float
    separate: list[Tensor]


def takes_trees(model: Model) -> bool:
    """Whether two sequences of different lengths with a branching tree each get the logits of every path read alone."""
    return _agrees(model, _in_tree)


def takes_chains(model: Model) -> bool:
    """Whether one sequence, a prompt and two chains, gets the logits of every prefix read alone."""
    return _agrees(model, _in_chains)


def _agrees(model: Model, compare: Callable[[Model], Comparison]) -> bool:
    """Whether the errors are rounding. Where they may be something else, the masks are judged in fp32."""
    try:
        rounded = compare(model)
        if rounded.error <= min(DOUBTFUL, TIMES * rounded.rounding + _floor(model)):
            return True
        if not isfinite(rounded.error) or not can_widen(model):
            return False
        with quiet(), in_fp32(model) as wide:
            exact = compare(wide)
    except UNSUPPORTED as error:
        return _refused_by(model, error)
    if not exact.error <= TIMES * exact.rounding + EXACT:
        return False
    rounding = max(_error(*pair) for pair in zip(rounded.separate, exact.separate, strict=True))
    return rounded.error <= TIMES * rounding + ROUNDING


def _in_tree(model: Model) -> Comparison:
    form = full(SHAPE, len(PROMPTS), model.device)
    prompts = [_tokens(model, length, b).tolist() for b, length in enumerate(PROMPTS)]
    rows = torch.stack([_tokens(model, form.nodes + 1, 7 + b) for b in range(len(PROMPTS))])
    leaves = range(form.nodes - SHAPE[0] * SHAPE[1] + 1, form.nodes + 1)
    cache = model.cache(len(PROMPTS), max(PROMPTS) + form.nodes + 1)
    model.read(cache, prompts)
    logits = model.forward(cache, rows, form.depth, form.ancestors)
    separate, rounding, errors = [], [], []
    for b, prompt in enumerate(prompts):
        paths = [form.ancestors[b, leaf].nonzero()[:, 0] for leaf in leaves]
        texts = torch.stack([torch.cat([rows.new_tensor(prompt), rows[b, path]]) for path in paths])
        separate.append(_from_scratch(model, texts)[:, len(prompt) :])
        in_tree = torch.stack([logits[b, path] for path in paths])  # [paths, root and 2 levels, V]
        # In the longer sequence, root and first child are at consecutive slots, so their error is only rounding.
        rounding.append(_error(in_tree[0, :2], separate[b][0, :2]))
        errors.append(_error(in_tree[1:, 1:], separate[b][1:, 1:]))
    return Comparison(float(torch.tensor(errors).max()), rounding[0], separate)


def _in_chains(model: Model) -> Comparison:
    """Uses the model's own masks. Two rows of the first chain are kept and the others dropped, as after a rejection."""
    form, start = chain(3, 1, model.device), PROMPTS[0]
    text = _tokens(model, start + form.nodes + 3, 0)
    rejected = _tokens(model, form.nodes - 1, 5)
    cache = model.cache(1, 2 * len(text))
    model.read(cache, [text[:start].tolist()])
    first = model.forward(cache, torch.cat([text[start : start + 2], rejected])[None], form.depth)[0, :2]
    cache.keep_first(torch.tensor([2], device=model.device), start + 2)
    logits = torch.cat([first, model.forward(cache, text[None, start + 2 :], form.depth)[0]])
    ends = range(start + 1, len(text) + 1)
    separate = torch.cat([_from_scratch(model, text[None, :end])[0, -1:] for end in ends])
    return Comparison(_error(logits, separate), 0.0 if model.dtype == torch.float32 else DOUBTFUL, [separate])


def _refused_by(model: Model, error: Exception) -> bool:
    """False (not supported) if the model's own code raised the error; raises it again if the engine's code did."""
    files = [Path(frame.f_code.co_filename) for frame, _ in walk_tb(error.__traceback__)]
    raised_in = [file for file in files if TORCH not in file.parents][-1]
    if isinstance(error, torch.OutOfMemoryError) or ENGINE in raised_in.parents:
        raise error
    LOG.info("'%s' refused a probe; the probed capability is not used.", model.name, exc_info=error)
    return False


@torch.inference_mode()
def _from_scratch(model: Model, texts: Tensor) -> Tensor:
    """Logits [B, T, V] by the model's plain forward, without our cache, mask and positions."""
    with quiet():  # transformers warns about missing kernels, which are not needed here
        return model.network(input_ids=texts, use_cache=False).logits  # type: ignore[no-any-return]


def _error(logits: Tensor, expected: Tensor) -> float:
    """Median over rows of the error of the logits [..., V], relative to their spread.

    The median, because rounding may route a token to other experts: a single row that differs is not a wrong mask.
    """
    logits, expected = logits.double(), expected.double()
    spread = (expected - expected.mean(-1, keepdim=True)).norm(dim=-1)
    return float(((logits - expected).norm(dim=-1) / spread).flatten().quantile(0.5))


def _floor(model: Model) -> float:
    return EXACT if model.dtype == torch.float32 else ROUNDING


def _tokens(model: Model, count: int, start: int) -> Tensor:
    """[count] scattered token ids within the vocabulary."""
    spread = (torch.arange(count) * 7919 + 104729 * (start + 1)) % model.vocabulary
    return spread.to(model.device)
