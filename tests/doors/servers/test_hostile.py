"""A server that never ends what it sends: one deadline over a whole request, one sentence, whatever it does."""

from __future__ import annotations

import json
import math
import re
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import pytest
from pydantic import BaseModel

from draftscope.servers.adapter import CounterError, Identity, Offers, ServerError
from draftscope.servers.addresses import permitted
from draftscope.servers.clock import Clock
from draftscope.servers.prometheus import spec_decode
from draftscope.servers.server_race import RaceLane
from draftscope.servers.wire import MIB, Wire, WireLimits
from draftscope_app.cli.main import main
from tests.doors.servers import stubs
from tests.doors.servers.hostile import HEAD, Does, drip, hostile, pour
from tests.doors.servers.stubs import Habits, Starts, stub
from tests.doors.servers.test_adapters import request

SHORT = WireLimits(connect=2, silent=0.4, total=0.8, answer=MIB, stream=4 * MIB, event=MIB // 4)
PATIENT = replace(SHORT, silent=60, total=60)  # of servers that are refused for what they send, however slowly
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n\r\n"
OPEN = HEAD + b"\r\n"  # a body that ends with the connection


class Anything(BaseModel):
    a: int = 0


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def ask(wire: Wire, how: str) -> None:
    if how == "stream":
        for _ in wire.events("/v1/completions", {"a": 1}, Anything):
            pass
    elif how == "post":
        wire.post("/tokenize", {"a": 1}, Anything)
    else:
        wire.get("/v1/models", Anything)


ENDLESS = {  # what it sends, and the sentence by each way of asking
    "a head": (drip(b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n"), "sent parts of|was not done after"),
    "a status line": (drip(b"HTTP/1.1 200 ", b"O"), "sent parts of|was not done after"),
    "one header": (drip(b"HTTP/1.1 200 OK\r\nx: ", b"y"), "sent parts of|was not done after"),
    "continues": (drip(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), "sent parts of|was not done after"),
    "nothing": (drip(b"", b""), "was silent for 0.4 s"),
    "a body": (drip(OPEN, b" "), "sent parts of|was not done after"),
    "chunks": (drip(CHUNKED, chunk(b" ")), "sent parts of|was not done after"),
    "a size of a chunk": (drip(CHUNKED, b"0"), "sent parts of|was not done after|does not speak HTTP"),
    "lines": (drip(CHUNKED, chunk(b": ping\n\n")), "was not done after"),
    "a refusal": (drip(b"HTTP/1.1 400 Bad\r\ncontent-length: 9999\r\n\r\n", b"x"), "sent parts of|was not done after"),
}  # fmt: skip
FAST = {
    "a fast head": (pour(b"HTTP/1.1 200 OK\r\n", b"x-a: b\r\n" * 1000), "does not speak HTTP"),
    "a fast body": (pour(OPEN, b" " * 65536), "more than"),
    "a fast line in chunks": (pour(CHUNKED, chunk(b"x" * 4096)), "more than"),
}  # fmt: skip


@pytest.mark.parametrize("how", ["get", "post", "stream"])
@pytest.mark.parametrize("what", ENDLESS)
def test_a_request_ends_at_its_deadline_whatever_the_server_sends(what: str, how: str) -> None:
    assert_refused(*ENDLESS[what], how, replace(SHORT, silent=0.79) if what == "lines" else SHORT)


@pytest.mark.parametrize("how", ["get", "post", "stream"])
@pytest.mark.parametrize("what", FAST)
def test_a_request_ends_at_what_no_answer_can_be(what: str, how: str) -> None:
    assert_refused(*FAST[what], how, PATIENT)


def assert_refused(does: Does, sentence: str, how: str, limits: WireLimits) -> None:
    with hostile(does) as url, pytest.raises(ServerError, match=sentence) as raised:
        ask(Wire(url, limits), how)
    assert "\n" not in str(raised.value) and url in str(raised.value)


def test_a_request_that_is_not_read_ends_at_its_deadline() -> None:
    with hostile(lambda send, over: over.wait(30) and None) as url, pytest.raises(ServerError, match="was silent"):
        Wire(url, SHORT).post("/tokenize", {"prompt": "a" * (32 * MIB)}, Anything)


def test_a_line_of_100_mib_is_refused_after_as_much_as_an_event_can_be() -> None:
    sent = 0

    def does(send: Callable[[bytes], None], over: threading.Event) -> None:
        nonlocal sent
        send(OPEN)
        for _ in range(1600):
            send(b"x" * 65536)
            sent += 65536

    with hostile(does) as url, pytest.raises(ServerError, match="sends more than an answer can be"):
        ask(Wire(url, WireLimits(connect=2, silent=20)), "stream")
    assert sent < 32 * MIB


def test_time_counts_from_the_start_and_a_sign_of_life_buys_only_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("draftscope.servers.clock.time.monotonic", lambda: now)
    clock = Clock(silent=10, total=25)
    assert clock.left() == 10 and clock.left(3) == 3
    now = 109.0
    clock.alive()
    assert clock.left() == 10
    now = 118.0
    clock.alive()
    assert clock.left() == 7 and not clock.over
    now = 125.0
    assert clock.over
    assert Clock(silent=120, total=60).silent == 60


DRIPS: dict[str, Does] = {"head": ENDLESS["a head"][0], "body": ENDLESS["a body"][0]}


@pytest.mark.parametrize("what", DRIPS)
@pytest.mark.parametrize(
    "command",
    [
        ("audit", "--plain", "URL", "--minutes", "0.005"), ("audit", "--inside", "--minutes", "0.005"),
        ("race", "--server", "a=URL", "--timeout", "0.3", "hello"),
    ],
    ids=["audit", "inside", "race"],
)  # fmt: skip
def test_the_commands_end_by_the_time_they_were_given(
    command: tuple[str, ...], what: str, capsys: pytest.CaptureFixture[str]
) -> None:
    name, *rest = command
    with hostile(DRIPS[what]) as url:
        words = [word.replace("URL", url) for word in rest]
        assert main([name, url, *words] if name == "audit" else [name, *words]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and re.search("was not done after 0.3 s|sent parts of a line for 0.3 s", said)


@pytest.mark.parametrize("written", ["1e400", "-1", "nan", "+Inf", "e", "1.5e300", "--", "9" * 39])
def test_a_counter_that_is_no_count_gets_a_sentence(written: str) -> None:
    with pytest.raises(CounterError, match="is no count"):
        spec_decode(f"vllm:spec_decode_num_drafts_total {written}\n", "vllm")
    assert spec_decode(f"vllm:other {written}\n", "vllm") is None
    position = f'vllm:spec_decode_num_accepted_tokens_per_pos_total{{position="{"9" * 5000}"}} 1\n'
    counted = spec_decode(f"{position}vllm:spec_decode_num_drafts_total 3.0\n", "vllm")
    assert counted is not None and counted.rounds == 3 and not counted.by_position


COUNTS = {
    "vllm": '{"choices": [], "metrics": {"speculative_decoding": {"per_step_accepted": [4e9]}}}',
    "llama.cpp": '{"content": "", "stop": true, "timings": {"draft_n": 1e400}}',
    "sglang": '{"meta_info": {"completion_tokens": 1, "spec_verify_ct": -3}}',
    "transformers": f'{{"choices": [], "usage": {{"completion_tokens": {"9" * 400}}}}}',
}


@pytest.mark.parametrize("kind", COUNTS)
def test_a_count_of_one_answer_that_is_none_gets_a_sentence(kind: str, starts: Starts) -> None:
    lane = starts("a", Habits(kind=kind))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(stubs, "events", lambda *_: iter([COUNTS[kind].encode()]))
        with pytest.raises(ServerError, match="answers what its kind of server does not"):
            list(lane.server.stream(request()))


@pytest.mark.parametrize("more", [(), ("--concurrency", "1", "--seconds", "0.1")], ids=["race", "load"])
def test_a_race_says_of_a_lane_that_it_counts_nonsense(
    more: tuple[str, ...], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    evil = Habits(burst=3)
    infinite, true = "vllm:spec_decode_num_drafts_total 1e400\n", stubs.metrics
    monkeypatch.setattr(stubs, "metrics", lambda habits: infinite if habits is evil else true(habits))
    with stub(Habits(burst=3)) as good, stub(evil) as bad:
        code = main(["race", "--raw", "--server", f"good={good}", "--server", f"bad={bad}", "--repeats", "1", *more,
                     " w1 w2"])  # fmt: skip
    said = capsys.readouterr()
    assert code == (2 if more else 1) and "is no count" in said.out + said.err and "Traceback" not in said.err


EVIL = "m\x1b[2J\x1b]0;owned\x07\x9b31m\u202eb\rc`|\n# d\ud800"


def identity(model: str) -> Identity:
    return Identity("http://127.0.0.1:1", "vllm", model, model, model, None, Offers())


def test_what_a_server_calls_itself_cannot_steer_a_terminal_or_a_summary() -> None:
    sentence = identity(EVIL).sentence
    assert sentence.isprintable() and "\\x1b[2J" in sentence and "\\u202e" in sentence and "\\ud800" in sentence
    assert identity("Qwen/Qwen3-8B é 模型").sentence.count("Qwen/Qwen3-8B é 模型") == 2


def test_the_files_of_an_audit_hold_no_control_characters(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    evil = EVIL.replace("\ud800", "")
    monkeypatch.setattr(stubs, "MODEL", evil)
    summary, junit, report = tmp_path / "s.md", tmp_path / "j.xml", tmp_path / "r.json"
    with stub(Habits()) as url, stub(Habits()) as plain:
        main(["audit", url, "--plain", plain, "--tokens", "400", "--summary", str(summary), "--junit", str(junit),
              "--json", str(report)])  # fmt: skip
    text = summary.read_text("utf-8")
    assert all(line.isprintable() for line in text.split("\n")) and "\\x1b[2J" in text
    assert "\n# d" not in text and "c`|" not in text
    ElementTree.parse(junit)
    assert not math.isnan(json.loads(report.read_text())["tolerance"])


def test_a_lane_that_fails_is_named_without_what_steers_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    body = json.dumps({"error": {"message": EVIL}}).encode()
    head = b"HTTP/1.1 400 Bad\r\ncontent-length: %d\r\n\r\n" % len(body)
    with hostile(lambda send, over: send(head + body)) as url:
        assert main(["race", "--server", f"a={url}", "--timeout", "2", "hello"]) == 2
    said = capsys.readouterr().err
    assert said.removesuffix("\n").isprintable() and "\\x1b[2J" in said


def test_an_address_that_is_not_ascii_is_refused() -> None:
    with pytest.raises(ServerError, match="not ASCII"):
        permitted("http://bücher.example:80", ["http://bücher.example:80"])


def test_lanes_without_counters_are_none() -> None:
    class Silent:
        def counters(self) -> None:
            raise ServerError("no")

    assert RaceLane("a", Silent()).counters() is None  # type: ignore[arg-type]
