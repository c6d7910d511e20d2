"""The first event of a run: which code, machine and models run it, and with which settings."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Literal

import torch
import transformers

from draftscope.base.machine import own_version, revision
from draftscope.decode.lane import Lane
from draftscope.decode.pair import LoadedPair, NamedHead
from draftscope.decode.prompt import EncodedPrompt
from draftscope.drafters import DrafterInfo
from draftscope.drafters.checked import is_unchecked
from draftscope.models.model import ForwardMode, Model
from draftscope.trace import events


def run_start(pair: LoadedPair, lane: Lane, prompt: EncodedPrompt, run: str, name: str) -> events.RunStart:
    """The start of a lane, called `name`, of run `run`."""
    info = lane.info
    return events.RunStart(
        run=run,
        lane=name,
        draftscope=own_version(),
        torch=torch.__version__,
        transformers=transformers.__version__,
        device=device_name(pair.target.device),
        dtype=str(pair.target.dtype).removeprefix("torch."),
        threads=torch.get_num_threads(),
        revision=revision(),
        models=models_of(pair, info),
        drafter=info.name,
        title=info.title,
        exact=lane.exact,
        unchecked=is_unchecked(info, pair.target.digest) or None,
        sized_by=next((name for name in ("shape", "tree_nodes", "gamma") if name in info.uses), ""),
        synthetic=info.synthetic,
        rule=lane.rule.name,
        seed=lane.settings.seed,
        settings=recorded(lane),
        not_applied=", ".join(pair.not_applied) or None,
        prompt=prompt.prompt,
        rendered=prompt.rendered,
        prompt_tokens=len(prompt.tokens),
        prompt_last_raw=pair.pieces.shown(prompt.tokens[-1]),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def recorded(lane: Lane) -> dict[str, Any]:
    """The settings of a run, flat: general ones, the options that were given, and all that the drafter reads."""
    return lane.settings.model_dump(mode="json") | lane.options.model_dump(mode="json")


def device_name(device: torch.device) -> str:
    """The name of a CUDA card, or 'CPU'."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"


def models_of(pair: LoadedPair, info: DrafterInfo) -> list[events.ModelInfo]:
    """The models that take part in a run of that drafter."""
    used = [_model_info("target", pair.target)]
    if info.needs_draft and pair.draft is not None:
        used.append(_model_info("draft", pair.draft))
    if info.needs_text_draft and pair.text_draft is not None:
        used.append(_model_info("draft", pair.text_draft.model))
    if "inner" in info.uses:
        used += [_model_info("draft", model) for model in pair.smaller]
    return used + ([_head_info(pair.heads[info.needs_head])] if info.needs_head else [])


def _model_info(role: Literal["target", "draft"], model: Model) -> events.ModelInfo:
    return events.ModelInfo(
        role=role,
        name=model.name,
        parameters=model.parameters,
        layers=model.layers,
        hidden=model.hidden,
        hash=model.digest,
        weights=model.weights,
        emulates=model.emulated.shape.name if model.emulated else "",
        graphs=model.graph_state,
        compiled=model.forward_mode in (ForwardMode.NATIVE, ForwardMode.PACKED),
    )


def _head_info(head: NamedHead) -> events.ModelInfo:
    """A head's own weights: those that it shares with the target count there."""
    weights = list(head.network.parameters())
    return events.ModelInfo(
        role="head",
        name=head.name,
        parameters=sum(weight.numel() for weight in weights),
        layers=head.network.depth,
        hidden=head.network.shared.hidden,
        graphs=head.network.graphs.state if head.network.graphs is not None else "",
    )
