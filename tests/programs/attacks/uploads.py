"""Hostile traces, all at once, and more uploads than a disk has room for, some of which break off."""

from __future__ import annotations

import asyncio
import gzip
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx

from tests.programs.attacks import visitor
from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server

START = (
    b'{"kind":"run_start","run":"r","lane":"l","draftscope":"1","torch":"1","transformers":"1","device":"cpu",'
    b'"dtype":"f","threads":1,"models":[],"drafter":"draft","exact":true,"rule":"token","seed":0,"settings":{},'
    b'"prompt":"x","prompt_tokens":3,"created":"2025"}\n'
)
BURST = (
    b'{"kind":"burst","run":"r","lane":"l","round":%d,"start":0,"end":0,"emitted":[1],"emitted_raw":["%s"],'
    b'"text_delta":""}\n'
)
PREFILL = b'{"kind":"prefill","run":"r","lane":"l","sequence":%d,"tokens":1,"start":0,"end":0}\n'
LINES = 300_000

HOSTILE: dict[str, Callable[[int], bytes]] = {  # of a server that takes so many bytes
    "lists.jsonl.gz": lambda most: gzip.compress(b"[" + b"[]," * (most // 3 - 2) + b"[]]\n"),
    "blank.jsonl.gz": lambda most: gzip.compress(b"\n" * (most // 6)),
    "deep.jsonl": lambda _: b"[" * 100_000 + b"]" * 100_000 + b"\n",
    "digits.jsonl": lambda _: b'{"kind": "run_start", "schema_version": ' + b"7" * 5_000 + b"}\n",
    "prefill.jsonl.gz": lambda _: gzip.compress(START + b"".join(PREFILL % (n // 9000) for n in range(LINES)), 1),
    "bursts.jsonl.gz": lambda _: gzip.compress(START + b"".join(BURST % (n, b"a") for n in range(LINES)), 1),
    "no-bytes.jsonl": lambda _: START + BURST % (0, "€".encode()),
}
FLOOD, AT_ONCE, BROKEN = 48, 16, 32  # uploads, each half as large as one may be
MOST = 34  # of them on the disk: the files that are kept, and those that are coming


def attack(server: Server) -> Outcome:
    sentences = asyncio.run(_hostile(server))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda number: _upload(server, number), range(FLOOD)))
        list(pool.map(lambda _: _broken_off(server), range(BROKEN)))
    size = sum(path.stat().st_size for path in server.uploads.rglob("*") if path.is_file())
    held = all(sentences) and set(answers) <= {200, 503} and size < MOST * server.max_upload // 2
    flood = f"{FLOOD} uploads of {server.max_upload >> 21} MiB by {AT_ONCE}, {BROKEN} that break off"
    tried = f"{len(HOSTILE)} hostile traces, {flood}"
    taken = ", ".join(f"{answers.count(status)} x {status}" for status in sorted(set(answers)))
    return Outcome(
        tried, held, f"{sum(map(bool, sentences))} of {len(HOSTILE)} got a sentence; {taken}; {size >> 20} MiB of disk"
    )


async def _hostile(server: Server) -> list[str]:
    config = server.config()
    async with visitor.client(server.url) as client:
        one = [visitor.Visitor(client, config).upload(name, make(server.max_upload)) for name, make in HOSTILE.items()]
        return list(await asyncio.gather(*one))


def _upload(server: Server, number: int) -> int:
    files = {"files": (f"{number}.jsonl", number.to_bytes(1) * (server.max_upload // 2))}
    return httpx.post(f"{server.url}/gradio_api/upload", files=files, timeout=120).status_code


def _broken_off(server: Server) -> None:
    head = (
        f"POST /gradio_api/upload HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\n"
        f"Content-Length: {server.max_upload // 2}\r\nContent-Type: multipart/form-data; boundary=b\r\n\r\n"
        "--b\r\nContent-Disposition: form-data; name=files; filename=a\r\n\r\n"
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=60) as line:
        try:
            line.sendall(head.encode() + b"x" * (server.max_upload // 4))
        except OSError:
            return  # told to wait
