"""Which models a server opens on, and what it says of those that it has loaded."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.base.progress import Progress
from draftscope.models.loading.known import known
from draftscope_app.engine.jobs import DrafterChoice, EngineStatus
from draftscope_app.engine.plural import count

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine
    from draftscope.models.model import Model

OPENS_ON = "smollm2"  # a name in the table of known models


def opens(load: LoadSettings) -> LoadSettings:
    """The models that were named, or those that a server opens on if none was."""
    unnamed = load.target is None and load.draft is None and not load.heads
    return replace(load, target=OPENS_ON) if unnamed else load


def is_chat(load: LoadSettings) -> bool:
    """Whether a server with these settings opens on a known model, all of which answer in a chat template."""
    return known(opens(load).target) is not None


def opened(load: LoadSettings) -> tuple[DecodingEngine, str]:
    """The models that were named, or those that a server opens on; and a sentence if these could not be had.

    Raises DraftscopeError if the models that were named cannot be loaded.
    """
    import draftscope

    wanted = opens(load)
    try:
        return draftscope.load(**asdict(wanted)), ""
    except DraftscopeError as error:
        print(f"draftscope: {error}", file=sys.stderr)
        if wanted == load:
            raise
        return draftscope.load(**asdict(load)), _instead(error)


def source(load: LoadSettings, instead: str) -> str:
    """What the command line of another program names the target by, once these models are loaded. `instead`: why the
    embedded pair is loaded in their place."""
    from draftscope.base.assets import model_folder
    from draftscope.models.loading.embedded import find, is_pair

    target = load.target if instead else opens(load).target
    if target is None or is_pair(target):
        return str(model_folder(find("target").folder))
    model = known(target)
    return model.repository if model is not None else str(target)


def _instead(error: DraftscopeError) -> str:
    from draftscope.models.loading.sources import is_here

    if is_here(OPENS_ON):
        return f"{_title(OPENS_ON)} cannot be loaded, so the embedded pair is used: {error}"
    return (
        f"{_title(OPENS_ON)} is not on this machine and cannot be downloaded now, so the embedded pair is loaded; "
        "connect to a network and start again."
    )


def loading(load: LoadSettings, at: Progress | None = None) -> str:
    """What is said while these models are loaded, and how far that is."""
    words = at.words if at is not None else ""
    return f"{_loads(load)} {words[0].upper()}{words[1:]}." if words else _loads(load)


def _loads(load: LoadSettings) -> str:
    from draftscope.models.loading.embedded import is_pair
    from draftscope.models.loading.sources import is_here

    target = opens(load).target
    if target is None or is_pair(target):
        return "The engine loads the embedded pair."
    if is_here(target):
        return f"The engine loads {_title(Path(target).name)}."
    return f"The engine downloads {_title(str(target))}, which is not on this machine yet, and loads it."


def _title(name: str) -> str:
    pair = known(name)
    return pair.title if pair is not None else name


def ready(engine: DecodingEngine, seconds: float, place: str = "", instead: str = "") -> EngineStatus:
    """Its models were loaded in so many seconds. `place` takes the place of the device's name; `instead` says why these
    models are loaded and no others."""
    sentence = f"{instead} {introduced(engine, seconds, place)}".lstrip()
    if engine.left_out:
        sentence = " ".join((f"{sentence}.", *engine.left_out))
    return EngineStatus("ready", sentence, tuple(_choices(engine)), chat=chats(engine))


def _choices(engine: DecodingEngine) -> Iterator[DrafterChoice]:
    from draftscope.decode.availability import default_drafter

    usual = default_drafter(engine)
    for d in engine.drafters():
        yield DrafterChoice(
            d.name, d.title, d.exact, d.available, d.why_not, d.uses, usual=d.name == usual, is_detour=d.is_detour
        )


def introduced(engine: DecodingEngine, seconds: float, place: str = "") -> str:
    """One sentence for the page's header."""
    sizes = " + ".join(_sized(model) for model in engine.models)
    if engine.foreign is not None:
        sizes += f" + {_sized(engine.foreign.model)}, drafting through text"
    more = f"; not applied: {', '.join(engine.not_applied)} of its generation_config" if engine.not_applied else ""
    return f"{sizes}, loaded in {seconds:.1f} s on {place or _place(engine)}{more}"


def chats(engine: DecodingEngine) -> bool:
    """Whether the target reads its prompt in a chat template."""
    return bool(getattr(engine.tokenizer, "chat_template", None))


def _sized(model: Model) -> str:
    weights = f", {model.weights}" if model.weights else ""
    return f"{model.name} ({model.layers} × {model.hidden}{weights})"


def _place(engine: DecodingEngine) -> str:
    import torch

    device = engine.target.device
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"a CPU, {count(torch.get_num_threads(), 'thread')}"
