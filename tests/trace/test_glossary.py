"""The glossary: every metric is defined, and each ratio is what its definition says; the peers' names exist."""

from __future__ import annotations

import re

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace.events import Prefill, Round, RunEnd
from draftscope.trace.glossary import GLOSSARY
from draftscope.trace.metrics import Metrics

RATIO = re.compile(r"(?P<added>1 \+ )?(?P<above>[^/]+) / (?P<below>[^/,]+)(,.*)?")


def test_every_metric_is_explained_once_and_in_order() -> None:
    assert [entry.name for entry in GLOSSARY] == list(Metrics.model_fields)


def test_each_ratio_is_the_one_that_its_definition_names(pair: DecodingEngine) -> None:
    """The words above and below the fraction bar are counted here from the events, and divided."""
    run = pair.decode("one two", "sampled-tree", temperature=1.0, max_new_tokens=40, record=True)
    (prefill,) = (event for event in run.events if isinstance(event, Prefill))
    (end,) = (event for event in run.events if isinstance(event, RunEnd))
    rounds = [event for event in run.events if isinstance(event, Round)]
    drafted = [each for each in rounds if each.drafted]
    spans = [prefill.end - prefill.start, *(each.end - before for before, each in _after(prefill.end, rounds))]
    quantities: dict[str, float] = {
        "accepted": sum(len([node for node in each.nodes if node.fate == "accepted"]) for each in rounds),
        "drafted": sum(len([node for node in each.nodes if node.fate != "never_accepted"]) for each in rounds),
        "emitted": sum(len(each.emitted) for each in rounds),
        "rounds": len(rounds),
        "rounds that drafted": len(drafted),
        "rounds, including rounds without a draft": len(rounds),
        "(prefill + rounds)": end.end / 1e3,
        "time after the first round": rounds[-1].end - rounds[0].end,
        "tokens after it": sum(len(each.emitted) for each in rounds[1:]),
    }
    assert sum(spans) == pytest.approx(rounds[-1].end, rel=0.05)  # nothing lies between prefill and rounds
    checked = 0
    for entry in GLOSSARY:
        found = RATIO.fullmatch(entry.meaning)
        if found is None or entry.name == "acceptance_rate_per_position":
            continue
        expected = quantities[found["above"]] / quantities[found["below"]] + bool(found["added"])
        assert getattr(run.metrics, entry.name) == pytest.approx(expected), entry.name
        checked += 1
    assert checked == 5
    for position, rate in enumerate(run.metrics.acceptance_rate_per_position):
        assert rate == len([each for each in drafted if each.accepted > position]) / len(drafted)


def _after(start: float, rounds: list[Round]) -> list[tuple[float, Round]]:
    """Each round with the time at which the one before it ended."""
    return list(zip([start, *(each.end for each in rounds[:-1])], rounds, strict=True))
