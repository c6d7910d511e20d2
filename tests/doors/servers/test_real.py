"""Against a real llama.cpp server: `make servers-test` installs one and runs this."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from draftscope.base.steps import last, said
from draftscope.servers.adapter import Message, Request, Server, ServerError
from draftscope.servers.audit.audit import audit_without_weights
from draftscope.servers.audit.plan import AUDIT_PROMPTS, Plan
from draftscope.servers.load_test import LoadPlan, load
from draftscope.servers.programs.program_list import identify
from draftscope.servers.server_race import Race, RaceLane, RacePrompt, RaceResult, race, same_tokenizers
from draftscope.servers.summary import summaries
from tests.support.framed import free_port

pytestmark = pytest.mark.real_servers

NGRAM = ("--spec-type", "ngram-simple", "--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", "4")
START = 120.0  # seconds that reading the weights may take
TEXT = "Repeat this sentence five times: the cat sat on the mat."


@pytest.fixture(scope="module")
def lanes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[RaceLane]]:
    """A plain server and one that drafts n-grams, of the same weights."""
    program, model = os.environ["DRAFTSCOPE_LLAMA_SERVER"], os.environ["DRAFTSCOPE_LLAMA_MODEL"]
    library = str(Path(program).parent)
    with ExitStack() as opened:
        found = []
        for name, more in (("plain", ()), ("ngram", NGRAM)):
            port = free_port()
            log = opened.enter_context((tmp_path_factory.mktemp(name) / "log").open("wb"))
            process = subprocess.Popen(
                [program, "-m", model, "-c", "2048", "-np", "2", "-t", "1", "--metrics", "--port", str(port), *more],
                stdout=log,
                stderr=log,
                env={**os.environ, "LD_LIBRARY_PATH": library},
            )
            opened.callback(process.wait, 30)
            opened.callback(process.terminate)
            found.append(RaceLane(name, opened.enter_context(up(f"http://127.0.0.1:{port}", process))))
        yield found


def up(url: str, process: subprocess.Popen[bytes]) -> Server:
    end = time.monotonic() + START
    while True:
        try:
            return identify(url)
        except ServerError as error:
            if process.poll() is not None or time.monotonic() > end:
                raise AssertionError(f"the server did not start: {error}") from None
            time.sleep(0.5)


def test_it_is_told_apart_and_reads_what_it_is_sent(lanes: list[RaceLane]) -> None:
    for lane in lanes:
        about = lane.server.identity
        assert (about.kind, about.context is not None, about.version is not None) == ("llama.cpp", True, True)
        ids = lane.server.render((Message("user", TEXT),))
        assert TEXT in lane.server.detokenize(ids)
        assert lane.server.tokenize(" the cat") != lane.server.tokenize(" the dog")
    assert same_tokenizers(lanes, None) == {}


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_a_race_is_counted_and_its_greedy_texts_are_equal(lanes: list[RaceLane], temperature: float) -> None:
    ids = lanes[0].server.render((Message("user", TEXT),))
    plan = Race([RacePrompt(TEXT, ids)], Request((0,), 48, temperature=temperature), repeats=3, jitter=0.0005)
    standing = RaceResult()
    last(race(lanes, plan, standing))
    plain, ngram = summaries(lanes, plan, standing, {})
    assert not standing.dropped and all(each.failure is None and each.written for each in standing.answers)
    assert plain.counted is None and ngram.answers == 3
    if temperature == 0:
        texts = {each.text for each in standing.answers}
        assert len(texts) == 1, texts
        assert ngram.counted is not None and ngram.counted.drafted and ngram.counted.accepted
        assert ngram.counted.by_position and ngram.burst is not None and ngram.burst > 1


def test_the_server_that_drafts_is_audited_against_the_plain_one(lanes: list[RaceLane]) -> None:
    plain, ngram = (lane.server for lane in lanes)
    ids = [plain.tokenize(text) for text in AUDIT_PROMPTS]
    plan = Plan(samples=40, seconds=600.0, concurrency=2)
    found = last(audit_without_weights(ngram, plain, AUDIT_PROMPTS, ids, plan, decode=ngram.detokenize))
    assert not found.different and not found.incomplete, found.verdict
    assert found.sampled is not None and found.sampled["pairs"] == 40


def test_both_are_put_under_load(lanes: list[RaceLane]) -> None:
    ids = lanes[0].server.render((Message("user", TEXT),))
    points = list(said(load(lanes, LoadPlan([RacePrompt(TEXT, ids)], Request((0,), 16), (1, 2), 4.0))))
    assert [(each.concurrency, each.failed) for each in points] == [(1, 0), (1, 0), (2, 0), (2, 0)]
    assert all(each.finished and each.tokens_per_second for each in points)


def test_stopping_early_frees_the_server(lanes: list[RaceLane]) -> None:
    ids = lanes[0].server.render((Message("user", "Tell a long story."),))
    stream = lanes[0].server.stream(Request(ids, 500, ignore_eos=True))
    assert next(stream).ids
    stream.close()  # type: ignore[attr-defined]
    assert list(lanes[0].server.stream(Request(ids, 4)))[-1].finish == "length"
