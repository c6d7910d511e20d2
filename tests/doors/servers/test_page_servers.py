"""The Servers view: addresses are added, servers raced as lanes and load-tested, and audits say what was found."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.doors.servers.load.test_load_curve import stopping
from tests.doors.servers.load.test_load_curve_js import document
from tests.doors.servers.stubs import Habits, stub
from tests.support.browsers import assert_accessible
from tests.support.models import byte_tokenizer
from tests.support.visit import EVIL

pytestmark = [pytest.mark.browser, pytest.mark.slow]


SHOWS = "e => e.shadowRoot.querySelector('{selector}')?.innerText.includes('{words}')"


@pytest.fixture
def urls() -> Iterator[list[str]]:
    with ExitStack() as opened:
        yield [opened.enter_context(stub(habits)) for habits in (Habits(), Habits(burst=4))]


def opened(lent: Any, query: str = "") -> Any:
    page = lent(query)
    page.door("servers")
    page.until("e => e.cards.view('servers').known")
    return page


def add(page: Any, written: str, name: str) -> None:
    page.element.get_by_label("Name and address of a server").fill(written)
    page.element.get_by_role("button", name="Add", exact=True).click()
    page.until(f"e => e.cards.view('servers').known.servers.some((server) => server.name === '{name}')")


def test_servers_are_added_raced_as_lanes_audited_loaded_and_removed(lent: Any, urls: list[str]) -> None:
    page = opened(lent, "?max_new_tokens=16&temperature=0")
    field = page.element.get_by_label("Name and address of a server")
    field.fill("far=http://169.254.169.254")
    page.element.get_by_role("button", name="Add", exact=True).click()
    page.until(
        "e => !e.message.box.hidden && e.message.text.textContent.includes('not on this computer and not listed')"
    )
    for name, url in zip(("one", "two"), urls, strict=True):
        add(page, f"{name}={url}", name)
    page.element.get_by_role("button", name="Race these servers").click()
    page.until("e => e.store.lanes.length === 2 && e.store.lanes[0].start.server && e.state === 'done'")
    page.ask("e => e.transport.toEnd()")
    assert page.ask("e => e.store.lanes.map((lane) => [lane.name, lane.tokens.length, lane.rounds.length])") == [
        ["one", 16, 16],
        ["two", 16, 4],
    ]
    page.until(SHOWS.format(selector=".lane:nth-child(2) .foot", words="16 tokens in 4 bursts"))
    page.until(SHOWS.format(selector=".measured", words="seen from here"))
    page.until(SHOWS.format(selector=".measured", words="36 of 36: 1"))
    page.until(
        "e => e.pair.hidden && e.shadowRoot.querySelector('.changed').hidden"
    )  # a race has no drafter, and Run is no part of it
    page.until("e => e.shadowRoot.querySelectorAll('.lane:nth-child(2) .t.burst.odd:not([hidden])').length === 8")
    assert_accessible(page.page)
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.page.wait_for_function("document.documentElement.scrollWidth <= 390")
    page.element.get_by_role("button", name="Audit one").click()  # which cannot be made
    page.until("e => !e.message.box.hidden && e.message.text.textContent.includes('another tokenizer than the target')")
    page.until("e => !e.cards.running")
    page.element.get_by_label("Audit against").select_option("one")
    page.element.get_by_role("button", name="Audit one").click()
    page.until("e => e.message.text.textContent.includes('cannot be audited against itself')")
    page.element.get_by_role("button", name="Load test", exact=True).click()
    page.until(SHOWS.format(selector=".loaded", words="one and two under load"))
    assert page.ask("e => e.message.box.hidden")  # what was refused before is over
    page.element.locator(".loaded").get_by_role("button", name="Stop", exact=True).click()
    page.until("e => !e.cards.running")
    page.until(SHOWS.format(selector=".loaded", words="stopped after"))
    page.element.get_by_role("checkbox", name="one").focus()
    for running, words in ((True, "point 5 of 4"), (False, "4 points")):
        page.page.evaluate(LOADED, {"running": running, **document()})
        page.until(SHOWS.format(selector=".loaded", words=words))
    assert page.ask("e => e.shadowRoot.activeElement?.checked")  # what goes on elsewhere leaves the focus where it is
    page.element.locator(".loaded").get_by_role("button", name="Close").click()
    for name in ("one", "two"):
        page.element.get_by_role("button", name=f"Remove {name}").click()
        page.until(f"e => !e.cards.view('servers').known.servers.some((server) => server.name === '{name}')")


SLOWLY = """e => { // so that it still plays when it is stopped
    for (const lane of e.cards.view("recorded").record.lanes)
        lane.bursts = lane.bursts.map(([end, ...rest]) => [1000 * end, ...rest]); }"""


def test_before_a_server_is_there_a_recorded_race_plays_and_recorded_audits_are_told(lent: Any) -> None:
    page = opened(lent)
    race, audits = page.element.get_by_label("What a race shows"), page.element.get_by_label("What an audit finds")
    race.locator("line").first.wait_for(state="attached")  # an upright line has no width, so is never "visible"
    assert "recorded" in race.inner_text() and "vLLM 0." in race.inner_text() and "cores" in race.inner_text()
    assert race.locator("svg").count() == 2 and "drafted tokens as accepted" in race.inner_text()
    whole = race.locator("line").count()
    page.ask(SLOWLY)
    page.page.emulate_media(reduced_motion="no-preference")
    race.get_by_role("button", name="Play the recorded race").click()
    page.until(f"e => e.shadowRoot.querySelectorAll('.arrivals line').length < {whole}")
    race.get_by_role("button", name="Stop").click()
    page.until(f"e => e.shadowRoot.querySelectorAll('.arrivals line').length === {whole}")
    assert [each.get_attribute("data-result") for each in audits.locator(".found").all()] == ["same", "differs"]
    audits.locator("summary").last.click()
    audits.locator(".audit .bet").first.wait_for()
    commands = page.element.locator(".command code")
    commands.nth(1).wait_for()
    assert not any("MODEL" in words for words in commands.all_inner_texts())
    assert_accessible(page.page)
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.page.wait_for_function("document.documentElement.scrollWidth <= 390")


def test_an_added_address_gets_a_dot_and_a_sentence(lent: Any, urls: list[str]) -> None:
    page = opened(lent)
    said = {"one": "counts no drafts", "two": "speculates", "old": "cannot be reached"}
    for name, url in zip(said, (*urls, "http://127.0.0.1:1"), strict=True):
        add(page, f"{name}={url}", name)
        page.element.locator(".answering", has_text=said[name]).wait_for()
    dots = [dot.get_attribute("data-answers") for dot in page.element.locator(".answering .dot").all()]
    assert dots == ["answers", "answers", "silent"]
    page.element.get_by_role("button", name="Look again at old").click()
    page.element.locator(".answering", has_text="cannot be reached").wait_for()
    assert_accessible(page.page)
    for name in said:
        page.element.get_by_role("button", name=f"Remove {name}").click()
        page.until(f"e => !e.cards.view('servers').known.servers.some((server) => server.name === '{name}')")


def test_the_pages_engine_races_beside_a_server(lent: Any) -> None:
    """With the drafter of the controls; its rounds are bursts, seen as a server's are."""
    bytes_of = byte_tokenizer()
    with stub(Habits(encode=lambda text: bytes_of.encode(text, add_special_tokens=False))) as url:
        page = opened(lent, "?max_new_tokens=16&temperature=0&drafter=draft&gamma=3&prompt=abc")
        add(page, f"one={url}", "one")
        for lane in ("plain decoding", "the drafter chosen on Watch"):
            page.element.get_by_role("checkbox", name=lane).check()
        page.element.get_by_role("button", name="Race these servers").click()
        page.until("e => e.store.lanes.length === 3 && e.state === 'done'")
        page.ask("e => e.transport.toEnd()")
        lanes = page.ask("e => e.store.lanes.map((lane) => [lane.name, lane.tokens.length, lane.start.server.program])")
        assert lanes == [["one", 16, "vllm"], ["plain (here)", 16, "draftscope"], ["draft (here)", 16, "draftscope"]]
        page.until(SHOWS.format(selector=".lane:nth-child(3)", words="γ 3"))
        page.until(SHOWS.format(selector=".measured", words="draft (here)"))
        assert len(set(page.ask("e => e.store.lanes.slice(1).map((lane) => lane.end.text)"))) == 1
        assert_accessible(page.page)
        page.element.get_by_role("button", name="Remove one").click()
        page.until("e => !e.cards.view('servers').known.servers.some((server) => server.name === 'one')")


LOADED = """({ running, waits, ...event }) => {
    const element = document.querySelector("draftscope-instrument");
    const loadtest = { state: running ? "running" : "done", waits, note: "", about: {}, ev: [event] };
    element.feed(JSON.stringify({ seq: "x" + Math.random(), loadtest }));
}"""
TOLD = """({ running, ...own }) => {
    const element = document.querySelector("draftscope-instrument");
    const parts = { score: 9, ranks: -1.5, tokens: 0, contexts: 1, repetition: 0, positions: 20 };
    const positions = [{ position: 1, tokens: 40, score: 0.01, error: 0.02, z: 0.5, evidence: 0 },
                       { position: 2, tokens: 40, score: -6.3, error: 0.4, z: -15, evidence: 20 }];
    const event = { kind: "audit", server: "two", program: "vllm 0.32.0", against: "target, loaded here",
        temperature: 1, texts: 40, samples: 400, seconds: 12, evidence: 21, needed: 13.8, false_alarm: 1e-6, parts,
        positions, verdict: "", different: false, incomplete: false, created: "", ...own };
    const audit = { state: running ? "running" : "done", place: 0, note: "", about: {}, ev: [event] };
    element.feed(JSON.stringify({ seq: "x" + Math.random(), audit }));
}"""


def test_the_card_says_what_an_audit_found_in_words_shape_and_colour(lent: Any) -> None:
    page = opened(lent)

    def told(result: str, **event: Any) -> str:
        page.page.evaluate(TOLD, event)
        page.until(f"e => e.shadowRoot.querySelector('.audit')?.dataset.result === '{result}'")
        return page.text(".audit")

    shown = told("running", running=True)
    assert "? undecided so far" in shown and "40 samples of at most 400, 12.0 s" in shown
    assert "a false alarm once in 1,000,000" in shown and page.element.locator(".audit .example:visible").count() == 0
    assert page.element.locator(".audit").first.locator(".bet").count() == 7 and "mean log-probability" in shown
    found = {"verdict": f"Differs from its target. {EVIL}", "different": True, "evidence": 40}
    shown = told("differs", **found, example={"prompt": "Once ", "text": EVIL})
    assert "✗ differs from its target" in shown and EVIL in shown and "Once " in shown
    page.element.get_by_text("By position in the text").click()
    assert "−6.30" in page.text(".audit table")
    assert_accessible(page.page)
    assert "✓ no difference found" in told("same", verdict="No difference found.", evidence=-2)
    assert "this could not tell" in told("undecided", verdict="Greedy parts from plain.", undecided=True)
    assert "the server failed" in told("incomplete", verdict="The server failed.", incomplete=True)
    assert "undecided: stopped" in told("stopped")
    assert page.page.evaluate("window.pwned") is None
    page.element.get_by_role("button", name="Close").last.click()
    page.until("e => e.shadowRoot.querySelector('.audit')?.dataset.result !== 'stopped'")  # recorded audits are back


def test_a_load_test_is_drawn_beside_its_prediction_saved_and_opened_again(lent: Any, tmp_path: Path) -> None:
    page = opened(lent)
    assert not page.element.get_by_role("button", name="Open load test").is_visible()  # no server is listed
    waits = "measuring what a round costs here: 40%, about 15 s left"
    before = document(points=[], predicted=[], predicted_with="")
    page.page.evaluate(LOADED, {"running": True, "waits": waits, **before})
    page.until(SHOWS.format(selector=".loaded", words=waits))
    page.page.evaluate(LOADED, {"running": False, **document(missing={"gone": EVIL})})
    page.until(SHOWS.format(selector=".loaded", words="Speed over plain"))
    shown = page.text(".loaded")
    assert "plain and fast under load" in shown and "drafts nothing from 8 requests at once on" in shown
    assert EVIL in shown
    assert "calibration gives it for pair" in shown
    assert page.element.locator(".loaded .curve").count() == 2
    assert page.element.locator(".loaded polyline.predicted").count() == 2  # in the chart and in its legend
    assert page.element.locator(".loaded line.stops").count() == 2
    page.element.get_by_label("Measure", exact=True).select_option("latency")
    page.until(SHOWS.format(selector=".loaded .curve[data-unit=ms]", words=""))
    page.element.get_by_text("Every point as a table").click()
    assert "TTFT p99" in page.text(".loaded table")
    assert_accessible(page.page)
    page.page.set_viewport_size({"width": 390, "height": 844})
    page.page.wait_for_function("document.documentElement.scrollWidth <= 390")
    assert page.element.locator(".loaded .lines:visible").count() == 2
    with page.page.expect_download() as saved:
        page.element.get_by_role("button", name="Save", exact=True).click()
    file = tmp_path / "load.json"
    saved.value.save_as(file)
    page.element.get_by_role("button", name="Close").last.click()
    page.until("e => !e.shadowRoot.querySelector('.loaded')")
    page.element.locator("input[type=file]").set_input_files(file)
    page.until("e => e.shadowRoot.querySelectorAll('.loaded line.stops').length === 2")
    (wrong := tmp_path / "wrong.json").write_text("[]")
    page.element.locator("input[type=file]").set_input_files(wrong)
    page.until("e => !e.message.box.hidden && e.message.text.textContent.includes('“wrong.json” is no load test')")
    page.page.evaluate(LOADED, {"running": False, **stopping().model_dump(mode="json")})
    page.until(SHOWS.format(selector=".loaded", words="fast: drafts nothing from 4 requests at once on"))
    at = "e => { const svg = e.shadowRoot.querySelector('.loaded svg'); const line = svg.querySelector('line.stops');"
    words = page.ask(
        f"{at} return [...svg.querySelectorAll('text')].find((t) => t.textContent === '4').getAttribute('x'); }}"
    )
    assert page.ask(f"{at} return line.getAttribute('x1'); }}") == words
    assert page.page.evaluate("window.pwned") is None
    page.element.locator(".loaded").get_by_role("button", name="Close").click()
