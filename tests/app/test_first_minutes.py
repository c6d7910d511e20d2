"""The program that measures the first minutes: its steps follow each other, whatever they take."""

from __future__ import annotations

import os
import sys

import pytest

from tests.programs.first_minutes import AGAIN, served_seconds, table

SERVER = """import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
asked = []
class Stand(BaseHTTPRequestHandler):
    def do_GET(self):
        asked.append(self.path)
        ready = self.path != "/readyz" or asked.count("/readyz") > 2
        parameters = [{"parameter_name": "prompt"}, {"parameter_name": "seed", "parameter_default": 0}]
        info = {"named_endpoints": {"/decode": {"parameters": parameters}}}
        self.answer(200 if ready else 503, json.dumps(info) if "info" in self.path else "event: " + ENDS)
    def do_POST(self):
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert sent == {"data": ["Why is the sky blue?", 0]}, sent
        self.answer(200, json.dumps({"event_id": "one"}))
    def answer(self, status, text):
        self.send_response(status)
        self.end_headers()
        self.wfile.write(text.encode())
ENDS = sys.argv[1]
HTTPServer(("127.0.0.1", int(sys.argv[-1])), Stand).serve_forever()
"""


def test_page_models_and_token_are_waited_for_in_turn() -> None:
    seconds = served_seconds([sys.executable, "-c", SERVER, "complete"], os.environ)
    assert tuple(seconds) == AGAIN and all(each >= 0 for each in seconds.values())


@pytest.mark.parametrize(
    ("command", "words"), [((SERVER, "error"), "The call failed"), (("import sys; sys.exit(1)",), "has ended")]
)
def test_a_server_that_fails_is_said(command: tuple[str, ...], words: str) -> None:
    with pytest.raises(SystemExit, match=words):
        served_seconds([sys.executable, "-c", *command], os.environ)


def test_the_table_has_the_median_of_each_step() -> None:
    runs = [{"second start": {"page": seconds}} for seconds in (2.0, 9.0, 3.0)]
    assert [cell.strip() for cell in table(runs).splitlines()[-1].split("|")[1:-1]] == [
        "second start", "page", "3.0", "2.0 to 9.0",
    ]  # fmt: skip
