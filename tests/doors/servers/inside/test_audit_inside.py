"""`draftscope audit URL --inside` end to end, on a server that answers with made-up recordings."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from draftscope.servers.inside.recording import InsideRecording
from draftscope_app.cli.main import main
from tests.doors.servers.inside.made_up import Fault, recording

TOKENS = 200
recorded = cache(recording)


@contextmanager
def serving(
    fault: Fault = "none", why: str = "", installed: bool = True, other_text: bool = False, lost: int = 0
) -> Iterator[str]:
    """With `lost` steps, the third round of every five is missing."""
    rounds = recorded(1, 150, fault)
    written = [token for each in rounds for token in each.written][:TOKENS]
    if lost:
        rounds = [each for each in rounds[:60] if each.number % 5 != 2]

    class Handler(BaseHTTPRequestHandler):
        def answer(self, status: int, body: str) -> None:
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body.encode())

        def do_GET(self) -> None:
            if self.path == "/v1/models":
                self.answer(200, json.dumps({"data": [{"id": "made-up", "owned_by": "vllm"}]}))
            elif installed:
                asked = "draftscope-" in self.path
                self.server.asked |= asked  # type: ignore[attr-defined]
                seen = lost if self.server.asked else 0  # type: ignore[attr-defined]
                state = InsideRecording(on=not why, why=why, lost=seen, requests=[], rounds=rounds if asked else [])
                self.answer(200, state.model_dump_json())
            else:
                self.answer(404, "{}")

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            tokens = [99, *written[1:]] if other_text else written
            self.answer(200, json.dumps({"choices": [{"token_ids": tokens}]}))

        def log_message(self, *_: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.asked = False  # type: ignore[attr-defined]
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.parametrize(
    ("server", "code", "words"),
    [
        ({}, 0, "No difference found in"),
        (
            {"fault": "temperature of drafted rows"},
            1,
            "First wrong tensor: temperature of drafted rows; p is not softmax",
        ),
        ({"fault": "accepts too often"}, 1, "First wrong tensor: verdict"),
        ({"other_text": True}, 1, "1 texts are not what was recorded"),
        ({"lost": 7}, 2, "lost 7 steps, so 1 of 1 texts have gaps. No difference found in"),
        ({"lost": 7, "fault": "accepts too often"}, 1, "First wrong tensor: verdict"),
        ({"lost": 7, "other_text": True}, 1, "1 texts are not what was recorded"),
        ({"installed": False}, 2, "install draftscope-vllm there"),
        ({"why": "a hook failed"}, 2, "its recorder has ended: a hook failed"),
    ],
)
def test_the_command_says_what_it_is_and_exits_so(
    server: dict[str, object], code: int, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving(**server) as url:  # type: ignore[arg-type]
        assert main(["audit", url, "--inside", "--tokens", str(TOKENS), "--length", str(TOKENS)]) == code
    said = capsys.readouterr()
    assert words in " ".join((said.out + said.err).split())


def test_what_it_would_not_use_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["audit", "http://127.0.0.1:1", "--inside", "--target", "tiny", "--junit", "a.xml"]) == 2
    assert "--inside tests what the server recorded; leave out --target, --junit." in capsys.readouterr().err
