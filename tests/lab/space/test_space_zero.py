"""ZeroGPU's engine: through `spaces` where it lends nothing, and with a stand-in that lends as it does: by fork."""

from __future__ import annotations

import json
import multiprocessing
import queue
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine import select
from draftscope_app.engine.jobs import Asker, Step
from draftscope_app.engine.run_job import RunJob
from draftscope_app.lab.space import lent
from draftscope_app.lab.space.zero import SETUP_S, ZeroEngine, seconds
from tests.support.runs import PATIENCE_S, Seen, job

Lend = Callable[..., Callable[..., Any]]
asked: list[int] = []  # durations, as the stand-in was asked for them


def nothing(duration: Callable[..., int]) -> Callable[[Any], Any]:
    """What `spaces.GPU` is where there is no ZeroGPU: the function itself."""
    return lambda task: task


def forking(duration: Callable[..., int]) -> Callable[[Any], Any]:
    """Lends as `spaces` does on ZeroGPU: the generator runs ahead in a forked process, its results come by a queue."""
    context = multiprocessing.get_context("fork")

    def wrap(task: Callable[..., Iterator[Any]]) -> Callable[..., Iterator[Any]]:
        def lent(*arguments: Any) -> Iterator[Any]:
            asked.append(duration(*arguments))
            results: Any = context.Queue()

            def work() -> None:
                for result in task(*arguments):
                    results.put(("result", result))
                results.put(("end", None))

            worker = context.Process(target=work, daemon=True)
            worker.start()
            while True:
                lives = worker.is_alive()  # asked first: what it said last may come while it ends
                try:
                    kind, result = results.get(timeout=0.2)
                except queue.Empty:
                    if lives:
                        continue
                    raise RuntimeError("<b>GPU task aborted</b>") from None
                if kind == "end":
                    break
                yield result
            worker.join()

        return lent

    return wrap


def broken(duration: Callable[..., int]) -> Callable[[Any], Any]:
    def wrap(task: Any) -> Any:
        def lent(*_: Any) -> Iterator[Any]:
            raise RuntimeError("<b>You have exceeded your GPU quota</b>")
            yield

        return lent

    return wrap


def made(pair_folders: tuple[Path, Path], lend: Lend) -> ZeroEngine:
    return ZeroEngine(LoadSettings(str(pair_folders[0]), str(pair_folders[1]), dtype="float32", threads=1), lend)


@pytest.fixture(scope="module")
def engine(pair_folders: tuple[Path, Path]) -> Iterator[ZeroEngine]:
    zero = made(pair_folders, forking)
    assert zero.status.phase == "ready"
    yield zero
    zero.close()


def test_a_run_gives_both_lanes_whole(engine: ZeroEngine) -> None:
    seen = Seen(engine.run(job(solo=1))).done()
    kinds = {(e["lane"], e["kind"]) for e in seen.events}
    wanted = ("run_start", "prefill", "round", "run_end", "solo_runs")
    assert kinds == {(lane, kind) for lane in ("plain", "speculative") for kind in wanted} | {
        ("speculative", "verify_costs")
    }
    assert seen.states == ["running", "solo", "done"]
    assert len(engine) == 0


def test_both_ways_decode_the_same_tokens(pair_folders: tuple[Path, Path], engine: ZeroEngine) -> None:
    again = made(pair_folders, nothing)
    tokens = []
    for one in (again, engine):
        events = Seen(one.run(job(tokens=24))).done().events
        tokens.append({e["lane"]: e["token_ids"] for e in events if e["kind"] == "run_end"})
    assert tokens[0] == tokens[1] and len(tokens[0]) == 2
    again.close()


def test_stop_reaches_the_worker(engine: ZeroEngine) -> None:
    seen = Seen(engine.run(job(tokens=480)))
    seen.when(lambda s: bool(s.rounds("speculative")), seen.answer.stop)
    seen.done()
    assert set(seen.ends.values()) == {"cancelled"}
    assert sum(len(r["emitted"]) for r in seen.rounds("plain")) < 480


def test_steps_are_handed_out_of_what_was_decoded_ahead(engine: ZeroEngine) -> None:
    seen = Seen(engine.run(job(tokens=60, steps=1)))
    for rounds in (1, 2, 3):
        seen.until(lambda s, n=rounds: len(s.rounds("speculative")) == n and s.states[-1] == "stepping")  # type: ignore[misc]
        time.sleep(0.3)
        assert len(seen.rounds("speculative")) == rounds
        engine.send(Step(seen.answer.job.id))
    seen.until(lambda s: len(s.rounds("speculative")) == 4)
    assert Seen(engine.run(job())).done().ends.keys() == {"plain", "speculative"}  # it holds up nobody
    seen.answer.stop()
    seen.done()
    assert len(engine) == 0


def test_a_run_can_be_stepped_to_its_end(engine: ZeroEngine) -> None:
    seen = Seen(engine.run(job(tokens=12, steps=1)))
    deadline = time.monotonic() + PATIENCE_S
    while "done" not in seen.states:
        assert time.monotonic() < deadline
        if seen.states[-1:] == ["stepping"]:
            seen.answer.step()
        time.sleep(0.02)
    assert set(seen.ends.values()) <= {"length", "eos"}
    assert set(seen.ends) == {"plain", "speculative"}


def test_runs_wait_in_order_and_a_waiting_one_can_be_stopped(engine: ZeroEngine) -> None:
    first, second = Seen(engine.run(job(tokens=200))), Seen(engine.run(job(tokens=200)))
    third = Seen(engine.run(job(tokens=8)))
    assert engine.place(third.answer) == 2
    second.answer.stop()
    assert second.done().events == []
    third.done()
    assert "done" in first.states


def test_visitors_take_turns_run_by_run(engine: ZeroEngine) -> None:
    """They were decoded in order of arrival, whoever asked."""
    calls = [Seen(engine.run(job(tokens=60), asker=Asker("10.0.0.1"))) for _ in range(4)]
    mine = Seen(engine.run(job(tokens=4), asker=Asker("10.0.0.2", "page")))
    assert engine.place(mine.answer) == 1
    mine.done()
    assert sum("done" in call.states for call in calls) <= 1
    for call in calls:
        call.done()


def test_a_refusal_is_one_sentence(engine: ZeroEngine) -> None:
    refused = Seen(engine.run(job(prompt=""))).done()
    assert len(refused.sentences) == 1
    assert "empty" in refused.sentences[0]


def test_no_gpu_is_one_sentence(pair_folders: tuple[Path, Path]) -> None:
    zero = made(pair_folders, broken)
    for steps in (None, 1):
        seen = Seen(zero.run(job(steps=steps))).done()
        assert seen.sentences == ["No GPU decoded this run (You have exceeded your GPU quota)."]
    assert len(zero) == 0
    zero.close()


def test_models_that_cannot_be_loaded_are_one_sentence(tmp_path: Path) -> None:
    zero = ZeroEngine(LoadSettings(str(tmp_path / "nothing")), nothing)
    assert zero.status.phase == "failed"
    assert Seen(zero.run(job())).done().sentences == [zero.status.sentence]


def test_the_time_asked_for_follows_the_request() -> None:
    def wish(tokens: int, solo: int) -> RunJob:
        return job(tokens=tokens, solo=solo)

    few, many, most = (seconds(wish(*wished), 0) for wished in ((16, 0), (128, 3), (2048, 3)))
    assert SETUP_S < few < many < most == 120


def test_the_stand_in_was_asked_for_each_run(pair_folders: tuple[Path, Path]) -> None:
    zero = made(pair_folders, forking)
    before = len(asked)
    Seen(zero.run(job(tokens=50))).done()
    assert asked[before:] == [seconds(job(tokens=50), 0)]
    zero.close()


def test_messages_come_in_batches(pair_folders: tuple[Path, Path]) -> None:
    sizes: list[int] = []

    def counting(duration: Callable[..., int]) -> Callable[[Any], Any]:
        def wrap(task: Callable[..., Iterator[list[Any]]]) -> Any:
            def lent(*arguments: Any) -> Iterator[list[Any]]:
                for batch in task(*arguments):
                    sizes.append(len(batch))
                    yield batch

            return lent

        return wrap

    zero = made(pair_folders, counting)
    events = Seen(zero.run(job(tokens=300))).done().events
    assert sum(sizes) == len(events) + 2  # running, done
    assert len(sizes) < len(events) / 3
    assert json.dumps(events)
    zero.close()


def test_the_profile_chooses_it_and_spaces_lends_nothing_elsewhere(
    pair_folders: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    load = LoadSettings(str(pair_folders[0]), str(pair_folders[1]), dtype="float32", threads=1)
    assert not lent.on_zero()
    monkeypatch.setattr(lent, "on_zero", lambda: True)
    zero = select.engine(load)
    assert isinstance(zero, ZeroEngine)
    assert zero.status.sentence.endswith("on ZeroGPU, lent for each run")
    assert Seen(zero.run(job())).done().ends.keys() == {"plain", "speculative"}
    zero.close()
