"""Which GGUF file is meant: one in several parts, the only one in a folder, and files that are no language model."""

from __future__ import annotations

import shutil
from pathlib import Path

import gguf
import pytest
import torch
from transformers import LlamaConfig

from draftscope.models.loading.checkpoints import find, load_tokenizer
from draftscope.models.loading.converted import original
from tests.support import gguf_files
from tests.support.gguf_models import HOW, SHAPE, TOKENIZER, loaded, logits, made, refused

CONFIG = LlamaConfig(**SHAPE)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "draftscope" / "models"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "kept").mkdir()
    return tmp_path / "kept"


def written(folder: Path, name: str = "small", in_part: int = 0) -> Path:
    return gguf_files.write(folder / f"{name}.gguf", made(CONFIG), TOKENIZER, in_part=in_part)


def projector(folder: Path, architecture: str = "clip", kind: str = "mmproj") -> Path:
    path = folder / "mmproj-small-f16.gguf"
    file = gguf.GGUFWriter(str(path), architecture)
    file.add_string("general.type", kind)
    file.add_tensor("v.patch_embd.weight", torch.ones(4, 32).numpy())
    for write in (file.write_header_to_file, file.write_kv_data_to_file, file.write_tensors_to_file, file.close):
        write()
    return path


# Parts.


def test_the_first_part_brings_the_others(folder: Path) -> None:
    first = written(folder, in_part=5)
    assert first.name == "small-00001-of-00005.gguf"
    model = loaded(first)
    torch.testing.assert_close(logits(model.network), logits(made(CONFIG)))
    assert model.name == "small"
    assert load_tokenizer(find(first, HOW))("the cat").input_ids == TOKENIZER("the cat").input_ids
    assert original(Path(model.network.name_or_path)) == first


def test_a_change_in_any_part_is_another_model(folder: Path) -> None:
    first = written(folder, in_part=5)
    before = find(first, HOW).source
    last = folder / "small-00005-of-00005.gguf"
    last.write_bytes(last.read_bytes()[:-1] + b"\x3f")
    assert find(first, HOW).source != before


def test_another_part_and_a_missing_one_are_one_sentence(folder: Path, cache: Path) -> None:
    first = written(folder, in_part=5)
    second = folder / "small-00002-of-00005.gguf"
    assert refused(second) == f"'{second}' is part 2 of 5; name the first part, '{first.name}'."
    second.unlink()
    assert (
        refused(first)
        == f"'{first}' is one of 5 parts, and '{second.name}' is not beside it; put all parts in one folder."
    )
    shutil.copy(folder / "small-00003-of-00005.gguf", second)
    assert "is damaged or incomplete (its parts hold " in refused(first)
    assert not cache.exists()


# Folders.


@pytest.mark.parametrize("in_part", [0, 5])
def test_a_folder_with_one_model_is_that_model(in_part: int, folder: Path) -> None:
    path = written(folder, in_part=in_part)
    projector(folder)
    (folder / "README.md").write_text("as LM Studio keeps them")
    (folder / "config.json").write_text("{}")  # as repositories of such files have it
    (folder / "imatrix.bin").write_bytes(b"beside it")
    assert find(folder, HOW).source == find(path, HOW).source
    assert find(folder, HOW).name == "small"


def test_a_folder_with_several_lists_them(folder: Path) -> None:
    written(folder, "small-Q4_1")
    written(folder, "small-Q8_0", in_part=5)
    assert refused(folder) == (
        f"'{folder}' holds 2 models, 'small-Q4_1.gguf', 'small-Q8_0-00001-of-00005.gguf'; name one of these files."
    )


def test_a_folder_of_safetensors_with_a_gguf_file_in_it_stays_one(folder: Path) -> None:
    made(CONFIG).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    written(folder)
    assert find(folder, HOW).source == str(folder)


# No language models.


def test_a_projector_is_said_to_be_one(folder: Path, cache: Path) -> None:
    path = projector(folder)
    sentence = "reads images or sound (mmproj); name the file of its language model."
    assert refused(path) == f"'{path}' is the part of a model that {sentence}"
    assert refused(folder) == (
        f"'{folder}' holds only the part of a model that reads images or sound, '{path.name}'; name the file of its "
        "language model."
    )
    assert not cache.exists()


def test_an_adapter_is_said_to_be_one(folder: Path) -> None:
    assert "is an adapter (LoRA), not a model; merge it " in refused(projector(folder, "llama", "adapter"))
