"""The page in a real browser, on a tiny random pair: what a visitor does, and what must never happen.

Skipped where no Chromium is found, unless DRAFTSCOPE_REQUIRE_BROWSER=1. Screenshots go to tests/artifacts/.
"""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace import files
from draftscope_app.page.host import qr_rows
from tests.support.browsers import ARTIFACTS, assert_accessible
from tests.support.raced import hostile, race_of
from tests.support.visit import ENDLESS, EVIL, UNFOLDS, load, record

pytestmark = pytest.mark.browser

STOP = "document.querySelector('#ds-stop').click()"


# What a visitor sees and does.


def test_it_opens_on_a_recorded_run(visit: Any) -> None:
    page = visit()
    assert page.text(".badge") == "recorded"
    headline = page.text("h2:visible")
    said = re.match(
        r"\d+ tokens in \d+ passes of the large model; plain decoding needed \d+; ([\d.]+) times as fast"
        r"(?:, the same text)?\.",
        headline,
    )
    assert "median of 5 whole runs [" in page.figure("speed")
    rates = [float(page.element.locator(".lane .rate").nth(i).inner_text()) for i in (0, 1)]
    assert said and float(said[1]) == pytest.approx(rates[1] / rates[0], abs=0.02)


def test_greedy_lanes_are_counted_equal_and_changed_settings_are_named(lent: Any) -> None:
    page = lent("?max_new_tokens=24")
    page.run(alone=True)
    assert page.text(".badge") == "live"
    own, plain = (page.ask(f"e => e.store.lanes[{i}].end.token_ids") for i in (1, 0))
    assert own == plain
    assert f"{len(own)} of {len(own)}" in page.figure("distribution")
    assert page.text("h2:visible").startswith(
        f"{len(own)} tokens in {page.ask('e => e.store.lanes[1].rounds.length')} passes of the large model"
    )
    page.until("e => e.store.lanes.every((l) => l.solo && l.solo.seconds.length === 3)")
    assert "median of 3 whole runs [" in page.figure("speed")
    page.until("e => e.shadowRoot.querySelector('.changed').hidden")
    page.fill("seed", "99")
    page.until("e => e.shadowRoot.querySelector('.changed').textContent === 'changed: seed; press Run'")


@pytest.mark.slow
def test_stop_freezes_the_picture_and_keeps_what_was_measured(lent: Any) -> None:
    """The engine had finished; the slowed replay went on for seconds, and the solo runs were lost."""
    page = lent("?max_new_tokens=24&temperature=1")
    page.page.emulate_media(reduced_motion="no-preference")
    before = json.dumps(page.ask("e => e.store.run"))
    page.ask("e => { e.transport.speed = 100; }")
    page.page.click("#ds-run")
    page.until(
        f"e => e.store.run !== {before} && e.transport.playing && e.store.lanes.length > 1 && "
        "e.store.lanes.every((l) => l.end)"
    )
    assert (page.text(".badge"), page.text(".clock > .pace")) == ("live", "slowed 100×")
    page.page.click("#ds-stop")
    now = page.ask("e => e.transport.now")
    page.until("e => e.state === 'done'")
    page.painted(20)  # in which the clock may not move
    assert page.ask("e => e.transport.now") == now < page.ask("e => e.transport.end")
    assert page.text(".badge") == "live"
    assert page.ask("e => e.store.lanes.map((l) => l.solo?.seconds.length)") == [3, 3]


@pytest.mark.slow
def test_stop_ends_the_run_at_once_and_freezes_the_picture(lent: Any) -> None:
    page = lent(ENDLESS)
    page.page.emulate_media(reduced_motion="no-preference")
    before = json.dumps(page.ask("e => e.store.run"))
    page.ask("e => { e.transport.speed = 100; }")
    page.page.click("#ds-run")
    started = f"e.store.run !== {before} && e.transport.playing && e.transport.now > 0 && e.store.lanes.length > 1"
    page.until(f"e => {started} && ({STOP}, true)")  # in one go: on a busy machine a click may come seconds later
    page.until("e => e.store.lanes.every((l) => l.end) && e.state === 'done'")
    assert page.ask("e => e.store.lanes.map((l) => l.end.reason)") == ["cancelled", "cancelled"]
    assert page.ask("e => e.transport.now") < page.ask("e => e.transport.end")
    page.until("e => e.lead.sentence.textContent.endsWith('Stopped here.')")


@pytest.mark.slow
def test_a_stop_that_overtakes_its_run_ends_it(lent: Any) -> None:
    """Nothing stopped: the engine had nothing to stop yet."""
    page = lent(ENDLESS)
    held: list[Any] = []
    page.page.route("**/queue/join*", lambda route: route.continue_() if held else held.append(route))
    page.page.click("#ds-run")
    while not held:
        page.page.wait_for_timeout(10)
    with page.page.expect_response(lambda response: "/run/" in response.url):
        page.page.click("#ds-stop")
    held[0].continue_()
    page.until("e => e.store.source === 'live' && e.state === 'done'")
    assert set(page.ask("e => e.store.lanes.map((l) => l.end.reason)")) <= {"cancelled"}


@pytest.mark.slow
def test_a_press_of_run_greys_what_another_run_has_shown(lent: Any) -> None:
    """Eight fast clicks showed nothing for 4 s."""
    page = lent("?max_new_tokens=16")
    seen = page.page.evaluate(
        "() => new Promise((done) => { for (let i = 0; i < 8; i++) document.querySelector('#ds-run').click();"
        " const e = document.querySelector('draftscope-instrument');"
        " requestAnimationFrame(() => requestAnimationFrame(() => done([e.lead.root.className,"
        " e.lead.root.querySelector('.lead-foot').textContent]))); })"
    )
    assert "stale" in seen[0] and re.search("starting …|in the queue|waiting for the engine", seen[1])
    page.until("e => e.store.source === 'live' && e.state === 'done' && e.store.over")
    page.until("e => !e.lead.root.classList.contains('stale')")


@pytest.mark.slow
def test_a_run_whose_drafter_chooses_by_costs_begins_at_once_and_says_by_which(lent: Any) -> None:
    """It measured for 70 s first. A temperature of its own: what one tree was shaped by is kept."""
    page = lent("?drafter=sequoia&temperature=0.37&max_new_tokens=16")
    page.run()
    start = page.ask("e => e.store.lanes[1].start")
    assert start["drafter"] == "sequoia" and start["costs"]
    assert start["costs"] in " ".join(page.text(".strip").split())


@pytest.mark.slow
def test_above_zero_the_distribution_is_the_same_and_the_draws_are_not(lent: Any) -> None:
    """A chain is verified token by token unless its block is asked for, which takes one click."""
    page = lent("?temperature=1&max_new_tokens=16&seed=3")
    page.run()
    assert "same distribution" in page.figure("distribution").lower()
    used = "e => [...new Set(e.store.lanes[1].rounds.flatMap((r) => r.decisions.map((d) => d.rule)))]"
    assert page.ask(used) == ["token"]
    page.element.get_by_role("button", name="Use block verification").click()
    page.page.wait_for_function("() => document.querySelector('#ds-rule input').value.startsWith('block')")
    page.run()
    assert page.ask(used) == ["block"]
    assert page.element.get_by_role("button", name="Use the token rule").is_visible()


@pytest.mark.slow
def test_step_goes_one_round_at_a_time(lent: Any) -> None:
    page = lent("?temperature=1&max_new_tokens=64")
    for rounds in (1, 2, 3):
        page.page.click("#ds-step")
        page.until(
            f"e => e.store.source === 'live' && e.state === 'stepping' && e.store.lanes[1].rounds.length === {rounds}"
        )
        assert not re.search(r"\b1 (tokens|rounds)\b", page.figure("tau"))
    page.page.wait_for_timeout(200)  # in which no round may come
    assert page.ask("e => e.store.lanes[1].rounds.length") == 3
    assert "stepping" in page.text(".badge")
    assert page.ask("e => e.cursor.at.round") == 2
    page.page.click("#ds-stop")
    page.until("e => e.state === 'done'")


@pytest.mark.slow
def test_you_draft(lent: Any) -> None:
    page = lent("?drafter=typed&max_new_tokens=16")
    page.page.wait_for_selector("#ds-typed", state="visible")
    page.page.click("#ds-run")
    page.until("e => /typed draft is empty/.test(e.message.text.textContent)")
    page.fill("typed", " and then they all went home.")
    page.run()
    assert page.ask("e => e.store.lanes[1].start.drafter") == "typed"


# Addresses, files.


@pytest.mark.slow
def test_settings_live_in_the_address(visit: Any) -> None:
    page = visit("?temperature=0.7&top_p=0.9&seed=11&max_new_tokens=16&gamma=6&prompt=hello%20there&rule=block")
    page.ready()
    page.page.wait_for_function("() => document.querySelector('#ds-prompt textarea').value === 'hello there'")
    page.run()
    settings = page.ask("e => e.store.lanes[1].start.settings")
    for name, value in {
        "temperature": 0.7,
        "top_p": 0.9,
        "seed": 11,
        "max_new_tokens": 16,
        "gamma": 6,
        "rule": "block",
    }.items():
        assert settings[name] == pytest.approx(value) if isinstance(value, float) else settings[name] == value, name
    for part in ("temperature=0.7", "gamma=6", "prompt=hello+there", "rule=block"):
        assert part in page.page.url
    page.page.get_by_text("After the run").click()
    page.page.wait_for_function("() => document.querySelectorAll('#ds-after .js-plotly-plot').length === 3")


@pytest.mark.slow
def test_a_refused_clipboard_shows_the_link_and_a_teachers_is_offered(lent: Any) -> None:
    page = lent("?seed=5")
    page.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('closed')); }")
    page.page.wait_for_function("() => document.querySelector('#ds-seed input')?.value === '5'")
    page.menu("share")
    page.page.click("#ds-link")
    page.until("e => /seed=5/.test(e.message.field.value)")
    assert page.ask("e => !e.message.field.hidden && e.message.field.value.startsWith(location.origin)")
    assert page.ask("e => /prompt=.*drafter=draft/.test(e.message.field.value)")  # the defaults of today
    assert "Nobody else can open it" in page.text(".message")
    assert page.element.locator(".message .code svg").count() == 0
    page.ask("() => { Draftscope.give({ network: 'http://192.0.2.7:7860/' }); }")
    page.menu("share")
    page.page.click("#ds-link")
    page.until("e => e.message.field.value.startsWith('http://192.0.2.7:7860/?')")
    assert page.element.get_by_role("img", name="QR code of the link").is_visible()
    link = page.ask("e => e.message.field.value")
    dots = [(x, y) for y, row in enumerate(qr_rows(link)) for x, dot in enumerate(row) if dot == "1"]
    drawn = page.ask("e => e.message.code.querySelector('path').getAttribute('d')")
    assert dots and drawn == "".join(f"M{x + 4} {y + 4}h1v1h-1z" for x, y in dots)  # 4: the edge that cameras need
    page.page.screenshot(path=ARTIFACTS / "link.png")
    page.until("e => /seed=5/.test(e.message.field.value)")
    assert not page.ask("e => /teach=/.test(e.message.field.value)")
    page.element.get_by_role("button", name="Copy a teacher's link").click()
    page.until("e => /seed=5.*teach=1/.test(e.message.field.value) && e.message.offers.hidden")
    page.page.evaluate("() => { delete navigator.clipboard.writeText; Draftscope.give({ network: '' }); }")


def test_a_run_is_saved_as_a_page_too_and_replayed_and_bad_files_change_nothing(
    lent: Any, visit: Any, tmp_path: Path
) -> None:
    page = lent("?temperature=1&max_new_tokens=24&seed=9")
    page.run()
    sentence = page.text("h2:visible")
    read = files.read(saved := record(page, tmp_path))
    assert not read.warning
    assert {event.lane for event in read.events} == {"plain", "speculative"}
    page.until("e => !e.message.offers.hidden")
    with page.page.expect_download() as download:
        page.element.get_by_role("button", name="Save as a page that plays offline").click()
    assert download.value.suggested_filename == "draftscope-run.html"
    download.value.save_as(tmp_path / "run.html")
    alone = page.context.new_page()
    alone.goto((tmp_path / "run.html").as_uri())
    alone.wait_for_function("() => document.querySelector('draftscope-instrument').store.lanes.length > 1")
    tokens = "e => e.store.lanes.map((l) => l.end.token_ids)"
    assert alone.locator("draftscope-instrument").evaluate(tokens) == page.ask(tokens)
    alone.close()

    other = visit()
    before = other.text("h2:visible")
    foreign = tmp_path / "holiday.jsonl"
    foreign.write_text('{"hello": "world"}\n')
    load(other, foreign)
    other.until("e => /holiday.jsonl.*is not a Draftscope trace/.test(e.message.text.textContent)")
    assert other.text("h2:visible") == before

    load(other, saved)
    other.until("e => e.store.run !== 'first' && e.store.lanes.length === 2")
    other.painted()
    assert other.text("h2:visible") == sentence
    assert other.text(".badge") == "recorded"

    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(saved.read_bytes()[: saved.stat().st_size * 3 // 4])
    load(other, cut)
    other.until("e => /breaks off after \\d+ events/.test(e.message.text.textContent)")
    assert other.ask("e => !e.message.box.hidden")
    rounds = [event for event in files.read(cut).events if event.kind == "round"]  # of which lane, the race decides
    assert rounds
    assert other.ask("e => e.store.lanes.reduce((sum, lane) => sum + lane.rounds.length, 0)") == len(rounds)


@pytest.mark.slow
def test_one_lane_alone_is_a_run_too(lent: Any, pair: DecodingEngine, tmp_path: Path) -> None:
    page = lent("?drafter=plain&max_new_tokens=12")
    page.run()
    assert page.text("h2:visible") == "12 tokens in 12 passes of the large model, one for each."
    assert page.element.locator(".lane").count() == 1
    files.write(tmp_path / "alone.jsonl", [event for event in race_of(pair) if event.lane == "speculative"])
    load(page, tmp_path / "alone.jsonl")
    page.until("e => e.store.source === 'recorded' && e.store.lanes.length === 1")
    page.painted()
    assert re.fullmatch(r"24 tokens in \d+ passes of the large model\.", page.text("h2:visible"))


@pytest.mark.slow
def test_controls_fill_and_ask_and_bad_input_is_one_sentence(lent: Any) -> None:
    """A scene covers them. Presets fill the prompt, only what the drafter reads is asked for, and after bad input the
    shown run stays."""
    page = lent()
    page.ask("e => e.scenes.to(4)")
    box = page.ask("e => { const b = e.getBoundingClientRect(); return [b.left, b.top, b.width, b.height]; }")
    assert box == [0, 0, 1440, 1000]
    assert page.page.evaluate("document.elementFromPoint(20, 980).tagName") == "DRAFTSCOPE-INSTRUMENT"
    page.page.keyboard.press("Escape")
    page.painted()
    assert "scene" not in page.page.url
    before = page.text("h2:visible")
    page.more()
    page.page.wait_for_selector("#ds-gamma", state="visible")
    page.choose("tree")
    page.page.wait_for_selector("#ds-shape", state="visible")
    page.page.wait_for_selector("#ds-gamma", state="hidden")
    page.page.get_by_role("button", name="code", exact=True).click()
    page.page.wait_for_function("() => !document.querySelector('#ds-prompt textarea').value.startsWith('Once')")
    first = page.page.input_value("#ds-prompt textarea")
    assert "import" in first or "def " in first
    page.page.get_by_role("button", name="code", exact=True).click()
    page.page.wait_for_function("(first) => document.querySelector('#ds-prompt textarea').value !== first", arg=first)
    page.fill("prompt", "")
    page.page.click("#ds-run")
    page.until("e => /prompt is empty/.test(e.message.text.textContent)")
    page.fill("prompt", "word " * 9000)
    page.page.click("#ds-run")
    page.until("e => /context holds/.test(e.message.text.textContent)")
    page.fill("prompt", "x")
    page.fill("seed", "-4")
    page.page.click("#ds-run")
    page.until("e => /seed = -4/.test(e.message.text.textContent)")
    assert page.text("h2:visible") == before
    assert page.text(".badge") == "recorded"


@pytest.mark.slow
def test_an_address_that_asks_for_nonsense_is_one_sentence(visit: Any) -> None:
    page = visit("?gamma=99&drafter=drft&rule=dice&temperature=warm&max_new_tokens=8")
    page.until("e => /temperature = 'warm'/.test(e.message.text.textContent)")
    page.ready()
    page.page.click("#ds-run")
    page.until("e => /rule = 'dice'|gamma = 99|no drafter/.test(e.message.text.textContent)")
    assert page.text(".empty").startswith("Nothing has run yet.")


@pytest.mark.slow
def test_what_a_model_writes_stays_text(lent: Any, tmp_path: Path) -> None:
    """A hostile trace: markup in the prompt, in tokens, in distributions, in models' names and in the end's message."""
    page = lent("?temperature=1&max_new_tokens=16&prompt=" + urllib.request.quote(EVIL))
    page.run()
    files.write(tmp_path / "hostile.jsonl", hostile([*files.read(record(page, tmp_path)).events]))
    load(page, tmp_path / "hostile.jsonl")
    page.until("e => e.store.source === 'recorded'")
    page.painted()
    for title in UNFOLDS:
        page.unfold(title)
    page.element.get_by_text("The rounds as a table").click()
    page.element.get_by_role("button", name="this rule").or_(
        page.element.get_by_role("button", name="this block")
    ).click()
    for face in ("Table", "Mask", "Tree"):
        page.element.get_by_role("button", name=face, exact=True).click()
        page.painted()
    assert page.ask("e => e.shadowRoot.querySelectorAll('img, script, iframe').length") == 0
    assert page.page.evaluate("window.pwned") is None
    assert "<img src=x" in page.text(".lane .pane")


def test_a_token_split_over_bytes_is_one_character(functions: Any) -> None:
    folded = functions.evaluate("""() => {
        const D = Inside, store = D.newStore();
        const round = { kind: "round", run: "x", lane: "a", start: 0, end: 1, nodes: [], decisions: [], accepted: 1,
                        last: { kind: "bonus", slot: 0 } };
        D.fold(store, { ...round, emitted: [1, 2], emitted_raw: ["\\u00c3", "\\u00a9!"], text_delta: "\\u00e9!" });
        return [store.lanes[0].tokens.map((t) => t.text), D.visible("\\u00c3"), D.visible(" a\\n"),
                D.visible("\\u00e2\\u0080\\u008b"), D.formatProb(0.125), D.formatProb(0)];
    }""")
    assert folded == [["", "é!"], "‹C3›", "·a⏎", "‹U+200B›", ".13", "0"]


# However many events the server found together, the page gets each alone; some are lost.
ONE_BY_ONE = """e => {
    const feed = e.feed.bind(e);
    e.feed = (text) => {
        const d = JSON.parse(text);
        if (!d.run || !("paced" in d)) return feed(text);
        const { note, ...first } = { ...d, state: d.ev.length > 1 ? "running" : d.state };
        const parts = d.ev.slice(0, -1).map((event, i) => ({ ...first, seq: d.seq + i, ev: [event] }));
        const last = { ...d, seq: d.seq + parts.length, ev: d.ev.slice(-1) };
        for (const part of [...parts, last])
            if (e.loses(part, e.counted++)) e.lost += 1;
            else feed(JSON.stringify(part));
    };
}"""


ALL_AT_ONCE = "e => { delete e.feed; }"


@pytest.mark.slow
def test_a_lost_delta_is_asked_for_again(lent: Any) -> None:
    """One in the middle, the last, the first ones: each time the run is whole in the end."""
    page = lent("?temperature=1&max_new_tokens=48")
    page.ask(ONE_BY_ONE)
    for lost in ("n === 2", "d.seq > 0 && d.state === 'done'", "n < 4"):
        page.ask(f"e => {{ e.lost = e.counted = 0; e.loses = (d, n) => {lost}; }}")
        page.run()
        assert page.ask("e => e.lost") > 0, lost
        assert page.ask("e => e.store.lanes.map((l) => l.tokens.length)") == [48, 48], lost
        assert page.ask("e => e.store.lanes.map((l) => l.end.token_ids.length)") == [48, 48], lost
    page.ask(ALL_AT_ONCE)


@pytest.mark.slow
def test_two_visitors_get_their_own_runs(lent: Any, visit: Any) -> None:
    first, second = lent("?temperature=1&max_new_tokens=32"), visit("?temperature=1&max_new_tokens=16")
    second.ready()
    first.page.click("#ds-run")
    second.run()
    first.until("e => e.store.source === 'live' && ['solo', 'done'].includes(e.state)")
    assert second.ask("e => e.store.lanes[0].start.settings.max_new_tokens") == 16
    assert first.ask("e => e.store.lanes[0].start.settings.max_new_tokens") == 32
    assert second.ask("e => e.store.run") != first.ask("e => e.store.run")


def test_the_mask_follows_from_the_parents(functions: Any) -> None:
    sees = functions.evaluate("""() => Inside.maskOf([{id: 0, parent: -1}, {id: 1, parent: -1},
        {id: 2, parent: 0}, {id: 3, parent: 2}, {id: 4, parent: 1}])""")
    assert sees == [[0], [0, 1], [0, 2], [0, 1, 3], [0, 1, 3, 4], [0, 2, 5]]


# The instrument's functions; what it draws of a run is in test_played.py.


TRIED = """([p, q]) => {
    const D = Inside;
    const shares = (once) => {
        const counts = [0, 0, 0, 0], uniform = D.uniformStream(7);
        for (let i = 0; i < 40000; i++) counts[once(uniform)] += 1;
        return counts;
    };
    return {
        token: shares((uniform) => D.sampledOnce({ p, q }, 1, false, uniform)),
        two: shares((uniform) => D.sampledOnce({ p, q }, 2, false, uniform)),
        wrong: shares((uniform) => D.sampledOnce({ p, q }, 1, true, uniform)),
        chosen: shares((uniform) => D.topKOnce({ p }, [2], false, uniform)),
        chosenWrong: shares((uniform) => D.topKOnce({ p }, [2], true, uniform)),
        left: D.residual(p, q), rest: D.without(q, 3), lengths: D.blockLengths([0.5, 0.25]),
    };
}"""


def test_the_rules_in_the_page_are_those_of_the_engine(functions: Any) -> None:
    """Shares of 40,000 draws against exact distributions; 0.015 is six standard errors of the likeliest token."""
    from draftscope.verify.rules import sibling_rows

    p, q, n = [0.5, 0.3, 0.2, 0.0], [0.1, 0.2, 0.3, 0.4], 40_000
    counts = functions.evaluate(TRIED, [p, q])
    agreed = [min(x, y) for x, y in zip(p, q, strict=True)]
    wrong = [x + (1 - sum(agreed)) * y for x, y in zip(agreed, p, strict=True)]
    chosen_wrong = [0.8 * 0.5, 0.8 * 0.3, 0.2 + 0.8 * 0.2, 0]
    for name, distribution in {"token": p, "two": p, "wrong": wrong, "chosen": p, "chosenWrong": chosen_wrong}.items():
        assert [k / n for k in counts[name]] == pytest.approx(distribution, abs=0.015), name
    rows, _ = sibling_rows(p, q, [3, 0])
    assert counts["left"] == pytest.approx(rows[1].p)
    assert counts["rest"] == pytest.approx(rows[1].q)
    assert counts["lengths"] == pytest.approx([0.375, 0.375, 0.25])


# For a room, and to take away: what the page adds to scenes, lessons and files that tests/alone.py opens by themselves.


@pytest.mark.slow
def test_a_teachers_link_fixes_the_settings_and_hides_the_controls(visit: Any) -> None:
    page = visit("?teach=1&prompt=hi%20%3Cb%3Ethere&drafter=draft&max_new_tokens=16&gamma=3&rule=block")
    assert page.text(".empty") == "Nothing has run yet. Press Run."  # and no recorded run of another prompt
    page.ready()
    for hidden in ("prompt", "gamma", "drafter", "link", "load"):
        assert page.page.locator(f"#ds-{hidden}").is_hidden(), hidden
    assert page.page.inner_text(".ds-taught").startswith("Prompt: hi <b>there")
    assert "Drafter: Draft model, chain" in page.page.inner_text(".ds-taught")
    assert "γ, drafted a round (at most): 3" in page.page.inner_text(".ds-taught")
    assert "Rule above temperature 0: block (exact)" in page.page.inner_text(".ds-taught")
    page.run()
    assert page.ask("e => e.store.lanes[1].start.prompt") == "hi <b>there"
    assert page.ask("e => e.store.lanes[1].start.settings.gamma") == 3
    assert "teach=1" in page.page.url


@pytest.mark.slow
def test_an_address_opens_a_lesson_which_can_be_saved_and_tried(visit: Any, tmp_path: Path) -> None:
    page = visit("?lesson=3")
    page.until("e => e.cards.view('lessons').trace === 'coin'")
    assert {event.run for event in files.read(record(page, tmp_path)).events} == {"coin"}
    page.ask("e => e.cards.view('lessons').go(99)")
    page.element.get_by_role("button", name="Set the controls").click()
    page.page.wait_for_function("() => document.querySelector('#ds-temperature input[type=number]').value === '1'")
    assert page.ask("e => e.store.run") == "first"
    assert "lesson" not in page.page.url
    assert {event.run for event in files.read(record(page, tmp_path)).events} == {"first"}


# How it looks: nothing overflows, axe finds no violation, and every view is there to be looked at.


@pytest.mark.slow
def test_screens(visit: Any) -> None:
    """A run with all that unfolds: dark where there is least room, then light and wide."""
    ARTIFACTS.mkdir(exist_ok=True)
    phone = {"width": 390, "height": 844}
    page = visit(
        "?__theme=dark&temperature=1&max_new_tokens=24&drafter=sampled-tree&shape=3,2,1&seed=5", viewport=phone
    )
    page.page.wait_for_selector("#ds-max-new-tokens", state="hidden")
    page.page.click("#ds-settings")
    page.page.wait_for_selector("#ds-max-new-tokens", state="visible")
    assert page.page.get_attribute("#ds-settings", "aria-expanded") == "true"
    page.page.click("#ds-settings")
    page.run()
    assert page.ask("e => e.store.lanes[1].rounds.length") > 5
    assert page.ask("e => e.getBoundingClientRect().top") < 380, "the run comes before most settings"
    for title in UNFOLDS:
        page.unfold(title)
    page.element.get_by_role("button", name="this rule").click()
    page.until("e => e.shadowRoot.querySelector('.draws').dataset.n === '10000'")
    looks_right(page, 390, "dark", ".outline")
    page.page.evaluate("() => { scrollTo(0, 0); Draftscope.flipTheme(); }")
    page.page.set_viewport_size({"width": 1440, "height": 1000})
    page.painted(4)
    assert page.ask("e => e.getBoundingClientRect().top") < 380
    looks_right(page, 1440, "light", ".tree-svg")


def looks_right(page: Any, width: int, theme: str, tree: str) -> None:
    page.page.screenshot(path=str(ARTIFACTS / f"run-{width}-{theme}.png"), full_page=True)
    assert page.ask("e => e.dataset.theme") == theme
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert_accessible(page.page)
    assert page.element.locator(tree).count() == 1
