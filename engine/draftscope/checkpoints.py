"""Loading models: a hub id or a folder in, a `Model` and its tokenizer out, every failure one sentence.

Nothing but safetensors is read and no remote code is run, unless the user says so. What a model needs in memory is said
before it is fetched.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from huggingface_hub.utils import logging as hub_logging
from safetensors import SafetensorError
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
)
from transformers.utils import logging

from draftscope import hub, memory
from draftscope.assets import assets
from draftscope.errors import DraftscopeError
from draftscope.model import Model

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
DEVICE_MAPS = ("auto", "balanced", "balanced_low_0", "sequential")
EMBEDDED_TARGET, EMBEDDED_DRAFT = "llama-draftscope-15m", "llama-draftscope-draft-1m"


@dataclass(frozen=True)
class Loading:
    """How a model is loaded. `device_map` spreads it over all devices and leaves `device` unused."""

    dtype: torch.dtype
    device: torch.device
    device_map: str | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    progress: bool = False  # show transformers' own bars


@dataclass(frozen=True)
class Place:
    """Where a checkpoint was found: values by stored dtype, and whether the network is still needed."""

    stored: Counter[str] = field(default_factory=Counter)
    online: bool = False


def embedded(name: str) -> Path:
    """The folder of an embedded model."""
    return assets() / "models" / name


def pick_device(name: str) -> torch.device:
    """'auto' is CUDA where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DraftscopeError(f"There is no device '{name}'; choose auto, cpu or cuda.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DraftscopeError(f"Device '{name}' was asked for and this machine has no CUDA; choose cpu or auto.")
    return device


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """'auto' is bfloat16 where the device multiplies it natively (there it is the fastest plain), else float32."""
    if name == "auto":
        native = device.type == "cuda" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return torch.bfloat16 if native else torch.float32
    if name not in DTYPES:
        raise DraftscopeError(f"dtype = '{name}': choose auto, {', '.join(DTYPES)}.")
    return DTYPES[name]


def pick_device_map(name: str | None, device: str) -> str | None:
    """A device map that accelerate knows, and no device beside it."""
    if name is None:
        return None
    if name not in DEVICE_MAPS:
        raise DraftscopeError(f"device_map = '{name}': choose {', '.join(DEVICE_MAPS)}.")
    if device != "auto":
        raise DraftscopeError(f"device = '{device}' and device_map = '{name}' exclude each other; give one of them.")
    if find_spec("accelerate") is None:
        raise DraftscopeError(f"device_map = '{name}' needs accelerate; install it with: pip install accelerate.")
    return name


def load_model(source: str | Path, how: Loading, revision: str | None = None) -> Model:
    """A causal language model from a folder or a hub id."""
    place = _look(source, revision, how.allow_pickle)
    shared = _origin(how, revision) | {"local_files_only": not place.online}
    config = _loaded(AutoConfig, source, **shared)
    _refuse_kind(config, source)
    _refuse_memory(config, source, place, how)
    network, found = _loaded(
        AutoModelForCausalLM,
        source,
        progress=how.progress,
        config=config,
        dtype=how.dtype,
        use_safetensors=None if how.allow_pickle else True,
        output_loading_info=True,
        **shared,
        **_placing(config, how),
    )
    if missing := sorted(found["missing_keys"]):
        raise DraftscopeError(
            f"'{source}' lacks {len(missing)} weights, '{missing[0]}' for one, which would be random; choose a "
            "complete checkpoint."
        )
    if getattr(network, "hf_device_map", None) is None:
        network = network.to(how.device)
    elif "disk" in network.hf_device_map.values():
        raise DraftscopeError(f"'{source}' would be spread to the disk, too slow to measure; choose a smaller model.")
    return Model(network, _display_name(source), _digest(source, revision))


def load_tokenizer(source: str | Path, how: Loading, revision: str | None = None) -> Any:
    """The tokenizer beside a model that was loaded just before."""
    known = Path(source).is_dir() or hub.cached(str(source), revision) is not None
    return _loaded(AutoTokenizer, source, **_origin(how, revision), local_files_only=known)


def end_of_text(model: Model, tokenizer: Any) -> frozenset[int]:
    """The EOS *set*: what the generation config says, and the tokenizer's own."""
    ids = getattr(model.network.generation_config, "eos_token_id", None)
    listed = ids if isinstance(ids, list) else [ids]
    return frozenset(token for token in [*listed, tokenizer.eos_token_id] if token is not None)


def refuse_other_vocabulary(target: Any, draft: Any) -> None:
    """Vocabularies are compatible when their token -> id maps agree; sizes of embeddings say nothing.

    A token that only one of them knows, at an id that the other leaves free, is no conflict.
    """
    ours, theirs = target.get_vocab(), draft.get_vocab()
    if ours == theirs:
        return
    taken = {token_id: token for token, token_id in theirs.items()}
    differing = sorted(
        (t for t, i in ours.items() if theirs.get(t, i) != i or taken.get(i, t) != t), key=lambda token: ours[token]
    )
    if differing:
        raise DraftscopeError(
            f"The draft's vocabulary is not the target's: {len(differing):,} tokens differ, '{differing[0]}' for one; "
            "choose a draft that was trained with the target's tokenizer."
        )


# Before loading.


def _look(source: str | Path, revision: str | None, allow_pickle: bool) -> Place:
    """Says plainly what is wrong with a folder or an id before transformers is asked."""
    folder = Path(source)
    if folder.is_dir():
        return _look_in(folder, allow_pickle)
    if folder.is_absolute() or str(source).startswith((".", "~")):
        raise DraftscopeError(f"There is no model folder '{source}'; check the path.")
    found = hub.listing(str(source), revision)
    if found is not None:
        if not allow_pickle and not any(file.endswith(".safetensors") for file in found.files):
            raise DraftscopeError(_pickled(str(source), "its weights"))
        return Place(found.stored, online=True)
    cached = hub.cached(str(source), revision)
    if cached is None:
        raise DraftscopeError(
            f"'{source}' is no folder here and not in the hub's cache, and huggingface.co does not answer; check the "
            "spelling or the network."
        )
    return _look_in(cached, allow_pickle)


def _look_in(folder: Path, allow_pickle: bool) -> Place:
    if not (folder / "config.json").is_file():
        raise DraftscopeError(f"'{folder}' has no config.json; name a folder written by save_pretrained.")
    weights = sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("*.safetensors"))
    if weights:
        try:
            return Place(memory.stored_in(weights))
        except (OSError, ValueError, KeyError):
            raise DraftscopeError(f"The weights in '{folder}' are damaged; fetch or write them again.") from None
    pickles = sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])
    if not pickles:
        raise DraftscopeError(f"'{folder}' holds no *.safetensors weights; fetch or write them again.")
    if not allow_pickle:
        raise DraftscopeError(_pickled(str(folder), f"'{pickles[0].name}'"))
    return Place()


def _pickled(source: str, what: str) -> str:
    return (
        f"'{source}' holds no safetensors: {what} would be read from a pickle that could run code; convert it to "
        "safetensors, or say --allow-pickle if you trust it."
    )


def _refuse_kind(config: Any, source: str | Path) -> None:
    """Only models that write text from left to right."""
    known = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING or hasattr(config, "auto_map")
    encoder = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False)
    if not known or encoder or config.is_encoder_decoder:
        raise DraftscopeError(f"'{source}' is a '{config.model_type}', no decoder-only language model; choose another.")


def _refuse_memory(config: Any, source: str | Path, place: Place, how: Loading) -> None:
    """The memory needed, said before it fails; nothing is said where the stored sizes are not known."""
    quantized = getattr(config, "quantization_config", None) is not None
    weights = memory.weight_bytes(place.stored, how.dtype, quantized)
    cache = memory.CONTEXT * memory.slot_bytes(config.get_text_config(), how.dtype)
    devices = [how.device]
    if how.device_map is not None:
        devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())] + [torch.device("cpu")]
    what = "as they are quantised" if quantized else f"in {str(how.dtype).removeprefix('torch.')}"
    memory.refuse_weights(str(source), weights, cache, devices, what)


def _origin(how: Loading, revision: str | None) -> dict[str, Any]:
    """What every `from_pretrained` of one checkpoint is told; a revision only where one was named."""
    told: dict[str, Any] = {"trust_remote_code": how.trust_remote_code}
    return told if revision is None else told | {"revision": revision}


def _placing(config: Any, how: Loading) -> dict[str, Any]:
    """Where the layers go, and sdpa where the architecture has it: its mask may be boolean and its kernels are fast."""
    quantized = getattr(config, "quantization_config", None) is not None
    straight = find_spec("accelerate") is not None and (quantized or how.device.type == "cuda")
    device_map = how.device_map or ({"": how.device} if straight else None)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return {"device_map": device_map}  # remote code chooses its attention itself
    sdpa = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]._supports_sdpa
    return {"device_map": device_map, "attn_implementation": "sdpa" if sdpa else "eager"}


# Loading.


def _loaded(kind: Any, source: str | Path, progress: bool = False, **options: Any) -> Any:
    """`from_pretrained`, with what it raises turned into one sentence."""
    try:
        with _quiet(progress):
            return kind.from_pretrained(source, **options)
    except torch.OutOfMemoryError:
        raise DraftscopeError(
            f"'{source}' does not fit in the device's memory; choose a smaller or quantised model or --device-map auto."
        ) from None
    except SafetensorError as error:
        raise DraftscopeError(f"The weights in '{source}' are damaged ({error}); fetch or write them again.") from None
    except (ImportError, OSError, ValueError, KeyError, RuntimeError) as error:
        raise DraftscopeError(_what_is_wrong(str(source), error)) from None


def _what_is_wrong(source: str, error: Exception) -> str:
    said = str(error)
    if "gated repo" in said:
        return hub.gated(source)
    if "trust_remote_code" in said:
        return f"'{source}' runs code of its own from the hub; read it, and say --trust-remote-code if you trust it."
    if isinstance(error, ImportError) or "pip install" in said:
        return f"'{source}' needs a package that is not installed ({_first_line(error)}); install it and try again."
    return f"'{source}' cannot be loaded ({_first_line(error)}); check the id or the folder."


def _first_line(error: Exception) -> str:
    return str(error).strip().split("\n")[0][:200].rstrip(".")


@contextmanager
def _quiet(progress: bool) -> Iterator[None]:
    """Neither transformers nor the hub's client says anything of its own, apart from bars where they are wanted."""
    before, hub_before = logging.get_verbosity(), hub_logging.get_verbosity()
    logging.set_verbosity_error()
    hub_logging.set_verbosity(logging.ERROR)
    if not progress:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        hub_logging.set_verbosity(hub_before)
        logging.enable_progress_bar()


# Names.


def _display_name(source: str | Path) -> str:
    path = Path(source)
    return path.name if path.is_dir() else str(source)


def _digest(source: str | Path, revision: str | None = None) -> str:
    """A short SHA-256 over every weight file's size, beginning and end; empty where no weight file is found."""
    digest, edge = hashlib.sha256(), 16 * 2**20
    folder = Path(source) if Path(source).is_dir() else hub.cached(str(source), revision)
    files = sorted(folder.glob("*.safetensors")) if folder is not None else []
    for path in files:
        size = path.stat().st_size
        digest.update(str(size).encode())
        with path.open("rb") as file:
            digest.update(file.read(edge))
            file.seek(max(0, size - edge))
            digest.update(file.read(edge))
    return digest.hexdigest()[:12] if files else ""
