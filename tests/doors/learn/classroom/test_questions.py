"""Questions about recorded rounds: their answers are what the recording says, and phones do not get them early."""

from __future__ import annotations

import json
import re
import statistics
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.assets import assets
from draftscope.base.errors import DraftscopeError
from draftscope.trace import files
from draftscope.trace.events import Round
from draftscope_app.doors.learn.classroom import deck, shown_lessons
from draftscope_app.doors.learn.classroom.making import OF_LANE, OF_RUN, make_question
from draftscope_app.doors.learn.classroom.questions import Question, Spec
from draftscope_app.doors.learn.classroom.recorded_lanes import Lane, lanes_of, readable

FULL = {"ask": "Which?", "options": ["a", "b"], "truth": 1, "said": "It was b."}


@pytest.fixture(scope="module")
def coin() -> dict[str, Lane]:
    return lanes_of(files.read(assets() / "lessons" / "coin.jsonl.gz").events)


def test_every_lesson_has_a_question_and_every_kind_is_asked() -> None:
    steps = json.loads(deck.SHIPPED.read_text())["steps"]
    recorded = {path.name.removesuffix(".jsonl.gz") for path in (assets() / "lessons").glob("*.jsonl.gz")}
    assert {step["run"] for step in steps} == recorded and len(steps) == len(shown_lessons.recorded())
    assert {step["kind"] for step in steps} <= {*OF_LANE, *OF_RUN} and len({step["kind"] for step in steps}) >= 6
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
            if isinstance(r, Round) and [readable(n.raw) for n in r.nodes][: len(texts)] == texts
        ]
        if kind == "survive":
            assert any(r.accepted == question.truth for r in rounds)
        elif kind == "refuse":
            assert any(r.nodes[question.truth].fate == "rejected" for r in rounds)
        else:
            (guess,) = question.guesses
            assert guess.u is not None and guess.threshold is not None
            assert (guess.u < guess.threshold) == (question.options[question.truth] == "kept")


def of_step(step: dict[str, Any]) -> tuple[dict[str, Lane], Question]:
    """The recording that a step of the shipped deck is about, and its question."""
    lanes = lanes_of(files.read(assets() / "lessons" / f"{step['run']}.jsonl.gz").events)
    return lanes, make_question(Spec(**{name: value for name, value in step.items() if name != "run"}), lanes)


STEPS = json.loads(deck.SHIPPED.read_text())["steps"]


@pytest.mark.parametrize("step", STEPS, ids=[step["lesson"] for step in STEPS])
def test_each_reveal_has_a_bar_for_each_option_and_says_why(step: dict[str, Any]) -> None:
    _, question = of_step(step)
    assert [bar.name for bar in question.bars] == list(question.options)
    assert max(bar.part for bar in question.bars) == pytest.approx(1.0)
    assert any(len(said.split()) > 3 for said in question.said.split(". "))
    assert not re.search(r"\d{4}\.\d", question.said + "".join(bar.value for bar in question.bars))
    assert '"part"' not in json.dumps(question.shown(0, revealed=False))


@pytest.mark.parametrize("step", [step for step in STEPS if step["kind"] in OF_RUN], ids=lambda step: step["lesson"])
def test_what_compares_lanes_is_what_their_rounds_say(step: dict[str, Any]) -> None:
    """The longest bar is the answer, and is that of the lane that the recording has it of; so is what `said` says."""
    lanes, question = of_step(step)
    compared = [lanes[name] for name in step["lanes"]]
    tokens = [sum(len(r.emitted) for r in lane.arrivals) for lane in compared]
    rounds = [statistics.median(r.end - r.start for r in lane.arrivals) for lane in compared]
    measured = {
        "second": [count / lane.arrivals[-1].end for count, lane in zip(tokens, compared, strict=True)],
        "pass": [count / len(lane.arrivals) for count, lane in zip(tokens, compared, strict=True)],
        "waits": rounds,
        "off": [0.0, 1.0],  # of the two audits the second one has found a difference: test_lessons.py
    }[step.get("per", "second") if step["kind"] == "faster" else step["kind"]]
    assert question.truth == measured.index(max(measured)) == [bar.part for bar in question.bars].index(1.0)
    if " times as long as a plain one" in question.said:
        number = next(n for n, name in enumerate(question.options) if question.said.lower().startswith(name.lower()))
        tau, cost = tokens[number] / len(compared[number].arrivals), rounds[number] / rounds[0]
        assert f"gives {tau:.1f} tokens and takes {cost:.1f} times as long" in question.said
        assert ("save more" in question.said) == (number == question.truth)


def test_the_longest_gap_is_asked_about_where_it_stands_out() -> None:
    lanes = lanes_of(files.read(assets() / "lessons" / "when.jsonl.gz").events)
    rounds = [event for event in lanes["speculative"].events if isinstance(event, Round)]
    even = [r.model_copy(update={"start": 10.0 * n, "end": 10.0 * n + 10}) for n, r in enumerate(rounds)]
    starts = [event for event in lanes["speculative"].events if not isinstance(event, Round)]
    with pytest.raises(DraftscopeError, match="0 rounds"):
        make_question(Spec(kind="gap", lane="speculative"), lanes_of([starts[0], *even, starts[-1]]))
    even[5] = even[5].model_copy(update={"end": even[5].start + 35})
    question = make_question(Spec(kind="gap", lane="speculative"), lanes_of([starts[0], *even, starts[-1]]))
    assert question.bars[question.truth].value == "35 ms"
    assert sorted(bar.value for bar in question.bars) == ["10 ms"] * 3 + ["35 ms"]


def test_a_round_of_words_is_one_that_a_class_can_reason_about(coin: dict[str, Lane]) -> None:
    """Its judged guesses are words, and the refused one is the least likely of them."""
    question = make_question(Spec(kind="refuse", lane="speculative", words=True), coin)
    judged = question.guesses[: question.truth + 1]
    assert all(re.fullmatch("·?[A-Za-z]+", guess.text) for guess in judged)
    assert min(judged, key=lambda guess: guess.p or 0.0) == judged[-1]


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
        ({"title": "x", "steps": [{"run": "coin", "kind": "surviv"}]}, "step 1: kind: should be 'survive', 'bonus'"),
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
