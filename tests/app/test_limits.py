"""What bounds the server's memory and time: lengths of texts, runs that are kept, files, and how often it wakes up."""

from __future__ import annotations

import asyncio
import os
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import gradio as gr
import pytest

from draftscope.base.admit import admit
from draftscope.base.errors import DraftscopeError
from draftscope.drafters.settings import Settings
from draftscope_app.engine.admission import Admission, Given
from draftscope_app.engine.answers import REMOVED
from draftscope_app.engine.config import Limits
from draftscope_app.engine.jobs import EngineStatus, Job
from draftscope_app.engine.notice import Notice
from draftscope_app.engine.run_job import RunJob
from draftscope_app.engine.visitors import Visitors
from draftscope_app.page import page
from draftscope_app.page.controls import defaults, race_of
from draftscope_app.page.listeners import save_and_load as page_files
from draftscope_app.page.listeners.runs import RunListeners
from draftscope_app.page.listeners.save_and_load import FileListeners
from draftscope_app.page.shared import Shared
from draftscope_app.serve import decode_endpoint
from draftscope_app.serve.server import Served
from tests.app.test_host import call

# Texts.


class NoEngine:
    """An engine that takes no job."""

    status = EngineStatus("ready", "stand-in")
    changed = Notice()

    def __len__(self) -> int:
        return 0

    def run(self, job: Job, *_: Any) -> Any:
        raise AssertionError(job)


@pytest.fixture
def admission() -> Admission:
    return Admission(NoEngine(), Limits(max_text=300))  # type: ignore[arg-type]


def made(job: Job, _: Given) -> Job:
    return job


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"prompt": "x" * 301}, "prompt is 301 characters long; this takes at most 300, so shorten it."),
        ({"stop": ["x" * 200, "y" * 200]}, "stop is 400 characters long"),
        ({"shape": tuple(range(301))}, "shape is 301 characters long"),
    ],
)
def test_a_text_that_is_too_long_is_one_sentence(values: dict[str, Any], words: str) -> None:
    with pytest.raises(DraftscopeError, match=words):
        admit(values, 300)
    admit({name: value[:1] for name, value in values.items()}, 300)


def test_a_run_that_is_too_long_is_the_same_sentence_on_the_page_and_for_programs() -> None:
    engine: Any = NoEngine()
    admission = Admission(engine, Limits(max_tokens=16))
    decode = decode_endpoint.endpoint(admission, Visitors())
    parameters = decode.__signature__.parameters.values()  # type: ignore[attr-defined]
    values = {one.name: one.default for one in parameters if one.name != "request"}
    values |= {"prompt": "x", "drafter": "plain", "max_new_tokens": 17}
    with pytest.raises(gr.Error) as told:
        asyncio.run(decode(gr.Request(session_hash="a"), *values.values()))
    with pytest.raises(DraftscopeError) as shown:
        admission.admit(defaults() | {"max_new_tokens": 17, "prompt": "x"}, lambda given: race_of(given, None, None))
    assert "max_new_tokens = 17: this server writes at most 16 tokens a run" in str(shown.value) == told.value.message


@pytest.mark.parametrize("given", [{}, {"prompt": "x"}])
@pytest.mark.parametrize(
    "wanted",
    [
        RunJob(id="r1", prompt="x" * 301),
        RunJob(id="r1", prompt="x", lanes={"plain": Settings.of(typed="x" * 301)}),
    ],
)
def test_no_long_text_reaches_the_engine_from_anywhere(admission: Admission, given: Given, wanted: Job) -> None:
    """Whatever a job was made of: a visitor's texts, or those of a run that was loaded."""
    with pytest.raises(DraftscopeError, match="301 characters long"):
        admission.admit(given, partial(made, wanted))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        *(({name: "x" * 301}, f"{name} is 301 characters long") for name in ("prompt", "typed", "arms", "shape")),
        ({"prompt": ["a"]}, "is not a text"),
        ({"prompt": {"a": 1}}, "is not a text"),
    ],
)
def test_a_text_that_the_page_cannot_take_is_one_sentence(
    admission: Admission, changes: dict[str, Any], words: str
) -> None:
    controls = {name: object() for name in defaults()}
    widgets: Any = SimpleNamespace(controls=controls)
    listeners = RunListeners(Shared(admission, Visitors(), defaults(), ()), widgets)
    given = {controls[name]: value for name, value in (defaults() | {"prompt": "x"} | changes).items()}

    async def first() -> str:
        return await anext(aiter(listeners.run(given, gr.Request(session_hash="a"))))

    assert words in asyncio.run(first())


@pytest.mark.parametrize("name", ["prompt", "typed", "system", "stop"])
def test_a_long_text_of_a_program_is_one_sentence(admission: Admission, name: str) -> None:
    decode = decode_endpoint.endpoint(admission, Visitors())
    parameters = decode.__signature__.parameters.values()  # type: ignore[attr-defined]
    values: dict[str, Any] = {one.name: one.default for one in parameters if one.name != "request"}
    values["prompt"] = "x"
    values[name] = ["x" * 301] if name == "stop" else "x" * 301
    with pytest.raises(gr.Error, match=f"{name} is 301 characters long"):
        asyncio.run(decode(gr.Request(session_hash="a"), *values.values()))


# Traces.


def test_a_run_of_more_rounds_than_a_browser_draws_is_one_sentence(
    admission: Admission, recorded: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """300,000 bursts took a minute, and then the drawing of them failed."""
    shared = Shared(admission, Visitors(), defaults(), ())
    listeners = FileListeners(shared, SimpleNamespace(plots=(1, 2, 3)))  # type: ignore[arg-type]
    request = gr.Request(session_hash="mine")
    assert '"ev": [{' in listeners.open(str(recorded), request)[0]
    shown = shared.visitors.of("mine").shown
    monkeypatch.setattr(page_files, "MAX_ROUNDS", 2)
    assert "and the page shows at most 2; load a shorter one" in listeners.open(str(recorded), request)[0]
    assert shared.visitors.of("mine").shown is shown


# Runs that are kept.


def test_runs_that_were_seen_longest_ago_make_room(admission: Admission) -> None:
    visitors = Visitors(max_bytes=40_000)
    for number in range(5):
        visitors.of(f"v{number}").shown.run = f"r{number}"
        visitors.of(f"v{number}").shown.add(["x" * 10_000])
    visitors.of("v1")
    visitors.of("another")
    kept = [number for number in range(5) if visitors.of(f"v{number}").shown.lines]
    assert kept == [1, 3, 4]
    assert sum(visitors.of(f"v{number}").shown.size for number in range(5)) <= 40_000


def test_a_page_whose_run_was_removed_says_so(admission: Admission) -> None:
    visitors = Visitors(max_bytes=10_000)
    visitors.of("mine").shown.run = "r1"
    visitors.of("mine").shown.add(["x" * 9_000])
    visitors.of("other").shown.add(["x" * 9_000])
    visitors.of("other")
    shared = Shared(admission, visitors, defaults(), page.first_run())
    assert REMOVED in call(shared, "again", None)
    assert call(shared, "save", {"kind": "trace", "lesson": ""}) == {"note": REMOVED}
    listeners = RunListeners(shared, SimpleNamespace(plots=(1, 2, 3)))  # type: ignore[arg-type]
    assert REMOVED in listeners.drawn(gr.Request(session_hash="mine"))[0]
    assert visitors.of("other").shown.lines


def test_a_run_in_progress_is_never_removed(admission: Admission) -> None:
    visitors = Visitors(max_bytes=10_000)
    mine = visitors.of("mine")
    mine.latest = SimpleNamespace(over=False)  # type: ignore[assignment]
    mine.shown.add(["x" * 20_000])
    visitors.of("other")
    assert mine.shown.lines


def test_a_call_without_a_session_is_nobody_elses() -> None:
    visitors = Visitors()
    visitors.of(None).shown.add(["x"])
    visitors.of("").shown.add(["x"])
    assert not visitors.of(None).shown.lines and not visitors.of("").shown.lines and not len(visitors)


# A whole server, over a stand-in for the engine process.


def waits(pid: int) -> int:
    """How often the threads of a process have waited for something: their voluntary context switches."""
    statuses = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/status")]
    return sum(int(line.split()[1]) for text in statuses for line in text.splitlines() if line.startswith("voluntary"))


def test_an_idle_server_hardly_wakes_up(served: Served) -> None:
    time.sleep(1.0)
    before, began = waits(os.getpid()), time.monotonic()
    time.sleep(2.0)
    assert (waits(os.getpid()) - before) / (time.monotonic() - began) < 120  # times a second; it was 1,300


def test_uploads_lie_in_a_folder_of_the_servers_own_and_go_with_it(served: Served, tmp_path: Path) -> None:
    folder = Path(os.environ["GRADIO_TEMP_DIR"])
    assert folder.parent == tmp_path and folder.is_dir()
    assert served.demo.delete_cache == (page.UPLOADS_S, page.UPLOADS_S)
    served.close()
    assert not folder.exists()
    assert "GRADIO_TEMP_DIR" not in os.environ
