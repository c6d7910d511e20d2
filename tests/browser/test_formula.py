"""The formula card: of a chain and of a tree, what was measured stands on what is modelled from it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.trace import files, html
from draftscope.trace.events import EVENT, Divergence, Round, VerifyCosts
from tests.support.alone import Alone
from tests.support.browsers import VIEWS, violations
from tests.support.raced import race_of

pytestmark = pytest.mark.browser

COSTS = "e => Inside.costsOf(e.store.lanes[1], e.store.lanes[0])"
CHOSEN = """e => {
    const centre = (name) => { const box = e.shadowRoot.querySelector(`.formula ${name}`).getBBox();
        return [box.x + box.width / 2, box.y + box.height / 2]; };
    return [centre(".chosen"), centre(".real")];
}"""


def opened(browser: Any, pair: DecodingEngine, folder: Path, own: dict[str, Any], **context: Any) -> Alone:
    path = folder / "run.html"
    path.write_text(html.page(race_of(pair, **own)), encoding="utf-8")
    page = Alone(browser, path, **context)
    page.ask("e => e.transport.toEnd()")
    page.painted()
    page.element.get_by_role("button", name="Why this fast").click()
    page.painted()
    return page


TREES = [
    ({"drafter": "sampled-tree", "shape": (3, 2)}, "children by depth 3, 2; per round "),
    pytest.param(
        {"drafter": "topk-tree", "shape": (2, 2, 1)}, "children by depth 2, 2, 1; per round ", marks=pytest.mark.slow
    ),
    pytest.param({"drafter": "eagle3-tree", "tree_nodes": 7}, "This tree: per round ", marks=pytest.mark.slow),
]


@pytest.mark.parametrize(("own", "shape"), TREES)
def test_a_trees_formula_is_told_by_its_own_size(
    browser: Any, pair: DecodingEngine, tmp_path: Path, own: dict[str, Any], shape: str
) -> None:
    page = opened(browser, pair, tmp_path, own)
    costs = page.ask(COSTS)
    note = page.text(".formula .formula-side > div")
    assert shape in note and "γ" not in page.text(".formula")
    rounds = page.ask("e => e.store.lanes[1].rounds")
    drafted = sum(each["drafted"] for each in rounds) / len(rounds)
    assert f"{drafted:.2f} nodes" in note or f"{drafted:.1f} nodes" in note
    said = page.text(".formula .sum")
    assert said.startswith(f"Modelled: S {costs['predicted']:.2f} = {costs['tau']:.2f} / (")
    cost = page.page.evaluate("(costs) => Inside.treeCost(costs.c, costs)", costs)
    assert cost == pytest.approx(costs["per"] * costs["c"] + costs["v"] + costs["o"])
    digits = 1 if cost >= 10 else 2  # as on a crowded machine, where a round of this small pair waits for a core
    assert f"faster than plain above τ {cost:.{digits}f}" in said
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize("own", [{"drafter": "draft", "gamma": 3}, {"drafter": "sampled-tree", "shape": (2, 1)}])
def test_a_draft_that_costs_more_than_the_target_is_modelled_at_its_cost(
    browser: Any, pair: DecodingEngine, tmp_path: Path, own: dict[str, Any]
) -> None:
    """Far above 1: the slider's range grows with it."""
    path = tmp_path / "run.html"
    path.write_text(html.page([slower(event, 1000.0) for event in race_of(pair, **own)]), encoding="utf-8")
    page = Alone(browser, path)
    page.ask("e => e.transport.toEnd()")
    page.painted()
    page.element.get_by_role("button", name="Why this fast").click()
    page.painted()
    costs = page.ask(COSTS)
    assert costs["c"] > 2
    slider = page.element.get_by_role("slider", name="c, draft step / plain round")
    assert float(slider.input_value()) == pytest.approx(costs["c"], rel=1e-3)
    page.close()


def slower(event: Any, by: float) -> Any:
    """The event, each draft forward of it `by` milliseconds."""
    if event.kind != "round" or event.lane == "plain":
        return event
    raw = json.loads(files.line(event))
    raw["timings"]["propose"][:-1] = [by] * (len(raw["timings"]["propose"]) - 1)  # the last is no forward
    return EVENT.validate_python(raw)


def test_the_measured_point_lies_where_it_was_measured(browser: Any, pair: DecodingEngine, tmp_path: Path) -> None:
    """Beside the modelled one: both at the measured tau, and apart by what was measured against predicted."""
    page = opened(browser, pair, tmp_path, {"drafter": "sampled-tree", "shape": (2, 1, 1)})
    costs = page.ask(COSTS)
    (x, modelled), (at, measured) = page.ask(CHOSEN)
    assert x == pytest.approx(at, abs=1)
    ones = page.ask("e => [...e.shadowRoot.querySelectorAll('.formula line')].map((l) => Number(l.getAttribute('y1')))")
    ground, one = ones[0], ones[1]
    assert (ground - measured) / (ground - one) == pytest.approx(costs["measured"], abs=0.02)
    assert (ground - modelled) / (ground - one) == pytest.approx(costs["predicted"], abs=0.03)
    page.element.get_by_role("slider", name="τ, tokens per round").fill("4")
    page.painted()
    (moved, _), (stays, same) = page.ask(CHOSEN)
    assert moved > x and (stays, same) == (at, measured)
    page.element.get_by_role("slider", name="c, draft step / plain round").fill("0")
    assert f"= 4.00 / ({costs['per']:.2f} × 0 + " in page.text(".formula .sum")
    page.element.get_by_role("button", name="As measured").click()
    assert page.text(".formula .sum").startswith(f"Modelled: S {costs['predicted']:.2f} ")
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("own", "chain"),
    [
        ({"drafter": "draft", "gamma": 3}, True),
        ({"drafter": "ngram", "gamma": 3}, True),
        ({"drafter": "sampled-tree", "shape": (2, 1)}, False),
        ({"drafter": "lookahead"}, False),
    ],
)
def test_gamma_is_asked_only_of_chains(
    browser: Any, pair: DecodingEngine, tmp_path: Path, own: dict[str, Any], chain: bool
) -> None:
    page = opened(browser, pair, tmp_path, own)
    assert page.element.get_by_role("slider", name="γ, drafted per round").count() == chain
    assert page.element.get_by_role("slider", name="τ, tokens per round").count() == (not chain)
    assert page.text(".equation").startswith(f"S = τ / ({'γ' if chain else 'L'}c + v + o)")
    page.close()


@pytest.mark.slow
@pytest.mark.parametrize(("width", "theme"), VIEWS)
def test_a_trees_formula_in_both_themes(
    browser: Any, pair: DecodingEngine, tmp_path: Path, width: int, theme: str
) -> None:
    own = {"drafter": "sampled-tree", "shape": (2, 1, 1)}
    page = opened(
        browser, pair, tmp_path, own, viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True
    )
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page.page) == []
    page.shot(f"formula-tree-{width}-{theme}")
    page.close()


def parted(browser: Any, pair: DecodingEngine, folder: Path, width: int) -> Alone:
    """A greedy race in bfloat16 whose drafting lane writes another token at a tie, and v up to 5 rows."""
    lanes = {"plain": Settings.of(drafter="plain", max_new_tokens=24), "speculative": Settings.of(max_new_tokens=24)}
    runs = [pair.start("a", settings, run="r", lane=name) for name, settings in lanes.items()]
    events: list[Any] = []
    for event in race(runs):
        raw = json.loads(files.line(event))
        if raw["kind"] == "run_start":
            raw["dtype"] = "bfloat16"
        if raw["kind"] == "round" and event.lane == "speculative" and raw["round"] >= 2:
            raw["emitted"] = [(token + 1) % 258 for token in raw["emitted"]]
            raw["last"]["gap"] = 0.0
            for decision in raw["decisions"]:
                decision["gap"] = 0.0
        events.append(EVENT.validate_python(raw))
    known = {"context": 100, "widths": [1, 3, 5], "v": [1.0, 1.0, 1.4], "noise": [0.0, 0.3, 0.1]}
    events.append(VerifyCosts(run="r", lane="speculative", **known))
    texts = [
        [token for event in events if isinstance(event, Round) and event.lane == lane for token in event.emitted]
        for lane in ("plain", "speculative")
    ]
    first = next(i for i, (own, other) in enumerate(zip(*texts, strict=False)) if own != other)
    events.append(Divergence(run="r", lane="speculative", token=first, gap=0.0, behind=0.0, bound=0.07, tie=True))
    path = folder / "parted.html"
    path.write_text(html.page(events), encoding="utf-8")
    page = Alone(browser, path, viewport={"width": width, "height": 900})
    page.ask("e => e.transport.toEnd()")
    page.painted()
    return page


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1440])
def test_a_lane_that_parts_has_a_badge_and_the_headline_counts_both(
    browser: Any, pair: DecodingEngine, tmp_path: Path, width: int
) -> None:
    page = parted(browser, pair, tmp_path, width)
    badges = page.element.locator(".badge.parting")
    assert [badges.nth(i).is_visible() for i in (0, 1)] == [False, True]
    assert re.fullmatch(r"differs from token \d+: tie of 0\.00", badges.nth(1).inner_text())
    assert "rounding moves such logits by up to 0.07 (measured): a tie" in badges.nth(1).get_attribute("title")
    assert re.search(
        r"; plain decoding needed \d+ for its \d+ tokens, which differ from token \d+ on \(a tie\)",
        page.text("h2:visible"),
    )
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.element.locator(".lane-name").nth(1).bounding_box()["height"] < 60  # the name is not squeezed
    page.shot(f"parting-{width}")
    page.close()


def test_the_curve_of_a_chain_ends_where_v_was_measured(browser: Any, pair: DecodingEngine, tmp_path: Path) -> None:
    page = parted(browser, pair, tmp_path, 1440)
    page.element.get_by_role("button", name="Why this fast").click()
    page.painted()
    assert "v was measured up to 5 tokens at once." in page.text(".formula")
    gamma = page.element.get_by_role("slider", name="γ, drafted per round")
    assert gamma.get_attribute("max") == "4"
    assert page.element.locator(".formula circle.model").count() == 4
    gamma.fill("2")
    page.painted()
    assert "v of 3 tokens cannot be told from v of one: the noise is larger." in page.text(".formula .sum")
    page.shot("formula-chain-measured")
    page.close()
