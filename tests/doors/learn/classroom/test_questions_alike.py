"""A deck makes its questions in Python, the page those about a live run: alike, on all that the lessons recorded."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from draftscope.base.assets import assets
from draftscope.trace import files
from draftscope.trace.events import Round
from draftscope_app.doors.learn.classroom.of_lanes import gap
from draftscope_app.doors.learn.classroom.of_rounds import kept, survive
from draftscope_app.doors.learn.classroom.questions import Spec
from draftscope_app.doors.learn.classroom.recorded_lanes import Lane, lanes_of, verified_in
from tests.support.node import evaluated, modules

RUNS = ("coin", "heads", "round", "wrong", "when")
ASKS = """
import { readFileSync } from "node:fs";
const { store: storeFile, asking, runs } = JSON.parse(readFileSync(0, "utf8"));
const { fold, newStore } = await import(storeFile);
const { gapQuestion, survivalQuestion, verdictQuestion } = await import(asking);
const short = (found) => found && { ask: found.ask, context: found.context, answer: found.options[found.truth],
  options: found.options };
const ofRound = (lane, round) => [
  round.round,
  short(survivalQuestion(lane, round)),
  round.nodes.map(({ id }) => [id, short(verdictQuestion(lane, round, id))]),
];
const ofLane = (lane) => ({ gap: short(gapQuestion(lane)), rounds: lane.rounds.map((round) => ofRound(lane, round)) });
const asked = runs.map((events) => {
  const store = newStore();
  for (const event of events) fold(store, event);
  return Object.fromEntries(store.lanes.map((lane) => [lane.name, ofLane(lane)]));
});
process.stdout.write(JSON.stringify(asked));
"""


def recorded(run: str) -> dict[str, Lane]:
    return lanes_of(files.read(assets() / "lessons" / f"{run}.jsonl.gz").events)


@cache
def asked_in_page() -> dict[str, Any]:
    """What the page asks of each run, lane by lane: gap, and of each round how many are kept, and whether each is."""
    events = [
        [event.model_dump(mode="json", exclude_none=True) for event in files.read(path).events]
        for path in (assets() / "lessons" / f"{run}.jsonl.gz" for run in RUNS)
    ]
    paths = {"store": "base/store.js", "asking": "doors/learn/classroom/asking.js"}
    urls = {name: (modules() / path).resolve().as_uri() for name, path in paths.items()}
    return dict(zip(RUNS, evaluated(ASKS, urls | {"runs": events}), strict=True))


@pytest.mark.parametrize("run", RUNS)
def test_the_longest_gap_is_the_same_question(run: str) -> None:
    for name, lane in recorded(run).items():
        made = [maker() for maker in gap(Spec(kind="gap", lane=name), lane)]
        found = [q for q in [asked_in_page()[run][name]["gap"]] if q]
        assert [(q.ask, q.context, q.options, q.options[q.truth]) for q in made] == [
            (q["ask"], q["context"], tuple(q["options"]), q["answer"]) for q in found
        ]


def test_some_gap_stands_out_and_some_does_not() -> None:
    gaps = [lane["gap"] for lanes in asked_in_page().values() for lane in lanes.values()]
    assert any(gaps) and not all(gaps)


@pytest.mark.parametrize("run", RUNS)
def test_a_round_has_the_same_answer(run: str) -> None:
    for name, lane in recorded(run).items():
        rounds = {number: question for number, question, _ in asked_in_page()[run][name]["rounds"]}
        chains = [round_ for _, round_ in lane.drafted() if 0 < round_.accepted < len(round_.nodes)]
        for maker, round_ in zip(survive(Spec(kind="survive", lane=name), lane), chains, strict=True):
            question, found = maker(), rounds[round_.round]
            assert (question.context, question.options) == (found["context"], tuple(found["options"]))
            assert question.options[question.truth] == found["answer"]


def test_a_guess_has_the_same_answer() -> None:
    lane, compared = recorded("coin")["speculative"], 0
    verdicts = {(n, id_): q for n, _, found in asked_in_page()["coin"]["speculative"]["rounds"] for id_, q in found}
    made = [maker() for maker in kept(Spec(kind="kept", lane="speculative"), lane)]
    judged = [(r, child) for _, r in lane.drafted() for child in verified_in(r) if is_open(child)]
    for question, (round_, child) in zip(made, judged, strict=True):
        found = verdicts[round_.round, child.node]
        assert (question.ask, question.options, question.options[question.truth]) == (
            found["ask"], tuple(found["options"]), found["answer"],
        )  # fmt: skip
        compared += isinstance(round_, Round)
    assert compared > 3


def is_open(child: Any) -> bool:
    """Its random number decides."""
    return child.q is not None and child.uniform is not None and child.threshold and 0.1 < child.threshold < 0.95
