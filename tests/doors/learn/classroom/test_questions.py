"""Questions about recorded rounds: their answers are what the recording says, and phones do not get them early."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.trace import files
from draftscope.trace.events import Round
from draftscope_app.doors.learn.classroom import deck, lessons
from draftscope_app.doors.learn.classroom.questions import Lane, Question, Spec, lanes_of, make_question

FULL = {"ask": "Which?", "options": ["a", "b"], "truth": 1, "said": "It was b."}


@pytest.fixture(scope="module")
def coin() -> dict[str, Lane]:
    return lanes_of(files.read(assets() / "lessons" / "coin.jsonl.gz").events)


def test_every_lesson_has_a_question_and_every_kind_is_asked() -> None:
    steps = json.loads((assets() / deck.SHIPPED).read_text())["steps"]
    recorded = {path.name.removesuffix(".jsonl.gz") for path in (assets() / "lessons").glob("*.jsonl.gz")}
    assert {step["run"] for step in steps} == recorded and len(steps) == len(lessons.recorded())
    assert {step["kind"] for step in steps} == {"survive", "refuse", "kept", "faster", "gap"}
    assert len(deck.shipped().questions) == len(steps)


@pytest.mark.parametrize("kind", ["survive", "refuse", "kept"])
def test_the_answer_is_what_happened(coin: dict[str, Lane], kind: str) -> None:
    lane = coin["speculative"]
    for nth in range(3):
        question = make_question(Spec(kind=kind, lane=lane.start.lane, nth=nth), coin)
        texts = [guess.text for guess in question.guesses if guess.fate not in ("correction", "bonus")]
        rounds = [
            r
            for r in lane.arrivals
            if isinstance(r, Round) and [n.raw.replace(" ", "·") for n in r.nodes][: len(texts)] == texts
        ]
        if kind == "survive":
            assert any(r.accepted == question.truth for r in rounds)
        elif kind == "refuse":
            assert any(r.nodes[question.truth].fate == "rejected" for r in rounds)
        else:
            (guess,) = question.guesses
            assert guess.u is not None and guess.threshold is not None
            assert (guess.u < guess.threshold) == (question.options[question.truth] == "kept")


def test_the_fastest_lane_and_the_longest_gap_are_those_of_the_recording() -> None:
    when = lanes_of(files.read(assets() / "lessons" / "when.jsonl.gz").events)
    names = {"plain": "plain", "speculative": "draft", "costly": "costly"}
    question = make_question(Spec(kind="faster", lanes=names), when)
    rates = [sum(len(r.emitted) for r in when[name].arrivals) / when[name].arrivals[-1].end for name in names]
    assert question.truth == rates.index(max(rates))
    assert not any(re.search(r"\d{4}\.\d", shown.said) for shown in deck.shipped().questions)
    gap = make_question(Spec(kind="gap", lane="speculative"), when)
    took = [f"{r.end - r.start:.0f} ms" for r in when["speculative"].arrivals[1:]]
    waits = gap.said.removeprefix("The waits were ").split(".")[0].split(", ")
    assert waits[gap.truth] == max(took, key=lambda text: float(text.removesuffix(" ms")))


def test_a_phone_does_not_know_the_truth_before_the_reveal() -> None:
    for question in deck.shipped().questions:
        before = json.dumps(question.shown(0, revealed=False))
        assert not any(word in before for word in ('"truth"', '"said"', '"fate"', '"threshold"', question.said))
        assert all(hint not in before for hint in question.hints)
        after = question.shown(len(question.hints), revealed=True)
        assert after["truth"] == question.truth and after["said"] == question.said


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        ("{", "is not JSON"),
        ("\x8b", r"is not JSON \(it holds no text\); app/CLASS.md"),
        ({"title": "x", "steps": []}, "', steps: should have at least 1; mend"),
        ({"title": "x", "steps": [FULL, FULL | {"options": ["a"]}]}, "step 2: options: should have at least 2"),
        ({"title": "x", "steps": [FULL | {"said": None}]}, "step 1: said: should be a valid string"),
        ({"title": "x", "steps": [{"run": "coin", "kind": "surviv"}]}, "step 1: kind: should be 'survive', 'refuse'"),
        ({"title": "x", "steps": [FULL | {"truth": 2}]}, "step 1: truth = 2: there are 2 options"),
        ({"title": "x", "steps": [{"run": "coin", "kind": "survive", "lane": "no"}]}, "lane = 'no'"),
        ({"title": "x", "steps": [{"run": "coin", "kind": "survive", "lane": "speculative", "nth": 999}]}, "nth = 999"),
        ({"title": "x", "steps": [{"run": "missing.jsonl.gz", "kind": "survive"}]}, "missing.jsonl.gz"),
        ({"title": "x", "steps": [{"run": "coin", "kind": "faster", "lanes": {"no": "x"}}]}, "lanes = no"),
    ],
)
def test_a_deck_that_cannot_be_asked_is_one_sentence(tmp_path: Path, written: object, sentence: str) -> None:
    path = tmp_path / "deck.json"
    path.write_text(written if isinstance(written, str) else json.dumps(written), encoding="latin-1")
    with pytest.raises(DraftscopeError, match=sentence):
        deck.read(path)


def test_a_teachers_own_deck_takes_a_run_beside_it(tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl.gz").write_bytes((assets() / "lessons" / "coin.jsonl.gz").read_bytes())
    steps = [FULL, {"run": "mine.jsonl.gz", "kind": "survive", "lane": "speculative"}]
    (tmp_path / "deck.json").write_text(json.dumps({"title": "Mine", "steps": steps}))
    asked = deck.read(tmp_path / "deck.json").questions
    assert asked[0] == Question(**FULL) and "guesses" in asked[1].ask
