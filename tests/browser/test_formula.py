"""The formula card: of a chain and of a tree, what was measured stands on what is modelled from it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from draftscope.decode.lab import Lab
from draftscope.trace import html
from tests.support.alone import Alone
from tests.support.browsers import violations
from tests.support.raced import race_of

pytestmark = pytest.mark.browser

COSTS = "e => Inside.costsOf(e.store.lanes[1], e.store.lanes[0])"
CHOSEN = """e => {
    const centre = (name) => { const box = e.shadowRoot.querySelector(`.formula ${name}`).getBBox();
        return [box.x + box.width / 2, box.y + box.height / 2]; };
    return [centre(".chosen"), centre(".real")];
}"""


def opened(browser: Any, pair: Lab, folder: Path, own: dict[str, Any], **context: Any) -> Alone:
    path = folder / "run.html"
    path.write_text(html.page(race_of(pair, **own)), encoding="utf-8")
    page = Alone(browser, path, **context)
    page.ask("e => e.transport.toEnd()")
    page.painted()
    page.element.get_by_role("button", name="Why this fast").click()
    page.painted()
    return page


TREES = [
    ({"drafter": "sampled-tree", "shape": (3, 2)}, "children by level 3, 2; per round "),
    ({"drafter": "topk-tree", "shape": (2, 2, 1)}, "children by level 2, 2, 1; per round "),
    ({"drafter": "eagle3-tree", "tree_nodes": 7}, "This tree: per round "),
]


@pytest.mark.parametrize(("own", "shape"), TREES)
def test_a_trees_formula_is_told_by_its_own_size(
    browser: Any, pair: Lab, tmp_path: Path, own: dict[str, Any], shape: str
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
    assert f"faster than plain above τ {cost:.2f}" in said
    page.close()


def test_the_measured_point_lies_where_it_was_measured(browser: Any, pair: Lab, tmp_path: Path) -> None:
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
    page.element.get_by_role("slider", name="c, draft forward / plain round").fill("0")
    assert f"= 4.00 / ({costs['per']:.2f} × 0 + " in page.text(".formula .sum")
    page.element.get_by_role("button", name="As measured").click()
    assert page.text(".formula .sum").startswith(f"Modelled: S {costs['predicted']:.2f} ")
    page.close()


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
    browser: Any, pair: Lab, tmp_path: Path, own: dict[str, Any], chain: bool
) -> None:
    page = opened(browser, pair, tmp_path, own)
    assert page.element.get_by_role("slider", name="γ, drafted per round").count() == chain
    assert page.element.get_by_role("slider", name="τ, tokens per round").count() == (not chain)
    assert page.text(".equation").startswith(f"S = τ / ({'γ' if chain else 'L'}c + v + o)")
    page.close()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1440])
def test_a_trees_formula_in_both_themes(browser: Any, pair: Lab, tmp_path: Path, width: int, theme: str) -> None:
    own = {"drafter": "sampled-tree", "shape": (2, 1, 1)}
    page = opened(
        browser, pair, tmp_path, own, viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True
    )
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    assert violations(page.page) == []
    page.shot(f"formula-tree-{width}-{theme}")
    page.close()
