"""Whatever measures in the engine process does so in steps, between which other visitors decode."""

from __future__ import annotations

import ast
import sys
import threading
from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

import draftscope
import draftscope_app
from draftscope.advise.question import Asked, Question
from draftscope.base import steps as steps_module
from draftscope.base.progress import Progress
from draftscope.base.steps import Steps, last
from draftscope.decode import calibration
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.runner import Bench
from draftscope.measure.bench.systems import PLAIN, Case, DrafterSystem, Label
from draftscope.measure.check import checked
from draftscope.servers.engine_lane import EngineLane
from draftscope.servers.field import Field, request_of
from draftscope.servers.server_race import Race, RaceLane, RacePrompt
from draftscope.trace.events import RunStart
from draftscope_app.doors.decide.advise.job import AdviseJob
from draftscope_app.doors.decide.check.job import CheckJob
from draftscope_app.doors.decide.compare.job import CompareJob
from draftscope_app.engine.run_job import RunJob
from draftscope_app.engine.work import steps_of

# Who takes all steps at once, and why nobody waits for it in the engine process.
DRAINS = {
    "draftscope/advise/advise.py advise": "a library call",
    "draftscope/api.py calibrate": "a library call",
    "draftscope/api.py race": "a library call",
    "draftscope/decode/engine.py _batches": "a library call",
    "draftscope/decode/measuring.py calibration": "a library call",
    "draftscope/decode/engine.py decode": "a library call",
    "draftscope/decode/engine.py rounds": "a library call",
    "draftscope/decode/engine.py start": "a library call",
    "draftscope/decode/engine.py start_batch": "a library call, or one after `measuring`",
    "draftscope/measure/bench/limit.py memory_limit": "the command bench, a process of its own",
    "draftscope/measure/greedy_checks.py plain": "a library call, or one after `writing`",
    "draftscope/measure/joint.py sampled_joint": "a library call",
    "draftscope/measure/paired_runs.py drafter_runs": "a library call",
    "draftscope/models/model.py read": "reads a prompt",
    "draftscope/servers/background.py at_once": "waits for a server in a thread",
    "draftscope/servers/background.py run": "waits for a server in a thread",
    "draftscope/servers/museum/tour.py tour": "the command museum, a process of its own",
    "draftscope_app/doors/servers/audit/audited.py audited": "a command",
    "draftscope_app/doors/decide/advise/command.py _planned": "a command",
    "draftscope_app/cli/commands/calibrate.py calibrate": "a command",
    "draftscope_app/doors/decide/claims/command.py run_commands": "a command",
    "draftscope_app/cli/commands/decode.py decode": "a command",
    "draftscope_app/lab/site/site_races.py recorded": "the command site, a process of its own",
}


def callers_of_last() -> Iterator[str]:
    for package in (draftscope, draftscope_app):
        folder = Path(str(package.__file__)).parent
        for file in folder.rglob("*.py"):
            for made in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(made, ast.FunctionDef) and any(map(calls_last, ast.walk(made))):
                    yield f"{folder.name}/{file.relative_to(folder)} {made.name}"


def calls_last(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "last"


def test_who_takes_all_steps_at_once_is_known() -> None:
    """A new caller is named here with its reason, or takes its steps one by one."""
    assert sorted(set(callers_of_last())) == sorted(DRAINS)


CHOOSES = ("sequoia", "eagle3-sequoia", "hybrid")


def run(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    settings = Settings.of(drafter=drafter, temperature=1.0, max_new_tokens=4)
    return steps_of(engine, RunJob(id="r", prompt="abc", lanes={"speculative": settings}, solo_repeats=1))


def bandit(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    arms = ("draft:2", "ngram", drafter)
    settings = Settings.of(drafter="bandit", arms=arms, temperature=1.0, max_new_tokens=4)
    return steps_of(engine, RunJob(id="r", prompt="abc", lanes={"speculative": settings}))


def length(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    """A length that is chosen by cost."""
    settings = Settings.of(drafter="draft", draft_length="cost", max_new_tokens=4)
    return steps_of(engine, RunJob(id="r", prompt="abc", lanes={"speculative": settings, "other": settings}))


def later(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    """What a run has presumed is measured after it."""
    list(bandit(engine, drafter))
    return engine.measuring_presumed()


def compared(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    lanes = {"speculative": Settings.of(drafter=drafter, max_new_tokens=4)}
    return steps_of(engine, CompareJob(id="r", prompt="abc", lanes=lanes, repeats=1))


def checking(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    job = CheckJob(id="r", prompt="", lanes={"checked": Settings.of(drafter=drafter)}, samples=500)
    return islice(steps_of(engine, job), 4000)


def advised(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    asked = Asked(Question(length=8, seconds=2.0), {"prompts": ["abcab", "ddebc"]}, (drafter,), waits=True)
    return steps_of(engine, AdviseJob(id="r", prompt="", lanes={}, wish=asked))


def raced(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    settings = Settings.of(drafter=drafter, max_new_tokens=4)
    plan = Race([RacePrompt("abc", tuple(engine.encode("abc")))], request_of(settings), 1)
    return Field([RaceLane("here", EngineLane(engine, settings))], {}, engine).race(plan)


def benched(engine: DecodingEngine, drafter: str) -> Iterator[Any]:
    systems = [DrafterSystem(engine, label) for label in (PLAIN, Label(PLAIN.system, drafter))]
    case = Case("prompts", 0, (tuple(engine.encode("abc")),), 0.0)
    return Bench(BenchPlan(tokens=4, repeats=1), systems, [case], bar=False).groups()


@pytest.mark.usefixtures("little_calibrated")
@pytest.mark.parametrize("drafter", CHOOSES)
@pytest.mark.parametrize("work", [later, compared, checking, advised, raced, benched])
def test_no_step_of_any_work_measures_more_than_one_thing(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, work: Callable[..., Iterator[Any]], drafter: str
) -> None:
    """The rates of a copy and a product were measured in one step, and a check's costs; the others had no turn."""
    engine = DecodingEngine(pair.target, pair.draft, pair.tokenizer, pair.heads)
    timed = counted(monkeypatch)
    drained = watched(monkeypatch)
    most = total = 0
    for _ in work(engine, drafter):
        most, total = max(most, len(timed)), total + len(timed)
        timed.clear()
    assert total > 10 and most == 1
    assert drained == []


@pytest.mark.usefixtures("little_calibrated")
@pytest.mark.parametrize(
    ("work", "drafter"), [*((run, name) for name in CHOOSES), (bandit, "hybrid"), (length, "draft")]
)
def test_a_run_decodes_at_once_and_says_by_which_costs(
    pair: DecodingEngine, work: Callable[..., Iterator[Any]], drafter: str
) -> None:
    """Its first step was more than a minute of measuring."""
    engine = DecodingEngine(pair.target, pair.draft, pair.tokenizer, pair.heads)
    for words in ("not measured here yet", "measured here on 2"):
        said = list(work(engine, drafter))
        start = next(event for event in said if isinstance(event, RunStart))
        assert start.costs is not None and start.costs.startswith(words)
        assert not any(isinstance(event, Progress) for event in said)
        last(engine.measuring_presumed())
    assert list(engine.measuring_presumed()) == []


def test_a_drafter_that_chooses_nothing_by_cost_says_nothing_of_costs(pair: DecodingEngine) -> None:
    start = next(event for event in run(pair, "ngram") if isinstance(event, RunStart))
    assert start.costs is None


def counted(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """What was timed for a calibration, and is not counted yet."""
    timed: list[object] = []
    right = calibration._timed

    def timing(*given: Any) -> float:
        timed.append(None)
        return right(*given)

    monkeypatch.setattr(calibration, "_timed", timing)
    return timed


def watched(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who took a step by `last` in this thread, except of reading a prompt."""
    drained: list[str] = []
    here = threading.current_thread()

    def watching(steps: Steps[Any, Any], see: Callable[[Any], object] = lambda _: None) -> Any:
        caller = sys._getframe(1).f_code.co_name

        def seen(item: Any) -> None:
            if threading.current_thread() is here and caller != "read":
                drained.append(caller)
            see(item)

        return last(steps, seen)

    for name, module in list(sys.modules.items()):
        if name.startswith("draftscope") and getattr(module, "last", None) is steps_module.last:
            monkeypatch.setattr(module, "last", watching)
    return drained


def test_a_check_lets_others_decode_after_every_round(pair: DecodingEngine) -> None:
    """A text was a step, and so were all of plain's."""
    pulse, most = pair.target.pulse, 0
    before = pulse.forwards
    for _ in islice(checked(pair, Settings.of(drafter="ngram"), 500), 150):
        most, before = max(most, pulse.forwards - before), pulse.forwards
    assert most < 30
