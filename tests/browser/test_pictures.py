"""SVG and PNG of every card: colours resolved, fonts named, nothing fetched, and what a model wrote stays text."""

from __future__ import annotations

import re
import struct
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace import html
from draftscope.trace.events import AnyEvent
from tests.support.alone import Alone
from tests.support.browsers import ARTIFACTS
from tests.support.raced import hostile, race_of

pytestmark = pytest.mark.browser

CARDS = ("strip", "round", "decision", "round time", "formula")
SVG = "{http://www.w3.org/2000/svg}"
COLOUR = re.compile(r"none|rgba?\([\d., ]+\)|#[0-9A-Fa-f]{6}|url\(#[\w-]+\)")


@pytest.fixture(scope="module")
def raced(pair: DecodingEngine) -> list[AnyEvent]:
    return race_of(pair, drafter="draft", gamma=3, rule="token")


def opened(browser: Any, events: list[AnyEvent], folder: Path, **context: Any) -> Alone:
    path = folder / "run.html"
    path.write_text(html.page(events), encoding="utf-8")
    page = Alone(browser, path, **context)
    page.element.get_by_role("button", name="Why this fast").click()
    page.painted()
    ARTIFACTS.mkdir(exist_ok=True)
    return page


def saved(page: Alone, card: str, kind: str, folder: Path) -> Path:
    """The file that the card's own button gives."""
    page.element.get_by_label(f"Save this picture: {card}", exact=True).click()
    with page.page.expect_download() as download:
        page.element.locator(".save[open]").get_by_role("button", name=kind).click()
    path = folder / str(download.value.suggested_filename)
    download.value.save_as(path)
    assert page.element.locator(".save[open]").count() == 0
    return path


def words(drawn: ElementTree.Element) -> str:
    return " ".join("".join(text.itertext()) for text in drawn.iter(f"{SVG}text"))


@pytest.mark.slow
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_every_card_is_an_svg_that_needs_nothing(
    browser: Any, raced: list[AnyEvent], tmp_path: Path, theme: str
) -> None:
    page = opened(browser, raced, tmp_path, color_scheme=theme)
    for card in CARDS:
        path = saved(page, card, "SVG", tmp_path)
        assert path.name == f"draftscope-{card.replace(' ', '-')}.svg"
        text = path.read_text(encoding="utf-8")
        assert not re.search(r"var\(|currentColor|href|@import|foreignObject|<image|class=", text), card
        assert re.findall(r"https?://[^\"]*", text) == ["http://www.w3.org/2000/svg"], card
        drawn = ElementTree.fromstring(text)
        for shape in drawn.iter():
            for name in ("fill", "stroke"):
                assert COLOUR.fullmatch(shape.get(name, "none")), (card, shape.tag, shape.get(name))
            if shape.tag == f"{SVG}text":
                assert "DejaVu Sans" in shape.get("font-family", ""), card
                assert float(shape.get("font-size", "0").removesuffix("px")) >= 10, card
        assert "recorded · target byte-target" in words(drawn), card
        assert html.palette()[theme]["card"] in text, card
        (ARTIFACTS / f"{card.replace(' ', '-')}-{theme}.svg").write_text(text, encoding="utf-8")
    page.close()


@pytest.mark.slow
def test_the_picture_shows_what_the_card_shows(browser: Any, raced: list[AnyEvent], tmp_path: Path) -> None:
    page = opened(browser, raced, tmp_path)
    drawn = {card: ElementTree.fromstring(saved(page, card, "SVG", tmp_path).read_text("utf-8")) for card in CARDS}
    labels = page.ask("e => [...e.shadowRoot.querySelectorAll('.tree-svg text')].map((t) => t.textContent)")
    assert all(label in words(drawn["round"]) for label in labels if label)
    assert words(drawn["decision"]).split()[:4] == page.text(".decision h3").split()[:4]
    assert page.element.locator(".decision .over-q, .decision .over-p").count() == len(
        [rect for rect in drawn["decision"].iter(f"{SVG}rect") if rect.get("fill", "").startswith("url(#hatch")]
    )
    rounds = page.ask("e => e.store.lanes[0].rounds.length")
    assert len(list(drawn["strip"].iter(f"{SVG}rect"))) > rounds
    page.element.get_by_role("button", name="Mask", exact=True).click()
    page.painted()
    mask = ElementTree.fromstring(saved(page, "round", "SVG", tmp_path).read_text("utf-8"))
    rows = page.ask("e => e.cursor.round.nodes.length") + 1
    assert len(list(mask.iter(f"{SVG}rect"))) >= rows * rows
    assert "the tokens of this round" in words(mask)
    page.close()


@pytest.mark.slow
def test_the_page_is_left_as_it_was(browser: Any, raced: list[AnyEvent], tmp_path: Path) -> None:
    page = opened(browser, raced, tmp_path, viewport={"width": 1100, "height": 700})
    look = "e => [...e.shadowRoot.querySelectorAll('.card')].map((c) => [c.className, c.offsetWidth, c.offsetHeight])"
    page.ask("e => { e.shadowRoot.querySelector('.decision-body').scrollTop = 20; }")
    scrolled = page.ask("e => e.shadowRoot.querySelector('.decision-body').scrollTop")
    before = page.ask(look)
    for card in CARDS:
        saved(page, card, "SVG", tmp_path)
    page.painted()
    assert page.ask(look) == before
    assert page.ask("e => e.shadowRoot.querySelector('.decision-body').scrollTop") == scrolled
    page.close()


@pytest.mark.slow
def test_every_card_is_a_png_of_twice_its_size(browser: Any, raced: list[AnyEvent], tmp_path: Path) -> None:
    page = opened(browser, raced, tmp_path)
    for card in CARDS:
        drawn = ElementTree.fromstring(saved(page, card, "SVG", tmp_path).read_text("utf-8"))
        data = saved(page, card, "PNG", tmp_path).read_bytes()
        assert data[:8] == b"\x89PNG\r\n\x1a\n"
        assert struct.unpack(">II", data[16:24]) == (2 * int(drawn.attrib["width"]), 2 * int(drawn.attrib["height"]))
        (ARTIFACTS / f"{card.replace(' ', '-')}.png").write_bytes(data)
    page.close()


@pytest.mark.slow
def test_a_narrow_page_saves_its_outline(browser: Any, raced: list[AnyEvent], tmp_path: Path) -> None:
    page = opened(browser, raced, tmp_path, viewport={"width": 390, "height": 844})
    drawn = ElementTree.fromstring(saved(page, "round", "SVG", tmp_path).read_text("utf-8"))
    tokens = page.ask("e => e.cursor.round.nodes.map((n) => Inside.shorten(Inside.visible(n.raw), 14))")
    assert all(token in words(drawn) for token in tokens)
    page.close()


def test_what_a_model_wrote_stays_text_in_a_picture(browser: Any, raced: list[AnyEvent], tmp_path: Path) -> None:
    page = opened(browser, hostile(raced), tmp_path)
    for card in CARDS:
        text = saved(page, card, "SVG", tmp_path).read_text("utf-8")
        assert not re.search(r"<script|<img", text), card
        ElementTree.fromstring(text)
    assert page.page.evaluate("window.pwned") is None
    page.close()
