"""llama.cpp through its own server, on a GGUF file with the same weights: plain decoding, and with its draft model.

It is timed from here, like every other program: one request on the loopback takes about a millisecond more than the
decoding in it.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx
import torch

from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.peers import gguf
from draftscope.measure.bench.systems import Case, Label, MissingPeerError, System, Write, WrittenBatch
from draftscope.models.model import ForwardMode, Model

PEER, DRAFTED, BINARY, VARIABLE = "llama.cpp", "llama.cpp-draft", "llama-server", "LLAMA_SERVER"
INSTALL = f"put {BINARY} on PATH or its path into {VARIABLE}, or pip install llama-cpp-python (it compiles C++)"
STARTS_S, ANSWERS_S = 60.0, 600.0
SPARE = 16  # slots after the longest text


class LlamaServer(System):
    """A server with one slot. Every request reads its whole prompt."""

    batches = False

    def __init__(self, name: str, note: str, client: httpx.Client) -> None:
        self.label = Label(name)
        self.note = note
        self._client = client

    def prepare(self, case: Case, tokens: int, seed: int) -> Write:
        request = {
            "prompt": list(case.prompts[0]),
            "n_predict": tokens,
            "seed": seed,
            "samplers": ["temperature"],
            "temperature": case.temperature,
            "ignore_eos": True,
            "cache_prompt": False,
            "return_tokens": True,
        }

        def write() -> WrittenBatch:
            answer = self._client.post("/completion", json=request).raise_for_status().json()
            return WrittenBatch([[int(token) for token in answer["tokens"]]])

        return write


def systems(engine: DecodingEngine, longest: int, open_until: ExitStack) -> list[System]:
    """llama.cpp's plain decoding. Raises `MissingPeerError`."""
    if (binary := _binary()) is None:
        raise MissingPeerError(f"{PEER} was skipped: there is no '{BINARY}'; {INSTALL}.")
    weights, kind = _weights(engine.target, open_until), gguf.KINDS[engine.target.dtype]
    client, build = _started(PEER, [binary, *_options(weights.path, longest, kind)], open_until)
    words = f"weights and cache in {kind}" if weights.kind == kind else f"{weights.origin}, cache in {kind}"
    return [LlamaServer(PEER, f"{PEER} by its server, {build}, {words}.", client)]


def speculating(engine: DecodingEngine, longest: int, open_until: ExitStack) -> list[System]:
    """llama.cpp with the draft model, as its server drafts when it is told nothing else.

    Only on GGUF files that both are read from: a pair that is written for it has no words, and it compares those.
    """
    if engine.draft is None or (binary := _binary()) is None:
        return []
    target, draft = _as_stored(engine.target), _as_stored(engine.draft)
    if target is None or draft is None:
        return []
    options = _options(target.path, longest, gguf.KINDS[engine.target.dtype])
    options += ["--spec-type", "draft-simple", "-md", str(draft.path)]
    client, build = _started(DRAFTED, [binary, *options], open_until)
    note = f"{DRAFTED} by its server, {build}, {target.origin} with {draft.origin}, its own draft length."
    return [LlamaServer(DRAFTED, note, client)]


def _binary() -> str | None:
    return os.environ.get(VARIABLE) or shutil.which(BINARY)


def _as_stored(model: Model) -> gguf.GgufWeights | None:
    """The model's own file, if the model reads its weights as they are stored there."""
    return gguf.original(model) if model.forward_mode is ForwardMode.PACKED else None


def _weights(target: Model, open_until: ExitStack) -> gguf.GgufWeights:
    """The target's own file if the target reads its weights as they are stored there, else one of its weights."""
    if (weights := _as_stored(target)) is not None:
        return weights
    path = gguf.file_for(PEER, target, open_until)
    gguf.write(target.network, path, gguf.byte_words)
    return gguf.GgufWeights(path, gguf.KINDS[target.dtype], "the target's weights")


def _options(weights: Path, longest: int, kind: str) -> list[str]:
    threads, cache = str(torch.get_num_threads()), kind.lower()
    return [
        *("-m", str(weights), "-c", str(longest + SPARE), "-np", "1", "-t", threads, "-tb", threads),
        *("-ctk", cache, "-ctv", cache),
    ]


def _started(row: str, command: list[str], open_until: ExitStack) -> tuple[httpx.Client, str]:
    """Starts the server on a free port and waits until it has loaded its files: a client, and its build.

    `row` is what the bench calls the system: where the server does not load, the error says that it was skipped.
    """
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    log_file = Path(open_until.enter_context(TemporaryDirectory())) / "log"
    log = open_until.enter_context(log_file.open("w"))
    try:
        process = subprocess.Popen(
            [*command, "--host", "127.0.0.1", "--port", str(port), "--no-webui"], stdout=log, stderr=log
        )
    except OSError as error:
        raise MissingPeerError(
            f"{row} was skipped: '{command[0]}' does not start ({error.strerror}); {INSTALL}."
        ) from None
    open_until.callback(_ended, process)
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + STARTS_S
    while not _ready(url):
        if process.poll() is not None or time.monotonic() > deadline:
            raise MissingPeerError(_why_not(row, command[0], process.poll(), log_file))
        time.sleep(0.1)
    client = open_until.enter_context(httpx.Client(base_url=url, timeout=ANSWERS_S, trust_env=False))
    return client, client.get("/props").json().get("build_info", "of an unknown build")


def _why_not(row: str, binary: str, code: int | None, log: Path) -> str:
    """Why the server did not load its model: its last line, and how it ended; `code` is None while it runs."""
    said = log.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
    crashed = f", which {signal.Signals(-code).name} ended," if code is not None and code < 0 else ""
    return f"{row} was skipped: '{binary}'{crashed} did not load the model; it said: {said[0][:160]}"


def _ready(url: str) -> bool:
    try:
        return httpx.get(f"{url}/health", timeout=5, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _ended(process: subprocess.Popen[Any]) -> None:
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
