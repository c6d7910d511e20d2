"""Six tabs of one browser, five of which run at once."""

from __future__ import annotations

from playwright.sync_api import Error, sync_playwright

from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server
from tests.support.browsers import CHROMIUM, FLAGS
from tests.support.visit import Visit, visitor

OPEN, RUNNING, PATIENCE_MS = 6, 5, 60_000
TRIED = f"{OPEN} tabs of one browser, {RUNNING} run"


def attack(server: Server) -> Outcome:
    if CHROMIUM is None:
        return Outcome(TRIED, False, "not tried: no Chromium here")
    loaded = begun = 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        context = visitor(browser)
        try:
            tabs = []
            for _ in range(OPEN):
                tabs.append(Visit(context, f"{server.url}/", "?max_new_tokens=64", wait=False))
                tabs[-1].page.set_default_timeout(PATIENCE_MS)
                tabs[-1].commit()
                tabs[-1].ready()
                loaded += 1
            for tab in tabs[:RUNNING]:
                tab.page.click("#ds-run")
            for tab in tabs[:RUNNING]:
                tab.until("e => e.store.source === 'live' && e.store.lanes.length > 0")
                begun += 1
        except Error:
            pass  # of time: what was counted says where
        browser.close()
    return Outcome(TRIED, loaded == OPEN and begun == RUNNING, f"{loaded} loaded, {begun} runs began")
