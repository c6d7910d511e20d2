"""Every form of the table of formats: what is read gives the same logits, and what is not read is said or refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import draftscope
from draftscope import DraftscopeError
from draftscope.models.loading.checkpoints import CheckpointOptions, find, load_model
from tests.support.formats import FORMS, Form, folder, network

HOW = CheckpointOptions(torch.float32, torch.device("cpu"))
TEXT = torch.arange(2, 40)[None]


@pytest.fixture(scope="module")
def expected() -> torch.Tensor:
    return network()(TEXT).logits.detach()  # type: ignore[no-any-return]


@pytest.mark.parametrize("form", [form for form in FORMS if form.read != "no"], ids=lambda form: form.name)
def test_what_is_read_is_the_same_model(tmp_path: Path, form: Form, expected: torch.Tensor) -> None:
    """Scales were dropped without a word, and the text was another model's."""
    model = load_model(find(folder(form, tmp_path), HOW), HOW)
    torch.testing.assert_close(model.network(TEXT).logits, expected, rtol=1e-4, atol=1e-4)
    (sentence,) = model.left_out if form.read == "partly" else [""]
    assert model.left_out == ([sentence] if sentence else []) and form.says in sentence


@pytest.mark.parametrize("form", [form for form in FORMS if form.read == "no"], ids=lambda form: form.name)
def test_what_is_not_read_is_refused_in_a_sentence_with_its_remedy(tmp_path: Path, form: Form) -> None:
    with pytest.raises(DraftscopeError) as error:
        draftscope.load(folder(form, tmp_path), dtype="float32")
    sentence = str(error.value)
    assert form.says and form.says in sentence
    assert sentence.endswith(".") and "\n" not in sentence and len(sentence) < 500
