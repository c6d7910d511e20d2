"""Model files that claim what they have not, damage what reads them, or bring a template without an end.

Each is loaded through the page, where visitors may; afterwards a run on the embedded pair must be decoded again.
"""

from __future__ import annotations

import asyncio
import json
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.programs.attacks import visitor
from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server
from tests.support.models import byte_tokenizer, random_llama

LOAD_S, RUN_S = 90.0, 90.0
MAX_GROWTH_MB = 2000.0  # of the engine
TEMPLATES = {
    "300 MB": "{{ 'a' * 300000000 }}",
    "nested loops": "{% for a in range(99999) %}{% for b in range(99999) %}{% for c in range(99999) %}{% endfor %}"
    "{% endfor %}{% endfor %}",
    "a long loop": "{% for a in range(10**9) %}{% endfor %}",
}


def gguf(server: Server) -> Outcome:
    """A GGUF of 68 bytes that claims an array of so many entries."""

    def claims(entries: int) -> Callable[[Path], Path]:
        def write(folder: Path) -> Path:
            path = folder / f"{entries}.gguf"
            key = struct.pack("<Q", 6) + b"a.list" + struct.pack("<IIQ", 9, 0, entries)
            path.write_bytes((b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + key).ljust(68, b"\0"))
            return path

        return write

    return _loaded(server, "GGUF files of 68 bytes that claim 2^60 and 10^8 entries", [claims(2**60), claims(10**8)])


def tokenizer(server: Server) -> Outcome:
    """A tokenizer file whose `precompiled_charsmap` is damaged."""

    def write(folder: Path) -> Path:
        _checkpoint(folder)
        path = folder / "tokenizer.json"
        described = json.loads(path.read_text(encoding="utf-8"))
        described["normalizer"] = {"type": "Precompiled", "precompiled_charsmap": "/////w=="}
        path.write_text(json.dumps(described), encoding="utf-8")
        return folder

    return _loaded(server, "a tokenizer file with a damaged precompiled_charsmap", [write])


def templates(server: Server) -> Outcome:
    """Chat templates, each rendered by a run."""

    def of(template: str) -> Callable[[Path], Path]:
        def write(folder: Path) -> Path:
            _checkpoint(folder)
            (folder / "chat_template.jinja").write_text(template, encoding="utf-8")
            return folder

        return write

    return _loaded(
        server, f"chat templates: {', '.join(TEMPLATES)}", [of(text) for text in TEMPLATES.values()], run=True
    )


def _checkpoint(folder: Path) -> None:
    random_llama(3, 258).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)


def _loaded(server: Server, tried: str, makes: list[Callable[[Path], Path]], run: bool = False) -> Outcome:
    engine, before = server.engine, server.memory_mb()[1]
    told: list[str] = []
    grown = 0.0
    with tempfile.TemporaryDirectory(prefix="draftscope-attack-") as folder:
        for number, make in enumerate(makes):
            own = Path(folder) / str(number)
            own.mkdir()
            told.append(asyncio.run(_told(server, str(make(own)), run)))
            grown = max(grown, server.memory_mb()[1] - before)
    whole = asyncio.run(_told(server, "embedded", True))
    ended = server.engine != engine
    held = all(told) and not ended and grown < MAX_GROWTH_MB and whole == "decoded"
    sentences = " / ".join(text[:60] or "no answer" for text in told)
    return Outcome(
        tried, held, f"{sentences}; then {whole or 'nothing'}{'; the engine process ended' if ended else ''}"
    )


async def _told(server: Server, target: str, run: bool) -> str:
    """What a visitor is told who loads a model and, with `run`, presses Run; empty where nobody answers in time."""
    config = server.config()
    async with visitor.client(server.url) as client:
        try:
            async with asyncio.timeout(LOAD_S):
                notes = await visitor.Visitor(client, config).load_models(target)
            if not run or "loaded; press Run" not in notes[-1]:
                return notes[-1]
            async with asyncio.timeout(RUN_S):
                events = visitor.Visitor(client, config, max_new_tokens=8, drafter="plain").events()
                return "decoded" if [event async for event in events] else ""
        except TimeoutError:
            return ""
        except RuntimeError as refused:
            return str(refused)
