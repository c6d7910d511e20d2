"""Deltas of runs as a page may get them: lost, late, twice, of an older run, of one that is refused, of a fork."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.base.assets import assets
from tests.support.node import evaluated

PLAY = """
import { readFileSync } from "node:fs";
const { file, deltas } = JSON.parse(readFileSync(0, "utf8"));
const { RunLog } = await import(file);
const [asked, told] = [[], []];
const log = new RunLog(async (from) => asked.push(from));
for (const [run, seq, ev, state] of deltas) {
  const begins = log.begins(run);
  told.push([begins, log.fresh({ run, seq, ev, state })]);
  await null;
}
process.stdout.write(JSON.stringify({ asked, told }));
"""
GO, END = "running", "done"
FILE = (assets() / "instrument" / "host" / "deltas.js").resolve().as_uri()


def play(deltas: list[Any]) -> tuple[list[Any], list[int]]:
    """Of each delta: whether its run begins, and what is new in it; and from which places the rest was asked for."""
    answer = evaluated(PLAY, {"file": FILE, "deltas": deltas})
    return [tuple(each) for each in answer["told"]], answer["asked"]


CASES: dict[str, tuple[list[Any], list[Any], list[int]]] = {  # deltas, what is new in each, from where is asked
    "order": (
        [("r1", 0, [], GO), ("r1", 0, [0, 1], GO), ("r1", 2, [2], END)], [[], [0, 1], [2]], [],
    ),
    "gap": (
        [("r1", 0, [0], GO), ("r1", 2, [2], GO), ("r1", 1, [1, 2], GO)], [[0], None, [1, 2]], [1],
    ),
    "its first was lost": (
        [("r1", 2, [2], GO), ("r1", 0, [0, 1, 2], GO)], [None, [0, 1, 2]], [0],
    ),
    "late": (
        [("r1", 0, [0, 1], GO), ("r1", 0, [0], GO), ("r1", 1, [1, 2], GO)], [[0, 1], None, [2]], [],
    ),
    "the last was lost": (
        [("r1", 0, [0], END), ("r1", 3, [], END)], [[0], None], [1],
    ),
    "older": (
        [("r1", 0, [0], GO), ("r2", 0, [], GO), ("r1", 1, [1], END)], [[0], [], None], [],
    ),
    "refused, fork": (
        [("r1", 0, [0], END), ("r2", 0, [], END), ("r1", 1, [1], GO)], [[0], [], [1]], [],
    ),
    "fork": (
        [("r1", 0, [0], END), ("r1", 1, [], "queued"), ("r1", 1, [1], END)], [[0], [], [1]], [],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("deltas", "new", "asked_from"), CASES.values(), ids=CASES)
def test_every_event_is_shown_once_and_in_order(deltas: list[Any], new: list[Any], asked_from: list[int]) -> None:
    told, asked = play(deltas)
    assert [fresh for _, fresh in told] == new and asked == asked_from
    runs = [run for run, *_ in deltas]
    assert [begins for begins, _ in told] == [run not in runs[:place] for place, run in enumerate(runs)]


BEHIND = """
import { readFileSync } from "node:fs";
const { RunLog } = await import(JSON.parse(readFileSync(0, "utf8")).file);
const [asked, answered] = [[], []];
const log = new RunLog((from) => { asked.push(from); return new Promise((done) => answered.push(done)); });
log.begins("r1");
log.fresh({ run: "r1", seq: 0, ev: [0], state: "running" });
log.fresh({ run: "r1", seq: 2, ev: [2], state: "running" }); // the one before it was lost
log.fresh({ run: "r1", seq: 3, ev: [3], state: "done" }); // while that is asked for
log.fresh({ run: "r1", seq: 1, ev: [1, 2], state: "running" }); // the answer, which knows nothing of it
answered[0]();
await new Promise(setImmediate);
log.fresh({ run: "r1", seq: 3, ev: [3], state: "done" });
answered[1]();
await new Promise(setImmediate);
process.stdout.write(JSON.stringify({ asked, have: log.runs.at(-1).have }));
"""


def test_what_comes_while_the_rest_is_asked_for_is_asked_for_too() -> None:
    """Where that was the end of a run, the page waited for it for ever."""
    assert evaluated(BEHIND, {"file": FILE}) == {"asked": [1, 3], "have": 4}
