"""A server whose disk is full, and one whose clock steps by a year and back: each has a server of its own."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from pathlib import Path

import httpx

from tests.programs.attacks import visitor
from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server

DISK_MB, FILE_MB, RUNS = 8, 12, 3
STEPS = """
import time
now, year = time.time, 365 * 86400
time.time = lambda: now() + year * (int(now()) % 3 - 1)
"""


def disk(_: Server) -> Outcome:
    tried = f"an upload of {FILE_MB} MiB onto a disk of {DISK_MB} MiB"
    with tempfile.TemporaryDirectory(prefix="draftscope-attack-") as root:
        uploads = Path(root) / "uploads"
        uploads.mkdir()
        small = ["mount", "-t", "tmpfs", "-o", f"size={DISK_MB}m", "none", str(uploads)]
        if subprocess.run(small, capture_output=True, check=False).returncode:
            return Outcome(tried, True, "not tried: nobody may mount a disk here")
        server = Server(Path(root))
        try:
            server.wait_ready()
            files = {"files": ("a.jsonl", b"x" * FILE_MB * 2**20)}
            answer = httpx.post(f"{server.url}/gradio_api/upload", files=files, timeout=120)
            left = sum(path.stat().st_size for path in uploads.rglob("*") if path.is_file())
        finally:
            server.end()
            subprocess.run(["umount", str(uploads)], check=False)
    held = answer.status_code == 507 and "disk of the server is full" in answer.text and not left
    return Outcome(tried, held, f"{answer.status_code}: {answer.text[:60]}; {left} bytes stayed")


def clock(_: Server) -> Outcome:
    """Time goes forward and back by a year every second: sessions, runs and limits go by another clock."""
    with tempfile.TemporaryDirectory(prefix="draftscope-attack-") as root:
        (Path(root) / "sitecustomize.py").write_text(STEPS, encoding="utf-8")
        server = Server(Path(root), PYTHONPATH=root)
        try:
            server.wait_ready()
            decoded = [asyncio.run(_decoded(server)) for _ in range(RUNS)]
            room = httpx.post(f"{server.url}/class/rooms", timeout=60)
        finally:
            server.end()
    held = all(decoded) and room.status_code == 200
    return Outcome("a clock that steps by a year", held, f"{sum(decoded)} of {RUNS} runs decoded, a class was opened")


async def _decoded(server: Server) -> bool:
    async with visitor.client(server.url) as client:
        events = visitor.Visitor(client, server.config(), max_new_tokens=16, drafter="plain").events()
        return any([event["kind"] == "run_end" async for event in events])
