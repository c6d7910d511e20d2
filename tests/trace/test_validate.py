"""Reading refuses a history that cannot have happened, and takes every one that did."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from draftscope import DraftscopeError
from draftscope.base.assets import assets
from draftscope.base.steps import said, stoppable
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.trace import files
from draftscope.trace.validate import validate

Json = dict[str, Any]
RUNS = {
    "draft": {"drafter": "draft", "rule": "token", "gamma": 3, "temperature": 1.0},
    "block": {"drafter": "draft", "rule": "block", "gamma": 3, "temperature": 1.0},
    "tree": {"drafter": "sampled-tree", "shape": (3, 2), "temperature": 1.0},
    "greedy": {"drafter": "topk-tree", "shape": (3, 2), "temperature": 0.0},
    "lenient": {"drafter": "draft", "rule": "lenient", "gamma": 3, "temperature": 1.0},
    "top-k": {"drafter": "draft", "rule": "top-k", "gamma": 3, "temperature": 1.0},
}


def recorded(engine: DecodingEngine, name: str) -> list[Json]:
    run = engine.decode("abcab", max_new_tokens=24, seed=3, **RUNS[name])
    return [json.loads(files.line(event)) for event in run.events]


def read_back(events: list[Json], folder: Path) -> files.Recording:
    path = folder / "run.jsonl"
    path.write_text("".join(json.dumps(event) + "\n" for event in events))
    return files.read(path)


def first(events: list[Json], wanted: Callable[[Json], Any]) -> Json:
    return next(event for event in events if event["kind"] == "round" and wanted(event))


def fates(event: Json) -> list[str]:
    return [node["fate"] for node in event["nodes"]]


def accepted(event: Json) -> bool:
    return "accepted" in fates(event)


def relabelled(events: list[Json]) -> None:
    """The one that replayed and exported, and killed the export of a table."""
    for event in events:
        for node in event.get("nodes", ()):
            if node["fate"] == "accepted":
                node["fate"] = "rejected"


def relabelled_with_its_counts(events: list[Json]) -> None:
    event = first(events, accepted)
    for node in event["nodes"]:
        node["fate"] = "rejected" if node["fate"] == "accepted" else node["fate"]
    event["accepted"], event["emitted"], event["emitted_raw"] = 0, event["emitted"][:1], event["emitted_raw"][:1]
    event["cut"] = "stop"
    event["last"] |= {"slot": -1, "token": event["emitted"][0], "kind": "correction"}
    event["last"].pop("distributions", None)


def passed_against_its_uniform(events: list[Json]) -> None:
    event = first(events, lambda event: event["decisions"])
    child = event["decisions"][0]["children"][0]
    child["uniform"] = 1 - child["uniform"] if (child["uniform"] < child["threshold"]) == child["passed"] else 0.5
    child["uniform"] = 0.999999 if child["passed"] else 0.0
    child["threshold"] = min(child["threshold"], 0.9)


def set_in(where: Callable[[Json], Json], **values: Any) -> Callable[[list[Json]], None]:
    def mutation(events: list[Json]) -> None:
        event = first(events, accepted)
        where(event).update(values)

    return mutation


def other_tokens(events: list[Json]) -> None:
    event = first(events, accepted)
    event["emitted"] = [99 for _ in event["emitted"]]


def another_draw(events: list[Json]) -> None:
    """The draw of a decision that accepts nothing is the target's own token, which is emitted."""
    event = first(events, lambda e: e["last"]["kind"] == "correction")
    event["decisions"][-1]["draw"] = 99


def twice(events: list[Json]) -> None:
    events.insert(4, events[3])


def left_out(events: list[Json]) -> None:
    del events[3]


def without_start(events: list[Json]) -> None:
    events.insert(0, events[0] | {"lane": "another"})
    del events[1]


IMPOSSIBLE: dict[str, tuple[Callable[[list[Json]], None], str, str]] = {
    "relabelled": (relabelled, "draft", "in round 0 of lane 'run', accepted is"),
    "relabelled, counts too": (relabelled_with_its_counts, "draft", "its decision says otherwise"),
    "against its uniform": (passed_against_its_uniform, "lenient", "rule 'lenient' cannot give"),
    "width": (set_in(lambda event: event, width=9), "draft", "width is 9, and the nodes make it 4"),
    "other emitted tokens": (other_tokens, "draft", "emitted tokens are not"),
    "a bonus beside children": (set_in(lambda e: e["last"], slot=-1), "draft", "the accepted path ends at"),
    "a parent that comes later": (set_in(lambda e: e["nodes"][0], parent=2), "draft", "does not come before"),
    "depth": (set_in(lambda e: e["nodes"][0], depth=2), "tree", "node 0 has depth 2"),
    "ids": (set_in(lambda e: e["nodes"][0], id=7), "tree", "node 7 stands at place 0"),
    "mass": (set_in(lambda e: e["decisions"][0]["distributions"][0], rest_p=0.5), "draft", "of p sum to 1.5"),
    "mass of q": (set_in(lambda e: e["decisions"][0]["distributions"][0], rest_q=0.5), "block", "of q sum to 1.5"),
    "no draft mass": (set_in(lambda e: e["decisions"][0]["distributions"][0], rest_q=None), "block", "incomplete"),
    "not a number": (set_in(lambda e: e["decisions"][0]["distributions"][0], rest_p=float("nan")), "tree", "nan"),
    "threshold": (set_in(lambda e: e["decisions"][0]["children"][0], threshold=None), "draft", "cannot give"),
    "drawn by nobody": (set_in(lambda e: e["decisions"][0], draw=99), "greedy", "cannot give"),
    "another draw": (another_draw, "greedy", "token 99 was drawn at slot"),
    "a slot": (set_in(lambda e: e["decisions"][0], slot=99), "tree", "slot 99, which does not exist"),
    "backwards": (set_in(lambda e: e, start=1e9), "draft", "the clock runs backwards"),
    "stages": (set_in(lambda e: e["timings"], verify=1e6), "draft", "its stages take"),
    "a round twice": (twice, "draft", "in round 1 of lane 'run', round 2 was to come next"),
    "a round left out": (left_out, "draft", "in round 2 of lane 'run', round 1 was to come next"),
    "another lane": (without_start, "draft", "comes before the lane's start"),
    "another end": (lambda events: events[-1].update(text="other"), "draft", "in lane 'run', the text of the whole"),
    "other tokens": (lambda events: events[-1].update(token_ids=[1]), "draft", "ends with 1 tokens"),
    "more forwards": (lambda events: events[-1].update(target_forwards=1), "draft", "the run ends after 1 rounds"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_an_impossible_history_is_one_sentence(tiny: DecodingEngine, tmp_path: Path, name: str) -> None:
    mutation, run, sentence = IMPOSSIBLE[name]
    events = recorded(tiny, run)
    mutation(events)
    with pytest.raises(DraftscopeError, match=r"'run.jsonl' cannot be right: .*; record the run again\.$") as raised:
        read_back(events, tmp_path)
    assert sentence in str(raised.value)


def test_a_sibling_must_face_what_the_rejection_left(tiny: DecodingEngine, tmp_path: Path) -> None:
    events = recorded(tiny, "tree")
    several = first(events, lambda e: any(len(decision["children"]) > 1 for decision in e["decisions"]))
    decision = next(decision for decision in several["decisions"] if len(decision["children"]) > 1)
    before, after = decision["distributions"][:2]
    decision["distributions"][1] = before | {"ids": after["ids"], "raw": after["raw"]}
    with pytest.raises(DraftscopeError, match="do not follow from it"):
        read_back(events, tmp_path)


@pytest.mark.parametrize("name", RUNS)
def test_what_was_recorded_is_possible(tiny: DecodingEngine, tmp_path: Path, name: str) -> None:
    assert len(read_back(recorded(tiny, name), tmp_path).events) > 5


def test_a_cancelled_race_and_one_that_breaks_off_are_possible(tiny: DecodingEngine) -> None:
    runs = [tiny.start("abcab", Settings.of(drafter=name), lane=name) for name in ("plain", "draft")]
    calls = iter(range(100))
    events = list(said(stoppable(race(runs), lambda: next(calls) > 20)))
    assert [event.reason for event in events if event.kind == "run_end"] == ["cancelled"] * 2
    for length in range(len(events)):
        validate(events[:length])


@pytest.mark.parametrize("path", sorted(assets().glob("*/*.jsonl.gz")), ids=lambda path: path.stem)
def test_what_is_shipped_is_possible(path: Path) -> None:
    """Real logits over 49,152 tokens: torch's softmax in fp32 then misses 1 by up to 3e-5, over 4,096 by less."""
    validate(files.read(path).events, mass=5e-5)
