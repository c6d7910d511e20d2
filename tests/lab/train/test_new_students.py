"""Drafters before training: the shapes that they have, and that they draft."""

from __future__ import annotations

from importlib import reload
from pathlib import Path

import pytest
import torch

import draftscope
from draftscope.decode.engine import DecodingEngine
from draftscope.models import head_kinds
from draftscope.models.heads import SharedWeights
from draftscope.models.heads.lessons import Blocks
from draftscope.train.publish.card import _method
from draftscope.train.students.recipes import CPU
from draftscope.train.students.shapes import ROPE, build, mamba2
from draftscope.train.students.students import _shape, lesson_for, new_head
from draftscope_app.cli.main import main
from draftscope_app.lab.train_drafter import command as train_drafter
from tests.support.architectures import CASES, network
from tests.support.models import byte_tokenizer

PROMPT = "The quick brown fox"


def test_a_student_has_the_heads_of_the_targets_first_layer() -> None:
    (gemma,) = (case for case in CASES if case.name == "Gemma 4")
    shape = _shape(network(gemma), {})
    assert (shape.heads, shape.key_value_heads, shape.head_width) == (4, 2, 8)


def test_the_trained_shape_loads_as_a_draft_from_its_folder(tmp_path: Path, pair_folders: tuple[Path, Path]) -> None:
    """What `train family` calls mamba2."""
    build(mamba2(258, layers=1, width=64, state=16), seed=3).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    engine = draftscope.load(pair_folders[0], tmp_path, dtype="float32", threads=1)
    assert engine.draft is not None and engine.draft.recurrent and engine.draft.trees
    assert (
        engine.decode(PROMPT, "draft", max_new_tokens=20).token_ids
        == engine.decode(PROMPT, "plain", max_new_tokens=20).token_ids
    )


@pytest.mark.usefixtures("glimpsed")
def test_a_made_up_head_is_trained(capsys: pytest.CaptureFixture[str], tiny: DecodingEngine) -> None:
    reload(train_drafter)
    assert main(["train-drafter", "--help"]) == 0
    assert "glimpse" in capsys.readouterr().out
    assert _method("glimpse").format(depths=4) == "A glimpse of 4 tokens."
    assert CPU.answers.recipe("glimpse").rates == head_kinds.EAGLE3.rates
    head = new_head("glimpse", tiny.target.network, torch.arange(2), ROPE)
    assert type(lesson_for(tiny.target.network, head)) is Blocks


@pytest.mark.parametrize("kind", head_kinds.KINDS, ids=lambda kind: kind.name)
def test_every_kind_of_head_has_a_lesson(kind: head_kinds.HeadKind, tiny: DecodingEngine) -> None:
    head = new_head(kind.name, tiny.target.network, torch.arange(2), ROPE)
    assert isinstance(head, kind.network().head) and lesson_for(tiny.target.network, head).weights
    assert head.shared.vocabulary == SharedWeights.of(tiny.target.network).vocabulary
