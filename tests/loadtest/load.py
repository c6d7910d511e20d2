"""Many visitors at once, on the loopback: `python -m tests.loadtest.load`. Bounded in visitors, rounds and time.

Starts a server of its own on the embedded pair, as `app/main.py` does. In each round every visitor opens the page's
streams and presses Run as the page does (a race of two lanes, then the solo runs behind the headline), all at once.
Prints one line a round and a summary: waits (from pressing Run to the first event of one's own run), ends, memory. Then
visitors leave in the middle of a run, and the time until the engine has stopped theirs is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.support.framed import free_port

ROOT = Path(__file__).resolve().parents[2]
READY_S = 180.0
RUN_S = 900.0  # more than any run here may take
MOST_VISITORS, MOST_ROUNDS, MOST_TOKENS = 60, 20, 256


@dataclass(frozen=True)
class Seen:
    """What one visitor saw: seconds from pressing Run to the run's first event, to the race's end, to the very end."""

    waited: float
    raced: float
    took: float
    tokens: tuple[int, ...]  # of each lane
    places: tuple[int, ...]  # in the queue, as told


class Server:
    """`app/main.py` on a free port; `pid` is the page's process, whose child is the engine's."""

    def __init__(self, log: Path, visitors: int) -> None:
        self.port, self.log = free_port(), log
        self.url = f"http://127.0.0.1:{self.port}"
        environment = os.environ | {
            "GRADIO_SERVER_NAME": "127.0.0.1",
            "GRADIO_SERVER_PORT": str(self.port),
            "DRAFTSCOPE_TARGET": "embedded",
            "DRAFTSCOPE_MOST_RUNS": str(visitors),
            "DRAFTSCOPE_MOST_RUNS_ADDRESS": str(visitors),
        }
        self.began = time.monotonic()
        with log.open("w") as file:
            self.process = subprocess.Popen(
                [sys.executable, "app/main.py"], cwd=ROOT, env=environment, stdout=file, stderr=file
            )

    def wait_ready(self) -> tuple[float, float]:
        """Seconds until the page is there, and until a run would be decoded."""
        return self._wait("/"), self._wait("/readyz")

    def wait_page(self) -> None:
        """Until the page is there."""
        self._wait("/")

    def _wait(self, path: str) -> float:
        """Seconds from the start until `path` is answered with 200."""
        while time.monotonic() - self.began < READY_S:
            try:
                if httpx.get(self.url + path, timeout=5).status_code == 200:
                    return time.monotonic() - self.began
            except httpx.HTTPError:
                pass
            time.sleep(0.1)
        raise SystemExit(f"the server did not get ready: {self.log.read_text()[-2000:]}")

    def runs(self) -> list[dict[str, Any]]:
        """The ends of runs that it has logged."""
        lines = [json.loads(line) for line in self.log.read_text().splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] == "run"]

    def memory_mb(self) -> tuple[float, float]:
        """Resident memory of the page's process and of the engine's."""
        children = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children").read_text().split()
        sizes = {pid: _resident_mb(pid) for pid in children}
        return _resident_mb(str(self.process.pid)), max(sizes.values(), default=0.0)

    def end(self) -> None:
        self.process.terminate()
        self.process.wait(30)


def _resident_mb(pid: str) -> float:
    status = Path(f"/proc/{pid}/status").read_text()
    return next((int(line.split()[1]) / 1024 for line in status.splitlines() if line.startswith("VmRSS")), 0.0)


class Visitor:
    """Speaks to the page as its script does: a press of Run, and the event stream of its session."""

    def __init__(self, client: httpx.AsyncClient, config: dict[str, Any], **settings: Any) -> None:
        self.client, self.session = client, secrets.token_hex(6)
        ran = next(d for d in config["dependencies"] if d["targets"] and _is_button(config, d["targets"][0], "ds-run")
                   and d["backend_fn"] and d["types"]["generator"])  # fmt: skip
        names = {c["id"]: str(c["props"].get("elem_id") or "") for c in config["components"]}
        values = {c["id"]: c["props"].get("value") for c in config["components"]}
        wished = {f"ds-{name.replace('_', '-')}": value for name, value in settings.items()}
        assert wished.keys() <= set(names.values()), wished
        self.press = {
            "data": [wished.get(names[number], values[number]) for number in ran["inputs"]],
            "fn_index": ran["id"],
            "session_hash": self.session,
        }

    async def visit(self) -> Seen:
        """One run, with the heartbeat that an open page keeps."""
        async with self.client.stream("GET", f"/gradio_api/heartbeat/{self.session}"):
            return await self.run()

    async def run(self) -> Seen:
        """Presses Run and reads to the end of the run."""
        began = time.monotonic()
        await self._pressed()
        waited = raced = 0.0
        tokens: list[int] = []
        places: list[int] = []
        async for delta in self._deltas():
            places += [delta["place"]] if delta.get("state") == "queued" else []
            if delta.get("note"):
                raise RuntimeError(delta["note"])
            for event in delta.get("ev", []):
                waited = waited or time.monotonic() - began
                if event["kind"] == "run_end":
                    tokens.append(len(event["token_ids"]))
                    raced = time.monotonic() - began
        return Seen(waited, raced, time.monotonic() - began, tuple(tokens), tuple(places))

    async def events(self) -> AsyncIterator[dict[str, Any]]:
        """Presses Run and passes on what is told, to the end."""
        await self._pressed()
        async for delta in self._deltas():
            for event in delta.get("ev", []):
                yield event

    async def leave_after(self, rounds: int) -> float:
        """Presses Run, reads so many rounds and goes away; returns when."""
        await self._pressed()
        seen = 0
        deltas = self._deltas()
        async for delta in deltas:
            seen += sum(event["kind"] == "round" for event in delta.get("ev", []))
            if seen >= rounds:
                break
        await deltas.aclose()  # type: ignore[attr-defined]
        return time.time()

    async def _pressed(self) -> None:
        answer = await self.client.post("/gradio_api/queue/join", json=self.press)
        answer.raise_for_status()

    async def _deltas(self) -> Any:
        url = "/gradio_api/queue/data"
        async with self.client.stream("GET", url, params={"session_hash": self.session}) as stream:
            async for line in stream.aiter_lines():
                if not line.startswith("data:"):
                    continue
                message = json.loads(line[5:])
                if message["msg"] == "process_completed":
                    if not message.get("success", True):
                        raise RuntimeError(str(message.get("output")))
                    return
                if message["msg"] == "process_generating":
                    for part in message["output"]["data"]:
                        text = part if isinstance(part, str) else _replaced(part)
                        if text:
                            yield json.loads(text)


def _is_button(config: dict[str, Any], target: list[Any], name: str) -> bool:
    found = next(c for c in config["components"] if c["id"] == target[0])
    return bool(found["props"].get("elem_id") == name and target[1] == "click")


def _replaced(part: Any) -> str:
    """The text in a difference against what was said before: every delta is another whole string."""
    return next((str(change[2]) for change in part if change[0] == "replace"), "") if isinstance(part, list) else ""


async def measured(server: Server, visitors: int, rounds: int, tokens: int) -> bool:
    """Rounds of all visitors at once, printed as they end; whether every expectation held."""
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    held: list[bool] = []
    async with httpx.AsyncClient(base_url=server.url, timeout=RUN_S, limits=limits) as client:
        config = (await client.get("/config")).json()
        memory = []
        for number in range(1, rounds + 1):
            wished = {"max_new_tokens": tokens, "temperature": 1.0}
            everybody = [Visitor(client, config, seed=i, **wished) for i in range(visitors)]
            seen = await asyncio.gather(*(visitor.visit() for visitor in everybody))
            memory.append(server.memory_mb())
            held.append(_told(number, seen, memory[-1]))
        first, last = memory[min(2, len(memory) - 1)], memory[-1]
        print(f"memory, page + engine, MB: {memory[0][0]:.0f} + {memory[0][1]:.0f} after round 1, "
              f"{first[0]:.0f} + {first[1]:.0f} after round 3, {last[0]:.0f} + {last[1]:.0f} at the end")  # fmt: skip
        held.append(last[0] + last[1] < 1.1 * (first[0] + first[1]))
        held.append(await _leaving(server, client, config))
    return all(held)


def _told(number: int, seen: list[Seen], memory: tuple[float, float]) -> bool:
    waits = [one.waited for one in seen]
    mean, longest = sum(waits) / len(waits), max(waits)
    whole = sum(len(one.tokens) == 2 and min(one.tokens) > 0 for one in seen)  # a text may end early
    told = sum(bool(one.places) for one in seen)
    print(f"round {number}: {whole} of {len(seen)} runs whole; wait mean {mean:.1f} s, longest {longest:.1f} s "
          f"({longest / mean:.2f} of the mean); race over {max(s.raced for s in seen):.1f} s, "
          f"everything {max(s.took for s in seen):.1f} s; {told} told their place; "
          f"memory {memory[0]:.0f} + {memory[1]:.0f} MB", flush=True)  # fmt: skip
    return whole == len(seen) and longest < 3 * mean


async def _leaving(server: Server, client: httpx.AsyncClient, config: dict[str, Any], times: int = 5) -> bool:
    """How long the run of a visitor who left goes on."""
    took = []
    for seed in range(times):
        known = len(server.runs())
        visitor = Visitor(client, config, max_new_tokens=MOST_TOKENS, temperature=1.0, drafter="plain", seed=seed)
        left = await visitor.leave_after(rounds=3)
        while len(server.runs()) == known and time.time() - left < 60:
            await asyncio.sleep(0.02)
        assert server.runs()[-1]["stopped"], "the run ended before its visitor left"
        took.append(time.time() - left)
    print(f"runs whose visitor left stopped after {', '.join(f'{s:.2f}' for s in took)} s")
    return max(took) < 1.0


def main() -> int:
    parser = argparse.ArgumentParser(description="Many visitors at once, on the loopback.")
    parser.add_argument("--visitors", type=int, default=30)
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--tokens", type=int, default=64)
    asked = parser.parse_args()
    for name, most in (("visitors", MOST_VISITORS), ("rounds", MOST_ROUNDS), ("tokens", MOST_TOKENS)):
        if not 1 <= getattr(asked, name) <= most:
            parser.error(f"--{name} {getattr(asked, name)}: choose 1 to {most}")
    with tempfile.TemporaryDirectory(prefix="draftscope-load-") as folder:
        server = Server(Path(folder) / "log", asked.visitors)
        try:
            page, ready = server.wait_ready()
            print(f"page after {page:.1f} s, models after {ready:.1f} s", flush=True)
            held = asyncio.run(measured(server, asked.visitors, asked.rounds, asked.tokens))
        finally:
            server.end()
    print("every expectation held" if held else "an expectation did not hold")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
