"""The instrument over a run of one's own file: every view, one clock and one selection through all of them.

What needs a server, a live run or the page's controls is in test_page*.py.
"""

from __future__ import annotations

import csv
import json
import re
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace.events import EVENT
from draftscope.trace.files import line
from draftscope.trace.metrics import fold
from tests.support.alone import Alone
from tests.support.raced import race_of

pytestmark = pytest.mark.browser

TREE = {"drafter": "sampled-tree", "shape": (3, 2), "max_new_tokens": 32}
CHAIN = {"drafter": "draft", "max_new_tokens": 32}
PARTS = ("Resample", "Why this fast", "Is it exact?")


# One clock and one selection through all views.


def test_a_lane_never_runs_ahead_of_its_clock(played: Any) -> None:
    page = played(**CHAIN)
    shown = page.ask("""e => new Promise((done) => {
        const middle = e.transport.end / 2;
        e.transport.seek(middle);
        const counts = (v) => [v.spans.filter((s) => !s.hidden).length,
            v.lane.tokens.filter((t) => t.at <= middle).length, v.lane.tokens.length];
        requestAnimationFrame(() => requestAnimationFrame(() => done(e.lanes.map(counts))));
    })""")
    for visible, due, total in shown:
        assert visible == due <= total
    assert "so far in" in page.text("h2:visible")


def test_reduced_motion_turns_playback_into_steps(played: Any) -> None:
    page = played(**CHAIN, context={"reduced_motion": "reduce"})
    page.ask("e => { e.transport.now = 0; e.transport.play(); }")
    page.until("e => e.transport.now > 0")
    assert page.ask("e => e.store.lanes.some((l) => l.rounds.some((r) => r.end === e.transport.now))")
    page.ask("e => e.transport.pause()")


def test_rounds_are_chosen_by_bar_token_button_and_key(played: Any) -> None:
    page = played(**CHAIN)
    page.element.locator(".strip-frame").focus()
    page.page.keyboard.press("Home")
    page.painted()
    assert page.text(".tree h3").startswith("Round 1 ")
    page.page.keyboard.press("ArrowRight")
    page.painted()
    assert page.text(".tree h3").startswith("Round 2 ")
    page.element.get_by_label("Next round").click()
    page.painted()
    assert page.text(".tree h3").startswith("Round 3 ")
    page.element.locator(".lane").nth(1).locator(".t").first.click()
    page.painted()
    assert page.text(".tree h3").startswith("Round 1 ")


def test_the_tree_shows_every_node_and_the_decision_its_distributions(played: Any) -> None:
    page = played(**TREE)
    nodes = page.ask("e => e.cursor.at.lane.rounds[e.cursor.at.round].nodes.length")
    assert page.element.locator(".tree-svg .node").count() == nodes + 2  # the root and the target's own token
    assert page.element.locator(".tree-svg .node[tabindex='0']").count() == 1
    assert page.element.locator(".decision .bar-row").count() >= 3
    assert page.element.locator(".decision .uniform-row").count() >= 1
    assert "α = Σ min(p, q)" in page.text(".decision .sum")
    page.element.locator(".tree-svg .node[tabindex='0']").focus()
    page.page.keyboard.press("ArrowLeft")
    page.painted()
    assert page.ask("e => e.shadowRoot.activeElement?.getAttribute('data-key') !== null")


def test_what_is_pressed_in_the_decision_keeps_the_focus(played: Any) -> None:
    page = played(**TREE)
    for pressed in (".decision .uniform-row:not(.waiting)", ".decision .chip"):
        page.element.locator(pressed).last.focus()
        label = page.ask("e => e.shadowRoot.activeElement.getAttribute('aria-label')")
        page.page.keyboard.press("Enter")
        page.painted()
        assert page.ask("e => e.shadowRoot.activeElement?.getAttribute('aria-label')") == label


def shown_nodes(page: Alone, fates: str) -> int:
    return int(page.element.locator(", ".join(f".tree-svg .node.{fate}" for fate in fates.split())).count())


@pytest.mark.slow
def test_stages_are_stepped_and_the_lane_tells_as_much(played: Any) -> None:
    page = played(**TREE)
    index = page.ask("e => e.cursor.at.round")
    lane = "e.store.lanes[1]"
    nodes = page.ask(f"e => {lane}.rounds[{index}].nodes.length")
    seen = []
    page.element.locator(".tree").get_by_role("button", name="Draft", exact=True).click()
    for _ in range(40):
        page.painted()
        stage = page.text(".stepper button[aria-pressed=true]:not([aria-label])")
        shown, end = page.ask(f"e => [e.cursor.shown, {lane}.rounds[{index}].end]")
        told = page.ask("e => e.lanes[1].spans.filter((s) => !s.hidden && !s.classList.contains('covered')).length")
        assert (shown < end) is (stage != "Commit")
        assert page.ask("e => e.transport.whole")
        if stage != "Commit":
            assert told == page.ask(f"e => {lane}.tokens.filter((t) => t.at <= e.cursor.shown).length")
        if stage in ("Draft", "Verify"):
            assert shown_nodes(page, "accepted rejected correction bonus unvisited") == 0
            assert shown_nodes(page, "drafted") == nodes
            assert page.element.locator(".decision .uniform").count() == 0
        seen += [stage] if stage not in seen else []
        if stage == "Commit":
            break
        page.element.locator(".tree-svg .node[tabindex='0'], .strip-frame").first.focus()
        page.page.keyboard.press("]")
    assert seen == ["Draft", "Verify", "Accept", "Commit"]
    assert shown_nodes(page, "drafted") == 0
    page.page.keyboard.press("]")
    page.painted()
    assert page.ask("e => e.cursor.at.round") == index + 1


@pytest.mark.slow
def test_a_hidden_result_is_nowhere_on_the_page(played: Any) -> None:
    page = played(**TREE)
    for title in PARTS:
        page.unfold(title)
    page.element.get_by_role("button", name="Hide the result").click()
    page.painted()
    for _ in range(2):
        assert shown_nodes(page, "accepted rejected correction bonus unvisited") == 0
        told = page.text(".tree") + page.text(".decision") + page.text(".scale") + page.text(".strip .readout")
        assert not re.search(r"accepted|rejected|correction|bonus|✓|✗|not reached", told.replace("if accepted", ""))
        assert page.ask("e => e.cursor.shown < e.cursor.round.end")
        assert page.element.locator(".t:not(.covered)").count() <= 2 * page.ask("e => e.cursor.round.firstToken")
        assert "still hidden" in page.text("[aria-label='Resample']")
        page.element.get_by_label("Next round").click()  # the next one opens before its result too
        page.painted()
    page.element.locator(".tree").get_by_role("button", name="Commit", exact=True).click()
    page.painted()
    assert shown_nodes(page, "drafted") == 0
    page.element.get_by_role("button", name="Play").click()
    page.painted()
    assert not page.ask("e => e.cursor.hiding")
    page.ask("e => e.transport.pause()")


def test_a_scrub_shows_the_round_that_the_clock_is_in(played: Any) -> None:
    page = played(**CHAIN)
    page.ask("e => { const r = e.store.lanes[1].rounds[3]; e.transport.scrub(r.start + r.timings.propose[0] * 0.5); }")
    page.painted()
    assert page.ask("e => e.cursor.at.round") == 3
    assert page.text(".tree .note") == "drafting"


@pytest.mark.slow
def test_one_selection_goes_through_all_views(played: Any) -> None:
    page = played(**TREE)
    page.element.get_by_text("The rounds as a table").click()
    page.element.get_by_label("Round 2 of Draft model, sampled tree").first.click()
    page.painted()
    assert page.text(".tree h3").startswith("Round 2 ")
    assert page.ask("e => e.lanes[1].marked.map((s) => s.textContent).join('')") == page.ask(
        "e => e.cursor.round.text_delta"
    )
    page.element.locator(".tree-svg .node[data-key='1']").click()
    page.painted()
    label = page.ask("e => Inside.visible(e.cursor.round.nodes[1].raw)")
    assert page.text(".item-line").startswith(f"{label} · drafted by draft step 1 · ")
    page.element.get_by_role("button", name="Mask", exact=True).click()
    page.painted()
    rows = 1 + page.ask("e => e.cursor.round.nodes.length")
    assert page.text(".mask .note").startswith(f"Token 3 of {rows}, {label}: ")
    page.element.locator(".mask-frame").focus()
    page.page.keyboard.press("ArrowDown")
    page.painted()
    assert page.ask("e => e.cursor.at.key") == 2
    page.element.get_by_role("button", name="Tree", exact=True).click()
    page.element.locator(".scale-bar button.draft").nth(1).click()
    page.painted()
    deep = page.ask("e => e.cursor.round.nodes.filter((n) => n.depth === 2).map((n) => String(n.id))")
    lit = page.ask("e => [...e.shadowRoot.querySelectorAll('.node.lit')].map((n) => n.dataset.key)")
    assert sorted(lit) == sorted(deep)


LARGE_TREE = """e => {
    const lane = e.store.lanes[1], round = structuredClone(lane.rounds[0]);
    const fate = (id) => (id === 2 ? "accepted" : id < 3 ? "rejected" : "unvisited");
    round.nodes = Array.from({ length: 500 }, (_, id) => ({
        id, token: 5, raw: " x", parent: id < 5 ? -1 : Math.floor(id / 5) - 1, depth: 1, origin: "draft step 1",
        fate: fate(id), p: 0.1, q: 0.1 }));
    round.decisions = [];
    round.last = { ...round.last, kind: "bonus", slot: 2 };
    lane.rounds[0] = round;
    e.cursor.choose(lane, 0);
    e.cursor.at = { ...e.cursor.at, slot: -1, key: -1 };
    e.cursor.following = false;
    e.round.tree.stamp = ""; // another round under the same name
    e.paint();
}"""


@pytest.mark.slow
def test_a_tree_of_500_nodes_is_drawn_folded_and_zoomed(played: Any) -> None:
    page = played(**TREE)
    page.ask(LARGE_TREE)
    assert page.element.locator(".tree-svg .node").count() == 502
    page.element.get_by_role("button", name="Fold not reached").click()
    page.painted()
    assert page.element.locator(".tree-svg .node").count() < 60
    page.element.get_by_role("button", name="Unfold all").click()
    page.painted()
    wide = page.ask("e => e.shadowRoot.querySelector('.tree-svg').getBoundingClientRect().width")
    page.element.get_by_role("button", name="Zoom in").click()
    page.painted()
    assert page.ask("e => e.shadowRoot.querySelector('.tree-svg').getBoundingClientRect().width") > 1.2 * wide
    page.element.get_by_role("button", name="Fit", exact=True).click()
    page.painted()
    assert page.ask("e => { const b = e.round.tree.body; return b.scrollHeight - b.clientHeight; }") <= 12


# What the rules decided, and what the recorded distributions still allow.


@pytest.mark.parametrize(
    ("own", "words", "uniforms"),
    [
        pytest.param({"drafter": "draft", "temperature": 0.0}, "greedy", False, marks=pytest.mark.slow),
        ({"drafter": "draft", "rule": "block"}, "block verification", True),
        pytest.param({"drafter": "draft", "rule": "token"}, "token rule", True, marks=pytest.mark.slow),
        ({"drafter": "sampled-tree", "shape": (3, 2)}, "siblings one after the other", True),
        ({"drafter": "topk-tree", "shape": (3, 2)}, "deterministic draft", False),
        pytest.param({"drafter": "typed", "typed": "abcdefghi"}, "deterministic draft", False, marks=pytest.mark.slow),
    ],
)
def test_each_rule_has_its_own_form(played: Any, own: dict[str, Any], words: str, uniforms: bool) -> None:
    page = played(**own, max_new_tokens=32)
    rounds = page.ask("e => e.store.lanes[1].rounds.map((r) => r.decisions.length)")
    assert any(rounds)
    page.ask("""e => {  // every round and every slot can be drawn
        const lane = e.store.lanes[1];
        for (const [index, round] of lane.rounds.entries()) {
            e.cursor.select(lane, index);
            e.paint();
            for (const slot of Inside.slotsOf(round))
                for (const key of [null, "last"]) { e.cursor.open(slot, key); e.paint(); }
        }
    }""")
    page.ask(f"e => {{ e.cursor.select(e.store.lanes[1], {next(i for i, n in enumerate(rounds) if n)}); e.paint(); }}")
    assert page.text(".decision .note").startswith(words)
    assert (page.element.locator(".uniform-row").count() > 0) is uniforms

    page.unfold("Is it exact?")  # and every recorded decision holds
    lines = page.ask("e => Inside.audit(e.store.lanes[1])")
    assert len(lines) >= 2
    assert all(line["good"] == line["of"] > 0 for line in lines), lines
    assert "rules.py" in page.text("[aria-label='Is it exact?']")


def at_a_decision(page: Alone) -> Alone:
    page.ask("e => { const l = e.store.lanes[1]; e.cursor.select(l, l.rounds.findIndex((r) => r.decisions.length)); }")
    page.painted()
    return page


@pytest.mark.slow
def test_ten_thousand_draws_settle_on_p_and_the_wrong_rule_misses_it(played: Any) -> None:
    page = at_a_decision(played(drafter="draft", rule="token"))
    page.unfold("Resample")
    for name, words in (("this rule", "The samples match p"), ("wrong: last token from p", "The samples miss p")):
        page.element.get_by_role("button", name=name).click()
        page.until("e => e.shadowRoot.querySelector('.draws').dataset.n === '10000'")
        assert page.text(".draws .sum").startswith(words)
    assert "null" not in page.text("[aria-label='Resample']")


@pytest.mark.slow
def test_a_uniform_tossed_again_goes_as_far_as_the_record(played: Any) -> None:
    page = played(drafter="sampled-tree", shape=(2, 1))
    found = page.ask("""e => {  // a uniform that could have fallen the other way
        const lane = e.store.lanes[1];
        const two = (child) => (child.passed ? child.threshold < 0.99 : child.threshold > 0);
        const index = lane.rounds.findIndex((round) => round.decisions.length && two(round.decisions[0].children[0]));
        e.cursor.select(lane, index);
        e.cursor.open(lane.rounds[index].decisions[0].slot, null);
        return lane.rounds[index].decisions[0].children[0];
    }""")
    page.painted()
    page.unfold("Resample")
    page.element.locator(".reflip input").fill("0" if not found["passed"] else "0.999")
    said = page.text(".reflip .sum")
    assert "the recording ends here" in said.lower()
    assert ("accepted" if not found["passed"] else "rejected") in said


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "uniforms", "compared"),
    [("lenient", 1, "min(1, p / (l q))"), ("typical", 0, "the threshold"), ("top-k", 0, "the k-th most probable")],
)
def test_each_lossy_rule_says_what_is_compared_with_what(played: Any, rule: str, uniforms: int, compared: str) -> None:
    """And before the result is shown nothing of it."""
    page = at_a_decision(played(**CHAIN, rule=rule, lenience=0.05, agreement=40))
    assert page.text(".decision .badge") == "lossy"
    assert "lossy" in page.text(".decision .note")
    assert compared in page.text(".uniform-row .words")
    assert page.element.locator(".decision .uniform").count() == uniforms
    assert f"lossy: {rule}" in page.element.locator(".badge.caveat:visible").all_inner_texts()
    assert "does not follow the target's distribution" in page.text(".basis")
    page.unfold("Is it exact?")
    told = page.text("[aria-label='Is it exact?']")
    assert "Proved" not in told
    assert "lossy by design" in told
    checks = page.ask("e => Inside.audit(e.store.lanes[1])")
    assert all(line["good"] == line["of"] > 0 for line in checks), checks

    page.element.get_by_role("button", name="Hide the result").click()
    page.painted()
    assert page.element.locator(".uniform-row .result").first.inner_text() == "?"
    assert page.element.locator(".decision .mass, .decision .uniform").count() == 0
    assert "rejected" not in page.text(".decision-body")


@pytest.mark.slow
@pytest.mark.parametrize("rule", ["lenient", "typical", "top-k"])
def test_at_temperature_zero_no_rule_is_called_lossy(played: Any, rule: str) -> None:
    page = at_a_decision(played(drafter="draft", temperature=0.0, rule=rule, lenience=0.05, agreement=40))
    page.unfold("Is it exact?")
    assert "24 of 24" in page.text("[data-figure=distribution]")
    assert page.text(".decision .note").startswith("greedy")
    assert page.element.locator(".badge.caveat:visible").count() == 0
    assert "lossy" not in page.element.inner_text()


@pytest.mark.slow
def test_draws_by_a_lossy_rule_miss_p_where_the_token_rule_settles(played: Any) -> None:
    page = at_a_decision(played(**CHAIN, rule="lenient", lenience=0.05))
    page.unfold("Resample")
    for name, words in (("the token rule", "The samples match p"), ("this rule, lossy", "The samples miss p")):
        page.element.get_by_role("button", name=name).click()
        page.until("e => e.shadowRoot.querySelector('.draws').dataset.n === '10000'")
        assert page.text(".draws .sum").startswith(words)


# What stands beside a run.


@pytest.mark.slow
@pytest.mark.parametrize(
    ("drafter", "told"),
    [("bandit", ("ucb chose ", "Before this round: ", " pulls")), ("ssd", (" pre-drafted, ", " the target waited "))],
)
def test_what_was_noted_of_a_round_is_told(played: Any, drafter: str, told: tuple[str, ...]) -> None:
    page = played(drafter=drafter, max_new_tokens=32)
    page.ask("e => { const l = e.store.lanes[1]; e.cursor.select(l, 3); }")
    page.painted()
    words = page.text(".notes")
    assert all(part in words for part in told), words


@pytest.mark.slow
def test_jitter_and_prediction_are_the_engines_numbers(played: Any, pair: DecodingEngine) -> None:
    run = race_of(pair, **CHAIN)
    page = played(run)
    page.unfold("Why this fast")
    for index, lane in enumerate(("plain", "speculative")):
        metrics = fold([event for event in run if event.lane == lane])
        jitter = page.ask(f"e => Inside.jitterOf(e.store.lanes[{index}])")
        assert jitter["ttft"] == pytest.approx(metrics.ttft_ms)
        for name, own in (("itl", metrics.itl_ms), ("icl", metrics.icl_ms)):
            assert [jitter[name][p] for p in ("p50", "p95", "p99")] == pytest.approx([own.p50, own.p95, own.p99])
        spent = page.ask(f"e => Inside.timeSpent(e.store.lanes[{index}], 1e9)")
        assert spent["verify"] == pytest.approx(metrics.stage_ms["verify"])
    costs = page.ask("e => Inside.costsOf(e.store.lanes[1], e.store.lanes[0])")
    assert costs["tau"] == pytest.approx(metrics.tokens_per_round)
    assert costs["predicted"] == pytest.approx(costs["tau"] / (costs["per"] * costs["c"] + costs["v"] + costs["o"]))
    assert "predicted" in page.text(".equation")
    assert page.page.evaluate("Inside.chainTau(0.5, 2)") == pytest.approx(1.75)
    assert page.page.evaluate("Inside.alphaOf(1.75, 2)") == pytest.approx(0.5, abs=1e-6)
    before = page.text(".formula .sum")
    assert before.startswith("Modelled: ")
    page.element.get_by_role("slider", name="α, acceptance per draft token").fill("0.9")
    assert page.text(".formula .sum") != before


@pytest.mark.slow
def test_emulated_sizes_and_a_chosen_acceptance_are_said_beside_every_speed(played: Any, pair: DecodingEngine) -> None:
    raw = [json.loads(line(event)) for event in race_of(pair, **CHAIN)]

    def marks_of(change: Any) -> tuple[list[str], str]:
        page = played([EVENT.validate_python(change(json.loads(json.dumps(data)))) for data in raw])
        return page.element.locator(".badge.caveat:visible").all_inner_texts(), page.text(".basis")

    def heavy(data: dict[str, Any]) -> dict[str, Any]:
        for model in data.get("models", []):
            model["emulates"] = "8B-like"
        return data

    def chosen(data: dict[str, Any]) -> dict[str, Any]:
        drafted = data["kind"] == "run_start" and data["lane"] != "plain"
        return data | ({"synthetic": True} if drafted else {})

    assert marks_of(lambda data: data)[0] == []
    marks, basis = marks_of(heavy)
    assert marks == ["emulated size: 8B-like"] * 2
    assert "with an emulated size (8B-like)" in basis
    marks, basis = marks_of(chosen)
    assert marks == ["synthetic: chosen acceptance"]
    assert "chosen acceptance rate" in basis


@pytest.mark.slow
def test_a_synthetic_run_is_told(played: Any) -> None:
    page = played(drafter="oracle")
    assert page.element.locator(".badge.caveat:visible").all_inner_texts() == ["synthetic: chosen acceptance"]
    assert "synthetic: " in page.text(".basis")


def test_the_rounds_as_a_table_sort_and_are_saved(played: Any, pair: DecodingEngine) -> None:
    page = played(race_of(pair, **CHAIN))
    page.element.locator("summary", has_text="The rounds as a table").click()
    table = page.element.locator("[aria-label=Rounds]")
    table.get_by_role("button", name="took").click()
    page.painted()
    assert table.locator("th[aria-sort=ascending]").inner_text() == "took"
    took = page.ask("e => e.strip.table.rows.map(({ cells }) => cells[3]).sort((a, b) => a - b)")
    first = table.locator("tbody tr").first.locator("td").nth(2).inner_text()
    assert first == page.ask("(e, ms) => Inside.formatMs(ms)", took[0])
    with page.page.expect_download() as download:
        page.element.get_by_role("button", name="Save as CSV").click()
    rows = list(csv.DictReader(Path(download.value.path()).read_text(encoding="utf-8").splitlines()))
    assert sorted(float(row["took"]) for row in rows) == pytest.approx(took)
    table.get_by_role("button", name="Round 2 of").last.click()
    assert page.ask("e => e.cursor.at.round") == 1


def test_the_rounds_of_one_lane_or_of_all_are_listed(played: Any, pair: DecodingEngine) -> None:
    """The table began with all rounds of plain decoding."""
    page = played(race_of(pair, **CHAIN))
    page.element.locator("summary", has_text="The rounds as a table").click()
    plain, drafted = page.ask("e => e.store.lanes.map((lane) => lane.rounds.length)")
    rows = page.element.locator("[aria-label=Rounds] tbody tr")
    lanes = page.element.get_by_label("Lanes in the table")
    assert rows.count() == drafted
    for choice, count in (("plain", plain), ("", plain + drafted), ("speculative", drafted)):
        lanes.select_option(choice)
        page.painted()
        assert rows.count() == count


@pytest.mark.parametrize("scene", [0, 4])
def test_the_heads_of_the_mask_are_whole(played: Any, pair: DecodingEngine, scene: int) -> None:
    """They read "the tokens of this" and "the text so farthe tokens of t"."""
    page = played(race_of(pair, drafter="draft", gamma=1))
    page.ask("(e, scene) => { e.scenes.to(scene); e.round.show('mask'); }", scene)
    page.painted()
    before, beside, past, whole = page.ask("""e => { const { mask } = e.round, { canvas, left, sees, cell } = mask;
        const [before, beside] = mask.headWidths(mask.colours);
        const width = parseFloat(canvas.style.width), past = Math.max(92, before);
        return [before, beside, past, width - left - past - 8]; }""")
    assert before <= past and beside <= whole


def test_a_symbol_says_what_it_means_where_it_stands(played: Any, pair: DecodingEngine) -> None:
    page = played(race_of(pair, **CHAIN))
    page.unfold("Why this fast")
    symbols = page.element.locator(".equation .symbol")
    assert symbols.all_inner_texts() == ["τ", "γ", "c", "v", "o"]
    shown = "e => getComputedStyle(e, '::after').content"
    assert symbols.first.evaluate(shown) == "none"
    for index, touch in enumerate(("hover", "focus", "click")):
        getattr(symbols.nth(index), touch)()
        assert f'"{symbols.nth(index).get_attribute("aria-label")}"' in symbols.nth(index).evaluate(shown)


def test_p_plays_and_escape_goes_to_the_end(played: Any, pair: DecodingEngine) -> None:
    page = played(race_of(pair, **CHAIN))
    page.ask("e => e.main.focus()")
    page.page.keyboard.press("p")
    assert page.ask("e => e.transport.playing && !e.transport.whole")
    page.page.keyboard.press("Escape")
    assert page.ask("e => !e.transport.playing && e.transport.whole")


def test_where_nothing_is_open_resample_says_so_and_leads_to_where_something_is(played: Any) -> None:
    page = played(drafter="draft", rule="token", temperature=1.0)
    page.ask("""e => {  // all but one decision leave nothing open
        const lane = Inside.draftLane(e.store);
        const told = (round) => round.decisions.map((d) => ({ round: round.index, law: d.distributions[0] }));
        const every = lane.rounds.flatMap(told);
        window.left = every.pop();
        for (const { law } of every) law.p = law.p.map((_, i) => (i ? 0.0005 / law.p.length : 0.9995));
        window.left.law.p[0] = Math.min(window.left.law.p[0], 0.5);
        e.cursor.goTo(lane, { round: String(every[0].round + 1) });
    }""")
    page.unfold("Resample")
    page.painted()
    assert "samples cannot tell it from the right one here" in page.text(".certain")
    page.element.locator(".certain button").click()
    page.painted()
    assert page.page.evaluate("document.querySelector('draftscope-instrument').cursor.at.round === window.left.round")
    assert page.element.locator(".certain").count() == 0
