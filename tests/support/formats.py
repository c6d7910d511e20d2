"""Which files of a model are read and what becomes of the others, found by loading a small model written in each form.

    python -m tests.support.formats

prints the table as Markdown. The tests load the same cases, so the table claims only what is tested.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from draftscope.base import markdown
from tests.support.models import byte_tokenizer, random_llama

Read = Literal["yes", "partly", "no"]
Weights = dict[str, Tensor]
FLOAT8 = torch.float8_e4m3fn
LARGEST = torch.finfo(FLOAT8).max
FILE, INDEX = "model.safetensors", "model.safetensors.index.json"
QUERY = "model.layers.0.self_attn.q_proj"
ADAPTER = {"peft_type": "LORA", "base_model_name_or_path": "some/base", "r": 4, "target_modules": ["q_proj"]}


@dataclass(frozen=True)
class Form:
    """How a checkpoint is written. `write` gets the folder of a model as `save_pretrained` writes it and changes it;
    `says` is in the sentence that is shown, empty if there is none. The models of forms that are read all give the
    logits of `network`."""

    name: str
    read: Read
    note: str
    write: Callable[[Path], object]
    says: str = ""


def network() -> Any:
    """The model that every form holds: its projections are float8 values times one scale for each weight."""
    model = random_llama(1, 258).eval()
    for name, weight in model.named_parameters():
        if "proj" in name:
            scale = _scale(weight)
            weight.data = (weight.data / scale).to(FLOAT8).float() * scale
    return model


def folder(form: Form, place: Path) -> Path:
    """A folder with a model and its tokenizer in that form."""
    network().save_pretrained(place)
    byte_tokenizer().save_pretrained(place)
    form.write(place)
    return place


def table() -> str:
    """A Markdown table: one row for each of `FORMS`."""
    return markdown.table(("weights", "read", "what becomes of them"), [(f.name, f.read, f.note) for f in FORMS])


def _scale(weight: Tensor) -> Tensor:
    """A power of two, so that products are exact."""
    return torch.exp2(torch.ceil(torch.log2(weight.detach().abs().max() / LARGEST)))


# How they are written.


def _set(place: Path, **keys: object) -> None:
    path = place / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | keys))


def _quantized(how: Mapping[str, object]) -> Callable[[Path], None]:
    return lambda place: _set(place, quantization_config=dict(how))


def _weights(change: Callable[[Weights], Weights], **keys: object) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        save_file(change(load_file(place / FILE)), place / FILE, metadata={"format": "pt"})
        if keys:
            _set(place, **keys)

    return write


def _more(*names: str) -> Callable[[Weights], Weights]:
    return lambda weights: weights | {name: torch.ones(32) for name in names}


def _float8(suffix: str, rows: int = 0) -> Callable[[Weights], Weights]:
    """Projections in float8 with their scales, one for each weight or the same for `rows` columns of every row."""

    def change(weights: Weights) -> Weights:
        scales = {name: _scale(weight) for name, weight in weights.items() if "proj" in name}
        stored = {name: (weights[name] / scale).to(FLOAT8) for name, scale in scales.items()}
        wide = {name: s.expand(len(weights[name]), rows).contiguous() if rows else s for name, s in scales.items()}
        return weights | stored | {name + suffix: scale for name, scale in wide.items()}

    return change


def _blocks(weights: Weights) -> Weights:
    """As DeepSeek writes them, with a scale for each block of 16 x 16."""
    stored = _float8("_scale_inv")(weights)
    for name in [name for name in stored if name.endswith("_scale_inv")]:
        rows, columns = weights[name.removesuffix("_scale_inv")].shape
        stored[name] = stored[name].expand(rows // 16, columns // 16).contiguous()
    return stored


def _packed(weights: Weights) -> Weights:
    """Two values of 4 bits in each byte."""
    rows = {
        name: torch.zeros(len(w), w.shape[1] // 2, dtype=torch.uint8) for name, w in weights.items() if "proj" in name
    }
    return weights | rows | {f"{name}_scale": torch.ones(len(w), w.shape[1] // 8) for name, w in rows.items()}


def _shards(place: Path) -> None:
    network().save_pretrained(place, max_shard_size="40KB")
    (place / FILE).unlink()


def _without(name: str) -> Callable[[Path], None]:
    def write(place: Path) -> None:
        _shards(place)
        sorted(place.glob(name))[0].unlink()

    return write


def _pickle(place: Path) -> None:
    torch.save(load_file(place / FILE), place / "pytorch_model.bin")
    (place / FILE).unlink()


def _adapter(place: Path) -> None:
    (place / "adapter_config.json").write_text(json.dumps(ADAPTER))
    save_file({f"base_model.model.{QUERY}.lora_A.weight": torch.ones(4, 32)}, place / "adapter_model.safetensors")


def _only_adapter(place: Path) -> None:
    _adapter(place)
    (place / FILE).unlink()
    (place / "config.json").unlink()


NO_PLACE = "and without them its text would be another model's"
PACKAGE = "needs a package that is not installed"
BLOCKS = {"quant_method": "fp8", "weight_block_size": [16, 16]}
METHODS: dict[str, dict[str, object]] = {
    "GPTQ": {"quant_method": "gptq", "bits": 4},
    "AWQ": {"quant_method": "awq", "bits": 4},
    "bitsandbytes": {"quant_method": "bitsandbytes", "load_in_4bit": True},
    "compressed-tensors": {"quant_method": "compressed-tensors"},
    "HQQ": {"quant_method": "hqq"},
    "Quark": {"quant_method": "quark"},
}
FORMS = (
    Form("safetensors in one file", "yes", "converted to the dtype in which the model decodes", lambda _: None),
    Form("safetensors in several files with an index", "yes", "", _shards),
    Form(
        "several files, one of them missing", "no", "the missing file is named", _without("*.safetensors"), "lacks 1 of"
    ),
    Form("several files without their index", "no", "", _without(INDEX), "no 'model.safetensors.index.json'"),
    Form(
        "one file of another name",
        "no",
        "",
        lambda p: (p / FILE).rename(p / "weights.safetensors"),
        "'weights.safetens",
    ),
    Form("pickles (`.bin`, `.pt`)", "no", "read with `--allow-pickle`", _pickle, "would be read from a pickle"),
    Form(
        "FP8 of ModelOpt, a scale for each weight",
        "yes",
        "scales are multiplied into the weights",
        _weights(_float8("_scale"), quantization_config={"quant_method": "modelopt", "quant_algo": "FP8"}),
    ),
    Form(
        "FP8 with a scale for each weight or row, not named in config.json",
        "yes",
        "the same",
        _weights(_float8("_scale", 1)),
    ),
    Form("FP8 with `weight_scale_inv` for each weight, not named", "yes", "the same", _weights(_float8("_scale_inv"))),
    Form("FP8 in blocks (DeepSeek)", "yes", "widened on a CPU", _weights(_blocks, quantization_config=BLOCKS)),
    Form(
        "FP8 in blocks, not named in config.json",
        "no",
        "",
        _weights(_blocks),
        "quantised in a way that is not read here",
    ),
    Form(
        "NVFP4 of ModelOpt and other packed weights that transformers does not know",
        "no",
        "",
        _weights(_packed, quantization_config={"quant_method": "modelopt", "quant_algo": "NVFP4"}),
        "choose a checkpoint that is not quantised",
    ),
    *(
        Form(
            title, "no", "read where the package that the error names is installed; not tried", _quantized(how), PACKAGE
        )
        for title, how in METHODS.items()
    ),
    Form(
        "layers for multi-token prediction",
        "yes",
        "left out; a head of kind `mtp` reads them",
        _weights(_more("model.layers.2.eh_proj.weight", "model.layers.2.mlp.up_proj.weight", "mtp.fc.weight")),
    ),
    Form(
        "rotary frequencies, masks and position ids of older files",
        "yes",
        "computed anew",
        _weights(_more("model.layers.0.self_attn.rotary_emb.inv_freq", "model.layers.0.attn.bias", "position_ids")),
    ),
    Form(
        "scales of inputs and of a quantised cache",
        "yes",
        "left out: neither is rounded here",
        _weights(_more(f"{QUERY}.input_scale", "model.layers.0.self_attn.k_proj.k_scale")),
    ),
    Form(
        "a head for values or a tower for images beside the model",
        "partly",
        "left out, and said",
        _weights(_more("v_head.weight")),
        "'v_head.weight'",
    ),
    Form(
        "biases, norms or scales that config.json has no place for",
        "no",
        "",
        _weights(_more(f"{QUERY}.bias")),
        NO_PLACE,
    ),
    Form("more layers than config.json has", "no", "", lambda p: _set(p, num_hidden_layers=1), NO_PLACE),
    Form(
        "fewer layers than config.json has", "no", "", lambda p: _set(p, num_hidden_layers=3), "which would be random"
    ),
    Form(
        "weights of another shape than config.json says",
        "no",
        "",
        lambda p: _set(p, hidden_size=64),
        "its config.json needs",
    ),
    Form(
        "an adapter (LoRA) without its model",
        "no",
        "the base model is named",
        _only_adapter,
        "is an adapter (LoRA) of 'some/base'",
    ),
    Form("an adapter (LoRA) beside the weights", "partly", "not applied, and said", _adapter, "which is not applied"),
    Form(
        "an adapter's layers among the weights",
        "no",
        "",
        _weights(_more(f"{QUERY}.lora_A.weight")),
        "merge it with peft",
    ),
    Form(
        "a `model_type` that transformers does not know",
        "no",
        "a newer transformers may",
        lambda p: _set(p, model_type="qwen9"),
        "install a newer one",
    ),
    Form(
        "a kind of rotary scaling that the architecture does not have",
        "no",
        "",
        lambda p: _set(p, rope_scaling={"rope_type": "mrope", "mrope_section": [1, 1, 2]}, rope_parameters=None),
        "does not know ('mrope')",
    ),
    Form("no `model_type`", "no", "", lambda p: (p / "config.json").write_text("{}"), "names no known model_type"),
)

if __name__ == "__main__":
    print(table())
