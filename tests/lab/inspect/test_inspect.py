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

from draftscope.decode.engine import DecodingEngine
from draftscope.models.heads import Eagle3, SharedWeights, load_head
from draftscope.models.heads.head_files import Defect, read
from draftscope.models.heads.layer_ids import AUX, OUTPUTS, LayerIds
from draftscope.models.loading import embedded
from draftscope_app.lab.inspect import command
from draftscope_app.lab.inspect.inspected import compared, inspect, kind_of_files, misread, stated_ids
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
    "layer ids as DeepSpec writes them": (
        "layer ids that servers do not read", says(target_layer_ids=[0, 3, 5], **{AUX: None}), "vLLM",
    ),
    "two lists of layer ids": ("layer ids disagree", says(eagle_config={AUX: [2, 4, 5]}), "SGLang"),
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
    assert "tokens a round" not in wrong.out
    assert inspect_head(embedded.home("draft")).code == 2


TRAINED, BEFORE, AFTER = [2, 4, 5], [1, 3, 4], [3, 5, 6]  # inputs of layers: those of the embedded head, and others


@pytest.mark.parametrize(
    ("config", "read", "other"),
    [
        ({AUX: BEFORE}, BEFORE, TRAINED),
        ({"eagle_config": {AUX: BEFORE}}, TRAINED, None),  # the default
        ({"eagle_config": {AUX: TRAINED}}, AFTER, TRAINED),
        ({"target_layer_ids": BEFORE}, TRAINED, None),
        ({"target_layer_ids": [0, 2, 3]}, BEFORE, [0, 2, 3]),
        ({"eagle_config": {AUX: [2, 4, 8]}}, [2, 4, 8], None),
        ({AUX: [2, 4, 8]}, [2, 4, 8], None),
        ({"eagle_config": {"use_aux_hidden_state": False, AUX: BEFORE}}, None, None),
        ({}, None, None),
    ],
)
def test_layer_ids_are_tried_in_both_numberings(
    config: Config, read: list[int] | None, other: list[int] | None, tmp_path: Path
) -> None:
    whole = json.loads((HOME / "config.json").read_text())
    del whole[AUX]
    (tmp_path / "config.json").write_text(json.dumps(whole | config))
    save_file(load_file(HOME / "model.safetensors"), tmp_path / "model.safetensors")
    ids = stated_ids("eagle3", tmp_path, shared())
    assert (ids and list(ids.layers)) == (read if other else None) and (ids and list(ids.other or ())) == other
    if read is None:
        return
    head = load_head("eagle3", tmp_path, shared())
    assert isinstance(head, Eagle3) and list(head.config.layers or ()) == read


def test_the_better_numbering_is_believed_where_it_is_better_beyond_chance() -> None:
    few, many, same = [(10, 10 + i % 3) for i in range(20)], [(10, 12 + i % 4) for i in range(20)], [(10, 11)] * 20
    nested = LayerIds(f"eagle_config.{AUX}", tuple(TRAINED), OUTPUTS, tuple(AFTER), tuple(TRAINED))
    off = Defect("layer ids off by one", "outputs here", ("vLLM", "llama.cpp"), drafts=True)
    assert misread([off], nested, many, few) == misread([off], nested, few, few) == [off]
    assert misread([off], nested, few, [(10, 10 + i % 2 * 3) for i in range(20)]) == [off]
    (wrong,) = misread([off], nested, few, many)
    assert wrong.served_wrongly == ("SGLang", "here")
    assert f'write "{AUX}": [2, 4, 5], "eagle_config": {{"{AUX}": [1, 3, 4]}}' in wrong.sentence
    said = compared(nested, few, many)
    assert "2.09 tokens a round as outputs of layers, as they are read here, and 2.35 as inputs" in said
    assert "beyond chance (20 texts)." in said and "which differ by chance" in compared(nested, same, same)


def test_the_command_measures_both_numberings(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def drafted(engine: DecodingEngine, kind: str, tokens: int) -> list[tuple[int, int]]:
        better = list(engine.heads[kind].network.layers) == TRAINED
        return [(tokens, tokens + better + i % 2) for i in range(command.PROMPTS)]

    monkeypatch.setattr(command, "_drafted", drafted)
    config = json.loads((HOME / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {AUX: BEFORE}))
    save_file(load_file(HOME / "model.safetensors"), tmp_path / "model.safetensors")
    said = command_line(capsys, "inspect", "--target", "embedded", "--threads", "1")(tmp_path)
    assert said.code == 1 and f"'{AUX}' {BEFORE} are read as inputs of layers, and it drafts better" in said.out
    assert f'write "{AUX}": {TRAINED}, "eagle_config"' in said.out and "as expected" in said.out
    assert "Served wrongly by: vLLM, llama.cpp, here." in said.out and "a difference beyond chance" in said.out
