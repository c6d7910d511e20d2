"""Is the server alive while hostile files are uploaded? `python -m tests.loadtest.hostile` prints how late it answers.

Starts a server of its own and uploads four files at once, each by another visitor: a line of 22 million empty lists in
64 KB of gzip, ten million blank lines, a line nested 100,000 deep, and a number of 5,000 digits. Meanwhile /healthz is
asked twenty times a second. Each file must get a sentence, and /healthz must answer within a second.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import secrets
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from tests.loadtest.load import Server

MOST_S = 1.0  # within which /healthz is to answer; later on a machine so busy that it answered late before the uploads
PAUSE_S = 0.05
FILES = {
    "lists.jsonl.gz": lambda: gzip.compress(b"[" + b"[]," * (63 * 2**20 // 3) + b"[]]\n"),
    "blank.jsonl.gz": lambda: gzip.compress(b"\n" * 10_000_000),
    "deep.jsonl": lambda: b"[" * 100_000 + b"]" * 100_000 + b"\n",
    "digits.jsonl": lambda: b'{"kind": "run_start", "schema_version": ' + b"7" * 5_000 + b"}\n",
}


@dataclass(frozen=True)
class Told:
    """What the page said to a file, and after how many seconds."""

    name: str
    sentence: str
    seconds: float


async def uploaded(client: httpx.AsyncClient, config: dict[str, Any], name: str, content: bytes) -> Told:
    """Loads a file as the page does: the upload, then the listener of *Load run*."""
    began, session = time.monotonic(), secrets.token_hex(6)
    names = {c["id"]: str(c["props"].get("elem_id") or "") for c in config["components"]}
    load = next(
        each
        for each in config["dependencies"]
        if each["backend_fn"]
        and any(names.get(number) == "ds-load" and event == "upload" for number, event in each["targets"])
    )
    answer = await client.post("/gradio_api/upload", files={"files": (name, content)})
    answer.raise_for_status()
    file = {"path": answer.json()[0], "orig_name": name, "meta": {"_type": "gradio.FileData"}}
    press = {"data": [file], "fn_index": load["id"], "session_hash": session}
    (await client.post("/gradio_api/queue/join", json=press)).raise_for_status()
    async with client.stream("GET", "/gradio_api/queue/data", params={"session_hash": session}) as stream:
        async for line in stream.aiter_lines():
            message = json.loads(line[5:]) if line.startswith("data:") else {}
            if message.get("msg") == "process_completed":
                said = message["output"]["data"][0] if message.get("success") else "{}"
                return Told(name, str(json.loads(said).get("note", "")), time.monotonic() - began)
    return Told(name, "", time.monotonic() - began)


async def asked(client: httpx.AsyncClient, over: asyncio.Event, late: list[float]) -> None:
    """Asks /healthz until it is over; adds how long each answer took."""
    while not over.is_set():
        began = time.monotonic()
        (await client.get("/healthz")).raise_for_status()
        late.append(time.monotonic() - began)
        await asyncio.sleep(PAUSE_S)


async def measured(url: str) -> tuple[list[Told], list[float], list[float]]:
    """What each file was told, and the seconds of each answer of /healthz before the uploads and during them."""
    contents = {name: make() for name, make in FILES.items()}
    async with httpx.AsyncClient(base_url=url, timeout=300) as client, httpx.AsyncClient(base_url=url) as other:
        config = (await client.get("/config")).json()
        before: list[float] = []
        during: list[float] = []
        quiet, over = asyncio.Event(), asyncio.Event()
        watch = asyncio.create_task(asked(other, quiet, before))
        await asyncio.sleep(2)
        quiet.set()
        await watch
        watch = asyncio.create_task(asked(other, over, during))
        told = await asyncio.gather(*(uploaded(client, config, *file) for file in contents.items()))
        over.set()
        await watch
    return list(told), before, during


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="draftscope-hostile-") as folder:
        server = Server(Path(folder) / "log", 8)
        try:
            server.wait_page()  # the models may go on loading
            start, load = server.memory_mb()[0], os.getloadavg()[0]
            told, before, during = asyncio.run(measured(server.url))
            end = server.memory_mb()[0]
        finally:
            server.end()
    for each in told:
        print(f"{each.name}, after {each.seconds:.1f} s: {each.sentence or 'NO SENTENCE'}")
    print(f"/healthz: {len(during)} answers, the largest after {max(during) * 1e3:.0f} ms (before the uploads "
          f"{max(before) * 1e3:.0f} ms); the page's process {start:.0f} MB before, {end:.0f} MB after; "
          f"load {load:.1f} before, {os.getloadavg()[0]:.1f} after")  # fmt: skip
    held = max(during) < MOST_S + 3 * max(before) and all(each.sentence for each in told)
    print("every expectation held" if held else "an expectation did not hold")
    return 0 if held else 1


if __name__ == "__main__":
    sys.exit(main())
