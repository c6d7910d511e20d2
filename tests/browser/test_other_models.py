"""Other models from the page: named, loaded, told, decoded by; and what cannot be loaded changes nothing.

They are loaded into the server that all share, so no test of the page comes after these (`tests/support/workers.py`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.browsers import violations
from tests.support.models import byte_tokenizer, random_llama

pytestmark = [pytest.mark.browser, pytest.mark.slow]

WRITTEN = "e => e.store.lanes.map((lane) => lane.end.token_ids)"


@pytest.fixture(scope="module")
def brought(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A target that a visitor brings; no draft model."""
    folder = tmp_path_factory.mktemp("brought") / "my-own"
    random_llama(21, 258).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    return folder


def load(page: Any, target: str, draft: str = "") -> None:
    page.page.get_by_role("button", name="Another model").click()
    page.fill("target", target)
    page.fill("draft", draft)
    page.page.get_by_role("button", name="Load these models").click()


def close_models(page: Any) -> None:
    """The menu lies above Run."""
    page.page.keyboard.press("Escape")


def named(page: Any) -> list[str]:
    return [str(model["name"]) for model in page.ask("e => e.store.lanes[0].start.models")]


def test_ones_own_models_are_loaded_and_decode(visit: Any, brought: Path) -> None:
    page = visit("?max_new_tokens=16")
    page.run()
    assert "target" in named(page)
    written, header = page.ask(WRITTEN), page.page.inner_text(".ds-engine")
    page.menu("models")
    assert violations(page.page) == []

    load(page, str(brought.parent / "nowhere"))
    page.until("e => /nowhere.*The models that were here are still loaded/.test(e.message.text.textContent)")
    page.page.wait_for_function("(was) => document.querySelector('.ds-engine').textContent === was", arg=header)
    close_models(page)
    page.run()
    assert page.ask(WRITTEN) == written and "target" in named(page)

    page.menu("models")
    load(page, str(brought))
    page.until("e => e.message.text.textContent === 'The models are loaded; press Run.'")
    assert page.page.inner_text(".ds-engine").startswith("my-own (2 × 32), loaded in ")
    drafter = page.page.input_value("#ds-drafter input")
    assert drafter != "Draft model, chain" and "not here" not in drafter
    page.ask("e => Draftscope.ask('fork', { lane: 'speculative', round: 0, slot: -1, token: null })")
    page.until("e => /Only a live run that is over can be forked/.test(e.message.text.textContent)")
    close_models(page)
    page.run()
    assert named(page) == ["my-own"]

    other = visit()  # what another tab finds
    other.ready()
    assert other.page.inner_text(".ds-engine").startswith("my-own ")
    assert "nowhere" not in other.ask("e => e.message.text.textContent")


def test_a_known_model_is_one_click_away_where_there_is_least_room(visit: Any) -> None:
    page = visit(viewport={"width": 390, "height": 900}, color_scheme="dark")
    page.ready()
    page.page.focus("[data-opens=ds-models]")
    page.page.keyboard.press("Enter")
    page.page.get_by_role("button", name="SmolLM2-135M-Instruct · with").click()
    page.page.wait_for_selector("#ds-target", state="visible")
    page.page.wait_for_function(
        "() => document.querySelector('#ds-target textarea, #ds-target input').value === 'smollm2'"
    )
    assert page.page.evaluate("document.documentElement.scrollWidth") <= 390
    assert violations(page.page) == []
