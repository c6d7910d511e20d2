"""What an engine reports once its models are loaded: their names, the device, and the drafters available."""

from __future__ import annotations

from typing import TYPE_CHECKING

from draftscope_app.engine.messages import DrafterChoice
from draftscope_app.engine.plural import count

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine
    from draftscope.models.model import Model


def introduced(engine: DecodingEngine, seconds: float, place: str = "", instead: str = "") -> str:
    """One sentence for the page's header. `place` takes the place of the device's name; `instead` says why these models
    are loaded and no others."""
    sizes = " + ".join(_sized(model) for model in engine.models)
    if engine.foreign is not None:
        sizes += f" + {_sized(engine.foreign.model)}, drafting through text"
    found = f"{sizes}, loaded in {seconds:.1f} s on {place or _place(engine)}"
    return f"{instead} {found}" if instead else found


def _sized(model: Model) -> str:
    weights = f", {model.weights}" if model.weights else ""
    return f"{model.name} ({model.layers} × {model.hidden}{weights})"


def _place(engine: DecodingEngine) -> str:
    import torch

    device = engine.target.device
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    return f"a CPU, {count(torch.get_num_threads(), 'thread')}"


def chats(engine: DecodingEngine) -> bool:
    """Whether the target reads its prompt in a chat template."""
    return bool(getattr(engine.tokenizer, "chat_template", None))


def choices(engine: DecodingEngine) -> tuple[DrafterChoice, ...]:
    """Every drafter as the page offers it."""
    return tuple(
        DrafterChoice(d.name, d.title, d.exact, d.available, d.why_not, tuple(d.uses)) for d in engine.drafters()
    )
