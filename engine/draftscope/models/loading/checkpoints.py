"""Loads models and tokenizers from a hub id, a folder or a GGUF file, with one-sentence errors.

Only safetensors are read and no remote code is run, unless the user allows it. A model that does not fit in memory is
refused before it is downloaded.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
)

from draftscope.base.errors import DraftscopeError
from draftscope.models.cache.masks import reaches
from draftscope.models.files import contents, hub, memory
from draftscope.models.files.gguf_file import as_stored
from draftscope.models.files.gguf_parts import parts_of
from draftscope.models.files.pretrained import loaded
from draftscope.models.files.tokenizer_file import refuse_tokenizer, without_panic
from draftscope.models.forward.decoder import covers
from draftscope.models.loading import embedded
from draftscope.models.loading.converted import Readable
from draftscope.models.loading.sources import source_of
from draftscope.models.loading.stored_network import stored_network
from draftscope.models.model import Model
from draftscope.models.native.available import stored_kinds
from draftscope.models.probe import probed

CONFIG = "config.json"


@dataclass(frozen=True)
class CheckpointOptions:
    """How a model is loaded. With a `device_map` it is spread over all devices and `device` is not used."""

    dtype: torch.dtype
    device: torch.device
    stored: bool = False  # weights of a quantised file stay as they lie in it
    device_map: str | None = None
    trust_remote_code: bool = False
    allow_pickle: bool = False
    progress: bool = False  # show transformers' own bars


@dataclass(frozen=True)
class Place:
    """A checkpoint that was found: its number of values by stored dtype, and arguments for `from_pretrained`.

    `origin` holds the revision if one was named, whether remote code may run, and whether the network is needed.
    `name` is shown on screens; `weights` says in words which weights they are if there are several kinds.
    """

    source: str
    name: str
    weights: str
    config: Any
    stored: Counter[str]
    origin: dict[str, Any]
    file: Readable | None = None  # if the weights are to stay as they lie in it


def load_model(place: Place, options: CheckpointOptions) -> Model:
    """Loads the causal language model of a checkpoint that was found."""
    source = place.source
    if place.file is not None:
        return _stored_model(place, place.file, options)
    _refuse_memory(place, options)
    network, info = loaded(
        AutoModelForCausalLM,
        source,
        progress=options.progress,
        config=place.config,
        dtype=options.dtype,
        use_safetensors=None if options.allow_pickle else True,
        output_loading_info=True,
        **place.origin,
        **_placing(place.config, options),
    )
    if missing := sorted(info["missing_keys"]):
        raise DraftscopeError(
            f"'{source}' lacks {len(missing)} weights, for example '{missing[0]}', which would be random; choose a "
            "complete checkpoint."
        )
    if getattr(network, "hf_device_map", None) is None:
        network = network.to(options.device)
    elif "disk" in network.hf_device_map.values():
        raise DraftscopeError(
            f"'{source}' would partly be offloaded to disk, which is too slow; choose a smaller model."
        )
    return probed(network, place.name, _digest(place), place.weights)


def _stored_model(place: Place, file: Readable, options: CheckpointOptions) -> Model:
    """With weights as they lie in the file; widened if this architecture's forward is not compiled."""
    path = Path(place.source)
    files = parts_of(path)
    size = sum(part.stat().st_size for part in files)
    cache = memory.CONTEXT * memory.slot_bytes(place.config.get_text_config(), options.dtype)
    memory.refuse_weights(place.source, size, cache, [options.device], "quantised, as stored")
    network = stored_network(file)
    if not covers(network):
        return load_model(find(path, replace(options, stored=False)), options)
    others = [kind for kind in file.file.quantized if kind not in stored_kinds()]
    return probed(network, place.name, embedded.digest_of(files), as_stored(place.weights, others))


def load_tokenizer(place: Place) -> Any:
    """Loads the tokenizer of a checkpoint that was found, once it has been tried where it can do no harm."""
    if place.file is not None:
        return place.file.tokenizer
    if not place.origin["trust_remote_code"]:
        refuse_tokenizer(place.source, place.origin.get("revision"), not place.origin["local_files_only"])
    with without_panic(place.source):
        return loaded(AutoTokenizer, place.source, **place.origin)


def end_of_text(model: Model, tokenizer: Any) -> frozenset[int]:
    """The *set* of EOS ids: those of the generation config and the tokenizer's own."""
    ids = getattr(model.network.generation_config, "eos_token_id", None)
    listed = ids if isinstance(ids, list) else [ids]
    return frozenset(token for token in [*listed, tokenizer.eos_token_id] if token is not None)


def other_tokens(target: Any, draft: Any) -> list[str]:
    """The target's tokens that have another id in the draft's tokenizer; empty if the vocabularies agree.

    Only the maps from token to id are compared, since embeddings may be padded. A token that only one of them has, at
    an id that the other does not use, is not a conflict.
    """
    of_target, of_draft = target.get_vocab(), draft.get_vocab()
    draft_tokens = {token_id: token for token, token_id in of_draft.items()}
    return sorted(
        (t for t, i in of_target.items() if of_draft.get(t, i) != i or draft_tokens.get(i, t) != t),
        key=lambda token: of_target[token],
    )


def refuse_other_vocabulary(target: Any, draft: Any) -> None:
    """Raises `DraftscopeError` if the draft's token ids differ from the target's."""
    if differing := other_tokens(target, draft):
        raise DraftscopeError(
            f"The draft's vocabulary is not the target's: {len(differing):,} tokens differ, for example "
            f"'{differing[0]}'; choose a draft that was trained with the target's tokenizer."
        )


# Checks before loading.


def find(source: str | Path, options: CheckpointOptions, revision: str | None = None) -> Place:
    """Finds a checkpoint and checks it, downloading only its configuration. Raises DraftscopeError.

    Models of the table `known` are downloaded whole if the hub does not have them, and GGUF files are converted.
    """
    checkpoint = source_of(source, revision, options.progress, options.stored)
    name = checkpoint.location
    if (file := checkpoint.file) is not None:
        here = {"trust_remote_code": False, "local_files_only": True}
        return Place(name, checkpoint.name, checkpoint.weights, file.config, file.file.stored, here, file)
    stored, online = _look(name, revision, options.allow_pickle)
    origin: dict[str, Any] = {"trust_remote_code": options.trust_remote_code, "local_files_only": not online}
    if revision is not None:
        origin["revision"] = revision
    path = Path(name) / CONFIG if Path(name).is_dir() else hub.file(name, CONFIG, revision, online)
    if path is not None and path.is_file():
        contents.refuse_layers(path)
    config = loaded(AutoConfig, name, **origin)
    _refuse_kind(config, name)
    return Place(name, checkpoint.name, checkpoint.weights, config, stored, origin)


def _look(source: str, revision: str | None, allow_pickle: bool) -> tuple[Counter[str], bool]:
    """The number of values by stored dtype, and whether files must be downloaded from the hub."""
    folder = Path(source)
    if folder.is_dir():
        if revision is not None:
            raise DraftscopeError(f"revision = '{revision}': '{source}' is a folder without revisions; leave it out.")
        contents.refuse_folder(folder, allow_pickle)
        return _stored_in(folder, allow_pickle), False
    if folder.is_absolute() or source.startswith((".", "~")):
        raise DraftscopeError(f"There is no model folder '{source}'; check the path.")
    listing = hub.listing(source, revision)
    if listing is not None:
        if not allow_pickle and not any(file.endswith(".safetensors") for file in listing.files):
            raise DraftscopeError(_pickled(source, "its weights"))
        for index in hub.indices(source, revision, listing.files):
            contents.refuse_index(index, allow_pickle)
        return listing.stored, True
    cached = hub.cached(source, revision)
    if cached is None:
        raise DraftscopeError(
            f"'{source}' is not a folder and not in the hub's cache, and huggingface.co does not answer; check the "
            "spelling or the network."
        )
    contents.refuse_folder(cached, allow_pickle)
    return _stored_in(cached, allow_pickle), False


def _stored_in(folder: Path, allow_pickle: bool) -> Counter[str]:
    """The number of values by stored dtype in a folder; empty for pickles, if they are allowed."""
    if not (folder / CONFIG).is_file():
        raise DraftscopeError(f"'{folder}' has no config.json; name a folder written by save_pretrained.")
    weights = sorted(folder.glob("model*.safetensors")) or sorted(folder.glob("*.safetensors"))
    if weights:
        try:
            return memory.stored_in(weights)
        except (OSError, SafetensorError) as error:
            reason = " ".join(str(error).split())[:160].rstrip(".")
            raise DraftscopeError(
                f"The weights in '{folder}' are damaged ({reason}); download or write them again."
            ) from None
    pickles = sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])
    if not pickles:
        raise DraftscopeError(f"'{folder}' has no *.safetensors weights; download or write them again.")
    if not allow_pickle:
        raise DraftscopeError(_pickled(str(folder), f"'{pickles[0].name}'"))
    return Counter()


def _pickled(source: str, what: str) -> str:
    return (
        f"'{source}' has no safetensors: {what} would be read from a pickle, which can run code; convert it to "
        "safetensors, or use --allow-pickle if you trust it."
    )


def _refuse_kind(config: Any, source: str) -> None:
    """Refuses models that are not decoder-only language models."""
    known = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING or hasattr(config, "auto_map")
    encoder = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False)
    if not known or encoder or config.is_encoder_decoder:
        raise DraftscopeError(
            f"'{source}' is a '{config.model_type}', not a decoder-only language model; choose another model."
        )
    text = config.get_text_config()
    if text.model_type not in memory.STATEFUL:
        reaches(text, source)  # refuses layers that cannot be rolled back


def _refuse_memory(place: Place, options: CheckpointOptions) -> None:
    """Refuses a model that does not fit in memory, if its stored sizes are known."""
    config = place.config
    quantized = getattr(config, "quantization_config", None) is not None
    weights = memory.weight_bytes(place.stored, options.dtype, quantized)
    cache = memory.CONTEXT * memory.slot_bytes(config.get_text_config(), options.dtype)
    devices = [options.device]
    if options.device_map is not None:
        devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())] + [torch.device("cpu")]
    what = "quantised, as stored" if quantized else f"in {str(options.dtype).removeprefix('torch.')}"
    memory.refuse_weights(place.source, weights, cache, devices, what)


def _placing(config: Any, options: CheckpointOptions) -> dict[str, Any]:
    """The device map, and sdpa attention if the architecture supports it: its kernels are fast and take bool masks."""
    quantized = getattr(config, "quantization_config", None) is not None
    device_map = options.device_map or ({"": options.device} if quantized or options.device.type == "cuda" else None)
    if type(config) not in MODEL_FOR_CAUSAL_LM_MAPPING:
        return {"device_map": device_map}  # remote code chooses its own attention
    sdpa = MODEL_FOR_CAUSAL_LM_MAPPING[type(config)]._supports_sdpa
    return {"device_map": device_map, "attn_implementation": "sdpa" if sdpa else "eager"}


def _digest(place: Place) -> str:
    """The digest of the weight files; empty if there are none."""
    folder: Path | None = Path(place.source)
    if not Path(place.source).is_dir():
        folder = hub.cached(place.source, place.origin.get("revision"))
    return embedded.digest(folder) if folder is not None and any(folder.glob("*.safetensors")) else ""
