"""A race of servers as a trace: possible, readable, complete, whatever the servers do."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import said, stoppable
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.servers.adapter import Chunk, Request
from draftscope.servers.bursts import Bursts
from draftscope.servers.engine_lane import EngineLane
from draftscope.servers.programs.program_list import identify
from draftscope.servers.server_race import Race, RaceLane, RacePrompt
from draftscope.servers.traced import Traced, traced
from draftscope.servers.wire import WireLimits
from draftscope.trace import files, html, metrics, tables
from draftscope.trace.events import AnyEvent, Burst, DraftProbs, Round, RunEnd, RunStart, Served, TargetProbs
from draftscope.trace.result import Trace
from draftscope.trace.validate import ImpossibleError, validate
from draftscope_app.doors.servers.audit.job import AuditJob
from draftscope_app.doors.servers.race.job import RaceJob
from draftscope_app.engine.jobs import Job
from draftscope_app.engine.work import steps_of
from draftscope_app.page.plots.run_plots import pictures
from draftscope_app.reports.run_report import decoded, origin
from tests.doors.servers.audit.test_audit_command import writer
from tests.doors.servers.stubs import Habits, stub, text_of, written

PROMPT = RacePrompt("a", (1, 2, 3), " w1 w2 w3")
REQUEST = Request((0,), 12)
Starts = Callable[..., RaceLane]


@pytest.fixture
def starts() -> Iterator[Starts]:
    """Starts a stub and gives its lane."""
    with ExitStack() as opened:

        def start(name: str, **habits: object) -> RaceLane:
            url = opened.enter_context(stub(Habits(**habits)))  # type: ignore[arg-type]
            return RaceLane(name, opened.enter_context(identify(url, limits=WireLimits(connect=2, silent=1))))

        yield start


def of(events: list[AnyEvent], kind: type, lane: str) -> list:
    return [event for event in events if isinstance(event, kind) and event.lane == lane]


def raced(*lanes: RaceLane, missing: dict[str, str] | None = None, **changes: object) -> list[AnyEvent]:
    plan = replace(Race([PROMPT], REQUEST, repeats=2), **changes)
    events = list(said(traced(Traced("r1", lanes, missing or {}, plan))))
    validate(events)
    return events


def test_a_race_is_a_trace_that_is_saved_read_and_exported(starts: Starts, tmp_path: Path) -> None:
    events = raced(starts("plain"), starts("fast", burst=4, kind="sglang"), missing={"gone": "it cannot be reached."})
    files.write(tmp_path / "race.jsonl.gz", events)
    assert list(files.read(tmp_path / "race.jsonl.gz").events) == events
    ids = written(Habits(), [1, 2, 3], 12, 0, 0)
    assert [len(event.emitted) for event in of(events, Burst, "fast")] == [4, 4, 4]
    assert [event.emitted for event in of(events, Burst, "plain")] == [[token] for token in ids]
    for lane in ("plain", "fast"):
        (end,) = of(events, RunEnd, lane)
        assert (end.token_ids, end.text, end.reason) == (ids, text_of(ids), "length")
    (end,) = of(events, RunEnd, "gone")
    assert (end.reason, end.message) == ("error", "it cannot be reached.")
    served = of(events, Served, "fast")[-1]
    assert (served.tokens, served.per_burst, served.drafted) == ([12, 12], 4.0, served.accepted)
    assert "w10" in html.page(events) or len(html.page(events)) > 10_000
    assert metrics.fold(of(events, Burst, "fast")).tokens == 12
    assert any(pictures(events))
    start, *_ = events
    assert isinstance(start, RunStart) and start.server is not None and start.server.title == "vLLM"
    assert "vLLM 0.32.0" in origin(start)
    assert [decoded(run).target_forwards for run in Trace(tuple(events))] == [12, 3, 0]


def test_tables_hold_bursts_and_leave_out_what_servers_do_not_say(starts: Starts) -> None:
    events = raced(starts("fast", burst=4))
    rounds, tokens = tables.frame(events, "rounds"), tables.frame(events)
    assert list(rounds["emitted"]) == [4, 4, 4] and rounds["accepted"].isna().all()
    assert list(tokens["depth"]) == [1, 2, 3, 4] * 3 and tokens["p"].isna().all()
    assert tables.frame(events, "decisions").empty


def test_tokens_with_almost_no_gap_are_one_burst(starts: Starts) -> None:
    """llama.cpp sends a round's tokens one by one."""
    bursts = Bursts("r1", "llama", near=0.02, raw=None)
    arrivals = (0.1, 0.101, 0.102, 0.2, 0.201, 0.3)
    found = [burst for i, at in enumerate(arrivals) for burst in bursts.take(Chunk((i,), f" w{i}", at), at)]
    found += bursts.take(Chunk((), "!", 0.4), 0.4) + bursts.end()
    assert [(event.start, event.end, event.emitted, event.text_delta) for event in found] == [
        (0.0, pytest.approx(102), [0, 1, 2], " w0 w1 w2"),
        (pytest.approx(102), pytest.approx(201), [3, 4], " w3 w4"),
        (pytest.approx(201), pytest.approx(300), [5], " w5"),
        (pytest.approx(300), pytest.approx(300), [-1], "!"),  # text that no token came with
    ]
    events = raced(starts("llama", kind="llama.cpp", burst=3))
    assert sum(len(event.emitted) for event in of(events, Burst, "llama")) == 12


def test_a_server_without_token_ids_has_its_text(starts: Starts) -> None:
    events = raced(starts("text", kind="transformers"))
    assert {token for event in of(events, Burst, "text") for token in event.emitted} == {-1}
    assert of(events, RunEnd, "text")[0].text == text_of(written(Habits(), [1, 2, 3], 12, 0, 0))


def test_what_a_lane_wrote_before_it_failed_is_kept(starts: Starts) -> None:
    habits, answers = Habits(), []

    def write(prompt: list[int], count: int, temperature: float, seed: int | None) -> list[int]:
        answers.append(count)
        habits.wrong = "closes" if len(answers) > 1 else "none"  # the warm-up is whole
        return written(Habits(), prompt, count, temperature, seed)

    habits.write = write
    with stub(habits) as url, identify(url, limits=WireLimits(connect=2, silent=1)) as server:
        told = raced(RaceLane("bad", server), starts("good"))
    (end,) = of(told, RunEnd, "bad")
    assert end.reason == "error" and "closed the connection" in end.message
    assert [event.emitted for event in of(told, Burst, "bad")] == [[token] for token in end.token_ids]
    assert len(end.token_ids) == 2
    assert of(told, RunEnd, "good")[0].reason == "length"


def test_a_cancelled_race_ends_all_lanes(starts: Starts) -> None:
    lanes = [starts("one", pause=0.05), starts("two", pause=0.05)]
    told: list[AnyEvent] = []
    racing = traced(Traced("r1", lanes, {}, Race([PROMPT], REQUEST, 3)))
    for event in said(stoppable(racing, lambda: any(isinstance(event, Burst) for event in told))):
        told.append(event)
    validate(told)
    assert [of(told, RunEnd, name)[0].reason for name in ("one", "two")] == ["cancelled", "cancelled"]


def test_p_and_q_of_every_token_with_the_models_here(starts: Starts, tiny: DecodingEngine) -> None:
    """The stub samples from the target; its rounds are reconstructed with the draft."""
    lane = starts("fast", burst=4, write=writer(tiny))
    plan = Race([PROMPT], replace(REQUEST, temperature=1.0), 2)
    events = list(said(traced(Traced("r1", [lane], {}, plan, tiny, tiny.draft))))
    validate(events)
    (p,), (q,) = of(events, TargetProbs, "fast"), of(events, DraftProbs, "fast")
    assert len(p.p) == len(q.q) == 12 and p.target == "tiny-target" and q.draft == "tiny-draft"
    assert p.log_p is not None and abs(p.log_p) < 1.0
    tokens = tables.frame(events)
    assert list(tokens["p"]) == pytest.approx(p.p) and list(tokens["q"]) == pytest.approx(q.q)
    with pytest.raises(ImpossibleError, match="probabilities are given for 12 tokens"):
        validate([p.model_copy(update={"p": p.p[:3]}) if event is p else event for event in events])


def test_a_burst_without_tokens_cannot_be() -> None:
    burst = Burst(run="r", lane="l", round=0, start=0.0, end=1.0, emitted=[], emitted_raw=[], text_delta="")
    start = raced_start()
    with pytest.raises(ImpossibleError, match="0 tokens arrived"):
        validate([start, burst])


def raced_start() -> RunStart:
    return RunStart(
        run="r", lane="l", draftscope="", torch="", transformers="", device="", dtype="", threads=0, models=[],
        drafter="server", exact=True, rule="", seed=0, settings={}, prompt="", prompt_tokens=1, created="",
    )  # fmt: skip


# As jobs of the engine process.


def job(*urls: str, audits: int = 0, **values: object) -> Job:
    settings = Settings.of(**{"drafter": "plain", "max_new_tokens": 6, "raw": True} | values)
    asked = {"id": "r1", "prompt": " w1 w2", "urls": dict(zip(("one", "two"), urls, strict=False))}
    asked["lanes"] = dict.fromkeys(asked["urls"], settings)
    return AuditJob(**asked, samples=audits) if audits else RaceJob(**asked)


def played(engine: DecodingEngine, asked: Job) -> list:
    return list(said(steps_of(engine, asked)))


def test_the_engine_races_servers_with_another_tokenizer_without_p(pair: DecodingEngine) -> None:
    with stub(Habits()) as one, stub(Habits(burst=3)) as two:
        events = played(pair, job(one, two))
    validate(events)
    assert [len(event.emitted) for event in of(events, Burst, "two")] == [3, 3]
    assert not any(isinstance(event, TargetProbs) for event in events)
    with pytest.raises(DraftscopeError, match="cannot be reached"):
        played(pair, job("http://127.0.0.1:9"))


def test_the_engine_itself_is_a_lane_beside_a_server(pair: DecodingEngine) -> None:
    """It gets the same token ids, seed and temperature, in turns, and its trace says which drafter it is."""
    settings = {"max_new_tokens": 12, "raw": True, "temperature": 0.8, "seed": 3}
    encode = lambda text: pair.tokenizer.encode(text, add_special_tokens=False)  # noqa: E731
    habits = Habits(write=writer(pair), encode=encode)
    with stub(habits) as url:
        lanes = {
            "server": Settings.of(drafter="plain", **settings),
            "draft, here": Settings.of(drafter="draft", gamma=3, **settings),
        }
        events = played(pair, RaceJob(id="r1", prompt="Once upon", lanes=lanes, urls={"server": url}, repeats=2))
    validate(events)
    sent = [body for path, body in habits.asked if path == "/v1/completions"]
    assert [(body["prompt"], body["seed"], body["temperature"]) for body in sent] == [
        (encode("Once upon"), seed, 0.8) for seed in (3, 3, 4)
    ]
    own = pair.decode("Once upon", "draft", gamma=3, **settings)
    (end,) = of(events, RunEnd, "draft, here")
    assert (end.token_ids, end.text, end.target_forwards) == (
        own.token_ids,
        own.text,
        len(of(own.events, Round, "run")),
    )
    (start,) = of(events, RunStart, "draft, here")
    assert (start.drafter, start.settings["gamma"], start.settings["repeats"]) == ("draft", 3, 2)
    assert start.server.program == "draftscope" and [model.role for model in start.models] == ["target", "draft"]
    assert "draftscope" in origin(start)
    served = of(events, Served, "draft, here")[-1]
    assert len(served.seconds) == 2 and served.drafted and served.rounds
    for lane in ("server", "draft, here"):
        (known,) = of(events, TargetProbs, lane)
        assert len(known.p) == len(of(events, RunEnd, lane)[0].token_ids) and known.log_p is not None


def test_the_engine_leaves_a_race_of_servers_with_another_tokenizer(pair: DecodingEngine) -> None:
    with stub(Habits()) as url:
        lanes = {
            "server": Settings.of(drafter="plain", raw=True),
            "draft, here": Settings.of(drafter="draft", raw=True),
        }
        events = played(pair, RaceJob(id="r1", prompt=" w1 w2", lanes=lanes, urls={"server": url}))
    validate(events)
    assert "another tokenizer than the first server" in of(events, RunEnd, "draft, here")[0].message
    assert of(events, RunEnd, "server")[0].reason == "length"


def test_nothing_is_decoded_once_a_lane_of_the_engine_is_closed(pair: DecodingEngine) -> None:
    lane = EngineLane(pair, Settings.of(drafter="draft", gamma=2))
    stream = lane.stream(Request((5, 6, 7), 64))
    next(stream)
    lane.close()
    assert len(list(stream)) <= 1


def test_the_engine_audits_a_server_against_another_and_says_how_far_it_is(pair: DecodingEngine) -> None:
    with stub(Habits()) as one, stub(Habits()) as two, stub(Habits(step=8)) as other:
        (start, *_, last) = played(pair, job(one, two, audits=24, temperature=1.0))
        assert (start.verdict, start.texts, last.texts) == ("", 0, 24)
        assert last.verdict and not last.different and last.against == "two, a server"
        last = played(pair, job(one, other, audits=400, temperature=1.0))[-1]
        assert last.different and last.evidence >= last.needed
        with pytest.raises(DraftscopeError, match="another tokenizer than the target"):
            played(pair, job(one, audits=24, temperature=1.0))


def test_an_audit_is_stopped_between_two_waves(pair: DecodingEngine) -> None:
    with stub(Habits()) as one, stub(Habits()) as two:
        told = []
        asked = job(one, two, audits=100_000, temperature=1.0)
        for event in said(stoppable(steps_of(pair, asked), lambda: len(told) > 2)):
            told.append(event)
    assert not told[-1].verdict
