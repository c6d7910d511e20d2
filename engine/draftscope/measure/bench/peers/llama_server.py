"""llama.cpp through its own server, on a GGUF file with the same weights: plain decoding.

It is timed from here, like every other program: one request on the loopback takes about a millisecond more than the
decoding in it.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import torch

from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.peers import gguf
from draftscope.measure.bench.systems import Case, Label, MissingPeerError, System, Write, WrittenBatch
from draftscope.models.model import ForwardMode

PEER, BINARY, VARIABLE = "llama.cpp", "llama-server", "LLAMA_SERVER"
INSTALL = f"put {BINARY} on PATH or its path into {VARIABLE}, or pip install llama-cpp-python (it compiles C++)"
STARTS_S, ANSWERS_S = 60.0, 600.0
SPARE = 16  # slots after the longest text


class LlamaServer(System):
    """A server with one slot. Every request reads its whole prompt."""

    batches = False

    def __init__(self, note: str, client: httpx.Client) -> None:
        self.label = Label(PEER)
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
    binary = os.environ.get(VARIABLE) or shutil.which(BINARY)
    if binary is None:
        raise MissingPeerError(f"{PEER} was skipped: there is no '{BINARY}'; {INSTALL}.")
    path = gguf.file_for(PEER, engine.target, open_until)
    weights, kind = _weights(engine, path), gguf.KINDS[engine.target.dtype]
    url = _started(binary, weights.path, path.with_name("log"), longest, kind.lower(), open_until)
    client = open_until.enter_context(httpx.Client(base_url=url, timeout=ANSWERS_S, trust_env=False))
    build = client.get("/props").json().get("build_info", "of an unknown build")
    words = f"weights and cache in {kind}" if weights.kind == kind else f"{weights.origin}, cache in {kind}"
    return [LlamaServer(f"{PEER} by its server, {build}, {words}.", client)]


def _weights(engine: DecodingEngine, path: Path) -> gguf.GgufWeights:
    """The target's own file if the target reads its weights as they are stored there, else one of its weights."""
    if engine.target.forward_mode is ForwardMode.PACKED and (weights := gguf.original(engine)) is not None:
        return weights
    gguf.write(engine.target.network, path, gguf.byte_words)
    return gguf.GgufWeights(path, gguf.KINDS[engine.target.dtype], "the target's weights")


def _started(binary: str, weights: Path, log_file: Path, longest: int, kind: str, open_until: ExitStack) -> str:
    """Starts the server on a free port and waits until it has loaded the file."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    threads = str(torch.get_num_threads())
    command = [binary, "-m", str(weights), "--host", "127.0.0.1", "--port", str(port), "--no-webui"]
    command += ["-c", str(longest + SPARE), "-np", "1", "-t", threads, "-tb", threads, "-ctk", kind, "-ctv", kind]
    log = open_until.enter_context(log_file.open("w"))
    try:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    except OSError as error:
        raise MissingPeerError(
            f"{PEER} was skipped: '{binary}' does not start ({error.strerror}); {INSTALL}."
        ) from None
    open_until.callback(_ended, process)
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + STARTS_S
    while not _ready(url):
        if process.poll() is not None or time.monotonic() > deadline:
            said = log_file.read_text(errors="replace").strip().splitlines()[-1:] or ["nothing"]
            raise MissingPeerError(f"{PEER} was skipped: '{binary}' did not load the model; it said: {said[0][:160]}")
        time.sleep(0.1)
    return url


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
