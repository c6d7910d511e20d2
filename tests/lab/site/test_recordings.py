"""What is recorded for a site, and how it is kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import known
from draftscope.trace.events import Decision, Round, RunStart
from draftscope.trace.validate import validate
from draftscope_app.lab.site import shelf
from draftscope_app.lab.site.texts import NOT_RECORDED, SUFFIX, TEXTS
from draftscope_app.lab.site.thin import MAX_SHOWN, thinned
from tests.lab.site.conftest import TINY
from tests.support.raced import race_of


def test_every_drafter_races_plain_decoding_greedy_and_sampled(recordings: Path) -> None:
    runs = shelf.read(recordings)[1:]
    assert [run.name for run in runs] == [f"story-{d}-{t}" for t in (0, 1) for d in TINY.drafters]
    for run in runs:
        starts = [event for event in run.events if isinstance(event, RunStart)]
        assert [start.drafter for start in starts] == ["plain", run.drafter]
        assert {start.settings["temperature"] for start in starts} == {run.temperature}
        assert {"solo_runs", "verify_costs"} <= {event.kind for event in run.events}
        assert run.prompt == TINY.prompt
        assert set(run.listed()) == {"name", "prompt", "target", "drafter", "title", "temperature"}
        validate(run.events)


def test_texts_name_prompts_and_drafters_that_there_are() -> None:
    assert len({text.name for text in TEXTS}) == len(TEXTS)
    assert {name for text in TEXTS for name in text.drafters} <= set(known()) - set(NOT_RECORDED)
    assert all(text.prompt for text in TEXTS)


def test_a_text_without_a_file_is_missing(recordings: Path, tmp_path: Path) -> None:
    assert [text.name for text in shelf.missing(recordings)] == [text.name for text in TEXTS if text.name != "story"]
    assert shelf.missing(tmp_path) == list(TEXTS)
    assert [run.name for run in shelf.read(tmp_path)] == ["first"]


def test_a_file_that_is_no_recording_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / f"story{SUFFIX}").write_bytes(b"precious")
    with pytest.raises(DraftscopeError, match="holds no recordings; remove it, and run"):
        shelf.read(tmp_path)


def test_what_is_left_out_of_a_distribution_keeps_its_mass(pair: DecodingEngine) -> None:
    """And every token that the round drafted, drew or wrote is shown."""
    whole = race_of(pair, drafter="sampled-tree", shape=(3, 2))
    fewer = [thinned(event) for event in whole]
    validate(fewer)
    before, after = (
        [d for event in events if isinstance(event, Round) for d in event.decisions] for events in (whole, fewer)
    )
    assert sum(map(shown, after)) < sum(map(shown, before)) / 2
    for old, new in zip(before, after, strict=True):
        for one, cut in zip(old.distributions, new.distributions, strict=True):
            assert sum(cut.p) + cut.rest_p == pytest.approx(sum(one.p) + one.rest_p)
            assert overlap(cut) == pytest.approx(overlap(one))
            assert len(cut.ids) >= min(MAX_SHOWN, len(one.ids))


def shown(decision: Decision) -> int:
    return sum(len(one.ids) for one in decision.distributions)


def overlap(one: object) -> float:
    q, p = getattr(one, "q", None) or [], getattr(one, "p", [])
    return sum(map(min, p, q)) + (getattr(one, "rest_min", None) or 0.0)
