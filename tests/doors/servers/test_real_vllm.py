"""Against real vLLM servers of the embedded pair: `make servers-test` installs vLLM for CPUs and runs this."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from draftscope import load
from draftscope.base.assets import assets
from draftscope.base.steps import last, said
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.servers import lanes as entries
from draftscope.servers.adapter import Request
from draftscope.servers.audit.audit import audit
from draftscope.servers.audit.plan import AUDIT_PROMPTS, Plan
from draftscope.servers.curve import stops
from draftscope.servers.engine_lane import EngineLane
from draftscope.servers.load_test import LoadPlan
from draftscope.servers.load_test import load as put_under_load
from draftscope.servers.programs.program import ServedPair
from draftscope.servers.programs.program_list import find_start
from draftscope.servers.server_race import Race, RaceLane, RaceResult, race, same_tokenizers
from draftscope.servers.summary import summaries
from tests.programs.interop import started
from tests.support.framed import free_port

pytestmark = pytest.mark.real_servers

TARGET, DRAFT = (str(assets() / "models" / f"llama-draftscope-{name}") for name in ("15m", "draft-1m"))
WRONG_ABOVE_0 = ("0.32.0",)  # versions whose CPU build samples drafted positions at another temperature
EAGER = ("--enforce-eager",)  # compiles nothing
STOPS = '"num_speculative_tokens_per_batch_size": [[1, 2, 4], [3, 8, 0]], '


@pytest.fixture(scope="module")
def engine() -> Iterator[DecodingEngine]:
    with load(dtype="bfloat16", threads=1) as engine:
        yield engine


@pytest.fixture(scope="module")
def lanes() -> Iterator[list[RaceLane]]:
    """A plain server, and one that drafts with the draft model for up to two requests at once."""
    program = Path(os.environ["DRAFTSCOPE_VLLM"]).absolute()
    plain, drafting = find_start("vllm-cpu").commands(ServedPair(TARGET, "draft", DRAFT, context=512), free_port())
    changed = tuple(each.replace('{"method"', f'{{{STOPS}"method"') for each in drafting.arguments)
    both = plain, replace(drafting, arguments=changed)
    with ExitStack() as opened:
        servers = [opened.enter_context(started(program, command, EAGER)) for command in both]
        yield [RaceLane(name, server) for name, server in zip(("plain", "drafts"), servers, strict=True)]


def test_the_engine_and_both_servers_write_the_same_greedy_tokens(
    engine: DecodingEngine, lanes: list[RaceLane]
) -> None:
    """And what the drafting server accepts is counted by it, round by round."""
    every = [*lanes, RaceLane("draft, here", EngineLane(engine, Settings.of(drafter="draft", gamma=4)))]
    assert same_tokenizers(every, None) == {}
    prompts = entries.prompts(AUDIT_PROMPTS[:2], every, engine, True, 32)
    plan, standing = Race(prompts, Request((0,), 32), repeats=1), RaceResult()
    last(race(every, plan, standing))
    rows = summaries(every, plan, standing, {})
    assert not standing.dropped and [row.answers for row in rows] == [2, 2, 2]
    assert rows[0].counted is None and rows[1].counted is not None and rows[1].counted.accepted
    parted = [note for row in rows for note in row.notes if "differs from" in note]
    assert len(parted) <= 1, parted  # at a tie


@pytest.mark.parametrize("name", ["plain", "drafts"])
def test_the_audit_is_red_for_the_version_that_is_wrong_and_green_for_its_plain_server(
    engine: DecodingEngine, lanes: list[RaceLane], name: str
) -> None:
    server = next(lane.server for lane in lanes if lane.name == name)
    plan = Plan(samples=60, seconds=600.0, concurrency=2)
    ids = [engine.encode(text) for text in AUDIT_PROMPTS]
    found = last(audit(server, "vllm", engine, AUDIT_PROMPTS, ids, plan, None))
    assert found.different == (name == "drafts" and server.identity.version in WRONG_ABOVE_0), found.verdict


def test_the_point_from_which_it_stops_drafting_is_found(engine: DecodingEngine, lanes: list[RaceLane]) -> None:
    prompts = entries.prompts(AUDIT_PROMPTS, lanes, engine, True, 64)
    plan = LoadPlan(prompts, Request((0,), 64, ignore_eos=True), (1, 2, 4, 8), 5.0)
    found = stops(list(said(put_under_load(lanes, plan))))
    assert [(each.lane, each.concurrency) for each in found] == [("drafts", 4)]
