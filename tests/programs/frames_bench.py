"""What the page costs: `python -m tests.programs.frames_bench`. Prints and saves; a test never asserts a time.

1. Frames of a recorded playback, four lanes, three of them with trees of 60 nodes, no engine. Three clocks, because a
   browser without a screen rounds the distance of frames to its own beat: that distance; the work of a frame, from its
   beginning until what was asked for is laid out and painted; and tasks that took longer than 50 ms.
2. Decoding with nobody watching, with a client that reads the page's events and draws nothing, and with the page
   watching: the same race, by turns, engine on one thread. Milliseconds are each lane's own, without the prompt.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
from playwright.sync_api import sync_playwright

import draftscope
from draftscope.base.load_settings import LoadSettings
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.trace import html
from draftscope_app.engine.jobs import new_id
from draftscope_app.engine.run_job import RunJob
from draftscope_app.page.bundle import presets
from draftscope_app.page.controls import LANE
from draftscope_app.serve.server import Served, serve
from tests.programs.attacks.visitor import Visitor
from tests.support.alone import Alone
from tests.support.browsers import CHROMIUM, FLAGS
from tests.support.framed import free_port
from tests.support.runs import wait_loaded
from tests.support.visit import Visit, visitor

TREE = (6, 3, 1, 1)  # 6 + 18 + 18 + 18 = 60 nodes
LANES: dict[str, dict[str, Any]] = {
    "plain": {"drafter": "plain"},
    "sampled": {"drafter": "sampled-tree", "shape": TREE},
    "chosen": {"drafter": "topk-tree", "shape": TREE},
    "heads": {"drafter": "eagle3-tree", "tree_nodes": 60, "tree_depth": 4, "tree_width": 8},
}
PLAY = """e => new Promise((done) => {
    const gaps = [], work = [], long = [];
    const watch = new PerformanceObserver((list) => long.push(...list.getEntries().map((entry) => entry.duration)));
    watch.observe({ type: "longtask" });
    const after = new MessageChannel();
    let began = 0, last = null;
    after.port1.onmessage = () => work.push(performance.now() - began);
    const frame = (at) => {
        if (last !== null) gaps.push(at - last);
        [began, last] = [at, at];
        after.port2.postMessage(0);
        if (e.transport.playing || gaps.length < 2) return requestAnimationFrame(frame);
        setTimeout(() => { watch.disconnect(); done({ gaps, work, long }); }, 100);
    };
    e.transport.seek(0);
    e.transport.play();
    requestAnimationFrame(frame);
})"""
CLOCKS = "e => e.store.lanes.map((lane) => [lane.name, lane.rounds.reduce((sum, r) => sum + r.end - r.start, 0)])"


def record(path: Path, tokens: int) -> None:
    """A race of the lanes, as a page that needs no server."""
    engine = draftscope.load()
    prompt, common = presets()["story"][0], {"temperature": 1.0, "max_new_tokens": tokens, "seed": 3}
    runs = [engine.start(prompt, Settings.of(**common, **own), lane=lane) for lane, own in LANES.items()]
    path.write_text(html.page(list(race(runs))), encoding="utf-8")


def frames(browser: Any, path: Path) -> dict[str, Any]:
    """Its playback, from the beginning to the end at the speed that fits."""
    page = Alone(browser, path)
    found = page.ask(PLAY)
    most = page.ask("e => Math.max(...e.store.lanes.flatMap((lane) => lane.rounds.map((r) => r.nodes.length)))")
    page.close()
    told = {"distance_ms": spread(found["gaps"]), "work_ms": spread(found["work"])}
    long = {"count": len(found["long"]), "sum_ms": sum(found["long"]), "worst_ms": max(found["long"], default=0)}
    return {"lanes": len(LANES), "nodes": most, "frames": len(found["gaps"]), **told, "long_tasks": long}


def spread(values: Sequence[float]) -> dict[str, float]:
    p = statistics.quantiles(values, n=100, method="inclusive")
    return {"p50": p[49], "p95": p[94], "worst": max(values)}


def watched(browser: Any, url: str, query: str) -> dict[str, float]:
    """Milliseconds of each lane of a race that a page shows as it is decoded."""
    page = Visit(visitor(browser), url, query)
    page.ready()
    page.page.wait_for_timeout(1500)  # whatever the opening still does
    page.page.click("#ds-run")
    page.until("e => e.store.source === 'live' && e.store.lanes.length === 2 && e.store.lanes.every((l) => l.end)")
    clocks = dict(page.ask(CLOCKS))
    page.until("e => e.state === 'done'")  # the solo runs behind the headline
    page.close()
    return clocks


def unwatched(engine: Any, prompt: str, tokens: int) -> dict[str, float]:
    """The same race, asked of the engine process; nobody reads it meanwhile."""
    common = {"temperature": 0.0, "max_new_tokens": tokens, "seed": 0}
    lanes = {"plain": Settings.of(**common, drafter="plain"), LANE: Settings.of(**common, drafter="draft", gamma=4)}
    answer = engine.run(RunJob(id=new_id(), prompt=prompt, lanes=lanes))
    clocks = dict.fromkeys(lanes, 0.0)
    while not answer.over:
        time.sleep(0.05)
    for event in map(json.loads, answer.lines):
        if event["kind"] == "round":
            clocks[event["lane"]] += event["end"] - event["start"]
    return clocks


async def read(url: str, prompt: str, tokens: int) -> dict[str, float]:
    """The same race, asked of the page's server, and its events read as a page reads them."""
    clocks = dict.fromkeys(("plain", LANE), 0.0)
    async with httpx.AsyncClient(base_url=url, timeout=120) as client:
        config = (await client.get("/config")).json()
        visitor = Visitor(client, config, prompt=prompt, max_new_tokens=tokens, temperature=0.0)
        async for event in visitor.events():
            if event["kind"] == "round" and event["lane"] in clocks:
                clocks[event["lane"]] += event["end"] - event["start"]
    return clocks


def decoding(browser: Any, served: Served, repeats: int, tokens: int) -> dict[str, Any]:
    """All three, by turns; the first turn warms up and is not counted."""
    prompt = presets()["verse"][0]
    query = f"?{urlencode({'prompt': prompt, 'max_new_tokens': tokens, 'temperature': 0})}"
    turns: dict[str, list[dict[str, float]]] = {"unwatched": [], "read": [], "watched": []}
    for _ in range(repeats + 1):
        turns["unwatched"].append(unwatched(served.admission.engine, prompt, tokens))
        with ThreadPoolExecutor(1) as apart:  # the browser's driver keeps a loop of its own in this thread
            turns["read"].append(apart.submit(asyncio.run, read(served.url, prompt, tokens)).result())
        turns["watched"].append(watched(browser, f"{served.url}/", query))
    told: dict[str, Any] = {"tokens": tokens, "repeats": repeats}
    for lane in ("plain", LANE):
        ms = {name: [clocks[lane] for clocks in taken[1:]] for name, taken in turns.items()}
        told[lane] = {f"{name}_ms": own for name, own in ms.items()} | {
            f"{name}_slower": statistics.median(b / a for a, b in zip(ms["unwatched"], ms[name], strict=True))
            for name in ("read", "watched")
        }
    return told


def quiet_server() -> Served:
    """The page on the embedded pair, its engine on one thread, with nothing to do yet."""
    served = serve("127.0.0.1", free_port(), LoadSettings(threads=1), block=False)
    engine: Any = served.admission.engine
    wait_loaded(engine)
    return served


def main() -> None:
    parser = argparse.ArgumentParser(description="Frame times of a playback, and decoding with the page open.")
    parser.add_argument("--out", type=Path, default=Path("bench") / "frames.json")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=128)
    chosen = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder, closing(quiet_server()) as served, sync_playwright() as playwright:
        path = Path(folder) / "run.html"
        record(path, chosen.tokens)
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        report: dict[str, Any] = {
            "date": datetime.now(UTC).isoformat(timespec="seconds"),
            "cores": os.cpu_count(),
            "load": load,
        }
        report |= {"frames": frames(browser, path)}
        report |= {"decoding": decoding(browser, served, chosen.repeats, chosen.tokens)}
        browser.close()
    chosen.out.parent.mkdir(parents=True, exist_ok=True)
    chosen.out.write_text(json.dumps(report, indent=1), encoding="utf-8")
    print(json.dumps(report, indent=1))


if __name__ == "__main__":
    main()
