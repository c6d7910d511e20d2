"""The composer: a prompt that is whole, examples under it, and what a link or an edit says about the picture."""

from __future__ import annotations

import re
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace.files import line
from draftscope_app.page import bundle, controls
from tests.support.browsers import violations
from tests.support.raced import race_of
from tests.support.visit import ENDLESS

pytestmark = pytest.mark.browser
LINES = "def fib(n):\n    if n < 2:\n        return n\n    return fib(n - 1) + fib(n - 2)\nprint(fib(10))"
BELOW = "() => document.querySelector('#ds-main').getBoundingClientRect().top"
FITS = """() => { const text = document.querySelector('#ds-prompt textarea');
    return [text.scrollHeight <= text.clientHeight + 1, text.clientHeight]; }"""


def test_a_prompt_grows_with_its_lines_and_nothing_below_it_moves(lent: Any) -> None:
    """Of five lines of code it showed one, and no sign of more."""
    page = lent()
    below = page.page.evaluate(BELOW)
    for count in (3, 5):
        page.page.fill("#ds-prompt textarea", "\n".join(LINES.split("\n")[:count]))
        page.painted(4)
        whole, height = page.page.evaluate(FITS)
        assert whole and height >= 20 * count
        assert page.page.evaluate(BELOW) == below
    page.page.fill("#ds-prompt textarea", "a line\n" * 20)
    page.painted(4)
    whole, height = page.page.evaluate(FITS)
    assert not whole and height <= 130  # six lines, then it scrolls
    assert page.page.evaluate(BELOW) == below
    page.page.fill("#ds-prompt textarea", LINES)
    page.page.click("h1")  # and it keeps its lines when the reader turns to something else
    page.painted(4)
    assert page.page.evaluate(FITS)[0]
    boxes = [page.page.locator(name).bounding_box() for name in ("#ds-prompt", "#ds-kinds", "#ds-drafter")]
    assert all(box["y"] >= boxes[0]["y"] + boxes[0]["height"] for box in boxes[1:])


def test_examples_of_prompts_are_one_press_away(lent: Any) -> None:
    page = lent()
    for kind, prompts in bundle.presets().items():
        page.page.locator("#ds-kinds").get_by_role("button", name=kind, exact=True).click()
        page.page.wait_for_function(
            "(wanted) => wanted.includes(document.querySelector('#ds-prompt textarea').value)", arg=prompts
        )
    page.painted(4)
    assert page.page.evaluate(FITS)[0]


NAMES_RUN = """([words, labels]) => { Inside.give({ labels });
    return words.filter((word) => { history.replaceState(null, "", `?${word}=1`); return Inside.namesRun(); }); }"""


def test_a_link_that_says_what_to_run_shows_no_other_run(visit: Any) -> None:
    """Its prompt and "N-gram" stood in the controls, and below them another run's text and speed."""
    page = visit("?prompt=" + LINES.replace("\n", "%0A").replace("+", "%2B"))
    page.ready()
    page.page.wait_for_function("() => document.querySelector('#ds-prompt textarea').value.startsWith('def')")
    page.painted(6)
    assert page.page.evaluate(FITS)[0]  # it is whole
    assert page.page.get_attribute("#ds-prompt textarea", "dir") == "auto"
    assert page.text(".empty").startswith("Nothing has run yet. Press Run.")
    assert page.ask("e => e.store.lanes.length") == 0
    assert page.element.locator("h2:visible, .lane:visible").count() == 0
    words = [*controls.names(), "round", "door", "lesson"]
    assert page.page.evaluate(NAMES_RUN, [words, controls.labels()]) == list(controls.names())


def test_what_is_edited_while_a_run_goes_on_is_said_at_once(lent: Any) -> None:
    """It was said only once the whole runs had been timed as well: until then controls and picture disagreed."""
    page = lent(ENDLESS)
    page.page.click("#ds-run")
    page.until("e => e.state === 'running' && e.store.lanes.length > 1 && e.store.lanes[1].rounds.length > 0")
    assert page.element.locator(".changed:visible").count() == 0
    assert violations(page.page) == []
    page.page.fill("#ds-prompt textarea", "another prompt")
    page.until("e => e.shadowRoot.querySelector('.changed').textContent === 'changed: prompt; press Run'")
    assert page.ask("e => e.state") == "running"
    page.page.click("#ds-stop")
    page.until("e => e.state === 'done'")
    assert page.text(".changed") == "changed: prompt; press Run"


@pytest.mark.slow
def test_a_link_covers_nothing_and_says_what_it_carries(lent: Any) -> None:
    page = lent()
    page.page.evaluate("() => { navigator.clipboard.writeText = async () => {}; }")
    page.menu("share")
    page.page.click("#ds-link")
    page.until(
        "e => /^Link copied. It carries the prompt and the settings, not the run/.test(e.message.text.textContent)"
    )
    page.page.evaluate("scrollTo(0, 300)")
    page.painted()
    message, lanes, strip = (
        page.element.locator(part).first.bounding_box() for part in (".message", ".lanes", ".strip")
    )
    assert message["y"] + message["height"] <= lanes["y"] < strip["y"]
    assert re.search("static", page.element.locator(".messages").evaluate("e => getComputedStyle(e).position"))
    page.page.evaluate("() => { delete navigator.clipboard.writeText; }")


DROP = """([name, text]) => {
    const files = new DataTransfer();
    files.items.add(new File([text], name));
    const dropped = (kind) => new DragEvent(kind, { bubbles: true, cancelable: true, dataTransfer: files });
    const place = document.querySelector("draftscope-instrument");
    return [place.dispatchEvent(dropped("dragover")), place.dispatchEvent(dropped("drop"))]; }"""


@pytest.mark.slow
def test_a_file_that_is_dropped_on_the_page_opens(lent: Any, pair: DecodingEngine) -> None:
    """Nothing happened."""
    page = lent()
    run = "\n".join(line(event) for event in race_of(pair, drafter="draft"))
    assert page.page.evaluate(DROP, ["run.jsonl", run]) == [False, False]  # the browser does not open it itself
    page.until("e => e.store.run === 'r' && e.store.source === 'recorded'")
    held: list[Any] = []
    page.page.route("**/queue/join*", lambda route: route.continue_() if held else held.append(route))
    for name in ("slow", "later"):  # two runs, of which the first is still on its way
        with page.page.expect_response("**/upload*"):
            page.page.evaluate(DROP, [f"{name}.jsonl", run.replace('"run":"r"', f'"run":"{name}"')])
        while not held:
            page.page.wait_for_timeout(10)
    held[0].continue_()
    page.until("e => e.store.run === 'later'")
    page.page.evaluate(DROP, ["notes.txt", "no run"])
    page.until("e => e.message.text.textContent.length > 0")
    assert page.ask("e => e.store.run") == "later"
