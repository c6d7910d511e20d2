"""Servers that speak the recorded dialects over a Markov chain, and can misbehave in named ways.

The fields are those that vLLM 0.32/0.33, SGLang 0.5.23, llama.cpp of 2026-10 and transformers 5.17 send.
"""

from __future__ import annotations

import json
import random
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any, Literal, TypeAlias

from draftscope.servers.server_race import RaceLane

Starts: TypeAlias = Callable[[str, "Habits"], RaceLane]
VOCABULARY = 64
EOS = 63
MODEL = "stub"

Misbehaviour = Literal[
    "none",
    "closes",  # the connection, in the middle of the answer, without an end
    "ends early",  # in an orderly way, without a finish
    "nonsense",  # an event that is no JSON
    "other shape",  # an event of another dialect
    "silent",  # after two chunks
    "reports an error",  # as an event
    "aborts",  # with a finish that is none
    "refuses",  # with status 400
    "redirects",
    "other tokenizer",  # counts another number of prompt tokens
    "endless line",
]


@dataclass
class Habits:
    """What a stub does."""

    kind: str = "vllm"
    burst: int = 1  # tokens a round writes: 1 is plain
    pause: float = 0.0  # seconds before each round
    wrong: Misbehaviour = "none"
    metrics: bool = True
    incremental: bool = False  # SGLang's --incremental-streaming-output
    loses_ids: bool = False  # llama.cpp within a character
    no_cards: bool = False  # /v1/models fails, as transformers serve does on a machine without a hub cache
    loading: bool = False  # still reads its weights
    drafting: bool = True  # False: it has stopped, as vLLM does above a batch size; its counters stay
    step: int = 7  # the chain's; another number is another model
    asked: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    write: Callable[[list[int], int, float, int | None], list[int]] | None = None  # instead of the chain
    logprobs: Callable[[list[int], list[int]], list[float]] | None = None  # of written tokens, if it reports them
    encode: Callable[[str], list[int]] | None = None  # a tokenizer instead of the stub's
    routes: dict[str, Callable[[str], Any]] = field(default_factory=dict)  # more of them: path -> answer to a query
    drafts: int = 0
    drafted: int = 0
    accepted: int = 0


def text_of(ids: list[int]) -> str:
    return "".join(f" w{each}" for each in ids)


def ids_of(text: str) -> list[int]:
    return [int(word[1:]) % VOCABULARY if word[1:].isdigit() else len(word) for word in text.split()]


def written(habits: Habits, prompt: list[int], count: int, temperature: float, seed: int | None) -> list[int]:
    """The chain's tokens: the next is `step` further when greedy, one of four when sampled."""
    if habits.write is not None:
        return habits.write(prompt, count, temperature, seed)
    draws, ids, last = random.Random(seed), [], prompt[-1]
    for _ in range(count):
        last = (last + habits.step + (draws.randrange(4) if temperature else 0)) % (VOCABULARY - 1)
        ids.append(last)
    return ids


class Handler(BaseHTTPRequestHandler):
    """All four dialects; `server.habits.kind` says which one."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: Stub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_GET(self) -> None:
        habits = self.server.habits
        path, _, query = self.path.partition("?")
        found = habits.routes[path](query) if path in habits.routes else get_routes(habits).get(self.path)
        if habits.loading:
            return self._send(b'{"error": {"message": "Loading model", "code": 503}}', status=503)
        if habits.no_cards and self.path == "/v1/models":
            return self._send(b"Internal Server Error", "text/plain", 500)
        if self.path == "/metrics" and habits.metrics and habits.kind in ("vllm", "llama.cpp"):
            return self._send(metrics(habits).encode(), "text/plain")
        if found is None:
            return self._send(b'{"error": {"code": 404, "message": "File Not Found"}}', status=404)
        return self._send(json.dumps(found).encode())

    def do_POST(self) -> None:
        habits = self.server.habits
        body = json.loads(self.rfile.read(int(self.headers["content-length"])))
        habits.asked.append((self.path, body))
        if self.path == "/tokenize":
            return self._send(json.dumps({"tokens": (habits.encode or ids_of)(tokenized(habits, body))}).encode())
        if self.path == "/apply-template":
            return self._send(json.dumps({"prompt": templated(body["messages"])}).encode())
        if self.path == "/detokenize":
            key = {"vllm": "prompt", "sglang": "text"}.get(habits.kind, "content")
            return self._send(json.dumps({key: text_of(body["tokens"])}).encode())
        if habits.wrong == "refuses":
            return self._send(b'{"error": {"message": "min_p is not supported", "code": 400}}', status=400)
        if habits.wrong == "redirects":
            self.send_response(307)
            self.send_header("location", "http://example.com/v1/completions")
            self.send_header("content-length", "0")
            return self.end_headers()
        return self._stream(habits, body)

    def _stream(self, habits: Habits, body: dict[str, Any]) -> None:
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        try:
            for number, data in enumerate(events(habits, self.path, body)):
                if habits.wrong != "none" and number == 2 and self._misbehave(habits):
                    return
                self._chunk(b"data: " + data + b"\n\n")
            self._chunk(b"")
            if habits.kind == "llama.cpp":  # closes a connection after a stream without having said so
                time.sleep(0.005)
                self.close_connection = True
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True

    def _misbehave(self, habits: Habits) -> bool:
        """True if the stream is over."""
        sent = {
            "nonsense": b"data: <html>\n\n",
            "other shape": b'data: {"hello": [1, 2]}\n\n',
            "reports an error": b'data: {"error": {"message": "out of memory", "code": 500}}\n\n',
            "ends early": b"",
        }
        if habits.wrong in sent:
            if sent[habits.wrong]:
                self._chunk(sent[habits.wrong])
            self._chunk(b"")
            return True
        if habits.wrong == "closes":
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
            return True
        if habits.wrong == "silent":
            self.server.gone.wait(30)
            return True
        if habits.wrong == "endless line":
            while not self.server.gone.is_set():
                self._chunk(b"x" * 65536)
        return False

    def _chunk(self, data: bytes) -> None:
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def _send(self, data: bytes, kind: str = "application/json", status: int = 200) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


class Stub(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, habits: Habits, port: int = 0) -> None:
        super().__init__(("127.0.0.1", port), Handler)
        self.habits = habits
        self.gone = threading.Event()

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass


@contextmanager
def stub(habits: Habits, port: int = 0) -> Iterator[str]:
    """The URL of a stub that runs."""
    server = Stub(habits, port)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.gone.set()
        server.shutdown()
        server.server_close()
        thread.join()


def get_routes(habits: Habits) -> dict[str, Any]:
    """What each path answers to GET."""
    card = {"id": MODEL, "object": "model", "created": 1}
    if habits.kind == "vllm":
        card |= {"owned_by": "vllm", "root": "/models/stub", "max_model_len": 2048}
        return {"/v1/models": {"object": "list", "data": [card]}, "/version": {"version": "0.32.0"}}
    if habits.kind == "sglang":
        card |= {"owned_by": "sglang", "root": "/models/stub", "max_model_len": 2048}
        info = {"version": "0.5.23", "model_path": "/models/stub", "internal_states": [{"avg_spec_accept_length": 1.0}]}
        return {"/v1/models": {"object": "list", "data": [card]}, "/server_info": info}
    if habits.kind == "llama.cpp":
        props = {
            "build_info": "b11434",
            "model_path": "/models/stub.gguf",
            "default_generation_settings": {"n_ctx": 2048},
        }
        return {"/v1/models": {"object": "list", "data": [card | {"owned_by": "llamacpp"}]}, "/props": props}
    if habits.kind == "transformers":
        paths = {"/v1/completions": {}, "/v1/responses": {}, "/load_model": {}, "/v1/models": {}}
        return {
            "/v1/models": {"object": "list", "data": [card | {"owned_by": "org"}]},
            "/openapi.json": {"paths": paths},
        }
    return {"/v1/models": {"object": "list", "data": [card | {"owned_by": "somebody"}]}}


def metrics(habits: Habits) -> str:
    """The counters; a server that does not speculate has none."""
    prefix = {"vllm": "vllm", "llama.cpp": "llamacpp"}[habits.kind]
    if habits.burst == 1:
        return f"# HELP x y\n{prefix}:num_requests_running 0.0\n"
    labels = '{engine="0",model_name="stub"}' if prefix == "vllm" else ""
    lines = [
        f"{prefix}:spec_decode_num_drafts_total{labels} {float(habits.drafts)}",
        f"{prefix}:spec_decode_num_draft_tokens_total{labels} {float(habits.drafted)}",
        f"{prefix}:spec_decode_num_accepted_tokens_total{labels} {float(habits.accepted)}",
        f"{prefix}:spec_decode_num_drafts_created{labels} 1.7e+09",
    ]
    for position in range(habits.burst - 1):
        value = float(habits.accepted // (habits.burst - 1))
        lines.append(f'{prefix}:spec_decode_num_accepted_tokens_per_pos_total{{position="{position}"}} {value}')
    return "\n".join(lines) + "\n"


def tokenized(habits: Habits, body: dict[str, Any]) -> str:
    if habits.kind == "vllm" and "messages" in body:
        return templated(body["messages"])
    return str(body["content"] if habits.kind == "llama.cpp" else body["prompt"])


def templated(messages: list[dict[str, str]]) -> str:
    return " ".join(f"<{each['role']}> {each['content']}" for each in messages) + " <assistant>"


def events(habits: Habits, path: str, body: dict[str, Any]) -> Iterator[bytes]:
    """The data of each event, [DONE] too."""
    of = {"vllm": vllm, "sglang": sglang, "llama.cpp": llama_cpp, "transformers": transformers_serve}[habits.kind]
    for event in of(habits, path, body):
        yield event if isinstance(event, bytes) else json.dumps(event).encode()


def said_of(habits: Habits, prompt: list[int], ids: list[int]) -> list[float]:
    """The log-probabilities that it reports."""
    return [] if habits.logprobs is None else habits.logprobs(prompt, ids)


def rounds(habits: Habits, ids: list[int]) -> Iterator[tuple[list[int], str | None]]:
    """The tokens of each round and how it ends; counts as it goes."""
    start = 0
    while start < len(ids):
        time.sleep(habits.pause)
        burst = habits.burst if habits.drafting else 1
        piece = ids[start : start + burst]
        start += burst
        if burst > 1:
            habits.drafts += 1
            habits.drafted += burst - 1
            habits.accepted += len(piece) - 1
        yield piece, "length" if start >= len(ids) else None


def prompt_count(habits: Habits, prompt: list[int]) -> int:
    return len(prompt) + (3 if habits.wrong == "other tokenizer" else 0)


def ended(habits: Habits, finish: str | None) -> str | None:
    return "abort" if finish and habits.wrong == "aborts" else finish


def vllm(habits: Habits, path: str, body: dict[str, Any]) -> Iterator[Any]:
    assert path == "/v1/completions" and body["return_token_ids"] and body["model"] == MODEL
    prompt = body["prompt"]
    ids = written(habits, prompt, body["max_tokens"], body["temperature"], body["seed"])
    said = iter(said_of(habits, prompt, ids) if "logprobs" in body else ())
    for number, (piece, finish) in enumerate(rounds(habits, ids)):
        choice = {"index": 0, "text": text_of(piece), "finish_reason": ended(habits, finish), "token_ids": piece}
        choice["prompt_token_ids"] = prompt if number == 0 else None
        if "logprobs" in body:
            choice["logprobs"] = {"token_logprobs": list(islice(said, len(piece)))}
        yield {"id": "cmpl-1", "object": "text_completion", "choices": [choice], "usage": None}
    usage = {"prompt_tokens": prompt_count(habits, prompt), "completion_tokens": len(ids)}
    spec = {"num_spec_steps": habits.drafts, "num_draft_tokens": habits.drafted}
    detail = {"metrics": {"speculative_decoding": spec | {"num_accepted_draft_tokens": habits.accepted}}}
    yield {"choices": [], "usage": usage} | (detail if habits.burst > 1 else {})
    yield b"[DONE]"


def llama_cpp(habits: Habits, path: str, body: dict[str, Any]) -> Iterator[Any]:
    assert path == "/completion" and body["return_tokens"]
    prompt, sent = body["prompt"], 0
    ids = written(habits, prompt, body["n_predict"], body["temperature"], body["seed"])
    said = said_of(habits, prompt, ids) if body["n_probs"] else []
    for piece, _ in rounds(habits, ids):
        for token in piece:
            sent += 1
            if not (habits.loses_ids and sent == 3):
                more = {"completion_probabilities": [{"id": token, "logprob": said[sent - 1]}]} if said else {}
                yield {"index": 0, "content": text_of([token]), "tokens": [token], "stop": False} | more
    end = {"index": 0, "content": "", "tokens": [], "stop": True, "stop_type": ended(habits, "limit")}
    timings = {"prompt_ms": 1.0, "predicted_ms": 2.0, "predicted_n": len(ids)}
    spec = {"draft_n": habits.drafted, "draft_n_accepted": habits.accepted} if habits.burst > 1 else {}
    yield end | {
        "timings": timings | spec,
        "tokens_predicted": len(ids),
        "tokens_evaluated": prompt_count(habits, prompt),
    }


def sglang(habits: Habits, path: str, body: dict[str, Any]) -> Iterator[Any]:
    assert path == "/generate"
    sampling, prompt = body["sampling_params"], body["input_ids"]
    ids = written(habits, prompt, sampling["max_new_tokens"], sampling["temperature"], sampling["sampling_seed"])
    reported = said_of(habits, prompt, ids) if body.get("return_logprob") else []
    so_far: list[int] = []
    for piece, finish in rounds(habits, ids):
        so_far = so_far + piece
        shown = piece if habits.incremental else so_far
        said = ended(habits, finish)
        meta: dict[str, Any] = {"id": "1", "prompt_tokens": prompt_count(habits, prompt), "cached_tokens": 0}
        meta |= {"completion_tokens": len(so_far), "finish_reason": {"type": said, "length": 8} if said else None}
        if reported:
            meta["output_token_logprobs"] = [[each, 0, None] for each in reported[: len(so_far)]]
        if finish and habits.burst > 1:
            full = habits.accepted // (habits.burst - 1)
            histogram = [habits.drafts - full] + [0] * (habits.burst - 2) + [full]
            meta |= {"spec_verify_ct": habits.drafts, "spec_num_proposed_drafts": habits.drafted}
            meta |= {"spec_num_correct_drafts": habits.accepted, "spec_correct_drafts_histogram": histogram}
        yield {"text": text_of(shown), "output_ids": shown, "meta_info": meta}
    yield b"[DONE]"


def transformers_serve(habits: Habits, path: str, body: dict[str, Any]) -> Iterator[Any]:
    assert path == "/v1/completions" and isinstance(body["prompt"], str)
    prompt = ids_of(body["prompt"])
    config = json.loads(body["generation_config"])
    ids = written(habits, prompt, body["max_tokens"], config.get("temperature", 0), body["seed"])
    for piece, _ in rounds(habits, ids):
        yield {"choices": [{"text": text_of(piece), "index": 0, "finish_reason": None}], "usage": None}
    usage = {"prompt_tokens": prompt_count(habits, prompt), "completion_tokens": len(ids)}
    yield {"choices": [{"text": "", "index": 0, "finish_reason": ended(habits, "length")}], "usage": usage}
