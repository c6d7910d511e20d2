"""The files of a head from elsewhere."""

from __future__ import annotations

import json
from pathlib import Path

import torch

from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import adopt
from draftscope.models.heads import SharedWeights, save_head
from draftscope.models.heads.head_files import read
from draftscope_app.lab.inspect.inspected import inspect, kind_of_files
from tests.support import made_up_heads
from tests.support.models import first_head


def test_its_files_are_known_and_checked(tiny: DecodingEngine, own_drafters: None, tmp_path: Path) -> None:
    adopt(f"{made_up_heads.__file__}:INFO")
    torch.manual_seed(1)
    head = first_head("glimpse", tiny.target)
    for weight in head.parameters():
        weight.data.add_(torch.randn_like(weight) * 0.2)
    save_head(head, tmp_path, "tiny-target")
    shared = SharedWeights.of(tiny.target.network)
    assert inspect("glimpse", tmp_path, shared) == []
    config = tmp_path / "config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"architectures": [], "blurred": True}))
    assert kind_of_files(read(tmp_path)) == "glimpse"
    assert [defect.name for defect in inspect("glimpse", tmp_path, shared)] == ["blurred"]
