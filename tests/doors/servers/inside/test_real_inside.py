"""vLLM for CPUs records itself: `make inside` installs both and runs this."""

from __future__ import annotations

import os
import re
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path
from uuid import uuid4

import pytest

from draftscope.servers.adapter import Request
from draftscope.servers.audit.plan import AUDIT_PROMPTS
from draftscope.servers.inside.decision_audit import InsideAnswer, InsidePlan, audit_inside
from draftscope.servers.inside.decisions import examine
from draftscope.servers.inside.recording import read_state
from draftscope.servers.programs.program import Command
from draftscope.servers.programs.program_list import identify
from draftscope.servers.programs.web_server import Cards
from draftscope.servers.wire import Wire
from draftscope.trace import files
from draftscope.trace.events import Round, SharedStep
from draftscope.verify.sampling import Sampling
from draftscope_app.cli.main import main
from tests.doors.servers.inside.doubled import doubled
from tests.doors.servers.inside.vllm_cpu import MENDED_TOO, PAIR, PORT, RECORDED, command
from tests.programs.interop import started

pytestmark = pytest.mark.real_servers


@pytest.mark.parametrize("mended", [False, True])
def test_one_request_convicts_vllm_0_32_and_acquits_it_when_mended(mended: bool) -> None:
    """#55005: the CPU build divides the logits of drafted rows by something else than the temperature."""
    with running(command(MENDED_TOO if mended else RECORDED, PORT), "--enforce-eager") as url:
        report = audit_inside(url, AUDIT_PROMPTS, InsidePlan(Sampling(1.0), 48))
    assert (report.requests, report.unlike) == (1, 0) and report.decisions > 20
    if mended:
        assert not report.different, report.verdict
    else:
        assert report.first_wrong is not None and report.first_wrong.tensor == "temperature of drafted rows"


@contextmanager
def running(start: Command, *more: str) -> Iterator[str]:
    with started(Path(os.environ["DRAFTSCOPE_VLLM"]).absolute(), start, more) as server:
        yield server.identity.url


@contextmanager
def mended_server(plugins: str, port: int) -> Iterator[str]:
    """With prompts read in parts of 64 tokens, and a cache of 2,048."""
    cache = ("--enable-prefix-caching", "--block-size", "32", "--num-gpu-blocks-override", "64")
    more = ("--enforce-eager", "--max-num-batched-tokens", "64", *cache)
    start = command(plugins, port, requests=16)
    with running(start, *more) as address:
        yield address


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with mended_server(MENDED_TOO, PORT + 1) as address:
        yield address


REPEATING = "The old man walked down to the sea. " * 4
LONG = [" ".join(AUDIT_PROMPTS * 3)[:900]] * 2  # the second one's beginning is in the prefix cache


@pytest.mark.parametrize(
    ("prompts", "plan"),
    [
        pytest.param(AUDIT_PROMPTS, InsidePlan(Sampling(1.0), 16 * 24, 24, 16), id="sixteen at once"),
        pytest.param(LONG, InsidePlan(Sampling(1.0), 48, 24, 1), id="long prompts, in parts and from the cache"),
        pytest.param(AUDIT_PROMPTS, InsidePlan(Sampling(1.0, top_k=20, top_p=0.98), 96, 24), id="top-k"),
    ],
)
def test_every_text_is_recorded_whole_and_acquitted(url: str, prompts: Sequence[str], plan: InsidePlan) -> None:
    report = audit_inside(url, prompts, plan)
    assert (report.unlike, report.lost, report.different) == (0, 0, False), report.verdict
    assert report.requests == plan.tokens // plan.length and report.decisions > 20


def test_preempted_requests_are_recorded_whole_and_write_what_they_do_without_the_plugin(url: str) -> None:
    """Twelve texts of 300 tokens at once, of which the cache holds half."""
    before = sum(by_engine(url, "num_preemptions_total").values())
    test_every_text_is_recorded_whole_and_acquitted(url, AUDIT_PROMPTS, InsidePlan(Sampling(1.0), 12 * 300, 300, 12))
    assert sum(by_engine(url, "num_preemptions_total").values()) > before
    with mended_server("vllm_55005", PORT + 2) as bare:
        assert texts(bare) == texts(url)
        assert sum(by_engine(bare, "num_preemptions_total").values()) > 0


def texts(url: str) -> list[list[int]]:
    """At temperature 0, all at once."""
    wire = Wire(url)
    body = {"model": wire.get("/v1/models", Cards).data[0].id, "max_tokens": 300, "ignore_eos": True,
            "temperature": 0.0, "return_token_ids": True}  # fmt: skip

    def ask(prompt: str) -> list[int]:
        return wire.post("/v1/completions", {**body, "prompt": prompt}, InsideAnswer).choices[0].token_ids

    with ThreadPoolExecutor(12) as pool:
        return list(pool.map(ask, islice(cycle(AUDIT_PROMPTS), 12)))


def by_engine(url: str, counter: str) -> dict[str, float]:
    """What each engine of a server counted."""
    wire = Wire(url)
    found: dict[str, float] = defaultdict(float)
    for line in (wire.text("/metrics") or b"").decode().splitlines():
        if seen := re.match(rf'vllm:{counter}{{engine="(\d+)".* (\S+)$', line):
            found[seen[1]] += float(seen[2])
    return found


RANKS = {
    "tensor parallel": "--tensor-parallel-size",
    "data parallel": "--data-parallel-size",
}


@pytest.mark.parametrize("option", RANKS.values(), ids=RANKS)
def test_two_ranks_are_recorded_as_one(option: str, tmp_path: Path) -> None:
    for name in PAIR:
        doubled(name, tmp_path)
    start = command(MENDED_TOO, PORT + 2, models=tmp_path)
    cores = sorted(os.sched_getaffinity(0))
    start = replace(start, environment=(*start.environment, ("VLLM_CPU_OMP_THREADS_BIND", f"{cores[0]}|{cores[-1]}")))
    with running(start, "--enforce-eager", option, "2") as url:
        test_every_text_is_recorded_whole_and_acquitted(url, AUDIT_PROMPTS, InsidePlan(Sampling(1.0), 8 * 24, 24))
        test_every_text_is_recorded_whole_and_acquitted(url, AUDIT_PROMPTS, InsidePlan(Sampling(0.0), 8 * 24, 24))
        engines = [engine for engine, count in by_engine(url, "request_success_total").items() if count]
    assert len(engines) == (2 if option == RANKS["data parallel"] else 1)


DRAFTS = {
    "EAGLE-3": ("eagle3", False),
    "EAGLE-3, drawn from q": ("eagle3", True),
    "n-grams": ("ngram", False),
}


@pytest.mark.parametrize(("method", "drawn"), DRAFTS.values(), ids=DRAFTS)
def test_other_drafters_are_recorded_whole_and_a_q_that_is_not_there_is_named(
    method: str, drawn: bool, tmp_path: Path
) -> None:
    path, plan = tmp_path / "run.jsonl.gz", InsidePlan(Sampling(1.0), 12 * 48)
    with running(command(MENDED_TOO, PORT + 3, method=method, drawn=drawn), "--enforce-eager") as url:
        test_every_text_is_recorded_whole_and_acquitted(url, AUDIT_PROMPTS, plan)
        test_every_text_is_recorded_whole_and_acquitted(url, AUDIT_PROMPTS, replace(plan, sampling=Sampling(0.0)))
        asked = ["inside", url, REPEATING, "--raw", "--temperature", "1"]
        assert main([*asked, "--max-new-tokens", "64", "--trace", str(path)]) == 0
    rounds = [event for event in files.read(path).events if isinstance(event, Round) and event.nodes]
    notes = [note for event in rounds for note in event.annotations if isinstance(note, SharedStep)]
    decided = [child for event in rounds for decision in event.decisions for child in decision.children]
    assert decided and all((node.q is None) != drawn for event in rounds for node in event.nodes)
    assert {note.q_unknown for note in notes} == {not drawn}
    assert drawn or all(child.q == 1.0 and child.threshold == child.p for child in decided)


def test_a_client_that_leaves_ends_its_request_and_nothing_else(url: str) -> None:
    name = f"draftscope-{uuid4().hex}"
    with identify(url, (url,)) as server:
        request = Request(server.tokenize(AUDIT_PROMPTS[0]), 400, temperature=1.0, ignore_eos=True, name=name)
        answer = server.stream(request)
        heard = [token for chunk in islice(answer, 3) for token in chunk.ids]
        answer.close()  # type: ignore[attr-defined]
    wire = Wire(url)
    state = read_state(wire, name)
    written = [token for each in state.rounds for token in each.written]
    assert written[: len(heard)] == heard and 0 < len(written) < 400
    test_every_text_is_recorded_whole_and_acquitted(url, AUDIT_PROMPTS, InsidePlan(Sampling(1.0), 48, 24))


def test_an_answer_of_a_given_form_is_recorded_as_it_was_written(url: str) -> None:
    name = f"draftscope-{uuid4().hex}"
    wire = Wire(url)
    model = wire.get("/v1/models", Cards).data[0].id
    body = {"model": model, "prompt": "Yes or no?", "max_tokens": 12, "temperature": 1.0, "return_token_ids": True,
            "structured_outputs": {"regex": "(yes|no) (yes|no) (yes|no)"}, "request_id": name}  # fmt: skip
    written = wire.post("/v1/completions", body, InsideAnswer).choices[0].token_ids
    time.sleep(1.0)  # the recorder's thread
    rounds = read_state(wire, name).rounds
    assert [token for each in rounds for token in each.written][: len(written)] == written
    assert not [each for each in examine(rounds) if each.fault]
