"""Chromium for tests, and what they look for in any page."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

# The first has no windows, and computes a sixth less for the same page.
NAMES = ("chromium-headless-shell", "chromium", "google-chrome")
PLACES = (*map(shutil.which, NAMES), "/usr/bin/chromium")
CHROMIUM = next((path for path in PLACES if path and Path(path).exists()), None)
ARTIFACTS = Path(__file__).parents[1] / "artifacts"
SLOW_MS = 90_000
NARROW = (390, "dark")  # width and theme, where there is least room: what `make test` looks at
WIDE = pytest.param(1440, "light", marks=pytest.mark.slow)  # the other width and theme: no style depends on both
VIEWS = [NARROW, WIDE]
OFF = (
    "HttpsUpgrades", "MediaRouter", "OptimizationHints", "PaintHolding", "ThirdPartyStoragePartitioning",
    "WebUIOmniboxPopup", "WebUIOmniboxAimPopup",  # of an address bar that nobody sees: each window would load both
    "SpareRendererForSitePerProcess",  # a process in reserve for the next page
)  # fmt: skip
NO_CARD = ("--disable-gpu", "--disable-software-rasterizer")  # nor the program that stands in for one: pages draw in 2D
ONE = "--process-per-site"  # for a visitor's tabs, which share one
FLAGS = [*NO_CARD, ONE, "--no-sandbox", f"--disable-features={','.join(OFF)}"]


def refuse_none() -> None:
    """Skips where there is no browser; fails where one is required by DRAFTSCOPE_REQUIRE_BROWSER=1."""
    if CHROMIUM is None:
        if os.environ.get("DRAFTSCOPE_REQUIRE_BROWSER") == "1":
            pytest.fail("DRAFTSCOPE_REQUIRE_BROWSER=1 and no Chromium was found; install the chromium package.")
        pytest.skip("no Chromium here")


def chromium() -> Iterator[Any]:
    """A browser, for a fixture. While it is open no other event loop can run in its thread."""
    refuse_none()
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield opened
        opened.close()


COLORS = ["color-contrast", "link-in-text-block"]  # all rules that a theme can break
FOUND = """(rules) => axe.run({ resultTypes: ["violations"], preload: false, ...rules }).then(({ violations }) =>
    violations.map(({ id, nodes }) => [id, nodes.slice(0, 3).map((node) => node.target)]))"""


def violations(page: Any, colors_only: bool = False) -> list[Any]:
    """What axe finds, in words."""
    from axe_playwright_python.base import AXE_SCRIPT

    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE_SCRIPT)
    return list(page.evaluate(FOUND, {"runOnly": COLORS} if colors_only else {}))


def assert_accessible(page: Any, colors_only: bool = False) -> None:
    """Axe finds nothing, once whatever moves has come to rest."""
    page.wait_for_function("() => document.getAnimations().every((each) => each.playState !== 'running')")
    found = violations(page, colors_only)
    assert not found, found
