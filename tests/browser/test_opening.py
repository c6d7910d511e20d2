"""What the page opens with, on the shipped runs alone: a letter at temperature 0, and the same sampled, whose nodes say
how they were verified."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.assets import assets
from draftscope.trace import files
from draftscope.trace import html as player
from draftscope.trace.events import SCHEMA_VERSION, AnyEvent, ModelInfo, Round, RunEnd, RunStart
from draftscope_app.page import opening_settings
from draftscope_app.page.front import picture
from tests.programs.record_first import main
from tests.support.alone import Alone
from tests.support.served import FIRST

pytestmark = pytest.mark.browser
JUDGED = r"(p/q|P/Q) [\d.<>]+, u [\d.<>]+"


@pytest.fixture(scope="module")
def events() -> list[AnyEvent]:
    """The second picture: what is drawn at random stands on its nodes."""
    return list(files.read(assets() / "traces" / "sampled.jsonl.gz").events)


@pytest.fixture(scope="module")
def page(browser: Any, events: list[AnyEvent], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Alone]:
    path = tmp_path_factory.mktemp("first") / "run.html"
    path.write_text(player.page(events), encoding="utf-8")
    opened = Alone(browser, path, viewport={"width": 1440, "height": 900})
    opened.ask("e => e.transport.toEnd()")
    opened.painted()
    yield opened
    opened.close()


def box(page: Alone, selector: str) -> dict[str, float]:
    return dict(page.element.locator(selector).first.bounding_box())


@pytest.mark.parametrize(
    ("name", "set_to"), [("first", opening_settings.CHAT_FIRST), ("sampled", opening_settings.CHAT_SAMPLED)]
)
def test_the_shipped_runs_are_those_that_the_page_opens_with(name: str, set_to: dict[str, Any]) -> None:
    """And of the models as a server loads them, in everyday words; at temperature 0 both texts are the same."""
    run = files.read(assets() / "traces" / f"{name}.jsonl.gz").events
    start = next(event for event in run if isinstance(event, RunStart) and event.lane == "speculative")
    assert {event.run for event in run} == {name}
    assert {key: start.settings[key] for key in ("drafter", "gamma", "temperature", "max_new_tokens")} | {
        "prompt": start.prompt
    } == {key: value for key, value in set_to.items() if key != "seed"}
    assert start.models[0].weights.endswith("read as they are stored")
    assert start.schema_version == SCHEMA_VERSION
    written = {event.lane: event.token_ids for event in run if isinstance(event, RunEnd)}
    assert (written["plain"] == written["speculative"]) == (set_to["temperature"] == 0)


def test_the_first_picture_is_of_everyday_words_and_says_that_both_texts_are_the_same(
    browser: Any, tmp_path: Path
) -> None:
    path = tmp_path / "run.html"
    path.write_text(player.page(list(files.read(assets() / "traces" / "first.jsonl.gz").events)), encoding="utf-8")
    opened = Alone(browser, path, viewport={"width": 1440, "height": 900})
    opened.ask("e => e.transport.toEnd()")
    opened.painted()
    assert opened.text("h2:visible").endswith(", the same text.")
    assert opened.text(".badge.equal:not([hidden])") == "equal: 64 of 64"
    shown = opened.ask("e => e.cursor.round.nodes.map((node) => node.raw).concat(e.cursor.round.last.raw)")
    assert len(shown) >= 3 and all(re.fullmatch(r"\s?[A-Za-z]{2,}", word) for word in shown)
    opened.ask("""e => { Draftscope.connect({ events: ["set", "picture"], server: {},
        trigger: (kind, data) => { e.wanted = [kind, data.payload.run]; } }); e.open(); e.opening.end(); }""")
    opened.element.get_by_role("button", name="The same, sampled").click()
    assert opened.ask("e => e.wanted") == ["picture", "sampled"]
    opened.close()


@pytest.mark.slow
def test_the_run_that_tests_of_the_page_open_on_is_still_that(long_winded: tuple[Path, Path], tmp_path: Path) -> None:
    """What a recording made now would be: the same models, settings and kinds of events."""
    main(tmp_path, *map(str, long_winded), tokens=24)
    now = tmp_path / FIRST.name
    assert outline(FIRST) == outline(now), f"copy {now} to {FIRST}"


def outline(path: Path) -> list[Any]:
    """What is the same in two recordings, whatever the machine and its number type: no token and no time."""
    events = files.read(path).events
    starts = [event for event in events if isinstance(event, RunStart)]
    models = [[(model.name, model.parameters) for model in start.models] for start in starts]
    runs = [(start.schema_version, start.lane, start.settings, start.prompt) for start in starts]
    return [models, runs, sorted({event.kind for event in events})]


def test_lanes_timeline_tree_and_decision_are_the_first_screen(page: Alone) -> None:
    lanes, strip, tree, decision = (box(page, name) for name in (".lanes", ".strip", ".card.tree", ".decision"))
    assert lanes["y"] + lanes["height"] <= strip["y"]
    assert strip["y"] + strip["height"] < tree["y"] == decision["y"]
    assert tree["y"] + tree["height"] <= 900


def test_the_steps_of_the_opening_keep_their_numbers_and_stand_beside_their_own_round_alone(page: Alone) -> None:
    page.ask("e => { e.opening.offer(true); e.opening.start(); }")
    for at in range(4):
        page.ask("(e, at) => { e.opening.paused = true; e.opening.show(at); }", at)
        page.painted()
        assert page.ask("e => e.opening.root.querySelector('.now').value") == at + 1
    page.ask("e => e.opening.end()")
    words = page.element.locator(".opening ol")
    for further in (0, 1, 0):
        page.ask("(e, further) => e.cursor.select(e.opening.lane, e.opening.round.index + further)", further)
        page.painted()
        assert words.is_visible() == (further == 0)
    page.ask("e => { e.opening.offer(false); e.transport.toEnd(); }")
    page.painted()


@pytest.mark.parametrize("name", ["first", "sampled"])
def test_a_phones_first_picture_is_the_round_that_the_page_opens_on(browser: Any, tmp_path: Path, name: str) -> None:
    """Before any script runs: it showed the texts where the tree then came."""
    events = files.read(assets() / "traces" / f"{name}.jsonl.gz").events
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 844})
    before = context.new_page()
    before.set_content(picture(events, []))
    card = before.locator(".ds-front-round")
    assert card.is_visible()
    title, rows = card.locator("h3").inner_text(), [row.inner_text().split()[1] for row in card.locator("li").all()]
    context.close()
    path = tmp_path / "run.html"
    path.write_text(player.page(list(events)), encoding="utf-8")
    opened = Alone(browser, path, viewport={"width": 390, "height": 844})
    opened.ask("e => e.transport.toEnd()")
    opened.painted()
    assert opened.text(".card.tree h2, .card.tree h3") == title
    assert opened.element.locator(".outline .token").all_inner_texts() == rows
    opened.close()


def test_every_judged_node_carries_its_ratio_its_draw_and_its_outcome(page: Alone, events: list[AnyEvent]) -> None:
    rounds = [event for event in events if isinstance(event, Round) and event.lane == "speculative"]
    for index in (0, len(rounds) // 2, page.ask("e => e.cursor.at.round")):
        page.ask(f"e => e.cursor.select(e.store.lanes[1], {index})")
        page.painted()
        verified = {child.node: child for decision in rounds[index].decisions for child in decision.children}
        assert verified
        for node, child in verified.items():
            lines = page.element.locator(f".tree-svg .node[data-key='{node}'] .pq").all_text_contents()
            assert re.fullmatch(JUDGED, lines[0]), lines
            assert lines[1] == ("accepted" if child.passed else "rejected")
        unjudged = page.element.locator(".tree-svg .node.unvisited .pq").all_text_contents()
        assert not any("u " in text for text in unjudged)


def test_what_stands_beneath_a_node_can_be_read_where_an_edge_crosses_it(page: Alone) -> None:
    found = page.ask("""e => { const seen = (of) => getComputedStyle(e.shadowRoot.querySelector(of));
        const { paintOrder, stroke, strokeWidth } = seen(".tree-svg .pq");
        return [paintOrder.split(" ")[0], stroke === seen(".card.tree").backgroundColor, strokeWidth]; }""")
    assert found == ["stroke", True, "2px"]  # wider, it would cut the frame of a chosen node


def test_every_lane_states_the_middle_and_the_worst_gap(page: Alone, events: list[AnyEvent]) -> None:
    for i, lane in enumerate(("plain", "speculative")):
        gaps = sorted(
            b.end - a.end for a, b in pairwise([e for e in events if isinstance(e, Round) and e.lane == lane])
        )
        told = page.element.locator(".lane .gaps").nth(i).inner_text()
        middle = gaps[len(gaps) // 2] if len(gaps) % 2 else sum(gaps[len(gaps) // 2 - 1 : len(gaps) // 2 + 1]) / 2
        shown = re.fullmatch(r"gap ([\d.]+) ms, 99% < ([\d.]+) ms", told)
        assert shown is not None, told
        assert float(shown[1]) == pytest.approx(middle, rel=0.01)
        assert float(shown[1]) < float(shown[2]) <= gaps[-1] * 1.01
        assert page.element.locator(".lane .heartbeat path:not(.ground)").nth(i).get_attribute("d").count("M") > 10


def test_a_recorded_run_shows_the_text_of_the_round_that_is_looked_at(page: Alone) -> None:
    shown = page.ask("""e => { const box = e.lanes[1].pane.getBoundingClientRect();
        const at = e.shadowRoot.querySelector('.t.sel').getBoundingClientRect();
        return at.bottom <= box.bottom + 2 && at.top >= box.top - 2; }""")
    assert shown


SHOWN = """e => e.lanes.map(({ pane, spans }) => { const a = pane.getBoundingClientRect();
    return spans.filter((s) => { const b = s.getBoundingClientRect();
        return b.height && b.top >= a.top - 2 && b.bottom <= a.bottom + 2; }).length; })"""


def test_a_scene_of_the_race_shows_text_of_the_run(page: Alone) -> None:
    page.ask("e => e.scenes.to(1)")
    page.painted()
    shown = page.ask(SHOWN)
    page.ask("e => e.scenes.to(0)")
    assert min(shown) > 10


def test_a_text_that_is_written_shows_its_end_in_both_lanes(page: Alone) -> None:
    page.ask("e => { e.transport.seek(0.4 * e.transport.now); e.request(); }")
    page.painted()
    shown = page.ask(SHOWN)
    page.ask("e => e.transport.toEnd()")
    page.painted()
    assert min(shown) > 10


def test_stages_and_a_hidden_result_leave_lanes_and_headline_in_place(page: Alone) -> None:
    page.painted()
    kept = (".lanes", ".lane:nth-child(2) .pane", ".tree-body")
    headline, places = page.text("h2:visible"), [box(page, name) for name in kept]
    back = page.element.get_by_role("button", name="Show the whole round")
    assert not back.is_visible()
    for press in ("Draft", "Hide the result"):
        page.element.locator(".tree").get_by_role("button", name=press, exact=True).click()
        page.painted()
        assert page.text("h2:visible") == headline
        assert [box(page, name) for name in kept] == places
        first = page.ask("e => e.cursor.round.firstToken")
        told = page.ask("""e => e.lanes.map((v) => v.spans.filter((s) => !s.hidden
            && getComputedStyle(s).visibility === 'visible').length)""")
        assert max(told) <= first  # what comes after is not told, and keeps its place
        assert page.ask("e => e.transport.whole")
        back.click()
        page.painted()
        assert not back.is_visible()
        assert page.ask("e => e.cursor.hiding") is False
        assert page.element.locator(".t.covered").count() == 0


def test_gaps_follow_the_clock(page: Alone) -> None:
    page.ask("e => e.transport.scrub(0)")
    page.painted()
    assert page.element.locator(".lane .gaps").first.inner_text() == "no gap yet"
    page.ask("e => e.transport.toEnd()")
    page.painted()


@pytest.mark.slow
def test_the_embedded_model_is_called_what_it_is(
    browser: Any, page: Alone, events: list[AnyEvent], tmp_path: Path
) -> None:
    assert page.text(".demo") == ""  # a real model needs no excuse
    embedded = ModelInfo(role="target", name="llama-draftscope-15m", layers=6, hidden=384, parameters=14_600_000)
    run = [each.model_copy(update={"models": [embedded]}) if isinstance(each, RunStart) else each for each in events]
    (tmp_path / "run.html").write_text(player.page(run), encoding="utf-8")
    opened = Alone(browser, tmp_path / "run.html")
    opened.painted()
    assert opened.text(".demo") == "14.6M demo model: watch the mechanism, not the prose"
    opened.close()


def test_no_void_beside_the_round(page: Alone) -> None:
    tree, decision, scale = (box(page, f".pair > .{name}") for name in ("tree", "decision", "scale"))
    assert decision["y"] == tree["y"]
    assert scale["y"] > tree["y"] + tree["height"]
    assert (scale["x"], scale["width"]) == (tree["x"], tree["width"])
    assert decision["y"] + decision["height"] == pytest.approx(scale["y"] + scale["height"], abs=1)


def test_the_answer_of_a_chat_model_stands_apart_from_its_prompt(page: Alone, events: list[AnyEvent]) -> None:
    asked = next(event for event in events if isinstance(event, RunStart))
    assert asked.rendered
    answers = {event.lane: event.text for event in events if isinstance(event, RunEnd)}
    written_in_order = [answers[lane] for lane in page.ask("e => e.store.lanes.map((lane) => lane.start.lane)")]
    for text, written in zip(page.element.locator(".pane").all_text_contents(), written_in_order, strict=True):
        prompt, answer = text.split("\n\nanswer: ", 1)
        assert prompt.endswith(asked.prompt)
        assert answer.startswith(written[:40])
