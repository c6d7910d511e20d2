"""`draftscope.load`: from model names to an engine that is ready to decode."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import wraps
from inspect import signature
from pathlib import Path
from typing import ParamSpec, TypeVar
from warnings import warn

import torch

from draftscope import drafters
from draftscope.base.common_settings import refuse_unknown_arguments
from draftscope.base.errors import DraftscopeError, GenerationWarning, quoted
from draftscope.base.load_settings import LoadSettings
from draftscope.base.stages import Stage, tell
from draftscope.base.usable_cores import usable_cores
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.pair import NamedHead
from draftscope.decode.start import device_name
from draftscope.drafters import TextDraftModel
from draftscope.models import beforehand
from draftscope.models.forward.emulated_size import EmulatedShape, pair_of
from draftscope.models.heads import Head, RecurrentHead, SharedWeights, kind_of, load_head
from draftscope.models.loading import embedded, known
from draftscope.models.loading.checkpoints import (
    CheckpointOptions,
    Place,
    find,
    load_model,
    load_tokenizer,
    other_tokens,
    refuse_other_vocabulary,
)
from draftscope.models.loading.devices import (
    ROWS,
    STORED,
    ThreadChoice,
    fastest_threads,
    kept_threads,
    pick_device,
    pick_device_map,
    pick_dtype,
)
from draftscope.models.loading.sources import fetch_known
from draftscope.models.model import Model
from draftscope.models.native.available import programs, stored_kinds

P = ParamSpec("P")
LabT = TypeVar("LabT", bound=DecodingEngine)


@dataclass(frozen=True)
class LoadCall(LoadSettings):
    """What `load` is called with."""

    _: KW_ONLY
    progress: bool = False  # bars while weights are fetched and read


def taking(call: Callable[P, LoadCall]) -> Callable[[Callable[[LoadCall], LabT]], Callable[P, LabT]]:
    """Gives a function of a `LoadCall` the fields of `LoadCall` as its arguments, so that they are declared once."""

    def decorate(function: Callable[[LoadCall], LabT]) -> Callable[P, LabT]:
        arguments = signature(call).replace(return_annotation=signature(function).return_annotation)

        @wraps(function)
        def called(*args: P.args, **kwargs: P.kwargs) -> LabT:
            return function(refuse_unknown_arguments(call)(*args, **kwargs))

        called.__signature__ = arguments  # type: ignore[attr-defined]
        return called

    return decorate


@taking(LoadCall)
def load(settings: LoadCall) -> DecodingEngine:
    """As `draftscope.load`, without what measures."""
    return loaded(settings, DecodingEngine)


def loaded(settings: LoadCall, kind: type[LabT]) -> LabT:
    """What `load` loads, as a `kind`."""
    before = torch.get_num_threads()
    try:
        if settings.threads is not None:
            _set_threads(settings.threads)
        beforehand.begin(settings)
        engine = _models(settings, kind, before)
        _make_ready(engine, settings)
        if programs.cache_info().currsize:
            beforehand.compiled()
    except BaseException:
        torch.set_num_threads(before)
        raise
    return engine


def _set_threads(threads: int) -> None:
    most = os.cpu_count() or 1
    if not isinstance(threads, int) or isinstance(threads, bool) or not 1 <= threads <= most:
        raise DraftscopeError(f"threads = {threads!r}: this machine has {most} cores; choose 1 to {most}.")
    torch.set_num_threads(threads)


def _models(settings: LoadCall, kind: type[LabT], threads_before: int) -> LabT:
    """The models on their devices, with their emulated sizes and graphs, not yet warmed up."""
    _refuse_no_names(settings)
    emulated = pair_of(settings.emulate) if settings.emulate is not None else None
    fetch_known(settings.target, settings.revision, settings.progress)
    beforehand.finish()
    options = _checkpoint_options(settings)
    tell(Stage.READ)
    target, draft = settings.target, settings.draft or known.draft_for(settings)
    heads = [*known.heads_for(settings), *settings.heads]
    if target is None or embedded.is_pair(target):
        target, draft = embedded.home("target"), draft or embedded.home("draft")
        heads = [*embedded.heads_for(target), *heads]  # of two heads of a kind, the later one counts
    place, drafts = _places(target, draft, options, settings)
    tokenizer, theirs = load_tokenizer(place), [load_tokenizer(draft) for draft in drafts]
    foreign = len(theirs) == 1 and bool(other_tokens(tokenizer, theirs[0]))
    for other in [] if foreign else theirs:
        refuse_other_vocabulary(tokenizer, other)
    big = load_model(place, options)
    small = [load_model(draft, replace(options, device=big.device, device_map=None)) for draft in drafts]
    own_heads = dict(_head(spec, big) for spec in heads)
    _equip(big, small, own_heads, emulated, settings.graphs)
    direct, text_draft = ([], TextDraftModel(small[0], theirs[0])) if foreign else (small, None)
    first = direct[0] if direct else None
    pair = kind(big, first, tokenizer, own_heads, tuple(direct[1:]), foreign=text_draft, threads_before=threads_before)
    pair.usual = known.usual_drafter(settings)
    return pair


def _refuse_no_names(settings: LoadCall) -> None:
    for name, value in (("target", settings.target), ("draft", settings.draft)):
        if not isinstance(value, str | Path | None) or value == "":
            raise DraftscopeError(
                f"{name} = {quoted(repr(value))}: give a hub id, a folder, a GGUF file or a known name."
            )
    if isinstance(settings.heads, str) or not isinstance(settings.heads, Sequence):
        raise DraftscopeError(f"heads = {quoted(repr(settings.heads))}: give a list, such as ['eagle3:FOLDER'].")


def _checkpoint_options(settings: LoadCall) -> CheckpointOptions:
    device_map = pick_device_map(settings.device_map, settings.device)
    device = pick_device(settings.device)
    return CheckpointOptions(
        dtype=pick_dtype(settings.dtype, device),
        device=device,
        stored=device_map is None and _stays_stored(settings.dtype, device),
        device_map=device_map,
        trust_remote_code=settings.trust_remote_code,
        allow_pickle=settings.allow_pickle,
        progress=settings.progress,
    )


def _stays_stored(dtype: str, device: torch.device) -> bool:
    """Whether weights of a quantised file stay as they lie in it: that is fastest on the processors where it was
    measured, those with x86's instructions. On others only if it is asked for."""
    measured = platform.machine() in ("x86_64", "AMD64")
    wanted = dtype == STORED or (dtype == "auto" and measured)
    return wanted and device.type == "cpu" and bool(stored_kinds())


def _places(
    target: str | Path, draft: str | Path | None, options: CheckpointOptions, settings: LoadSettings
) -> tuple[Place, list[Place]]:
    """Where the target and the drafts are. Raises every error that shows before weights are read."""
    drafts = _named(draft)
    if not drafts and settings.draft_revision is not None:
        raise DraftscopeError(
            f"draft_revision = '{settings.draft_revision}', but no draft is named; name one or leave it out."
        )
    place = find(embedded.resolved(target), options, settings.revision)
    return place, [find(name, options, None if i else settings.draft_revision) for i, name in enumerate(drafts)]


def _named(draft: str | Path | None) -> list[str | Path]:
    """The named draft models, which commas separate; a folder whose own name has a comma is one."""
    if draft is None or Path(draft).exists():
        return [] if draft is None else [embedded.resolved(draft)]
    return [embedded.resolved(name.strip()) for name in str(draft).split(",")]


def _head(spec: str, target: Model) -> tuple[str, NamedHead]:
    """'kind:source', or 'drafter:source' -> the kind that drafters ask for, and the head."""
    kind, _, source = spec.partition(":")
    if not source:
        raise DraftscopeError(f"head = '{spec}': write KIND:MODEL, for example eagle3:folder-or-hub-id.")
    info = drafters.known().get(kind)
    wanted = info.needs_head if info is not None and info.needs_head else kind
    network = load_head(wanted, source, SharedWeights.of(target.network))
    if isinstance(network, RecurrentHead):
        network.compile_step()
    return kind_of(network), NamedHead(network, Path(source).name)


def _equip(
    target: Model,
    drafts: list[Model],
    heads: dict[str, NamedHead],
    emulated: tuple[EmulatedShape, EmulatedShape] | None,
    graphs: bool,
) -> None:
    """Emulates the sizes, then records graphs, of the forward with what is added to it."""
    if emulated is not None:
        target.emulate(emulated[0])
        for model in drafts:
            model.emulate(emulated[1])
    if graphs and target.device.type == "cuda":
        recording: list[Model | Head] = [target, *drafts, *(head.network for head in heads.values())]
        for network in recording:
            network.record_graphs()


def _make_ready(engine: DecodingEngine, settings: LoadSettings) -> None:
    """Measures the best number of threads on a CPU, and runs every drafter once."""
    tell(Stage.MEASURE)
    if settings.threads is None and engine.target.device.type == "cpu":
        engine.threads = choose_threads(engine.target, max(1, usable_cores() - settings.spare_cores))
    reasons = [model.not_native for model in engine.models]
    if settings.dtype in ("auto", STORED):
        reasons += [model.not_stored for model in engine.models]
    engine.compiled = sorted(set(reasons) - {""})
    _warm_up(engine)
    if engine.not_applied:
        warn(
            f"'{engine.target.name}' has {', '.join(engine.not_applied)} in its generation_config, which transformers' "
            "generate applies and no run here does, so that their texts differ.",
            GenerationWarning,
            stacklevel=2,
        )


def choose_threads(target: Model, most: int) -> ThreadChoice:
    """Sets torch to the number of threads, at most `most`, with which the target's verify forward is fastest; the same
    at every load."""
    cache = target.cache(1, 2 * ROWS)
    tokens = torch.ones((1, ROWS), dtype=torch.long)
    offsets, nothing = torch.arange(ROWS)[None], torch.zeros(1, dtype=torch.long)

    def forward() -> None:
        cache.truncate(nothing, 0)
        target.forward(cache, tokens, offsets)

    if most == 1:
        return ThreadChoice(fastest_threads(forward, most))
    key = f"{target.digest}, {target.dtype}, {target.forward_mode.value}, {device_name(target.device)}, of {most}"
    return kept_threads(key, forward, most)


def _warm_up(engine: DecodingEngine) -> None:
    """A few rounds of plain decoding and of the draft, so that no measured run pays for the libraries' set-up."""
    for name in ("plain", "draft") if engine.draft is not None else ("plain",):
        engine.decode("a b", drafter=name, temperature=1.0, max_new_tokens=8, raw=True, record=False)
