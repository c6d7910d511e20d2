"""What a browser keeps, changed by somebody: answers and rooms are shown as text or not at all."""

from __future__ import annotations

import json
from typing import Any

from playwright.sync_api import Error, sync_playwright

from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server
from tests.support.browsers import CHROMIUM, FLAGS
from tests.support.visit import EVIL, Visit, visitor

EVENT = {
    **dict.fromkeys(("lane", "title", "drafter", "rule", "idle", "refused"), EVIL),
    **{"seconds": [1, 2], "tokens": 3, "rounds": 2, "drafted": 1, "draft_ms": EVIL, "round_ms": 1, "exact": False},
}
COMPARED = {"about": {"prompt": EVIL, "created": EVIL, "seed": EVIL, "tokens": EVIL, "sampling": EVIL}, "ev": [EVENT]}
CHECK = {
    **dict.fromkeys(("title", "drafter", "rule", "verdict", "created"), EVIL),
    **{"models": [EVIL], "of": {"lenience": EVIL}, "findings": [{"name": EVIL, "passed": False, "sentence": EVIL}]},
}
WRONG: tuple[Any, ...] = (None, 1, "x", [], {}, [None], [[]], {"ev": [None]}, {"ev": {}}, EVIL, [EVIL])
KEPT = ("draftscope-compare", "draftscope-checks", "draftscope-opening", "draftscope-tab", "draftscope-room", "theme")


def attack(server: Server) -> Outcome:
    tried = f"{len(WRONG) + 1} contents of {len(KEPT)} kept answers, and of each page of a class"
    if CHROMIUM is None:
        return Outcome(tried, False, "not tried: no Chromium here")
    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        for content in (None, *WRONG):
            try:
                wrong += _looked(browser, server, content)
            except Error as error:
                wrong.append(f"{content!r}: {str(error)[:80]}")
        browser.close()
    return Outcome(tried, not wrong, "; ".join(wrong[:3]) or "all were text, or passed over")


def _looked(browser: Any, server: Server, content: Any) -> list[str]:
    """What went wrong with it: in place of every kept answer, or (None) of each its own shape full of markup."""
    shapes = dict.fromkeys(KEPT, json.dumps(content))
    if content is None:
        shapes |= {"draftscope-compare": json.dumps(COMPARED), "draftscope-checks": json.dumps([CHECK])}
    context = visitor(browser)
    script = "for (const [n, v] of Object.entries(%s)) { localStorage.setItem(n, v); sessionStorage.setItem(n, v); }"
    context.add_init_script(script % json.dumps(shapes))
    tab = Visit(context, f"{server.url}/")
    for part in ("Compare", "Is it exact?"):
        tab.page.get_by_text(part).first.click()
    tab.painted(4)
    said = [f"{content!r}: {error[:80]}" for error in tab.errors]
    run = [tab.page.evaluate("window.pwned")]
    for path in ("class", "join?ABCD"):
        tab.page.goto(f"{server.url}/{path}")
        run.append(tab.page.evaluate("window.pwned"))
    context.close()
    return said + [f"{content!r} ran as a script"] * any(run)
