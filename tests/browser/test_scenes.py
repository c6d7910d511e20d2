"""Scenes for a room: what each shows, how large, by which keys; and addresses that open one."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace import html
from tests.support.alone import Alone
from tests.support.browsers import ARTIFACTS, VIEWS, violations
from tests.support.raced import race_of

pytestmark = pytest.mark.browser

PICTURES = {  # scene -> the pictures that it shows
    "race": {"lanes", "strip"},
    "scale": {"tree", "scale"},
    "decision": {"tree", "decision"},
    "tree": {"tree"},
    "strip": {"strip"},
    "formula": {"formula"},
}
SHOWN = """e => ["lanes", "strip", "tree", "decision", "scale", "formula"].filter((name) => {
    const places = [".ds .ds > .", ".race > .", ".pair > .", ".scene-box ."].map((own) => own + name);
    const box = e.shadowRoot.querySelector(places.join());
    return box && box.checkVisibility();
})"""
# every text on screen with its size in pixels of the screen, and every stroke of an SVG with its width
SIZES = """e => {
    const texts = [], strokes = [];
    for (const element of e.shadowRoot.querySelectorAll("*")) {
        if (!element.checkVisibility() || element.closest("style, option, canvas")) continue;
        const style = getComputedStyle(element), drawn = element.ownerSVGElement;
        const scale = drawn ? drawn.getScreenCTM().a : element.currentCSSZoom;
        const own = [...element.childNodes].some((n) => n.nodeType === Node.TEXT_NODE && n.data.trim());
        if (own && element.tagName !== "title") texts.push([element.className.baseVal ?? element.className,
            parseFloat(style.fontSize) * scale]);
        if (drawn && style.stroke !== "none" && element.tagName !== "text")
            strokes.push([element.getAttribute("class"), parseFloat(style.strokeWidth) * scale]);
    }
    return [texts, strokes];
}"""


@pytest.fixture(scope="module")
def chain(pair: DecodingEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("chain") / "run.html"
    path.write_text(html.page(race_of(pair, drafter="draft", gamma=3, rule="token")), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def tree(pair: DecodingEngine, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tree") / "run.html"
    path.write_text(html.page(race_of(pair, drafter="sampled-tree", shape=(3, 2, 1))), encoding="utf-8")
    return path


def shown(page: Alone) -> set[str]:
    page.painted()
    return set(page.ask(SHOWN))


def test_keys_and_clickers_turn_the_scenes(browser: Any, chain: Path) -> None:
    page = Alone(browser, chain)
    page.element.get_by_role("button", name="Scenes").click()
    for number, (name, pictures) in enumerate(PICTURES.items(), 1):
        page.page.keyboard.press(str(number))
        assert shown(page) == pictures, name
        assert f"scene={number}" in page.page.url
        assert page.element.locator(".scene-nav [aria-pressed=true]").inner_text().startswith(str(number))
    page.page.keyboard.press("PageDown")
    assert shown(page) == PICTURES["formula"], "the last one stays"
    page.page.keyboard.press("PageUp")
    assert shown(page) == PICTURES["strip"]
    page.page.keyboard.press("Escape")
    assert shown(page) >= {"lanes", "strip", "tree", "decision", "scale"}
    assert "scene" not in page.page.url
    assert page.ask("e => getComputedStyle(e).position") == "static"
    page.close()


@pytest.mark.slow
def test_a_scene_hears_its_keys_wherever_the_focus_is(browser: Any, chain: Path) -> None:
    page = Alone(browser, chain, "?scene=6")
    page.element.get_by_role("slider", name="α, acceptance per draft token").focus()
    page.page.keyboard.press("PageUp")
    assert shown(page) == PICTURES["strip"]
    page.page.evaluate("document.activeElement.blur()")
    page.page.keyboard.press("PageUp")
    assert shown(page) == PICTURES["tree"]
    page.page.keyboard.press("ArrowRight")
    page.painted()
    assert page.text(".tree h3").startswith("Round ")
    page.close()


@pytest.mark.slow
def test_an_address_opens_a_scene(browser: Any, chain: Path) -> None:
    page = Alone(browser, chain, "?scene=3")
    assert shown(page) == PICTURES["decision"]
    page.close()
    for nonsense in ("7", "-1", "x", ""):
        page = Alone(browser, chain, f"?scene={nonsense}")
        assert shown(page) >= {"lanes", "strip", "decision"}
        page.close()


@pytest.mark.slow
def test_the_selection_goes_on_through_the_scenes(browser: Any, chain: Path) -> None:
    page = Alone(browser, chain, "?scene=5", viewport={"width": 1920, "height": 1080})
    page.painted()
    rounds = page.ask("e => e.store.lanes[1].rounds.length")
    at = page.ask("""e => {
        const { plot, rows, canvas } = e.strip, round = e.store.lanes[1].rounds[2];
        const box = canvas.getBoundingClientRect(), zoom = canvas.currentCSSZoom;
        const x = plot.x0 + (round.end / plot.span) * (plot.x1 - plot.x0);
        return [box.left + x * zoom, box.top + (rows[1].y + rows[1].tall - 12) * zoom];
    }""")
    page.page.mouse.click(*at)
    page.page.keyboard.press("4")
    page.painted()
    assert page.text(".tree h3") == f"Round 3 of {rounds}"
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "size"), [("tree", (1920, 1080)), ("chain", (3840, 2160))])
def test_text_and_strokes_can_be_read_from_the_back(
    browser: Any, request: pytest.FixtureRequest, shape: str, size: tuple[int, int]
) -> None:
    """28 and 3 pixels where the screen has 1920, twice that on one twice as wide; a hundredth is rounding."""
    page = Alone(browser, request.getfixturevalue(shape), viewport={"width": size[0], "height": size[1]})
    page.element.get_by_role("button", name="Scenes").click()
    for number, name in enumerate(PICTURES, 1):
        page.page.keyboard.press(str(number))
        page.painted()
        texts, strokes = page.ask(SIZES)
        least = size[0] / 1920
        assert len(texts) > 8
        assert not [found for found in texts if found[1] < 27.99 * least], name
        assert not [found for found in strokes if found[1] < 2.99 * least], name
        assert page.ask("e => e.colours.small * e.main.currentCSSZoom") >= 28 * least
        page.page.screenshot(path=ARTIFACTS / f"scene-{number}-{shape}-{size[0]}.png")
        assert page.ask("e => e.scrollWidth <= e.clientWidth"), name
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), VIEWS)
def test_scenes_in_both_themes(browser: Any, chain: Path, width: int, theme: str) -> None:
    page = Alone(browser, chain, viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True)
    page.element.get_by_role("button", name="Scenes").click()
    for number in range(1, 7):
        page.page.keyboard.press(str(number))
        page.painted()
        assert page.ask("e => e.scrollWidth <= e.clientWidth")
        assert violations(page.page) == []
        page.page.screenshot(path=ARTIFACTS / f"scene-{number}-{width}-{theme}.png")
    page.close()


AS_ON_A_PAGE = """e => { const { run } = e.scenes;
    run.root.hidden = false;
    run.draw("The weather tomorrow will be", ["Draft model, sampled tree"], "Draft model, sampled tree");
    e.request(); }"""
PLACES = """e => [".scene-run", ".clock > .pace", ".clock > :last-child"].map((name) => {
    const own = e.shadowRoot.querySelector(name), box = own.getBoundingClientRect();
    return own.checkVisibility() && [box.left, box.right, (box.top + box.bottom) / 2]; })"""


@pytest.mark.slow
@pytest.mark.parametrize("size", [(1440, 900), (1920, 1080), (390, 844)])
def test_a_race_states_its_pace_beside_the_form(browser: Any, chain: Path, size: tuple[int, int]) -> None:
    """The form and the clock lie beside or below each other, and the race is still in view to its lower edge."""
    page = Alone(browser, chain, "?scene=1", viewport={"width": size[0], "height": size[1]})
    page.ask(AS_ON_A_PAGE)
    page.ask("e => e.transport.seek(e.transport.end / 2)")
    page.painted()
    assert re.fullmatch(r"slowed \d+×", page.text(".clock > .pace"))
    form, pace, last = page.ask(PLACES)
    assert form and pace and last
    assert page.ask("e => e.scrollWidth <= e.clientWidth")
    if size[0] > 390:
        assert (form[1] <= pace[0] or abs(form[2] - pace[2]) >= 10) and last[1] <= size[0]
        assert page.ask("e => e.scrollHeight <= e.clientHeight")
    page.close()


def test_a_run_without_a_formula_says_so(browser: Any, pair: DecodingEngine, tmp_path: Path) -> None:
    alone = [event for event in race_of(pair, drafter="draft", gamma=2) if event.lane == "speculative"]
    (tmp_path / "run.html").write_text(html.page(alone), encoding="utf-8")
    page = Alone(browser, tmp_path / "run.html", "?scene=6")
    page.painted()
    assert page.text(".scene-box > .sum").startswith("The speedup model needs a finished run with a plain lane")
    assert page.element.locator(".formula:visible").count() == 0
    page.close()
