"""Ways around the page: keys right after Run, a link past the controls, examples, and runs that start in a scene."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.browsers import violations

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def test_keys_work_right_after_run_and_a_link_leads_past_the_controls(visit: Any) -> None:
    page = visit("?max_new_tokens=16")
    page.ready()
    page.page.keyboard.press("Tab")
    assert page.page.evaluate("document.activeElement.className") == "ds-skip"
    page.page.keyboard.press("Enter")
    assert page.ask("e => e.shadowRoot.activeElement === e.main")
    page.page.click("#ds-run")
    page.until("e => e.store.source === 'live' && ['solo', 'done'].includes(e.state)")
    assert page.page.evaluate("document.activeElement.id") == "ds-run"
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("Home")
    page.until("e => e.cursor.at && e.cursor.at.round === 0")
    page.page.keyboard.press("ArrowRight")
    page.until("e => e.cursor.at.round === 1")
    page.page.fill("#ds-prompt textarea", "abc")
    page.page.keyboard.press("ArrowRight")  # of the text, not of the run
    page.painted()
    assert page.ask("e => e.cursor.at.round") == 1


def test_drafters_stand_in_groups_with_a_line_each_and_an_example_sets_the_controls(lent: Any) -> None:
    page = lent()
    page.page.click("#ds-choose button")
    menu = page.page.locator("#ds-drafters")
    assert menu.locator("h2").all_inner_texts() == [
        "A trained head",
        "A draft model",
        "Copies of the text",
        "Other ways",
    ]
    assert "a small model guesses" in menu.get_by_role("button", name="Draft model, chain").inner_text()
    assert "not here: no medusa head is loaded" in menu.locator(".ds-lacks", has_text="Medusa").first.inner_text()
    assert violations(page.page) == []
    menu.get_by_role("button", name="N-gram").click()
    page.page.wait_for_function("() => document.querySelector('#ds-drafter input').value.startsWith('N-gram')")
    assert menu.is_hidden()
    page.page.click("#ds-drafter input")
    listed = page.page.locator("ul[role=listbox] li")
    listed.nth(3).wait_for()
    offered = listed.all_inner_texts()
    assert not any("not here" in title or "Medusa" in title for title in offered)
    page.page.keyboard.press("Escape")

    page.more()
    page.page.get_by_role("button", name="Tree, sampled").click()
    page.page.wait_for_function("() => document.querySelector('#ds-seed input').value === '1'")
    assert page.page.input_value("#ds-temperature input[type=number]") == "0.6"
    assert "Mara" in page.page.input_value("#ds-prompt textarea")
    page.page.wait_for_function("() => /tree/i.test(document.querySelector('#ds-drafter input').value)")
    page.page.wait_for_selector("#ds-shape textarea, #ds-shape input")
    page.page.get_by_role("button", name="Chain, for speed").click()
    page.page.wait_for_function("() => document.querySelector('#ds-temperature input[type=number]').value === '0'")
    assert page.page.input_value("#ds-prompt textarea").startswith("{")


def test_controls_left_alone_follow_the_models_that_were_loaded(functions: Any) -> None:
    """The page opened for a chat model, and the engine has another one."""
    both = [{"prompt": "Once", "seed": 1, "drafter": "draft"}, {"prompt": "Why?", "seed": 2, "drafter": "eagle3"}]
    found = functions.evaluate(
        """([both, values]) => { Inside.give({ chat: true });
            const names = ["prompt", "seed", "drafter"];
            return [{}, { chat: true }, { chat: false }, { chat: false }].map((said) =>
                Inside.openedOn(names, JSON.stringify(said), values, both).map((each) => each.value ?? null)); }""",
        [both, ["Why?", 7, "eagle3"]],
    )
    assert found == [[None] * 3, [None] * 3, ["Once", None, None], [None] * 3]


def test_a_drafter_that_cannot_run_is_replaced_in_what_a_lesson_asks_to_try(functions: Any) -> None:
    tried = functions.evaluate(
        """() => { Inside.giveStandIns({ "sampled-tree": "eagle3-sampled-tree" });
            return ["sampled-tree", "ngram", undefined].map((drafter) =>
                Inside.withSettings(["drafter", "seed"], ["plain", 1], { drafter, seed: 2 })); }"""
    )
    assert tried == [["eagle3-sampled-tree", 2], ["ngram", 2], ["plain", 2]]


def test_a_scene_has_prompt_drafter_run_and_step(lent: Any) -> None:
    page = lent("?max_new_tokens=16&temperature=1")
    page.ask("e => e.scenes.to(1)")
    form = page.element.locator(".scene-run")
    form.wait_for()
    form.get_by_role("textbox", name="Prompt").fill("told in a scene")
    form.get_by_role("combobox", name="Drafter").select_option("sampled-tree")
    form.get_by_role("button", name="Run").click()
    page.until("e => e.store.source === 'live' && ['solo', 'done'].includes(e.state)")
    assert page.ask("e => e.store.lanes[1].start.prompt") == "told in a scene"
    assert page.ask("e => e.store.lanes[1].start.drafter") == "sampled-tree"
    assert page.ask("e => e.scenes.at") == 1
    assert form.get_by_role("button", name="Step").is_enabled()
    page.to_end()
    page.page.set_viewport_size({"width": 1920, "height": 1080})
    for scene in range(1, 7):  # the form has its place, and the picture is still in view to its lower edge
        page.ask(f"e => e.scenes.to({scene})")
        page.painted()
        assert page.ask("e => e.scrollHeight - e.clientHeight") <= 0, scene
