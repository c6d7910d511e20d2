"""From the start of the server to the first picture: `python -m tests.programs.paint` prints medians, asserts none.

Each start is a fresh server on the embedded pair and a fresh browser context, opened as soon as the page answers, while
the models are still being loaded: as the first visitor of a Space that has just woken up. Then the same page once more,
models loaded, as any later visitor meets it.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from playwright.sync_api import sync_playwright

from tests.programs.attacks.server import Server
from tests.support.browsers import CHROMIUM, FLAGS

# Milliseconds since the navigation began: the recorded run is drawn (the frame after the one that found it), and a key
# pressed at once has brought it to the run's end (again the frame after).
WATCH = """(() => {
  const shown = () => document.querySelector("draftscope-instrument")?.store?.lanes.length > 0;
  const look = (held, then) => requestAnimationFrame(() => held() ? requestAnimationFrame(then) : look(held, then));
  window.paints = {};
  look(shown, () => {
    window.paints.recorded = performance.now();
    const instrument = document.querySelector("draftscope-instrument");
    instrument.main.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", bubbles: true }));
    look(() => instrument.transport.whole, () => { window.paints.interactive = performance.now(); });
  });
})()"""


def painted(browser: Any, url: str) -> dict[str, float]:
    """Seconds from the navigation to the first contentful paint, the recorded run, and the answer to a key."""
    context = browser.new_context(viewport={"width": 1440, "height": 1000})
    page = context.new_page()
    page.add_init_script(WATCH)
    page.goto(url, wait_until="commit")
    page.wait_for_function("() => window.paints && window.paints.interactive", timeout=60_000)
    first = page.evaluate("() => performance.getEntriesByName('first-contentful-paint')[0].startTime")
    found = {"contentful": first, **page.evaluate("() => window.paints")}
    context.close()
    return {name: value / 1e3 for name, value in found.items()}


def start(browser: Any, folder: Path) -> dict[str, float]:
    """One fresh server: seconds of its two first visits."""
    began = time.monotonic()
    server = Server(folder)
    try:
        server.wait_page()
        opened = time.monotonic() - began
        cold = painted(browser, server.url)
        server.wait_ready()
        loaded = time.monotonic() - began
        warm = painted(browser, server.url)
    finally:
        server.end()
    return {
        "the page answers": opened,
        "the recorded run is painted": opened + cold["recorded"],
        "models loaded": loaded,
        **{f"first visit, {name}": value for name, value in cold.items()},
        **{f"later visit, {name}": value for name, value in warm.items()},
    }


def main() -> int:
    parser = argparse.ArgumentParser(description="From the start of the server to the first picture.")
    parser.add_argument("--starts", type=int, default=3)
    asked = parser.parse_args()
    if not 1 <= asked.starts <= 20:
        parser.error(f"--starts {asked.starts}: choose 1 to 20")
    with sync_playwright() as playwright, tempfile.TemporaryDirectory(prefix="draftscope-paint-") as folder:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        found = [start(browser, Path(folder)) for _ in range(asked.starts)]
        browser.close()
    print(f"seconds, median of {asked.starts} starts [least, most]")
    for name in found[0]:
        values = [one[name] for one in found]
        print(f"{name}: {statistics.median(values):.2f} [{min(values):.2f}, {max(values):.2f}]")
    return 0


if __name__ == "__main__":
    sys.exit(main())
