"""The exporter: what it says of logs that grow and of servers, read by Prometheus' own parser."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from draftscope.log import RoundLog
from draftscope.log.alarm import NEAR_ALL, NEAR_NOTHING
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.doors.servers.exporter import count_sources, web
from draftscope_app.doors.servers.exporter.count_sources import Counts, LogSource, ServerSource
from draftscope_app.doors.servers.exporter.prometheus_text import page
from tests.log.test_readers import VLLM
from tests.support.command import Cli, command_line

VLLM_COUNTERS = """\
# HELP vllm:spec_decode_num_drafts_total Number of spec decoding drafts.
vllm:spec_decode_num_drafts_total{engine="0"} %d
vllm:spec_decode_num_draft_tokens_total{engine="0"} %d
vllm:spec_decode_num_accepted_tokens_total{engine="0"} %d
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} %d
"""
SGLANG_GAUGES = (
    'sglang:spec_accept_length{engine_type="unified"} 3.2\nsglang:spec_accept_rate{engine_type="unified"} 0.73\n'
)


def said(counts: Counts, plain_ms: float | None = None) -> dict[str, float]:
    """Every sample of the page by its name and labels, without the prefix."""
    families = text_string_to_metric_families(page(counts, plain_ms).decode())
    samples = [sample for family in families for sample in family.samples if not sample.name.endswith("_created")]
    return {
        "|".join([sample.name.removeprefix("draftscope_"), *sample.labels.values()]): sample.value for sample in samples
    }


@pytest.fixture
def log(tmp_path: Path) -> Iterator[RoundLog]:
    with RoundLog(tmp_path / "rounds.jsonl", engine="mine") as written:
        yield written


@pytest.fixture
def source(log: RoundLog, tmp_path: Path) -> LogSource:
    return LogSource(tmp_path / "rounds.jsonl")


@pytest.fixture
def exporter(capsys: pytest.CaptureFixture[str]) -> Cli:
    return command_line(capsys, "exporter")


def test_rounds_are_counted_as_they_come(log: RoundLog, source: LogSource) -> None:
    log.round(drafted=3, accepted=2, ms=20.0)
    first = said(source.read())
    assert first["rounds_total"] == 1 and first["wasted_tokens_total"] == 1 and first["written_tokens_total"] == 3
    log.round(drafted=3, accepted=0, ms=10.0)
    second = said(source.read(), plain_ms=10.0)
    assert (second["rounds_total"], second["drafted_tokens_total"], second["accepted_tokens_total"]) == (2, 6, 2)
    assert [second[f"position_kept_total|{place}"] for place in (1, 2, 3)] == [1, 1, 0]
    assert [second[f"position_reached_total|{place}"] for place in (1, 2, 3)] == [2, 1, 1]
    assert [second[f"accepted_per_round_bucket|{edge}"] for edge in ("0", "1", "2", "+Inf")] == [1, 1, 2, 2]
    assert second["round_seconds_total"] == pytest.approx(0.03) and second["plain_seconds_per_token"] == 0.01
    assert second["tokens_per_round"] == 2 and second["acceptance_rate"] == pytest.approx(1 / 3)


def test_what_a_log_does_not_know_has_no_metric(log: RoundLog, source: LogSource) -> None:
    log.round(drafted=3, accepted=2)
    known = said(source.read())
    assert "round_seconds_total" not in known and "plain_seconds_per_token" not in known and known["up"] == 1


def test_an_empty_log_says_that_it_is_there(source: LogSource) -> None:
    known = said(source.read())
    assert known["up"] == 1 and "rounds_total" not in known and "acceptance_rate" not in known


def test_a_line_that_breaks_off_is_read_when_it_is_whole(source: LogSource, tmp_path: Path) -> None:
    with (tmp_path / "rounds.jsonl").open("a") as file:
        file.write('{"round":0,"drafted":4,"acc')
        file.flush()
        assert source.read().whole is None
        file.write('epted":4}\n')
        file.flush()
        assert said(source.read())["accepted_tokens_total"] == 4


def test_counters_never_fall_when_a_log_is_replaced(log: RoundLog, source: LogSource, tmp_path: Path) -> None:
    log.round(drafted=3, accepted=2)
    source.read()
    (tmp_path / "rounds.jsonl").rename(tmp_path / "rounds.1")
    (tmp_path / "rounds.jsonl").write_text('{"round":0,"drafted":5,"accepted":5}\n')
    assert said(source.read())["accepted_tokens_total"] == 7


def test_a_line_that_cannot_be_is_counted(log: RoundLog, source: LogSource, tmp_path: Path) -> None:
    with (tmp_path / "rounds.jsonl").open("a") as file:
        file.write('{"round":0,"drafted":1,"accepted":2}\n{"round":0,"drafted":1,"accepted":1}\n')
    known = said(source.read())
    assert known["unreadable_lines_total"] == 1 and known["accepted_tokens_total"] == 1 and known["up"] == 0
    assert said(source.read())["up"] == 1


def test_a_log_that_goes_away_is_a_sentence(log: RoundLog, source: LogSource, tmp_path: Path) -> None:
    (tmp_path / "rounds.jsonl").unlink()
    counts = source.read()
    assert said(counts)["up"] == 0 and "cannot be read" in counts.problem


def test_a_line_without_an_end_takes_no_memory(
    source: LogSource, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(count_sources, "PIECE", 1 << 16)
    monkeypatch.setattr(count_sources, "MAX_LINE", 1 << 10)
    with (tmp_path / "rounds.jsonl").open("a") as file:
        file.write("x" * (1 << 18) + '\n{"round":0,"drafted":1,"accepted":1}\n')
    assert source.read().whole is not None
    assert len(source._rest) <= 1 << 10


def test_a_server_log_of_vllm_is_followed_too(tmp_path: Path) -> None:
    (tmp_path / "vllm.log").write_text(VLLM)
    known = said(LogSource(tmp_path / "vllm.log").read())
    assert known["rounds_total"] == 74 and "position_reached_total|1" not in known


@pytest.mark.parametrize(("kept", "alarm"), [(0, NEAR_NOTHING), (4, NEAR_ALL), (2, None)])
def test_alarms_at_both_ends(log: RoundLog, source: LogSource, kept: int, alarm: str | None) -> None:
    for _ in range(60):
        log.round(drafted=4, accepted=kept)
    known = said(source.read())
    assert {what for what in (NEAR_NOTHING, NEAR_ALL) if known[f"alarm|{what}"]} == ({alarm} if alarm else set())


def test_few_rounds_raise_no_alarm(log: RoundLog, source: LogSource) -> None:
    log.round(drafted=4, accepted=0)
    known = said(source.read())
    assert known[f"alarm|{NEAR_NOTHING}"] == 0 and known["acceptance_rate"] == 0


def test_an_alarm_ends_when_the_rounds_are_sound_again(log: RoundLog, source: LogSource) -> None:
    for _ in range(600):
        log.round(drafted=4, accepted=0)
    assert said(source.read())[f"alarm|{NEAR_NOTHING}"] == 1
    for _ in range(600):
        log.round(drafted=4, accepted=2)
        source.read()
    assert said(source.read())[f"alarm|{NEAR_NOTHING}"] == 0


@pytest.fixture
def counting() -> Iterator[tuple[str, Callable[[str], None]]]:
    """A server whose /metrics page says what it is given."""
    text = [""]

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            content = text[0].encode()
            self.send_response(200 if content else 404)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Answers)
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}", lambda page: text.__setitem__(0, page)
    server.shutdown()
    server.server_close()


def test_a_servers_counters_are_given_their_names(counting: tuple[str, Callable[[str], None]]) -> None:
    address, says = counting
    source = ServerSource(f"{address}/metrics")
    says(VLLM_COUNTERS % (100, 300, 150, 90))
    assert said(source.read())["tokens_per_round"] == 2.5
    says(VLLM_COUNTERS % (200, 600, 150, 90))
    known = said(source.read())
    assert known["rounds_total"] == 200 and known["position_kept_total|1"] == 90
    assert known["acceptance_rate"] == 0.25
    says(VLLM_COUNTERS % (10, 30, 30, 10))  # it was started anew
    assert said(source.read())["accepted_tokens_total"] == 30


def test_sglangs_means_are_gauges(counting: tuple[str, Callable[[str], None]]) -> None:
    address, says = counting
    says(SGLANG_GAUGES)
    known = said(ServerSource(address).read())
    assert (known["tokens_per_round"], known["acceptance_rate"]) == (3.2, 0.73) and "rounds_total" not in known


@pytest.mark.parametrize("text", ["", "go_goroutines 7\n", "vllm:spec_decode_num_drafts_total 1e400\n"])
def test_a_server_without_counters_is_down(text: str, counting: tuple[str, Callable[[str], None]]) -> None:
    address, says = counting
    says(text)
    counts = ServerSource(address).read()
    assert said(counts)["up"] == 0 and counts.problem.endswith(".")


def test_the_page_is_made_once_a_second(log: RoundLog, source: LogSource, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(web, "KEPT_S", 3600.0)  # however long this machine takes between two of these
    client = TestClient(web.application(source, None))
    assert b"draftscope_up 1.0" in client.get("/metrics").content
    log.round(drafted=1, accepted=1)
    assert b"draftscope_rounds" not in client.get("/metrics").content
    monkeypatch.setattr(web, "KEPT_S", 0.0)
    assert b"draftscope_rounds_total 1.0" in client.get("/metrics").content
    assert client.get("/").status_code == 404 and client.post("/metrics").status_code == 405


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((), "No SOURCE was given"),
        (("nowhere.jsonl",), "There is no log 'nowhere.jsonl'"),
        (("http://127.0.0.1:1", "--plain-ms", "0"), "--plain-ms 0.0 is no time"),
        (("http://127.0.0.1:1", "--plain-ms", "nan"), "--plain-ms nan is no time"),
    ],
)
def test_bad_input_is_one_sentence(exporter: Cli, arguments: tuple[str, ...], sentence: str) -> None:
    ran = exporter(*arguments)
    assert ran.code == ExitCode.NOT_DONE and sentence in ran.err


def test_the_board_is_written_and_asks_only_for_what_is_said(exporter: Cli, tmp_path: Path) -> None:
    file = tmp_path / "board.json"
    assert exporter("--board", file).code == ExitCode.OK
    board = json.loads(file.read_text())
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"]) == 9
    assert all(panel["gridPos"]["x"] + panel["gridPos"]["w"] <= 24 for panel in board["panels"])
