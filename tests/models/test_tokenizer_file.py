"""A tokenizer's file that would end the engine process ends nothing: one sentence instead."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from draftscope import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.models.files import bounded
from draftscope.models.files.bounded import BOUNDED, RefusedError
from draftscope.models.loading.checkpoints import CheckpointOptions, find, load_tokenizer
from tests.support.models import byte_tokenizer, random_llama

HOW = CheckpointOptions(torch.float32, torch.device("cpu"))
DOUBLED = {"type": "Replace", "pattern": {"Regex": "(.)"}, "content": "xx"}


def characters(table: bytes) -> dict[str, str]:
    """SentencePiece's table of normalised characters."""
    return {"type": "Precompiled", "precompiled_charsmap": base64.b64encode(table).decode()}


NORMALIZERS: dict[str, tuple[Any, str]] = {
    "an empty table": (characters(b""), "Cannot parse precompiled_charsmap"),
    "a table cut off": (characters(struct.pack("<I", 2**31) + bytes(16)), "(Cannot parse|it ends the process)"),
    "a table that points beyond its end": (
        characters(struct.pack("<I", 1024) + b"\x01" * 1024 + b"abc\x00"),
        "index out of bounds: the len is 256 but the index is",
    ),
    "a table without entries": (characters(struct.pack("<I", 0)), "index out of bounds: the len is 0"),
    "a text that doubles forty times": (
        {"type": "Sequence", "normalizers": [DOUBLED] * 40},
        "it (takes longer than 3 s|ends the process, or takes more than 2 GiB of memory)",
    ),
}


@pytest.fixture(scope="module", autouse=True)
def little_memory() -> Iterator[None]:
    """The process that tries tokenizers may take an eighth of what it says: what wants all memory is refused sooner."""
    BOUNDED.close()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bounded, "MEMORY", bounded.MEMORY // 8)
        yield
        BOUNDED.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    random_llama(5, 258).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", NORMALIZERS)
def test_a_damaged_tokenizer_is_refused_and_the_next_one_loads(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    normalizer, reason = NORMALIZERS[name]
    whole = (folder / "tokenizer.json").read_text()
    (folder / "tokenizer.json").write_text(json.dumps(json.loads(whole) | {"normalizer": normalizer}))
    place = find(folder, HOW)
    monkeypatch.setattr("draftscope.models.files.tokenizer_file.SECONDS", 3.0)
    with pytest.raises(
        DraftscopeError, match=rf"^The tokenizer of '.*' cannot be used \(.*{reason}.*\); download"
    ) as error:
        load_tokenizer(place)
    assert "\n" not in str(error.value)
    monkeypatch.undo()
    (folder / "tokenizer.json").write_text(whole)
    assert load_tokenizer(place)("abc")["input_ids"] == byte_tokenizer()("abc")["input_ids"]


def test_a_panic_on_a_text_that_was_not_tried_is_a_sentence(pair: DecodingEngine) -> None:
    tokenizer = byte_tokenizer()
    broken = json.loads(tokenizer.backend_tokenizer.to_str())
    broken["normalizer"] = NORMALIZERS["a table without entries"][0]
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(broken))
    with pytest.raises(DraftscopeError, match="The tokenizer of 'byte-target' cannot be used \\(index out of bounds"):
        DecodingEngine(pair.target, None, tokenizer).encode("abc")


def test_the_trial_reads_what_it_is_given(folder: Path) -> None:
    assert BOUNDED.ask("try_tokenizer", 60.0, path=str(folder / "tokenizer.json")) > 17_000
    with pytest.raises(RefusedError, match="No such file"):
        BOUNDED.ask("try_tokenizer", 60.0, path=str(folder / "none.json"))
