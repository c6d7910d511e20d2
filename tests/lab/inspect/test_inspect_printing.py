"""What `inspect` and the loader make of names that steer a terminal, and of numbers that are none."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from draftscope.base.errors import DraftscopeError, cut, quoted
from draftscope.base.printable import printable
from draftscope.models.files.contents import refuse_config
from draftscope.models.loading import embedded
from tests.support.command import Cli, command_line

EVIL = "t\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\r"


@pytest.fixture
def inspect_head(capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys, "inspect", "--target", "embedded", "--threads", "1")


def copy(home: Path, folder: Path, **changes: Any) -> Path:
    shutil.copytree(home, folder)
    path = folder / "config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | changes))
    return folder


def test_control_characters_are_escaped_and_other_letters_stay() -> None:
    assert printable("é 模型 👩‍👩 \u00a0x") == "é 模型 👩‍👩 \u00a0x"
    assert printable("a\tb\nc\x1b\x7f\x85\u2028\ud800") == r"a\tb\nc\x1b\x7f\x85\u2028\ud800"
    assert printable("a\tb\nc\r", keep="\n\t") == "a\tb\nc\\r"
    assert cut("one\nline\x1b[0m") == "one\nline\\x1b[0m" and quoted("one\nline\x1b") == "one\\nline\\x1b"


def test_a_tensors_name_cannot_steer_the_terminal(tmp_path: Path, inspect_head: Cli) -> None:
    folder = copy(embedded.home("eagle3"), tmp_path / "head")
    tensors = load_file(folder / "model.safetensors") | {EVIL: torch.full((4,), math.nan)}
    save_file(tensors, folder / "model.safetensors")
    ran = inspect_head(f"eagle3:{folder}")
    assert ran.code == 1 and r"\x1b]0;owned\x07" in ran.out
    assert all(line.isprintable() for line in (ran.out + ran.err).split("\n"))


NOT_NUMBERS: Mapping[str, Mapping[str, Any]] = {
    "eps": {"rms_norm_eps": math.nan}, "infinite eps": {"rms_norm_eps": math.inf}, "theta": {"rope_theta": -math.inf},
    "deep": {"rope_scaling": {"factor": math.nan}}, "in a list": {"a": [[1.0, {"b": [math.nan]}]]},
}  # fmt: skip


@pytest.mark.parametrize("what", NOT_NUMBERS)
@pytest.mark.parametrize("kind", ["eagle3", "target"])
def test_a_number_that_is_none_is_one_sentence(
    kind: str, what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = copy(embedded.home(kind), tmp_path / "model", **NOT_NUMBERS[what])
    words = ("inspect", f"eagle3:{folder}") if kind == "eagle3" else ("decode", "hello", "--target", folder)
    ran = command_line(capsys)(*words, "--threads", "1")
    assert ran.code == 2 and ran.err.count("\n") == 1 and "nothing can be computed" in ran.err and not ran.out


def test_a_range_without_an_end_and_a_number_too_large_for_a_float(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('{"time_step_limit": [0.0, Infinity], "rms_norm_eps": 1e-6}')
    refuse_config(path)
    path.write_text('{"rms_norm_eps": 1e400}')
    with pytest.raises(DraftscopeError, match="has inf in 'rms_norm_eps'"):
        refuse_config(path)


@pytest.mark.parametrize(
    "text", ["[", '{"agreement": 3}', '{"agreement": {"a": {}}}', '{"agreement": {"a": {"greedy": ["x"]}}}']
)
def test_a_record_of_training_that_is_none_is_one_sentence(text: str, tmp_path: Path, inspect_head: Cli) -> None:
    folder = copy(embedded.home("eagle3"), tmp_path / "head", num_key_value_heads=7)  # a defect: nothing is decoded
    (folder / "training.json").write_text(text)
    ran = inspect_head(f"eagle3:{folder}")
    assert ran.code == 2 and ran.err.count("\n") == 1 and "no record of a training" in ran.err
