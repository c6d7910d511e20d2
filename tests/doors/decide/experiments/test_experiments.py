"""The page's experiments without a browser: what is said and drawn, and a command that runs, fails or is stopped."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import time
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import psutil
import pytest

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.base.steps import Cancelled, last
from draftscope.claims import saved
from draftscope.claims.charts import Chart, Line
from draftscope.claims.experiments import EXPERIMENTS, find, named
from draftscope.claims.saved_results import SavedResults
from draftscope.decode.engine import DecodingEngine
from draftscope_app.doors.decide import commands
from draftscope_app.doors.decide.commands import MAX_S, ExperimentResult
from draftscope_app.doors.decide.experiments import experiment_html
from draftscope_app.doors.decide.experiments.job import ExperimentJob
from draftscope_app.doors.decide.experiments.page import ExperimentForm, Page, experiment_form
from draftscope_app.doors.decide.experiments.plot import figure
from draftscope_app.engine.answers import Answer, Part
from draftscope_app.engine.jobs import EngineStatus, Quit, Start, Update
from draftscope_app.engine.work import steps_of
from draftscope_app.engine.worker import main
from draftscope_app.page import notes
from tests.doors.decide.claims.test_claims import row
from tests.support.pipe import UNWATCHED, PipeEnd

EVIL = "<script>alert('x')</script>"
BENCH = {"rows": [row(batch=batch) for batch in (1, 4)], "machine": {"target": "t", "draft": "d", "date": "2026-01-01"}}
FOUND = saved.found_in(SavedResults([BENCH]))
BATCH = EXPERIMENTS[0]


# What is shown.


@pytest.mark.parametrize("experiment", EXPERIMENTS, ids=lambda each: each.name)
def test_every_experiment_has_its_question_and_its_commands(experiment: Any) -> None:
    for results in (FOUND, saved.shipped(), {"claims": [], "machine": {}}):
        shown = experiment_html.about(experiment, results)
        assert experiment.question in shown and all(f"<code>{each}</code>" in shown for each in experiment.commands)
        assert bool(experiment_html.chart_of(experiment, results)) == ("Not measured yet" not in shown)


def test_a_result_says_where_it_was_measured_and_what_the_claim_is() -> None:
    shown = experiment_html.about(BATCH, FOUND)
    assert "Measured on: target t, draft d, date 2026-01-01." in shown and "Claim 18" in shown
    missing = experiment_html.about(EXPERIMENTS[-1], FOUND)
    assert "Not measured yet: it needs a GPU" in missing and "Measured on" not in missing


def test_what_was_measured_here_says_so_and_names_the_shipped_verdict() -> None:
    shown = experiment_html.about_local(
        BATCH, ExperimentResult(values=FOUND, seconds=97.0, notes=("Stopped after 260 s.",)), saved.shipped()
    )
    assert "Measured here: target t, draft d" in shown and shown.count("Claim 18") == 2
    assert "It took 97 s." in shown and "Stopped after 260 s." in shown
    assert shown.index("Measured here") < shown.index("The shipped result: Claim 18")
    empty = saved.found_in(SavedResults([BENCH | {"rows": []}]))
    assert "hold too few texts for a chart" in experiment_html.about_local(
        BATCH, ExperimentResult(values=empty, seconds=1.0), saved.shipped()
    )


def test_nothing_of_a_file_is_markup() -> None:
    claim = FOUND["claims"][17] | {"sentence": EVIL, "measured": EVIL}
    chart = dict(FOUND["experiments"][0]["chart"]) | {"note": EVIL}
    evil = {"machine": {EVIL: EVIL}, "claims": [claim], "experiments": [{"name": "Batch", "chart": chart}]}
    said = experiment_html.about(BATCH, evil) + experiment_html.about_local(
        BATCH, ExperimentResult(values=evil, seconds=1.0, notes=(EVIL,)), evil
    )
    assert "<script" not in said + notes.refused(EVIL) + notes.muted(EVIL)
    chart["lines"] = [{**chart["lines"][0], "name": EVIL}]
    assert "<script" not in str(figure(chart))


def test_a_chart_is_drawn_with_its_intervals_and_the_line_of_plain_decoding() -> None:
    drawn = figure(experiment_html.chart_of(BATCH, FOUND) or {})
    (line,) = drawn.data
    assert (list(line.x), list(line.y)) == ([1, 4], [1.4, 1.4]) and line.error_y.array is not None
    assert drawn.layout.xaxis.type == "log" and drawn.layout.shapes[0].y0 == 1


@pytest.mark.parametrize(
    ("name", "label"), [("llama-draftscope-draft-1m", "draft-1m 0.95x"), ("early-exit", "early-exit 0.95x")]
)
def test_a_single_point_has_its_name_and_text_in_the_legend(name: str, label: str) -> None:
    """Of `early-exit` only `exit` was left."""
    line = Line(name, [1.0], [2.0], text=["0.95x"])
    drawn = figure(asdict(Chart("c", "tau", "", [line], joined=False)))
    assert drawn.data[0].name == label and drawn.layout.showlegend


def test_a_single_kind_of_text_is_drawn() -> None:
    """With one kind left the chart of cascades was an error: its x was taken for a number."""
    line = Line("two tiers: draft", ["code, T = 0"], [1.2], text=["draft, gamma 4"])
    drawn = figure(asdict(Chart("", "ratio", "", [line, line], ratio=True, joined=False)))
    assert drawn.data[0].y == ("code, T = 0",) and drawn.layout.showlegend and not drawn.layout.annotations


def test_names_stand_below_one_another_with_their_intervals() -> None:
    """Side by side, ten of them were slanted on a phone, and left half of its width to the chart."""
    names = ["code, T = 0", "verse, T = 0"]
    line = Line("two tiers: draft", names, [1.2, 0.9], [1.1, 0.8], [1.3, 1.1], text=["draft", "draft"])
    drawn = figure(asdict(Chart("", "speedup", "", [line], ratio=True, joined=False)))
    (points,) = drawn.data
    assert (list(points.x), list(points.y)) == ([1.2, 0.9], names) and points.error_x.array is not None
    assert points.cliponaxis is False  # a median gap of 0 is drawn whole
    assert list(drawn.layout.yaxis.categoryarray) == names[::-1] and drawn.layout.shapes[0].x0 == 1
    assert drawn.layout.xaxis.title.text == "speedup" and points.hovertemplate.startswith("%{y}: %{x")


def test_what_a_point_says_on_hover_is_there() -> None:
    for text in ((), ("0.95x",)):
        line = Line("draft", [1.0], [2.0], text=text)
        (point,) = figure(asdict(Chart("c", "tau", "", [line]))).data
        assert ("%{text}" in point.hovertemplate) is bool(text)


def test_all_shipped_charts_can_be_drawn() -> None:
    """And were written by the command: their experiments and commands are those of the table."""
    for file in (assets() / "results").glob(f"*/{saved.FILE}"):
        for own in json.loads(file.read_text(encoding="utf-8")).get("experiments", ()):
            experiment = find(own["name"])
            assert experiment is not None and tuple(own["commands"]) == experiment.commands
            if own["chart"]:
                assert len(figure(own["chart"]).data) == len(own["chart"]["lines"])


# What is run.


def instead(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    """Every command runs this code, with the folder as its argument."""
    monkeypatch.setattr(commands, "arguments", lambda _, folder: [sys.executable, "-S", "-c", code, str(folder)])


WRITES = f"import sys, pathlib; pathlib.Path(sys.argv[1], 'bench.json').write_text({json.dumps(BENCH)!r})"
WAITS = "import time; time.sleep(60)"


def able(shown: list[Any]) -> list[bool]:
    """Whether one can choose, run and stop."""
    return [bool(each["interactive"]) for each in shown[2:5]]


def made(lets_run: bool) -> ExperimentForm:
    async def inside() -> ExperimentForm:  # Gradio opens an event loop of its own where none is running
        with gr.Blocks():
            return experiment_form(lets_run)

    return asyncio.run(inside())


class Card:
    """The drawer of one visitor, and the answer that it follows."""

    def __init__(self, form: ExperimentForm) -> None:
        self.visitor = SimpleNamespace(active=None)
        shared = SimpleNamespace(visitors=SimpleNamespace(of=lambda _: self.visitor))
        self.listeners: Any = Page(shared)  # type: ignore[arg-type]
        self.listeners.form = form

    def begin(self, name: str) -> Answer:
        job = self.listeners.job({"which": name}, None, None)
        engine: Any = SimpleNamespace(status=EngineStatus("ready"), send=lambda _: None)
        self.visitor.active = Answer(engine, job)
        return self.visitor.active

    def show(self, answer: Answer) -> list[Any]:
        if answer.over:
            self.visitor.active = None
        return self.listeners.show(answer, Part(0, [], answer.standing, 0, answer.progress, None))

    def offer(self, name: str) -> list[Any]:
        return self.listeners.offer(name, SimpleNamespace(session_hash="a"))


@pytest.fixture(scope="module")
def lets_run() -> ExperimentForm:
    return made(lets_run=True)


@pytest.fixture
def card(lets_run: ExperimentForm) -> Card:
    return Card(lets_run)


def steps(name: str) -> Any:
    """Those of its job. No model is asked for."""
    engine: Any = SimpleNamespace(target=SimpleNamespace(name="t"))
    return steps_of(engine, ExperimentJob(id="r", name=name))


def test_every_experiment_that_can_be_run_says_how_long_it_takes() -> None:
    for experiment in EXPERIMENTS:
        if all(map(commands.runnable, experiment.commands)):
            assert 10 <= experiment.expected_s < MAX_S


def test_progress_says_how_much_is_left() -> None:
    memory = named("Memory")
    assert memory.expected_s == 85
    early, late, slow = (commands.progress(memory, at, spent, 600) for at, spent in ((0, 10), (1, 90), (1, 200)))
    assert early.words == f"command 1 of 2: {memory.commands[0]}, 12%, about 80 s left"
    assert late.words == f"command 2 of 2: {memory.commands[1]}, 97%"
    assert slow.words.endswith("slower than on two idle cores; it is stopped after 10 min, 97%")


def test_a_command_runs_and_its_result_is_drawn(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, WRITES)
    answer = card.begin("Batch")
    assert "In the queue." in card.show(answer)[-1] and able(card.show(answer)) == [False, False, True]
    *before, last = steps("Batch")
    answer.take(Update("r", state="running", progress=before[-1]))
    assert "Measuring draftscope bench" in card.show(answer)[-1] and card.offer("Memory")[2:] == [gr.skip()] * 3
    answer.take(Update("r", line=last.model_dump_json()))
    answer.take(Update("r", state="done"))
    shown = card.show(answer)
    assert "target t" in shown[0] and shown[1]["visible"] and shown[-1] == "" and able(shown) == [True, True, False]
    again = card.listeners.chart("Batch")  # after another experiment was looked at
    assert again[0] == shown[0] and "Measured on" in card.listeners.chart("Context")[0]


def test_only_what_can_be_run_from_the_page_is_offered(card: Card) -> None:
    *_, run, stop, said = card.offer("Memory")
    assert stop["interactive"] is False
    assert run["interactive"] is True and "about 85 s on two idle cores and is stopped after 10 min" in said
    for name, why in (("CUDA graphs", "needs a GPU"), ("Fine-tuning", "needs your text")):
        *_, run, _, said = card.offer(name)
        assert run["interactive"] is False and f"cannot be run from the page: it {why}" in said
        with pytest.raises(DraftscopeError, match=f"cannot be run from the page: it {why}"):
            card.begin(name)
    with pytest.raises(DraftscopeError, match="There is no experiment nothing"):
        card.begin("nothing")
    assert card.listeners.refuse("No.")[-1] == notes.refused("No.")


@pytest.mark.parametrize(
    ("code", "words"),
    [("import sys; sys.exit('draftscope: No luck.')", "gave no results: No luck."), (WAITS, "was stopped after 0 s")],
)
def test_a_command_that_fails_or_takes_too_long_is_said(
    card: Card, monkeypatch: pytest.MonkeyPatch, code: str, words: str
) -> None:
    instead(monkeypatch, code)
    with pytest.raises(DraftscopeError, match=words):
        last(commands.experimented(named("Batch"), max_s=0.01 if code == WAITS else 60))
    answer = card.begin("Batch")
    answer.take(Update("r", state="done", note="No luck."))
    assert "No luck." in card.show(answer)[-1] and able(card.show(answer)) == [True, True, False]
    assert "Measured on" in card.listeners.chart("Batch")[0]


def test_it_can_be_stopped_and_another_one_waits_until_then(card: Card, monkeypatch: pytest.MonkeyPatch) -> None:
    instead(monkeypatch, WAITS)
    began = time.monotonic()
    first, second = steps("Batch"), steps("Batch")
    assert "draftscope bench" in next(first).words and next(second).words == "another experiment first"
    with pytest.raises(Cancelled):
        first.throw(Cancelled())
    assert "draftscope bench" in next(second).words
    second.close()
    assert time.monotonic() - began < 50  # not the minute that the command waits
    answer = card.begin("Batch")
    answer.take(Update("r", state="done"))
    assert "Stopped; nothing was measured." in card.show(answer)[-1]


def test_whoever_closes_a_command_ends_it(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    started: list[Any] = []
    instead(monkeypatch, WAITS)
    begin = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **how: started.append(begin(*args, **how)) or started[-1])
    running = commands.running("draftscope bench", tmp_path, 60)
    next(running)
    running.close()
    assert [one.returncode for one in started] == [-9, -9]


def test_a_command_ends_with_the_engine(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """It outlived a server that was told to end."""
    started: list[Any] = []
    instead(monkeypatch, WAITS)
    begin = subprocess.Popen

    class Ends(PipeEnd):
        def poll(self, _: float | None = 0.0) -> bool:
            if started:
                self.commands = [Quit()]
            return bool(self.commands)

    monkeypatch.setattr("draftscope.api.load", lambda **_: pair)
    monkeypatch.setattr(subprocess, "Popen", lambda *args, **how: started.append(begin(*args, **how)) or started[-1])
    main(Ends(Start(ExperimentJob(id="r", name="Batch"))), LoadSettings(), UNWATCHED)  # type: ignore[arg-type]
    assert [one.returncode for one in started] == [-9, -9]


PARENT = f"""
import pathlib, sys
from draftscope_app.doors.decide import commands
commands.arguments = lambda *_: [sys.executable, "-S", "-c", "{WAITS}"]
running = commands.running("draftscope bench", pathlib.Path(), 60)
next(running)
print("It runs.", flush=True)
{WAITS}
"""


def test_a_command_ends_with_its_parent_however_that_ends() -> None:
    """It went on to its end when the engine process was killed."""
    with subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None and parent.stdout.readline()
        started = psutil.Process(parent.pid).children(recursive=True)
        parent.kill()
    assert started and not psutil.wait_procs(started, timeout=30)[1]


def test_what_advise_prints_is_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    instead(monkeypatch, "print('{}')")
    last(commands.running("draftscope advise --json", tmp_path, 60))
    assert (tmp_path / "advice.json").read_text().strip() == "{}"


def test_a_server_for_others_offers_no_button() -> None:
    shown = made(lets_run=False)
    assert shown.run is None and "does not run commands for visitors" in shown.running.value
