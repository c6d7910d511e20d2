"""Defects of kinds that were published, each seeded into a right head and named; this project's heads are clean."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from draftscope.models.heads.eagle import AUX
from draftscope.models.heads.head import SharedWeights
from draftscope.models.heads.head_files import read
from draftscope.models.heads.inspected import inspect, kind_of_files
from draftscope.models.loading import embedded
from tests.support.command import command_line

Tensors = dict[str, Tensor]
Config = dict[str, Any]
Change = Callable[[Tensors, Config], object]

HOME = embedded.home("eagle3")


def shared() -> SharedWeights:
    home = embedded.home("target")
    config = json.loads((home / "config.json").read_text())
    weights = load_file(home / "model.safetensors")
    embedding = weights["model.embed_tokens.weight"]
    return SharedWeights(embedding, weights.get("lm_head.weight", embedding), config["num_hidden_layers"])


def rename(old: str, new: str) -> Change:
    return lambda tensors, _: tensors.update({new: tensors.pop(old)})


def put(name: str, change: Callable[[Tensor], Tensor]) -> Change:
    return lambda tensors, _: tensors.update({name: change(tensors[name].clone())})


def says(**values: Any) -> Change:
    return lambda _, config: config.update(values)


def absolute(tensors: Tensors, config: Config) -> None:
    tensors["d2t"] = tensors["d2t"] + torch.arange(len(tensors["d2t"]))


def twice(offsets: Tensor) -> Tensor:
    offsets[7] = offsets[6] - 1
    return offsets


def nan(values: Tensor) -> Tensor:
    values.view(-1)[3] = float("nan")
    return values


def copied(values: Tensor) -> Tensor:
    values[100:400] = values[100]
    return values


def speculators(tensors: Tensors, config: Config) -> None:
    layer = {name: config[name] for name in list(config) if name not in ("architectures", "norm_before_residual")}
    config.pop("norm_before_residual")
    config.update(speculators_model_type="eagle3", transformer_layer_config=layer)


DEFECTS: dict[str, tuple[str, Change, str]] = {  # what was done -> name of the defect, and an engine that is hit
    "no lm_head, sglang#27908": ("no output weights", lambda tensors, _: tensors.pop("lm_head.weight"), "SGLang"),
    "a tensor under another name": ("missing tensor", rename("fc.weight", "fusion.weight"), "SGLang"),
    "and nobody reads it": ("unread tensor", rename("fc.weight", "fusion.weight"), "SGLang"),
    "no d2t": ("no vocabulary map", lambda tensors, _: (tensors.pop("d2t"), tensors.pop("t2d")), "vLLM"),
    "d2t with ids": ("ids instead of offsets", absolute, "llama.cpp"),
    "d2t with a repeated token": ("map repeats", put("d2t", twice), "llama.cpp"),
    "d2t beyond the target": ("map out of range", put("d2t", lambda offsets: offsets + 9000), "vLLM"),
    "t2d of another head": ("maps disagree", put("t2d", lambda marks: marks.roll(1)), "SGLang"),
    "layer ids beside eagle_config": ("layer ids that SGLang does not read", says(**{AUX: [1, 3, 4]}), "SGLang"),
    "layer ids inside eagle_config": (
        "layer ids off by one", lambda _, config: config.update({"eagle_config": {AUX: config.pop(AUX)}}), "vLLM",
    ),
    "layers of a larger target": ("layers that are not there", says(**{AUX: [2, 16, 29]}), "here"),
    "a norm that was never loaded": ("never trained", put("norm.weight", torch.ones_like), "vLLM"),
    "zeros": ("never trained", put("fc.weight", torch.zeros_like), "here"),
    "NaN after an overflow": ("not finite", put("midlayer.mlp.down_proj.weight", nan), "vLLM"),
    "rows copied to pad": ("copied rows", put("lm_head.weight", copied), "here"),
    "two layers of which one is there": ("depth", says(num_hidden_layers=2), "SGLang"),
    "tied to the embedding": ("tied", says(tie_word_embeddings=True), "vLLM"),
    "speculators without norm_before_residual": ("no norm_before_residual", speculators, "vLLM"),
    "another target": ("another target", says(target_hidden_size=4096), "here"),
    "int8": ("type", put("fc.weight", lambda values: values.char()), "vLLM"),
}  # fmt: skip


@pytest.mark.parametrize("seeded", DEFECTS)
def test_a_defect_is_named(seeded: str, tmp_path: Path) -> None:
    name, change, engine = DEFECTS[seeded]
    tensors, config = load_file(HOME / "model.safetensors"), json.loads((HOME / "config.json").read_text())
    change(tensors, config)
    save_file({key: tensor.contiguous() for key, tensor in tensors.items()}, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = {defect.name: defect for defect in inspect("eagle3", tmp_path, shared())}
    assert name in found, found
    assert engine in found[name].served_wrongly


@pytest.mark.parametrize("member", [member.name for member in embedded.FAMILY if member.is_head])
def test_the_embedded_heads_are_clean(member: str) -> None:
    kind = kind_of_files(read(embedded.home(member)))
    assert inspect(kind, embedded.home(member), shared()) == []


def test_the_command_says_who_serves_a_head_wrongly_and_how_well_it_drafts(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    inspect_head = command_line(capsys, "inspect", "--target", "embedded", "--threads", "1")
    right = inspect_head(HOME)
    assert right.code == 0, right.err
    assert "no defect was found in its files" in right.out and "as expected" in right.out
    tensors = load_file(HOME / "model.safetensors")
    tensors.pop("lm_head.weight")
    save_file(tensors, tmp_path / "model.safetensors")
    (tmp_path / "config.json").write_text((HOME / "config.json").read_text())
    wrong = inspect_head(tmp_path)
    assert wrong.code == 1 and "Served wrongly by: vLLM, SGLang, llama.cpp, here." in wrong.out
    assert inspect_head(embedded.home("draft")).code == 2
