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
from transformers import (
    MODEL_FOR_CAUSAL_LM_MAPPING,
    MODEL_FOR_MASKED_LM_MAPPING,
    AutoConfig,
    AutoModelForCausalLM,
    AutoTokenizer,
)
from transformers.quantizers import AutoHfQuantizer

from draftscope.base.errors import DraftscopeError
from draftscope.base.stages import Stage, tell
from draftscope.models.cache.masks import reaches
from draftscope.models.files import contents, hub, memory_needed
from draftscope.models.files.finite import not_finite
from draftscope.models.files.gguf_file import as_stored
from draftscope.models.files.gguf_parts import parts_of
from draftscope.models.files.hub_bars import bars
from draftscope.models.files.pretrained import loaded, quiet
from draftscope.models.files.tokenizer_file import refuse_tokenizer, without_panic
from draftscope.models.forward.decoder import covers
from draftscope.models.loading import embedded
from draftscope.models.loading.converted import Readable
from draftscope.models.loading.left_out import refuse_lacking, unused
from draftscope.models.loading.sources import source_of
from draftscope.models.loading.stored_network import stored_network
from draftscope.models.loading.weight_files import CONFIG, look
from draftscope.models.model import Model
from draftscope.models.native.available import stored_kinds
from draftscope.models.probe import probed


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
    `name` is shown on screens; `weights` says in words which weights they are if there are several kinds, `beside` what
    lies beside them and is not loaded.
    """

    source: str
    name: str
    weights: str
    config: Any
    stored: Counter[str]
    origin: dict[str, Any]
    beside: str = ""
    file: Readable | None = None  # if the weights are to stay as they lie in it


def load_model(place: Place, options: CheckpointOptions) -> Model:
    """Loads the causal language model of a checkpoint that was found."""
    source = place.source
    tell(Stage.READ, place.name)
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
        ignore_mismatched_sizes=True,  # they are refused below, in a sentence
        tqdm_class=bars(options.progress, place.name),  # of what the hub sends
        **place.origin,
        **_placing(place.config, options),
    )
    refuse_lacking(source, info["missing_keys"], info["mismatched_keys"])
    lost = unused(network, source, info["unexpected_keys"], _folder(place))
    if broken := not_finite(network.named_parameters()):
        raise DraftscopeError(f"'{source}' {broken}")
    if getattr(network, "hf_device_map", None) is None:
        network = network.to(options.device)
    elif "disk" in network.hf_device_map.values():
        raise DraftscopeError(
            f"'{source}' would partly be offloaded to disk, which is too slow; choose a smaller model."
        )
    tell(Stage.CHECK, place.name)
    model = probed(network, place.name, _digest(place), place.weights)
    model.left_out = [place.beside] if place.beside else []
    if lost:
        model.left_out.append(
            f"Weights of '{place.name}' that are no part of its language model are not used ({len(lost):,} such as "
            f"'{lost[0]}')."
        )
    return model


def _stored_model(place: Place, file: Readable, options: CheckpointOptions) -> Model:
    """With weights as they lie in the file; widened if this architecture's forward is not compiled."""
    path = Path(place.source)
    files = parts_of(path)
    size = sum(part.stat().st_size for part in files)
    cache = memory_needed.CONTEXT * memory_needed.slot_bytes(place.config.get_text_config(), options.dtype)
    memory_needed.refuse_weights(place.source, size, cache, [options.device], "quantised, as stored")
    network = stored_network(file)
    if not covers(network):
        return load_model(find(path, replace(options, stored=False)), options)
    if broken := not_finite(network.named_parameters()):
        raise DraftscopeError(f"'{place.source}' {broken}")
    others = [kind for kind in file.file.quantized if kind not in stored_kinds()]
    tell(Stage.CHECK, place.name)
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
        return Place(name, checkpoint.name, checkpoint.weights, file.config, file.file.stored, here, file=file)
    files = look(name, revision, options.allow_pickle)
    origin: dict[str, Any] = {"trust_remote_code": options.trust_remote_code, "local_files_only": not files.online}
    if revision is not None:
        origin["revision"] = revision
    path = Path(name) / CONFIG if Path(name).is_dir() else hub.file(name, CONFIG, revision, files.online)
    if path is not None and path.is_file():
        contents.refuse_config(path)
    config = _without_unknown_quantization(loaded(AutoConfig, name, **origin))
    _refuse_kind(config, name)
    return Place(name, checkpoint.name, checkpoint.weights, config, files.stored, origin, files.beside)


def _without_unknown_quantization(config: Any) -> Any:
    """Forgets a quantisation that transformers does not know, such as ModelOpt's: it would read the weights as they
    are, and `unused` sees what else they need."""
    how = getattr(config, "quantization_config", None)
    if isinstance(how, dict) and "quant_method" in how:
        with quiet():
            if not AutoHfQuantizer.supports_quant_method(how):
                del config.quantization_config
    return config


def _refuse_kind(config: Any, source: str) -> None:
    """Refuses models that are not decoder-only language models."""
    known = type(config) in MODEL_FOR_CAUSAL_LM_MAPPING or hasattr(config, "auto_map")
    encoder = type(config) in MODEL_FOR_MASKED_LM_MAPPING and not getattr(config, "is_decoder", False)
    text = config.get_text_config()
    if not known and text is not config and not config.is_encoder_decoder:
        raise DraftscopeError(
            f"'{source}' is a '{config.model_type}', which reads more than text, and transformers has no language "
            "model for it; choose a checkpoint of its text model."
        )
    if not known or encoder or config.is_encoder_decoder:
        raise DraftscopeError(
            f"'{source}' is a '{config.model_type}', not a decoder-only language model; choose another model."
        )
    if text.model_type not in memory_needed.STATEFUL:
        reaches(text, source)  # refuses layers that cannot be rolled back


def _refuse_memory(place: Place, options: CheckpointOptions) -> None:
    """Refuses a model that does not fit in memory, if its stored sizes are known."""
    config = place.config
    quantized = getattr(config, "quantization_config", None) is not None
    weights = memory_needed.weight_bytes(place.stored, options.dtype, quantized)
    cache = memory_needed.CONTEXT * memory_needed.slot_bytes(config.get_text_config(), options.dtype)
    devices = [options.device]
    if options.device_map is not None:
        devices = [torch.device("cuda", index) for index in range(torch.cuda.device_count())] + [torch.device("cpu")]
    what = "quantised, as stored" if quantized else f"in {str(options.dtype).removeprefix('torch.')}"
    memory_needed.refuse_weights(place.source, weights, cache, devices, what)


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
    folder = _folder(place)
    return embedded.digest(folder) if folder is not None and any(folder.glob("*.safetensors")) else ""


def _folder(place: Place) -> Path | None:
    """Where the files are on this machine; None if they are not."""
    folder = Path(place.source)
    return folder if folder.is_dir() else hub.cached(place.source, place.origin.get("revision"))
