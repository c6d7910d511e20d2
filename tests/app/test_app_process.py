"""The engine process: stop within a round, two visitors, steps, crashes, and visitors who leave."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from dataclasses import asdict
from itertools import accumulate
from multiprocessing import Pipe
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.load_settings import LoadSettings
from draftscope.base.steps import stoppable
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.trace import files
from draftscope.trace.events import AnyEvent
from draftscope_app.engine.jobs import Asker, EngineStatus, Message, Quit, Start, Update
from draftscope_app.engine.process import EngineProcess, pause_after, uninterrupted
from draftscope_app.engine.visitors import Visitor, Visitors
from draftscope_app.engine.worker import IN_TURNS, main
from draftscope_app.page.runs import own_models
from draftscope_app.serve.server import serve
from tests.support.feeds import stream
from tests.support.framed import free_port
from tests.support.pipe import UNWATCHED, PipeEnd
from tests.support.runs import PATIENCE_S, Seen, held, job, wait_loaded
from tests.support.stand_ins import (
    cannot_load,
    comes_up_the_sixth_time,
    decodes_for_ever,
    dies_on_the_first_run,
    dies_while_it_loads_others,
    never_comes_up,
    never_listens,
)


def test_a_core_is_left_to_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    class AskedError(Exception):
        """What the engine process would have loaded."""

    def asked(load: LoadSettings, **rest: object) -> None:
        raise AskedError(load.spare_cores)

    monkeypatch.setattr("draftscope_app.engine.process.EngineProcess", asked)
    with pytest.raises(AskedError) as told:
        serve("127.0.0.1", free_port())
    assert told.value.args == (1,)


def test_a_run_gives_both_lanes_whole(engine: EngineProcess) -> None:
    seen = Seen(engine.run(job(solo=1))).done()
    kinds = {(e["lane"], e["kind"]) for e in seen.events}
    wanted = ("run_start", "prefill", "round", "run_end", "solo_runs")
    assert kinds == {(lane, kind) for lane in ("plain", "speculative") for kind in wanted} | {
        ("speculative", "verify_costs")
    }
    assert seen.states == ["running", "solo", "done"]
    for end in (e for e in seen.events if e["kind"] == "run_end"):
        assert len(end["token_ids"]) == sum(len(r["emitted"]) for r in seen.rounds(end["lane"]))


def test_stop_acts_within_a_round(engine: EngineProcess) -> None:
    before: list[int] = []

    def stop() -> None:
        before.append(len(seen.events))
        seen.answer.stop()

    with held(engine):
        seen = Seen(engine.run(job(tokens=480)))
        seen.when(lambda s: len(s.rounds("speculative")) >= 2, stop)
    seen.done()
    assert set(seen.ends.values()) == {"cancelled"}
    later = sum(e["kind"] == "round" for e in seen.events[before[0] :])
    assert later <= 30  # what was already in the pipe; 480 were asked for
    assert sum(len(r["emitted"]) for r in seen.rounds("plain")) < 480


def test_a_race_that_is_stopped_before_its_first_event_has_none(pair: DecodingEngine, tmp_path: Path) -> None:
    """Its only events were two ends, which no trace may begin with."""

    def stopped_after(events: int) -> list[AnyEvent]:
        runs = [pair.start("abc", Settings.of(drafter=name), lane=name) for name in ("plain", "draft")]
        told: list[AnyEvent] = []
        for event in stoppable(race(runs), lambda: len(told) >= events):
            told.append(event)
        return told

    assert stopped_after(0) == []
    for events in range(1, 5):
        told = stopped_after(events)
        files.write(tmp_path / "run.jsonl", told)
        assert files.read(tmp_path / "run.jsonl").events == tuple(told)
        ends = [event.lane for event in told if event.kind == "run_end"]
        assert sorted(ends) == ["draft", "plain"] == sorted(e.lane for e in told if e.kind == "run_start")


def test_stop_ends_the_solo_runs_too(engine: EngineProcess) -> None:
    seen = Seen(engine.run(job(tokens=200, solo=500)))
    seen.until(lambda s: "solo" in s.states)
    seen.answer.stop()
    seen.done()
    assert set(seen.ends.values()) <= {"length", "eos"}
    assert not seen.sentences


def test_a_visitors_races_go_in_order_and_before_solo_runs(engine: EngineProcess) -> None:
    order: list[tuple[str, str]] = []
    with held(engine):
        first, second = Seen(engine.run(job(tokens=40, solo=2))), Seen(engine.run(job(tokens=40)))
        places = [engine.place(second.answer)]
    over = False
    while not over:
        over = first.answer.over and second.answer.over
        later = second.events[len([name for name, _ in order if name == "second"]) :]  # seen before the first's, so not
        earlier = first.events[len([name for name, _ in order if name == "first"]) :]  # before what these do not hold
        order += [*(("first", e["kind"]) for e in earlier), *(("second", e["kind"]) for e in later)]
        time.sleep(0.002)
    assert places[0] == 1
    rounds = [name for name, kind in order if kind == "round"]
    assert rounds == sorted(rounds)  # every round of the first before any of the second
    assert ("first", "verify_costs") in order[order.index(("second", "round")) :]  # solo work waits for races
    assert set(second.ends.values()) <= {"length", "eos"}


def test_a_short_run_of_another_visitor_does_not_wait_for_the_end_of_a_long_one(engine: EngineProcess) -> None:
    """They were decoded in order of arrival, each to its end."""
    long = Seen(engine.run(job(tokens=480), asker=Asker("10.0.0.1")))
    calls = [Seen(engine.run(job(tokens=480), asker=Asker("10.0.0.1"))) for _ in range(8)]
    long.until(lambda s: len(s.rounds("speculative")) >= 2)
    states: list[str] = []
    with held(engine):
        short = Seen(engine.run(job(tokens=4), asker=Asker("10.0.0.2", "page")))
        short.when(lambda s: s.answer.over, lambda: states.extend(seen.answer.state for seen in (long, *calls)))
        assert engine.place(short.answer) == 1
    assert set(short.done().ends.values()) <= {"length", "eos"}
    assert len(states) == 9 and "done" not in states
    for seen in (long, *calls):
        seen.answer.stop()
        seen.done()
    assert long.notes == [IN_TURNS] and not short.notes


def test_steps_pay_for_one_round_and_hold_up_nobody(engine: EngineProcess) -> None:
    slow = Seen(engine.run(job(tokens=60, steps=1)))
    slow.until(lambda s: "stepping" in s.states)
    assert len(slow.rounds("speculative")) == 1
    assert Seen(engine.run(job())).done().ends.keys() == {"plain", "speculative"}
    assert len(slow.rounds("speculative")) == 1
    slow.answer.step()
    slow.until(lambda s: len(s.rounds("speculative")) == 2 and s.states[-1] == "stepping")
    slow.answer.stop()
    assert set(slow.done().ends.values()) == {"cancelled"}


def test_a_step_waits_without_burning_a_cycle(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the round that was paid for it sleeps until it hears a command, or half a minute."""
    monkeypatch.setattr("draftscope.api.load", lambda **_: pair)
    line = PipeEnd(Start(paid := job(tokens=60, steps=1)))
    main(line, LoadSettings(), UNWATCHED)  # type: ignore[arg-type]
    ((patience, last),) = line.waits
    assert patience == 30.0 and isinstance(last, Update) and (last.id, last.state) == (paid.id, "stepping")
    events = [json.loads(message.line) for message in line.said if isinstance(message, Update) and message.line]
    assert sum((event["kind"], event["lane"]) == ("round", "speculative") for event in events) == 1


def test_a_refusal_is_one_sentence_and_the_next_run_goes(engine: EngineProcess) -> None:
    refused = Seen(engine.run(job(prompt=""))).done()
    assert len(refused.sentences) == 1
    assert "empty" in refused.sentences[0]
    assert not refused.events
    assert Seen(engine.run(job())).done().ends


def test_a_reader_who_leaves_ends_the_run(engine: EngineProcess) -> None:
    async def read_a_little() -> None:
        deltas = stream(engine, Visitor(), handle)
        async for text in deltas:
            if json.loads(text)["ev"]:
                break
        await deltas.aclose()  # type: ignore[attr-defined]

    handle = engine.run(job(tokens=480, steps=1))  # it waits behind its first round, however late the reader is
    asyncio.run(read_a_little())
    assert set(Seen(handle).done().ends.values()) <= {"cancelled"}


def test_a_closed_page_ends_its_run_and_a_new_run_replaces_the_old(engine: EngineProcess) -> None:
    visitors = Visitors()
    visitors.of("page").replace(old := engine.run(job(tokens=480, steps=1)))
    visitors.of("page").replace(new := engine.run(job(tokens=480, steps=1)))
    assert "cancelled" in Seen(old).done().ends.values() or not Seen(old).events
    visitors.left("page")
    assert len(visitors) == 0
    Seen(new).done()


def test_the_stream_numbers_its_deltas_and_loses_nothing(engine: EngineProcess) -> None:
    async def read() -> list[dict[str, Any]]:
        return [json.loads(text) async for text in stream(engine, visitor, visitor.latest)]

    visitor = Visitor()
    visitor.replace(engine.run(job(solo=1)))
    deltas = asyncio.run(read())
    assert [d["seq"] for d in deltas] == [0, *accumulate(len(d["ev"]) for d in deltas)][:-1]
    assert deltas[-1]["state"] == "done"
    assert [e for d in deltas for e in d["ev"]] == [json.loads(text) for text in visitor.shown.lines]


# Processes that fail, played by small stand-ins: no models are loaded.


def test_a_busy_engine_process_makes_nobody_wait() -> None:
    process = EngineProcess(LoadSettings(), target=never_listens)
    assert wait_loaded(process).phase == "ready"
    larger_than_a_pipe = job(prompt="x" * 2**22)

    def ask() -> None:
        process.run(larger_than_a_pipe).stop()
        asked.set()

    asked = threading.Event()
    threading.Thread(target=ask, daemon=True).start()
    assert asked.wait(PATIENCE_S)
    assert len(process) == 1
    process.close()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_that_a_librarys_thread_receives_waits_until_a_process_has_been_started(number: int) -> None:
    """The main thread handled it in the middle of the start, and the process read half of what it was started with."""
    received: list[int] = []
    before = signal.signal(number, lambda number, _: received.append(number))
    starts = threading.Event()
    library = threading.Thread(target=lambda: starts.wait() and signal.raise_signal(number))
    library.start()  # before the signals are blocked: a thread inherits what is
    try:
        with uninterrupted():
            starts.set()
            library.join()
            time.sleep(0.05)
            meanwhile = list(received)
        assert (meanwhile, received) == ([], [number])
    finally:
        signal.signal(number, before)


def test_a_crash_is_one_sentence_and_a_restart() -> None:
    process = EngineProcess(LoadSettings(), target=dies_on_the_first_run)
    assert wait_loaded(process).phase == "ready"
    seen = Seen(process.run(job())).done()
    assert seen.sentences == [
        "The engine process ended unexpectedly (exit code 7) and is being restarted; run again in a moment."
    ]
    assert wait_loaded(process).phase == "ready"
    assert "exit code 7" in Seen(process.run(job())).done().sentences[0]
    process.close()


@pytest.mark.slow
def test_a_process_that_keeps_ending_is_started_again_after_a_pause() -> None:
    process = EngineProcess(LoadSettings(), target=never_comes_up)
    process.changed.wait_until(lambda: process.status.phase == "failed", PATIENCE_S)
    assert "keeps ending (exit code 3); it is started again in 5 s" in process.status.sentence
    assert process.status.comes_back
    seen = Seen(process.run(job())).done()
    assert seen.sentences == [process.status.sentence]
    process.close()


def test_the_pauses_grow_to_a_limit() -> None:
    assert [pause_after(crashes) for crashes in (1, 3, 4, 5, 6, 20)] == [0, 0, 5, 10, 20, 300]


@pytest.mark.slow
def test_a_process_comes_back_however_often_it_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It was given up at the fourth crash."""
    monkeypatch.setattr("draftscope_app.engine.process.FIRST_PAUSE_S", 0.05)
    process = EngineProcess(LoadSettings(str(tmp_path)), target=comes_up_the_sixth_time)
    process.changed.wait_until(lambda: process.status.phase == "ready", PATIENCE_S)
    assert process.status == EngineStatus("ready", "stand-in") and len(list(tmp_path.iterdir())) == 6
    process.close()


def test_a_process_that_ends_while_it_loads_other_models_has_not_loaded_them() -> None:
    """The page said: The models are loaded; press Run."""
    process = EngineProcess(LoadSettings(), target=dies_while_it_loads_others)
    assert wait_loaded(process).phase == "ready"

    async def told() -> EngineStatus:
        *_, last = [status async for status in own_models.changes(process, LoadSettings("other"))]
        return last

    status = asyncio.run(told())
    assert status.phase == "ready" and process.load.target is None
    assert status.refused == "The engine process ended unexpectedly (exit code 9) while it loaded other models."
    process.close()


def test_runs_that_the_end_of_the_server_cuts_off_say_so() -> None:
    process = EngineProcess(LoadSettings(), target=decodes_for_ever)
    seen = Seen(process.run(job())).until(lambda s: "running" in s.states)
    process.close()
    assert not process._process.is_alive()  # though it decodes for ever
    assert seen.done().sentences == ["The server is ending; run again in a minute."]


def test_models_that_cannot_be_loaded_are_one_sentence() -> None:
    process = EngineProcess(LoadSettings("nothing"), target=cannot_load)
    status = wait_loaded(process)
    assert (status.phase, status.sentence) == ("failed", "'nothing' cannot be loaded.")
    assert Seen(process.run(job())).done().sentences == [status.sentence]
    process.close()


def loading(load: LoadSettings) -> list[Message]:
    """What the engine process says while it loads, in this process."""
    page, engine = Pipe()
    page.send(Quit())
    main(engine, load, UNWATCHED)
    return [page.recv() for _ in iter(page.poll, False)]


def test_everything_about_loading_reaches_the_engine(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    load = LoadSettings(
        "here", "there", "float32", "cpu", 1, device_map="auto", revision="v1", draft_revision="v2",
        trust_remote_code=True, allow_pickle=True,
    )  # fmt: skip
    asked: dict[str, object] = {}
    monkeypatch.setattr("draftscope.api.load", lambda **given: asked.update(given) or pair)
    *_, ready = loading(load)
    assert isinstance(ready, EngineStatus) and ready.phase == "ready" and "byte-target" in ready.sentence
    assert asked == asdict(load)


@pytest.mark.parametrize(
    ("wish", "sentence"),
    [
        ({"target": "nothing at all"}, "'nothing at all' is neither a folder"),
        ({"device_map": "everywhere"}, "device_map = 'everywhere'"),
        ({"revision": "v1"}, "is a folder without revisions"),
        ({"draft": "two words", "draft_revision": "v2"}, "'two words' is neither a folder nor a hub id"),
    ],
)
def test_a_wish_about_loading_that_cannot_be_met_is_one_sentence(
    pair_folders: tuple[Path, Path], wish: dict[str, Any], sentence: str
) -> None:
    *_, failed = loading(LoadSettings(**{"target": str(pair_folders[0])} | wish))
    assert isinstance(failed, EngineStatus) and failed.phase == "failed" and sentence in failed.sentence
