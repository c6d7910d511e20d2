"""A run as one HTML file: what stands in it, that it plays without a server, and that it stays text."""

from __future__ import annotations

import base64
import gzip
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.trace import files
from draftscope.trace import html as player
from draftscope.trace.events import EVENT, AnyEvent, Round
from draftscope_app.cli import main
from tests.support.alone import Alone
from tests.support.browsers import ARTIFACTS, VIEWS, violations
from tests.support.raced import EVIL, hostile, race_of


@pytest.fixture(scope="module")
def raced(pair: DecodingEngine) -> list[AnyEvent]:
    return race_of(pair, "a\u2028b", drafter="sampled-tree", shape=(3, 2))


def held(html: str) -> dict[str, Any]:
    """The delta that lies in a page."""
    packed = re.search(r'<script type="text/plain" id="run">([^<]*)</script>', html)
    assert packed is not None
    found: dict[str, Any] = json.loads(gzip.decompress(base64.b64decode(packed[1])))
    return found


# What stands in the file.


def test_the_page_holds_every_event_and_fetches_nothing(raced: list[AnyEvent]) -> None:
    html = player.page(raced)
    assert [EVENT.validate_python(event) for event in held(html)["ev"]] == raced
    assert player.NOTHING_OUTSIDE.startswith("default-src 'none'")
    assert f'content="{player.NOTHING_OUTSIDE}"' in html
    assert not re.search(r'<(link|img|iframe)\b|(src|href)="|@import|url\((?!#)', html)
    assert player.page(raced) == html


def test_what_a_model_wrote_cannot_end_the_script_that_holds_it(raced: list[AnyEvent]) -> None:
    html = player.page(hostile(raced))
    assert html.count("</script") == player.page(raced).count("</script")
    assert "\u2028" not in html.split("</title>")[1]
    assert held(html)["ev"][0]["prompt"] == EVIL


def test_of_several_runs_the_first_is_played(raced: list[AnyEvent]) -> None:
    other = [event.model_copy(update={"run": "another"}) for event in raced]
    assert player.page(raced + other) == player.page(raced)


def test_a_run_without_rounds_is_refused(pair: DecodingEngine, raced: list[AnyEvent]) -> None:
    with pytest.raises(DraftscopeError, match="record=True"):
        player.page([event for event in raced if not isinstance(event, Round)])
    with pytest.raises(DraftscopeError, match="no round"):
        player.page([])
    with pytest.raises(DraftscopeError, match="no round"):
        pair.decode("a", drafter="plain", record=False, max_new_tokens=4).show()


def test_a_notebook_gets_a_frame_that_may_not_reach_out(pair: DecodingEngine) -> None:
    shown = pair.decode("a", drafter="plain", max_new_tokens=4).show(height=640)
    markup = shown._repr_html_()
    assert markup.count("<") == 2  # the frame, opened and closed: the page inside is an attribute
    assert 'sandbox="allow-scripts allow-downloads"' in markup
    assert "height: 640px" in markup
    assert len(repr(shown)) < 100


# The command.


def test_export_writes_the_page(raced: list[AnyEvent], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trace, page = tmp_path / "run.jsonl.gz", tmp_path / "run.html"
    files.write(trace, raced)
    assert main.main(["export", str(trace), "--what", "page", "--to", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == player.page(raced)
    assert main.main(["export", str(trace), "--what", "page"]) == 0
    assert capsys.readouterr().out == player.page(raced)


def test_export_says_what_it_left_out_or_cannot_do(
    raced: list[AnyEvent], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trace = tmp_path / "two.jsonl"
    files.write(trace, raced + [event.model_copy(update={"run": "another"}) for event in raced])
    asked = ["export", str(trace), "--what", "page", "--to"]
    assert main.main([*asked, str(tmp_path / "a.html")]) == 0
    assert "several runs; the page plays the first" in capsys.readouterr().err
    assert main.main([*asked, str(tmp_path / "a.csv")]) == 2
    assert "ends in .html" in capsys.readouterr().err
    assert main.main([*asked, "/dev/null/a.html"]) == 2
    assert "cannot be written" in capsys.readouterr().err
    itself = trace.rename(tmp_path / "trace.html")
    assert main.main(["export", str(itself), "--what", "page", "--to", str(itself)]) == 2
    assert "is the trace itself" in capsys.readouterr().err
    assert files.read(itself).events


def test_a_page_is_made_without_torch_or_a_screen(raced: list[AnyEvent], tmp_path: Path) -> None:
    trace = tmp_path / "run.jsonl"
    files.write(trace, raced)
    script = (
        "import sys; from draftscope_app.cli.main import main; code = main(sys.argv[1:]); "
        "sys.exit(code or any(name in sys.modules for name in ('torch', 'gradio', 'plotly', 'pandas')))"
    )
    command = [sys.executable, "-c", script, "export", str(trace), "--what", "page", "--to", str(tmp_path / "a.html")]
    subprocess.run(command, check=True)


# In a browser.


@pytest.mark.browser
def test_the_file_plays_without_a_server(browser: Any, raced: list[AnyEvent], tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_text(player.page(raced), encoding="utf-8")
    page = Alone(browser, path)
    assert page.text(".badge") == "recorded"
    assert page.ask("e => e.store.lanes.map((l) => l.tokens.length)") == [24, 24]
    page.ask("e => e.transport.play()")
    page.until("e => e.transport.now > 0 && e.transport.now < e.transport.end")
    page.ask("e => e.transport.toEnd()")
    page.element.get_by_label("Next round").click()
    page.painted()
    assert page.text(".tree h3").startswith("Round ")
    assert page.page.evaluate("fetch('data:text/plain,x').then(() => 'fetched', () => 'refused')") == "refused"
    page.errors.clear()  # the refusal itself, which the browser reports
    page.page.click("#theme")
    page.painted()
    assert page.ask("e => e.dataset.theme") == "dark"
    page.close()


# Whatever leads to another part of the page; papers are elsewhere by themselves.
ELSEWHERE = """() => { const found = [];
    const visit = (root) => { for (const e of root.querySelectorAll("*")) {
        if (e.shadowRoot) visit(e.shadowRoot);
        if (e.matches("a[href]:not([href^='https:']), [data-opens]")) found.push(e.outerHTML);
    } };
    visit(document);
    return found; }"""


@pytest.mark.browser
def test_the_file_says_what_it_does_not_hold_and_leads_nowhere_else(
    browser: Any, raced: list[AnyEvent], tmp_path: Path
) -> None:
    path = tmp_path / "run.html"
    path.write_text(player.page(raced), encoding="utf-8")
    page = Alone(browser, path, query="?door=servers")
    page.ask("e => { for (const b of e.shadowRoot.querySelectorAll('button.unfold')) b.click(); }")
    page.painted()
    assert "draftscope serve" in page.page.locator("body > header").inner_text()
    assert page.page.evaluate(ELSEWHERE) == []
    assert page.element.locator(".lane").first.is_visible()
    page.close()


@pytest.mark.browser
def test_a_hostile_run_stays_text(browser: Any, raced: list[AnyEvent], tmp_path: Path) -> None:
    path = tmp_path / "run.html"
    path.write_text(player.page(hostile(raced)), encoding="utf-8")
    page = Alone(browser, path)
    page.ask("e => { for (const b of e.shadowRoot.querySelectorAll('button.unfold')) b.click(); }")
    page.painted()
    assert page.page.evaluate("window.pwned") is None
    assert page.ask("e => e.shadowRoot.querySelectorAll('img, script, iframe').length") == 0
    assert "</script><script>" in page.text(".lane .pane")
    assert page.page.title().startswith("Draftscope: </script><script>")
    page.close()


@pytest.mark.slow
@pytest.mark.browser
def test_the_notebook_view_opens(browser: Any, pair: DecodingEngine, tmp_path: Path) -> None:
    path = tmp_path / "cell.html"
    run = pair.decode("a", drafter="draft", gamma=3, temperature=1.0, seed=2, max_new_tokens=16)
    path.write_text(f"<!DOCTYPE html><title>cell</title>{run.show()._repr_html_()}", encoding="utf-8")
    page = Alone(browser, path, frame=True)
    assert page.ask("e => e.store.lanes.map((l) => l.tokens.map((t) => t.id))") == [run.token_ids]
    assert "Draft model, chain" in page.text(".lane")  # no engine tells this page what drafters are called
    page.element.get_by_label("Next round").click()
    page.painted()
    assert page.text(".tree h3").startswith("Round ")
    page.close()


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(("width", "theme"), VIEWS)
def test_the_file_in_both_themes(browser: Any, raced: list[AnyEvent], tmp_path: Path, width: int, theme: str) -> None:
    path = tmp_path / "run.html"
    path.write_text(player.page(raced), encoding="utf-8")
    page = Alone(browser, path, viewport={"width": width, "height": 900}, color_scheme=theme, bypass_csp=True)
    assert page.ask("e => e.dataset.theme") == theme
    assert page.page.evaluate("document.documentElement.scrollWidth") <= width
    page.painted()
    page.shot(f"file-{width}-{theme}")
    assert (ARTIFACTS / f"file-{width}-{theme}.png").exists()
    assert violations(page.page) == []
    page.close()
