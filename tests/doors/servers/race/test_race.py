"""Races between stubs: fair turns, what was counted and seen, and a lane that fails while the other goes on."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import said
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.servers import lanes as entries
from draftscope.servers import server_race, wire
from draftscope.servers.adapter import Counted, Request
from draftscope.servers.engine_lane import EngineLane
from draftscope.servers.forced import forced
from draftscope.servers.latency import Arrival, latency, loopback_jitter
from draftscope.servers.load_test import LoadPlan, load
from draftscope.servers.server_race import Answer, Race, RaceLane, RacePrompt, RaceResult, race, same_tokenizers
from draftscope.servers.summary import LaneSummary, against_target, outside, summaries
from draftscope.trace import files
from draftscope.trace.events import Burst, RunStart
from draftscope.verify.sampling import Sampling
from draftscope_app.cli.main import main
from tests.doors.servers import stubs
from tests.doors.servers.stubs import Habits, Misbehaviour, Starts, stub, written
from tests.support.command import instead_of_loading

PROMPTS = (RacePrompt("a", (1, 2, 3), " w1 w2 w3"), RacePrompt("b", (4, 5), " w4 w5"))
REQUEST = Request((0,), 12)


def answers(lanes: list[RaceLane], plan: Race, standing: RaceResult) -> Iterator[Answer]:
    return (heard for heard in race(lanes, plan, standing) if isinstance(heard, Answer))


def run(lanes: list[RaceLane], plan: Race, standing: RaceResult | None = None) -> tuple[RaceResult, list[LaneSummary]]:
    standing = standing or RaceResult()
    assert list(answers(lanes, plan, standing)) == standing.answers
    return standing, summaries(lanes, plan, standing, {})


def test_every_lane_gets_the_same_ids_and_seeds_in_alternating_turns(starts: Starts) -> None:
    habits = {"plain": Habits("llama.cpp"), "fast": Habits("vllm", 3)}
    lanes = [starts(name, each) for name, each in habits.items()]
    standing, _ = run(lanes, Race(PROMPTS, replace(REQUEST, temperature=0.5, seed=7), repeats=2))
    sent = {name: [body for _, body in each.asked] for name, each in habits.items()}
    assert [(body["prompt"], body["seed"], body["temperature"]) for body in sent["plain"]] == [
        (body["prompt"], body["seed"], body["temperature"]) for body in sent["fast"]
    ]
    assert [body["seed"] for body in sent["plain"]] == [7, 7, 7, 8, 8]  # the first is the warm-up
    order = [(each.lane, each.prompt, each.repeat) for each in standing.answers]
    assert order[:4] == [("plain", 0, 0), ("fast", 0, 0), ("fast", 1, 0), ("plain", 1, 0)]
    assert order[4:6] == [("fast", 0, 1), ("plain", 0, 1)]
    assert len({body["cache_salt"] for body in sent["fast"]}) == 5


def test_acceptance_is_counted_by_the_server_without_the_warm_up(starts: Starts) -> None:
    lanes = [starts("plain", Habits()), starts("counters", Habits("vllm", 4)), starts("answers", Habits("sglang", 4))]
    _, rows = run(lanes, Race(PROMPTS, REQUEST, repeats=2))
    assert rows[0].counted is None
    assert rows[1].counted == Counted(rounds=12, drafted=36, accepted=36, by_position=(12, 12, 12))
    assert [row.burst for row in rows] == [1, 4, 4]
    assert [row.answers for row in rows] == [4, 4, 4]
    assert rows[2].counted is not None and rows[2].counted.drafted
    assert starts("idle", Habits("vllm", 4)).counted_since(Counted(0, 0, 0)) is None


def test_a_faster_server_is_ahead_by_its_tokens_a_round(starts: Starts, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]  # on a clock that the pauses alone move
    for module in (server_race, wire):
        monkeypatch.setattr(module, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def sleep(seconds: float) -> None:
        now[0] += seconds

    monkeypatch.setattr(stubs, "time", SimpleNamespace(sleep=sleep))
    lanes = [starts("plain", Habits(pause=0.02)), starts("fast", Habits(burst=4, pause=0.02))]
    _, rows = run(lanes, Race(PROMPTS, REQUEST))
    assert rows[0].ratio is None
    assert rows[1].ratio is not None and rows[1].ratio.low == pytest.approx(4)
    assert rows[0].ttft is not None and rows[0].ttft.median >= 0.02


@pytest.mark.parametrize("wrong", ["closes", "ends early", "nonsense", "silent", "refuses", "other tokenizer"])
def test_a_lane_that_fails_is_named_and_the_other_goes_on(starts: Starts, wrong: Misbehaviour) -> None:
    bad = Habits("llama.cpp")
    lanes = [starts("good", Habits()), starts("bad", bad)]
    plan = Race(PROMPTS, REQUEST, repeats=2)
    standing = RaceResult()
    running = answers(lanes, plan, standing)
    first = [next(running), next(running)]
    bad.wrong = wrong  # while the race runs
    rest = list(running)
    rows = summaries(lanes, plan, standing, {})
    assert [each.failure for each in first] == [None, None]
    assert sum(each.lane == "good" and not each.failure for each in standing.answers) == 4
    failed = [each for each in rest if each.failure]
    assert {each.lane for each in failed} == {"bad"} and len(failed) == 2
    assert any("given up" in note for note in rows[1].notes)
    if wrong not in ("refuses",):
        assert all(each.ids for each in failed)  # what had come is kept


def test_another_model_shows_in_greedy_text(starts: Starts) -> None:
    lanes = [starts("plain", Habits()), starts("other", Habits(step=9)), starts("text", Habits("transformers", step=9))]
    _, rows = run(lanes, Race(PROMPTS, REQUEST, repeats=1))
    assert rows[1].notes == ("differs from plain at temperature 0, prompt 1, from token 1 on.",)
    assert "from character" in rows[2].notes[0]


def test_another_tokenizer_is_found_before_the_race(starts: Starts) -> None:
    lanes = [starts("plain", Habits()), starts("other", Habits("llama.cpp"))]
    assert same_tokenizers(lanes, None) == {}
    found = same_tokenizers(lanes, lambda text: (1,))
    assert set(found) == {"plain", "other"} and "another tokenizer than the target here" in found["plain"]


def test_lost_ids_are_pointed_out(starts: Starts) -> None:
    _, rows = run([starts("lossy", Habits("llama.cpp", loses_ids=True))], Race(PROMPTS, REQUEST, repeats=1))
    assert rows[0].notes == ("2 answers came without some token ids; p is not computed for them.",)


# Latency


def test_times_of_a_stream_of_chunks() -> None:
    arrivals = [Arrival(0.1, 2), Arrival(0.2, 0), Arrival(0.3, 3)]
    times = latency(arrivals, True, 0.0)
    assert (times.ttft, times.tpot, times.bursts, times.tokens) == (0.1, pytest.approx(0.2 / 3), (2, 3), 5)
    assert times.itl == (pytest.approx(0.2), 0.0, 0.0) and times.icl == (pytest.approx(0.2),)
    assert times.speed == pytest.approx(5 / 0.3)
    assert latency([], True, 0.0).ttft is None


def test_bursts_of_a_stream_of_tokens_are_runs_of_short_gaps() -> None:
    at, arrivals = 0.05, []
    for size in (3, 1, 4):
        at += 0.02
        arrivals += [Arrival(at + 0.0002 * i, 1) for i in range(size)]
        at = arrivals[-1].at
    assert latency(arrivals, False, 0.0005).bursts == (3, 1, 4)
    steady = [Arrival(0.01 * i, 1) for i in range(1, 9)]
    assert latency(steady, False, 0.0005).bursts == (1,) * 8


def test_the_loopbacks_jitter_is_measured() -> None:
    assert 0 <= loopback_jitter(50) < 1


# The engine and its weights


def test_the_engine_is_a_lane_and_p_of_its_tokens_is_the_targets(pair: DecodingEngine) -> None:
    prompt = entries.prompts(["Once upon a time"], [], pair, True, 24)[0]
    plan = Race([prompt], Request((0,), 24), repeats=1)
    lanes = [RaceLane(name, EngineLane(pair, Settings.of(drafter=name))) for name in ("plain", "draft")]
    standing, rows = run(lanes, plan)
    plain, draft = standing.answers
    decoded = pair.decode("Once upon a time", "plain", raw=True, max_new_tokens=24, temperature=0.0)
    assert plain.ids == draft.ids == tuple(decoded.token_ids) and plain.text == draft.text == decoded.text
    assert rows[1].burst is not None and rows[1].counted is not None and rows[1].counted.drafted
    assert not rows[1].notes
    found = forced(pair.target, prompt.ids, draft.ids, Sampling(0.0))
    assert all(found.best)
    tokens = torch.tensor([[*prompt.ids, *draft.ids]])
    logits = pair.target.forward(pair.target.cache(1, tokens.shape[1]), tokens, torch.arange(tokens.shape[1])[None])[0]
    probs = logits.float().softmax(-1)[len(prompt.ids) - 1 : -1]
    expected = probs.gather(1, torch.tensor(draft.ids)[:, None])[:, 0]
    assert torch.allclose(torch.tensor(found.p), expected, atol=2e-2)


def test_sampled_text_of_the_target_has_its_expected_log_probability(pair: DecodingEngine) -> None:
    lane = EngineLane(pair, Settings.of(drafter="draft"))
    prompt = entries.prompts(["Once upon a time"], [], pair, True, 40)[0]
    known = []
    for seed in range(6):
        ids = [i for chunk in lane.stream(Request(prompt.ids, 40, temperature=1.0, seed=seed)) for i in chunk.ids]
        known.append(forced(pair.target, prompt.ids, ids, Sampling(1.0)))
    log_p, _ = against_target(known)
    assert log_p is not None and abs(log_p) < 0.5
    shuffled = forced(pair.target, prompt.ids, [5, 200, 17, 130, 77, 240, 40], Sampling(1.0))
    wrong, _ = against_target([shuffled])
    assert wrong is not None and wrong < -2
    cut = forced(pair.target, prompt.ids, [5, 200, 17], Sampling(1.0, top_k=1))
    assert outside([cut]) > 0
    finite, _ = against_target([cut, known[0]])
    assert finite is not None and abs(finite) < 100  # a token that is ruled out does not make it infinite
    with pytest.raises(DraftscopeError, match="not in the target's vocabulary"):
        forced(pair.target, prompt.ids, [10**6], Sampling(1.0))


# Load


@pytest.mark.parametrize("rate", [None, pytest.param(60.0, marks=pytest.mark.slow)])
def test_load_at_each_concurrency(starts: Starts, rate: float | None) -> None:
    lanes = [starts("plain", Habits(pause=0.01)), starts("fast", Habits(burst=4, pause=0.01))]
    points = list(said(load(lanes, LoadPlan(PROMPTS, REQUEST, (1, 4), 0.6, rate, ttft=10.0))))
    assert [(each.concurrency, each.lane) for each in points] == [(1, "plain"), (1, "fast"), (4, "fast"), (4, "plain")]
    by = {(each.lane, each.concurrency): each for each in points}
    assert all(each.finished and not each.failed for each in points)
    assert by["plain", 4].tokens_per_second > 1.5 * by["plain", 1].tokens_per_second
    counted = by["fast", 4].counted
    assert counted is not None and counted.drafted and by["fast", 4].drafted_per_token
    if rate is None:
        assert by["fast", 1].tokens_per_second > 1.5 * by["plain", 1].tokens_per_second


def test_a_server_that_dies_under_load_gives_a_point_with_its_sentence(starts: Starts) -> None:
    lanes = [starts("bad", Habits(wrong="closes")), starts("good", Habits())]
    points = {each.lane: each for each in said(load(lanes, LoadPlan(PROMPTS, REQUEST, (2,), 0.3)))}
    assert points["bad"].failed and points["bad"].failure and "closed the connection" in points["bad"].failure
    assert points["good"].finished


def test_plans_of_a_load_out_of_range_are_refused() -> None:
    for wrong in ({"concurrency": (0,)}, {"concurrency": (65,)}, {"seconds": 0.0}, {"rate": -1.0}):
        with pytest.raises(DraftscopeError, match="give"):
            LoadPlan(PROMPTS, REQUEST, **wrong)  # type: ignore[arg-type]


# The commands


def test_the_command_prints_a_table_and_saves_every_token(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "race.json"
    with stub(Habits("llama.cpp")) as plain, stub(Habits("vllm", 3)) as fast:
        lanes = ["--server", f"plain={plain}", "--server", f"fast={fast}"]
        assert main(["race", *lanes, "--raw", "-n", "9", " w1 w2", "--save", str(file)]) == 0
        shown = capsys.readouterr().out
        gone = ["--server", "gone=http://127.0.0.1:9"]
        assert main(["race", *lanes, *gone, "--raw", "-n", "9", " w1 w2", "--json"]) == 1
        both = capsys.readouterr()
        assert main(["race", *lanes, "--raw", " w1", "--concurrency", "2", "--seconds", "0.2"]) == 0
        assert "good/s" in capsys.readouterr().out
    assert "100% (1.00 1.00)" in shown and "counted by the server" in shown and "seen from here" in shown
    whole = json.loads(file.read_text())
    expected = written(Habits(), [1, 2], 9, 0, 0)
    assert [each["ids"] for each in whole["answers"]] == [expected] * 6
    assert json.loads(both.out)["missing"].keys() == {"gone"}
    assert "gone does not take part: http://127.0.0.1:9 cannot be reached" in both.err


def test_the_command_races_the_engine_beside_a_server(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    instead_of_loading(monkeypatch, pair)
    path = tmp_path / "race.jsonl.gz"
    encode = lambda text: pair.tokenizer.encode(text, add_special_tokens=False)  # noqa: E731
    with stub(Habits(encode=encode)) as url:
        lanes = ["--server", f"plain={url}", "--engine", "draft"]
        assert main(["race", *lanes, "--raw", "-n", "9", "Once upon", "--trace", str(path)]) == 0
        assert "draftscope" in capsys.readouterr().out
        assert main(["race", *lanes, "--raw", "Once", "--concurrency", "2"]) == 2
        assert "has no place under load" in capsys.readouterr().err
    starts = [event for event in files.read(path).events if isinstance(event, RunStart)]
    assert [(event.lane, event.drafter) for event in starts] == [("plain", "server"), ("draft", "draft")]


def test_a_race_is_written_as_a_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """With the counts of the last event, and replayed by the command that replays every trace."""
    path = tmp_path / "race.jsonl.gz"
    with stub(Habits()) as plain, stub(Habits("vllm", 3)) as fast:
        lanes = ["--server", f"plain={plain}", "--server", f"fast={fast}"]
        assert main(["race", *lanes, "--raw", "-n", "9", "--repeats", "2", " w1 w2", "--trace", str(path)]) == 0
    events = files.read(path).events
    assert {event.lane for event in events} == {"plain", "fast"}
    assert [len(event.emitted) for event in events if isinstance(event, Burst) and event.lane == "fast"] == [3, 3, 3]
    capsys.readouterr()
    assert main(["replay", str(path)]) == 0
    assert "vLLM 0.32.0 stub, seen from here" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--server", "a=ftp://h", "x"], "no http address"),
        (["--server", "a=http://127.0.0.1:9", "--server", "a=http://127.0.0.1:8", "x"], "Two lanes are called 'a'"),
        (["x"], "There is no server"),
        (["--server", "a=http://127.0.0.1:9", "x", "--served-model", "b=m"], "write LANE=MODEL with one of a"),
        (["--server", "http://127.0.0.1:9"], "Give a PROMPT or --prompts"),
        (["--server", "http://127.0.0.1:9", "x", "-n", "0"], "ask for 1 or more"),
        (["--server", "http://127.0.0.1:9", "x", "--top-p", "0"], "top_p = 0"),
        (["--server", "http://127.0.0.1:9", "x", "--concurrency", "1;2"], "'1;2' is not a list of whole numbers"),
        (["--server", "http://127.0.0.1:9", "x", "--arrivals", "poisson:x"], "--arrivals poisson:x"),
    ],
)
def test_what_cannot_be_raced_is_said_in_a_sentence(
    arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["race", "--timeout", "0.5", *arguments]) == 2
    error = capsys.readouterr().err
    assert re.search(sentence, error) and error.count("\n") == 1


def test_the_commands_of_a_pair_are_printed_and_explained(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["servers", "folder", "--program", "vllm", "--gpus", "4", "--nodes", "2", "--method", "ngram"]) == 0
    shown = capsys.readouterr().out
    assert "--tensor-parallel-size 4 --pipeline-parallel-size 2 --distributed-executor-backend ray" in shown
    assert "ray start --head" in shown and "--max-num-seqs" in shown
    for program, part in (("sglang", "NGRAM"), ("llama.cpp", "ngram-simple"), ("vllm-cpu", '"method": "ngram"')):
        assert main(["servers", "folder", "--program", program]) == 0
        assert part in capsys.readouterr().out
    assert main(["servers", "folder", "--method", "eagle3"]) == 2
    assert "give it with --drafter" in capsys.readouterr().err
    assert main(["servers", "folder", "--program", "tgi"]) == 2
    assert "choose vllm-cpu, vllm, sglang" in capsys.readouterr().err


def test_both_servers_are_started_and_the_end_of_one_ends_the_other(
    capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A `vllm` of our own: the speculative one fails once the plain one runs, which would go on for a minute."""
    program, running, ended = tmp_path / "vllm", tmp_path / "running", tmp_path / "ended"
    wait = f"trap 'echo ended > {ended}; exit' TERM; echo > {running}; sleep 60 & wait $!"
    fail = f"until [ -e {running} ]; do sleep .05; done; echo no such model; exit 3"
    program.write_text(f'#!/bin/sh\ncase "$*" in *speculative*) {fail};; esac\n{wait}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert main(["servers", "folder", "--start"]) == 1
    shown = capfd.readouterr().err
    assert (
        "vllm serve folder" in shown and "no such model" in shown and "a server has ended; so does the other" in shown
    )
    assert ended.exists()
    assert main(["servers", "folder", "--program", "vllm", "--nodes", "2", "--start"]) == 2
    assert "--start runs on this machine only" in capfd.readouterr().err


def test_a_program_that_is_not_installed_is_named(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert main(["servers", "folder", "--start"]) == 2
    assert "'vllm' is not installed here" in capsys.readouterr().err
