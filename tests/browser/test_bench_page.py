"""The page of a benchmark: made from JSON alone, whole without a network, and quiet in a browser."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from plotly.offline import get_plotlyjs

from draftscope.base.prompts import Prompt
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.bench_plots import plots
from draftscope.measure.bench.benchmark import benchmark
from draftscope_app.reports.bench_page import page
from tests.support import visit
from tests.support.browsers import VIEWS

EVIL = f"{visit.EVIL}</script>"


@pytest.fixture(scope="module")
def report(pair: DecodingEngine) -> Any:
    """A sweep over batches and contexts, with a kind of text that would like to be markup."""
    texts = {"story": [Prompt("story", "Once")], EVIL: [Prompt(EVIL, "There was")]}
    plan = BenchPlan(drafters=("draft", "ngram"), gammas=(2,), batches=(1, 2), contexts=(8, 16), tokens=8, repeats=1)
    return json.loads(benchmark(pair, plan, texts, ["A note with <b>markup</b>."]).as_json())


@pytest.fixture(scope="module")
def html(report: Any) -> str:
    return page(report)


def headings(html: str) -> list[str]:
    return re.findall(r"<h2>(.*?)</h2>", html)


def test_the_page_is_a_pure_function_of_the_report(report: Any, html: str) -> None:
    before = json.dumps(report)
    assert page(report) == html
    assert json.dumps(report) == before


class Asks(HTMLParser):
    """Whatever in the markup would make a browser ask for something."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[str] = []
        self.tags: set[str] = set()
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.found += [f"{tag} {name}" for name, _ in attrs if name in ("src", "href", "srcset", "data", "action")]


def test_nothing_is_fetched_and_plotly_lies_inside_once(html: str) -> None:
    assert html.count("plotly.js v") == 1
    own = html.replace(get_plotlyjs(), "")
    assert Asks(own).found == []
    assert not re.search(r"https?:|@import|url\(", own)
    assert len(own) < 2_000_000


def test_kinds_and_notes_are_text_and_never_markup(html: str) -> None:
    own = html.replace(get_plotlyjs(), "")
    assert not Asks(own).tags & {"img", "b"}
    assert "&lt;img src=x" in own
    assert "&lt;b&gt;markup&lt;/b&gt;" in own


def test_sweeps_have_their_plots_and_runs_without_them_do_not(report: Any, html: str) -> None:
    sweeps = {"Speedup against batch, T = 0", "Speedup against batch, T = 1", "Memory against context"}
    always = {"Headline", "Predicted beside measured", "Time a token against generated length"}
    assert set(headings(html)) >= always | sweeps
    one = [row for row in report["rows"] if (row["batch"], row["context"]) == (1, 8)]
    heads = [line for line in report["headlines"] if (line["batch"], line["context"]) == (1, 8)]
    plain = headings(page(report | {"rows": one, "headlines": heads}))
    assert set(plain) >= always
    assert not set(plain) & sweeps


def test_a_state_is_a_flat_line_beside_caches_that_grow(report: Any) -> None:
    """The models' own lines, and words for the one that does not grow."""
    (plot,) = (plot for plot in plots(report) if plot.title == "State of each model against context")
    lines = {trace.name: list(trace.y) for trace in plot.figure.data}
    assert set(lines) == {"target byte-target", "draft byte-draft"}
    assert all(size[1] == size[0] * 24 / 16 for size in lines.values())
    state = [{"model": "s<ssm", "role": "draft", "tokens": n, "bytes": 7, "constant": True} for n in (16, 24)]
    (plot,) = (p for p in plots(report | {"kept": report["kept"] + state}) if p.title.startswith("State of each"))
    assert plot.figure.data[2].name == "draft s&lt;ssm" and list(plot.figure.data[2].y) == [7, 7]
    assert plot.note.endswith("The same for any text: s<ssm.")


def test_where_every_text_loops_the_page_says_so(report: Any) -> None:
    lines = [line | {"ratio_to_plain": None} for line in report["headlines"]]
    said = page(report | {"headlines": lines})
    assert "every continuation loops, so there is no headline" in said
    assert "At T = 0 and T = 1 every continuation loops: no number." in said


def test_a_report_of_plain_alone_is_a_page(report: Any) -> None:
    alone = {name: [line for line in report[name] if line["drafter"] == "plain"] for name in ("rows", "headlines")}
    assert "No drafter was measured." in page(report | alone)


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("width", "scheme"), VIEWS)
def test_the_page_opens_without_an_error_at_every_width_and_theme(
    browser: Any, html: str, tmp_path: Path, width: int, scheme: str
) -> None:
    file = tmp_path / "bench.html"
    file.write_text(html)
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True)
    tab = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    tab.on("console", lambda line: said.append(line.text) if line.type in ("error", "warning") else None)
    tab.on("pageerror", lambda error: said.append(str(error)))
    tab.on("request", lambda request: asked.append(request.url))
    tab.goto(file.as_uri())
    plots = len([title for title in headings(html) if title not in ("Other programs", "Skipped")])
    tab.wait_for_function(f"() => document.querySelectorAll('figure .cartesianlayer .subplot').length === {plots}")
    assert (said, asked) == ([], [file.as_uri()])
    assert tab.evaluate("() => document.documentElement.scrollWidth") == width
    assert tab.evaluate("() => window.pwned") is None
    card, ink = (
        "() => getComputedStyle(document.querySelector('figure')).backgroundColor",
        tab.locator("figure .ytick text"),
    )
    assert tab.evaluate(card) == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(23, 27, 33)")
    fill = ink.first.evaluate("text => getComputedStyle(text).fill")
    assert fill == ("rgb(27, 31, 36)" if scheme == "light" else "rgb(232, 235, 239)")
    wide = tab.evaluate(
        "() => Math.max(...[...document.querySelectorAll('figure')].map(f => f.scrollWidth - f.clientWidth))"
    )
    assert wide <= 0
    context.close()
