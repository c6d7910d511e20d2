"""The page in a real browser, on a tiny random pair: what a visitor does, and what must never happen.

Skipped where no Chromium is found, unless DRAFTSCOPE_REQUIRE_BROWSER=1. Screenshots go to tests/artifacts/.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from draftscope import tracefile
from draftscope.assets import assets
from tests.conftest import byte_tokenizer, random_llama

pytestmark = pytest.mark.browser

PLACES = ("/usr/bin/chromium", shutil.which("chromium"), shutil.which("google-chrome"))
CHROMIUM = next((path for path in PLACES if path and Path(path).exists()), None)
REQUIRED = os.environ.get("DRAFTSCOPE_REQUIRE_BROWSER") == "1"
ARTIFACTS = Path(__file__).parent / "artifacts"
ROOT = Path(__file__).resolve().parents[1]
SLOW_MS = 90_000
EVIL = '<img src=x onerror="window.pwned=1"><script>window.pwned=2</script>${window.pwned=3}{{pwned}}'

SERVER = """
import sys
sys.path[:0] = {sources!r}
if __name__ == "__main__":
    from draftscope_app.jobs import Load
    from draftscope_app.server import serve
    serve("127.0.0.1", {port}, Load({target!r}, {draft!r}, dtype="float32", threads=1))
"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    if CHROMIUM is None:
        if REQUIRED:
            pytest.fail("DRAFTSCOPE_REQUIRE_BROWSER=1 and no Chromium was found; install the chromium package.")
        pytest.skip("no Chromium here")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="module")
def long_winded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A random pair over bytes, slow and endless enough to be stopped: no end of text, a long context."""
    root = tmp_path_factory.mktemp("long-winded")
    folders = root / "target", root / "draft"
    for folder, layers in zip(folders, (8, 1), strict=True):
        model = random_llama(3, 258, layers=layers)
        model.config.max_position_embeddings = 4096
        model.lm_head.weight.data[:2] = 0.0
        model.save_pretrained(folder)
        byte_tokenizer().save_pretrained(folder)
    return folders


@pytest.fixture(scope="module")
def address(browser: Any, long_winded: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A running page whose shipped recording was made on the same pair."""
    folder = tmp_path_factory.mktemp("page")
    own = folder / "assets"
    (own / "traces").mkdir(parents=True)
    for item in ("instrument", "theme.json", "prompts.json", "page.css"):
        (own / item).symlink_to(assets() / item)
    target, draft = (str(path) for path in long_winded)
    environment = os.environ | {"DRAFTSCOPE_ASSETS": str(own), "PYTHONPATH": os.pathsep.join(sys.path)}
    record = ["--target", target, "--draft", draft, "--out", str(own / "traces" / "first.jsonl.gz"), "--tokens", "24"]
    subprocess.run([sys.executable, "-m", "draftscope_app.record_first", *record], env=environment, check=True)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    script = folder / "serve.py"
    sources = [str(ROOT / "engine"), str(ROOT / "app")]
    script.write_text(SERVER.format(sources=sources, port=port, target=target, draft=draft))
    with (folder / "log").open("w") as log:
        server = subprocess.Popen([sys.executable, str(script)], env=environment, stdout=log, stderr=log)
        url = f"http://127.0.0.1:{port}/"
        wait_until_up(url, server, folder / "log")
        yield url
        server.terminate()
        server.wait(20)


def wait_until_up(url: str, server: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline and server.poll() is None:
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except OSError:
            time.sleep(0.3)
    pytest.fail(f"the page did not come up: {log.read_text()[-2000:]}")


class Visit:
    """One open page and the instrument on it."""

    def __init__(self, browser: Any, address: str, query: str = "", **context: Any) -> None:
        self.context = browser.new_context(**({"viewport": {"width": 1440, "height": 1000}} | context))
        self.page = self.context.new_page()
        self.page.set_default_timeout(SLOW_MS)
        self.requests: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("console", lambda line: self.errors.append(line.text) if line.type == "error" else None)
        self.page.goto(address + query)
        self.page.wait_for_selector("draftscope-instrument .ds")
        self.until("e => e.store.lanes.length > 0")

    @property
    def element(self) -> Any:
        return self.page.locator("draftscope-instrument")

    def ask(self, script: str) -> Any:
        return self.element.evaluate(script)

    def until(self, script: str) -> None:
        handle = self.page.query_selector("draftscope-instrument")
        self.page.wait_for_function(f"e => ({script})(e)", arg=handle)

    def text(self, selector: str) -> str:
        return str(self.element.locator(selector).first.inner_text())

    def ready(self) -> None:
        """The models are loaded and the address's settings stand in the controls."""
        self.until("e => e.arrived")
        self.page.wait_for_function("() => / loaded in /.test(document.querySelector('.ds-engine').textContent)")

    def run(self) -> None:
        self.ready()
        before = self.ask("e => e.store.run")
        self.page.click("#ds-run")
        self.until(f"e => e.store.run !== {json.dumps(before)} && e.state === 'done'")
        self.to_end()

    def to_end(self) -> None:
        self.ask("e => e.transport.toEnd()")
        self.page.wait_for_timeout(150)

    def fill(self, name: str, value: str) -> None:
        self.page.fill(f"#ds-{name} textarea, #ds-{name} input[type=number], #ds-{name} input[type=text]", value)

    def choose(self, drafter: str) -> None:
        """Picks a drafter from the list by the start of its title."""
        self.ready()
        self.page.click("#ds-drafter input")
        self.page.locator("ul[role=listbox] li", has_text=drafter).first.click()

    def figure(self, name: str) -> str:
        return str(self.element.locator(f"[data-figure={name}]").inner_text())

    def close(self) -> None:
        assert not self.errors, self.errors
        assert "cannot draw" not in self.ask("e => e.messageText.textContent")
        outside = [url for url in self.requests if not re.match(r"(http://127\.0\.0\.1[:/]|data:|blob:)", url)]
        assert not outside, outside
        self.context.close()


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Any]:
    """Opens pages; at the end none had an error or asked for anything outside."""
    opened: list[Visit] = []

    def opens(query: str = "", **context: Any) -> Visit:
        opened.append(Visit(browser, address, query, **context))
        return opened[-1]

    yield opens
    for page in opened:
        page.close()


# What a visitor sees and does.


def test_it_opens_on_a_recorded_run(visit: Any) -> None:
    page = visit()
    assert page.text(".badge") == "recorded"
    assert re.match(r"\d+ target forwards wrote \d+ tokens; plain decoding needed \d+\.", page.text("h2"))
    assert "tokens/s" in page.figure("race")
    assert "whole runs each" in page.figure("solo")


def test_greedy_lanes_are_counted_equal(visit: Any) -> None:
    page = visit("?max_new_tokens=24")
    page.run()
    assert page.text(".badge") == "live"
    own, plain = (page.ask(f"e => e.store.lanes[{i}].end.token_ids") for i in (1, 0))
    assert own == plain
    assert f"{len(own)} of {len(own)}" in page.figure("law")
    assert page.text("h2").startswith(
        f"{page.ask('e => e.store.lanes[1].rounds.length')} target forwards wrote {len(own)} tokens"
    )
    page.until("e => e.store.lanes.every((l) => l.solo && l.solo.seconds.length === 3)")
    assert "median of 3 whole runs" in page.figure("solo")


def test_above_zero_the_law_is_the_same_and_the_draws_are_not(visit: Any) -> None:
    page = visit("?temperature=1&max_new_tokens=32&seed=3")
    page.run()
    assert "same law" in page.figure("law").lower()
    assert page.ask("e => e.store.lanes[1].rounds.some((r) => r.contests[0]?.rule === 'block')")


def test_a_lane_never_runs_ahead_of_its_clock(visit: Any) -> None:
    page = visit("?temperature=1&max_new_tokens=32")
    page.run()
    shown = page.ask("""e => new Promise((done) => {
        const middle = e.transport.end / 2;
        e.transport.seek(middle);
        const counts = (v) => [v.spans.filter((s) => !s.hidden).length,
            v.lane.tokens.filter((t) => t.at <= middle).length, v.lane.tokens.length];
        requestAnimationFrame(() => requestAnimationFrame(() => done(e.lanes.map(counts))));
    })""")
    for visible, due, total in shown:
        assert visible == due <= total
    assert "have written" in page.text("h2")


def test_reduced_motion_turns_playback_into_steps(visit: Any) -> None:
    page = visit("?max_new_tokens=16", reduced_motion="reduce")
    page.run()
    page.ask("e => { e.transport.now = 0; e.transport.play(); }")
    page.until("e => e.transport.now > 0")
    assert page.ask("e => e.store.lanes.some((l) => l.rounds.some((r) => r.end === e.transport.now))")
    page.ask("e => e.transport.pause()")


def test_stop_ends_the_run_at_once(visit: Any) -> None:
    page = visit("?max_new_tokens=512")
    page.ready()
    page.page.click("#ds-run")
    page.until("e => e.store.source === 'live' && e.store.lanes.length > 1 && e.store.lanes[1].rounds.length > 1")
    page.page.click("#ds-stop")
    page.until("e => e.state === 'done' && e.store.lanes.every((l) => l.end)")
    assert page.ask("e => e.store.lanes.map((l) => l.end.reason)") == ["cancelled", "cancelled"]
    page.until("e => e.sentence.textContent.endsWith('Stopped here.')")


def test_step_goes_one_round_at_a_time(visit: Any) -> None:
    page = visit("?temperature=1&max_new_tokens=64")
    page.ready()
    for rounds in (1, 2, 3):
        page.page.click("#ds-step")
        page.until(
            f"e => e.store.source === 'live' && e.state === 'stepping' && e.store.lanes[1].rounds.length === {rounds}"
        )
        assert not re.search(r"\b1 (tokens|rounds)\b", page.figure("tau"))
    page.page.wait_for_timeout(200)
    assert page.ask("e => e.store.lanes[1].rounds.length") == 3
    assert "stepping" in page.text(".badge")
    assert page.ask("e => e.selection.round") == 2
    page.page.click("#ds-stop")
    page.until("e => e.state === 'done'")


def test_rounds_are_chosen_by_bar_token_button_and_key(visit: Any) -> None:
    page = visit("?temperature=1&max_new_tokens=48")
    page.run()
    page.element.locator(".strip-frame").focus()
    page.page.keyboard.press("Home")
    page.page.wait_for_timeout(120)
    assert page.text(".tree h3").startswith("Round 1 ")
    page.page.keyboard.press("ArrowRight")
    page.page.wait_for_timeout(120)
    assert page.text(".tree h3").startswith("Round 2 ")
    page.element.get_by_label("Next round").click()
    page.page.wait_for_timeout(120)
    assert page.text(".tree h3").startswith("Round 3 ")
    page.element.locator(".lane").nth(1).locator(".t").first.click()
    page.page.wait_for_timeout(120)
    assert page.text(".tree h3").startswith("Round 1 ")
    page.page.focus("#ds-prompt textarea")  # keys belong to the text while it is written
    page.page.keyboard.press("ArrowRight")
    page.page.wait_for_timeout(120)
    assert page.text(".tree h3").startswith("Round 1 ")


def test_the_tree_shows_every_node_and_the_contest_its_laws(visit: Any) -> None:
    page = visit("?temperature=1&max_new_tokens=32&drafter=sampled-tree&shape=3,2")
    page.run()
    nodes = page.ask("e => e.selection.lane.rounds[e.selection.round].nodes.length")
    assert page.element.locator(".tree-svg .node").count() == nodes + 2  # the root and the target's own token
    assert page.element.locator(".tree-svg .node[tabindex='0']").count() == 1
    assert page.element.locator(".contest .bar-row").count() >= 3
    assert page.element.locator(".contest .coin-row").count() >= 1
    assert "α = Σ min(p, q)" in page.text(".contest .sum")
    page.element.locator(".tree-svg .node[tabindex='0']").focus()
    page.page.keyboard.press("ArrowLeft")
    page.page.wait_for_timeout(150)
    assert page.ask("e => e.shadowRoot.activeElement?.getAttribute('data-key') !== null")


@pytest.mark.parametrize(
    ("query", "words", "coins"),
    [
        ("", "greedy", False),
        ("temperature=1&rule=block", "block rule", True),
        ("temperature=1&rule=token", "token rule", True),
        ("temperature=1&drafter=sampled-tree&shape=3,2", "siblings in turn", True),
        ("temperature=1&drafter=topk-tree&shape=3,2", "the draft was not drawn", False),
        ("temperature=1&drafter=typed&typed=abcdefghi", "the draft was not drawn", False),
    ],
)
def test_each_rule_has_its_own_form(visit: Any, query: str, words: str, coins: bool) -> None:
    page = visit(f"?max_new_tokens=16&{query}")
    page.run()
    rounds = page.ask("e => e.store.lanes[1].rounds.map((r) => r.contests.length)")
    assert any(rounds)
    for index in range(len(rounds)):  # every round and every slot can be drawn
        page.ask(f"""e => {{
            const lane = e.store.lanes[1], round = lane.rounds[{index}];
            e.select(lane, {index}); e.paint();
            for (const slot of Draftscope.slotsOf(round))
                for (const key of [null, "last"]) {{ e.open(slot, key); e.paint(); }}
        }}""")
    page.ask(f"e => {{ e.select(e.store.lanes[1], {next(i for i, n in enumerate(rounds) if n)}); e.paint(); }}")
    assert page.text(".contest .note").startswith(words)
    assert (page.element.locator(".coin-row").count() > 0) is coins


def test_only_what_the_drafter_reads_is_asked_for(visit: Any) -> None:
    page = visit()
    page.ready()
    page.page.wait_for_selector("#ds-gamma", state="visible")
    page.choose("tree")
    page.page.wait_for_selector("#ds-shape", state="visible")
    page.page.wait_for_selector("#ds-gamma", state="hidden")


def test_you_draft(visit: Any) -> None:
    page = visit("?drafter=typed&max_new_tokens=16")
    page.ready()
    page.page.wait_for_selector("#ds-typed", state="visible")
    page.page.click("#ds-run")
    page.until("e => /typed draft is empty/.test(e.messageText.textContent)")
    page.fill("typed", " and then they all went home.")
    page.run()
    assert page.ask("e => e.store.lanes[1].start.drafter") == "typed"


def test_presets_fill_the_prompt(visit: Any) -> None:
    page = visit()
    page.ready()
    page.page.get_by_role("button", name="code", exact=True).click()
    page.page.wait_for_function("() => !document.querySelector('#ds-prompt textarea').value.startsWith('Once')")
    first = page.page.input_value("#ds-prompt textarea")
    page.page.get_by_role("button", name="code", exact=True).click()
    page.page.wait_for_function("(first) => document.querySelector('#ds-prompt textarea').value !== first", arg=first)
    assert "import" in first or "def " in first


# Addresses, files.


def test_settings_live_in_the_address(visit: Any) -> None:
    page = visit("?temperature=0.7&top_p=0.9&seed=11&max_new_tokens=16&gamma=6&prompt=hello%20there&rule=token")
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
        "rule": "token",
    }.items():
        assert settings[name] == pytest.approx(value) if isinstance(value, float) else settings[name] == value, name
    for part in ("temperature=0.7", "gamma=6", "prompt=hello+there", "rule=token"):
        assert part in page.page.url


def test_a_refused_clipboard_shows_the_link(visit: Any) -> None:
    page = visit("?seed=5")
    page.page.evaluate("() => { navigator.clipboard.writeText = () => Promise.reject(new Error('closed')); }")
    page.page.wait_for_function("() => document.querySelector('#ds-seed input').value === '5'")
    page.page.click("#ds-link")
    page.until("e => /seed=5/.test(e.messageField.value)")
    assert page.ask("e => !e.messageField.hidden && e.messageField.value.startsWith(location.origin)")


def test_a_run_is_saved_and_replayed_and_bad_files_change_nothing(visit: Any, tmp_path: Path) -> None:
    page = visit("?temperature=1&max_new_tokens=24&seed=9")
    page.run()
    sentence = page.text("h2")
    with page.page.expect_download() as download:
        page.page.click("#ds-save")
    saved = tmp_path / "draftscope-run.jsonl.gz"
    download.value.save_as(saved)
    read = tracefile.read(saved)
    assert not read.warning
    assert {event.lane for event in read.events} == {"plain", "speculative"}

    other = visit()
    before = other.text("h2")
    foreign = tmp_path / "holiday.jsonl"
    foreign.write_text('{"hello": "world"}\n')
    load(other, foreign)
    other.until("e => /holiday.jsonl.*is not a Draftscope trace/.test(e.messageText.textContent)")
    assert other.text("h2") == before

    load(other, saved)
    other.until("e => e.store.run !== 'first' && e.store.lanes.length === 2")
    other.page.wait_for_timeout(200)
    assert other.text("h2") == sentence
    assert other.text(".badge") == "recorded"

    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(saved.read_bytes()[: saved.stat().st_size // 2])
    load(other, cut)
    other.until("e => /breaks off after \\d+ events/.test(e.messageText.textContent)")
    assert other.ask("e => e.store.lanes[0].rounds.length") > 0


def test_one_lane_alone_is_a_run_too(visit: Any, tmp_path: Path) -> None:
    page = visit("?drafter=plain&max_new_tokens=12")
    page.run()
    assert page.text("h2") == "12 target forwards wrote 12 tokens, one each."
    assert page.element.locator(".lane").count() == 1
    raced = visit("?temperature=1&max_new_tokens=24")
    raced.run()
    own = [event for event in tracefile.read(record(raced, tmp_path)).events if event.lane == "speculative"]
    tracefile.write(tmp_path / "alone.jsonl", own)
    load(page, tmp_path / "alone.jsonl")
    page.until("e => e.store.source === 'recorded' && e.store.lanes.length === 1")
    page.page.wait_for_timeout(200)
    assert re.fullmatch(r"\d+ target forwards wrote 24 tokens\.", page.text("h2"))


def load(page: Visit, path: Path) -> None:
    page.page.locator("#ds-load input[type=file], input[type=file]").first.set_input_files(path)


def test_bad_input_is_one_sentence_and_the_shown_run_stays(visit: Any) -> None:
    page = visit()
    page.ready()
    before = page.text("h2")
    page.fill("prompt", "   ")
    page.page.click("#ds-run")
    page.until("e => /prompt is empty/.test(e.messageText.textContent)")
    page.fill("prompt", "word " * 9000)
    page.page.click("#ds-run")
    page.until("e => /context holds/.test(e.messageText.textContent)")
    page.fill("prompt", "x")
    page.fill("seed", "-4")
    page.page.click("#ds-run")
    page.until("e => /seed = -4/.test(e.messageText.textContent)")
    assert page.text("h2") == before
    assert page.text(".badge") == "recorded"


def test_an_address_that_asks_for_nonsense_is_one_sentence(visit: Any) -> None:
    page = visit("?gamma=99&drafter=drft&rule=dice&temperature=warm&max_new_tokens=8")
    page.until("e => /temperature = 'warm'/.test(e.messageText.textContent)")
    page.ready()
    page.page.click("#ds-run")
    page.until("e => /rule = 'dice'|gamma = 99|no drafter/.test(e.messageText.textContent)")
    assert page.text(".badge") == "recorded"


def test_what_a_model_writes_stays_text(visit: Any, tmp_path: Path) -> None:
    """A hostile trace: markup in the prompt, in tokens, in laws, in models' names and in the end's message."""
    page = visit("?temperature=1&max_new_tokens=16&prompt=" + urllib.request.quote(EVIL))
    page.run()
    lines = [tracefile.line(event) for event in tracefile.read(record(page, tmp_path)).events]
    hostile = tmp_path / "hostile.jsonl"
    with hostile.open("w") as file:
        for text in lines:
            event = json.loads(text)
            if event["kind"] == "run_start":
                event["models"][0]["name"] = EVIL
            if event["kind"] == "round":
                event["emitted_raw"] = [EVIL] * len(event["emitted"])
                event["text_delta"] = EVIL * len(event["emitted"])
                event["last"]["raw"] = EVIL
                for node in event["nodes"]:
                    node["raw"] = EVIL
                for contest in event["contests"]:
                    for laws in contest["laws"]:
                        laws["raw"] = [EVIL] * len(laws["raw"])
            file.write(json.dumps(event) + "\n")
    load(page, hostile)
    page.until("e => e.store.source === 'recorded'")
    page.page.wait_for_timeout(400)
    assert page.ask("e => e.shadowRoot.querySelectorAll('img, script, iframe').length") == 0
    assert page.page.evaluate("window.pwned") is None
    assert "<img src=x" in page.text(".lane .pane")


def record(page: Visit, folder: Path) -> Path:
    with page.page.expect_download() as download:
        page.page.click("#ds-save")
    path = folder / "own.jsonl.gz"
    download.value.save_as(path)
    return path


def test_a_token_split_over_bytes_is_one_character(visit: Any) -> None:
    page = visit()
    folded = page.page.evaluate("""() => {
        const D = window.Draftscope, store = D.newStore();
        const round = { kind: "round", run: "x", lane: "a", start: 0, end: 1, nodes: [], contests: [], accepted: 1,
                        last: { kind: "bonus", slot: 0 } };
        D.fold(store, { ...round, emitted: [1, 2], emitted_raw: ["\\u00c3", "\\u00a9!"], text_delta: "\\u00e9!" });
        return [store.lanes[0].tokens.map((t) => t.text), D.visible("\\u00c3"), D.visible(" a\\n"),
                D.visible("\\u00e2\\u0080\\u008b"), D.prob(0.125), D.prob(0)];
    }""")
    assert folded == [["", "é!"], "‹C3›", "·a⏎", "‹U+200B›", ".13", "0"]


@pytest.mark.parametrize("lost", ["d.seq === 0", "d.seq === 2", "d.seq > 0 && d.state === 'done'", "d.seq < 4"])
def test_a_lost_delta_is_asked_for_again(visit: Any, lost: str) -> None:
    page = visit("?temperature=1&max_new_tokens=64")
    page.ready()
    page.ask(f"""e => {{
        const feed = e.feed.bind(e);
        e.lost = 0;
        e.feed = (text) => {{
            const d = JSON.parse(text);
            if (d.run && !d.whole && ({lost})) e.lost += 1;
            else feed(text);
        }};
    }}""")
    page.run()
    assert page.ask("e => e.lost") > 0
    assert page.ask("e => e.store.lanes.map((l) => l.tokens.length)") == [64, 64]
    assert page.ask("e => e.store.lanes.map((l) => l.end.token_ids.length)") == [64, 64]


def test_two_visitors_get_their_own_runs(visit: Any) -> None:
    first, second = visit("?temperature=1&max_new_tokens=96"), visit("?temperature=1&max_new_tokens=16")
    first.ready()
    second.ready()
    first.page.click("#ds-run")
    second.run()
    first.until("e => e.store.source === 'live' && e.state === 'done'")
    assert second.ask("e => e.store.lanes[0].start.settings.max_new_tokens") == 16
    assert first.ask("e => e.store.lanes[0].start.settings.max_new_tokens") == 96
    assert second.ask("e => e.store.run") != first.ask("e => e.store.run")


def test_the_pictures_after_a_run_are_drawn(visit: Any) -> None:
    page = visit("?temperature=1&max_new_tokens=48")
    page.run()
    page.page.get_by_text("After the run").click()
    page.page.wait_for_function("() => document.querySelectorAll('#ds-after .js-plotly-plot').length === 3")


# How it looks: nothing overflows, axe finds no violation, and every view is there to be looked at.


@pytest.mark.parametrize("width", [390, 1440])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_screens(visit: Any, width: int, theme: str) -> None:
    ARTIFACTS.mkdir(exist_ok=True)
    phone = {"viewport": {"width": 390, "height": 844}, "device_scale_factor": 2} if width == 390 else {}
    page = visit(f"?__theme={theme}&temperature=1&max_new_tokens=64&drafter=sampled-tree&shape=3,2,1&seed=4", **phone)
    page.run()
    page.page.wait_for_timeout(300)
    page.page.screenshot(path=str(ARTIFACTS / f"run-{width}-{theme}.png"), full_page=True)
    assert page.ask("e => e.dataset.theme") == theme
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    from axe_playwright_python.sync_playwright import Axe

    violations = Axe().run(page.page).response["violations"]
    assert not [(found["impact"], found["help"], node["target"]) for found in violations for node in found["nodes"]]
    assert page.element.locator(".outline" if width == 390 else ".tree-svg").count() == 1
