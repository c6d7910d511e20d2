"""At temperature 0 every rule, the lossy ones too, keeps what is the target's best token; and that is what is said."""

from __future__ import annotations

import json
from itertools import product
from typing import Any

import pytest

from draftscope.base.common_settings import LOSSY
from draftscope.decode.engine import DecodingEngine
from draftscope.trace import files
from draftscope.trace.events import EVENT, RunStart


def start(engine: DecodingEngine, **settings: Any) -> RunStart:
    found = engine.decode("ab", max_new_tokens=24, **settings).events[0]
    assert isinstance(found, RunStart)
    return found


@pytest.mark.parametrize(
    ("drafter", "rule"), [*product(["draft"], LOSSY), *zip(("eagle3", "early-exit", "bandit"), LOSSY, strict=True)]
)
def test_a_lossy_rule_is_exact_at_zero_and_only_there(pair: DecodingEngine, drafter: str, rule: str) -> None:
    plain = pair.decode("ab", "plain", max_new_tokens=24).token_ids
    own = {"drafter": drafter, "rule": rule, "lenience": 0.05, "agreement": 200}
    assert pair.decode("ab", max_new_tokens=24, **own).token_ids == plain
    assert start(pair, **own).exact
    assert not start(pair, temperature=0.01, **own).exact


def test_rounds_with_the_notes_of_old_are_read_and_others_are_not(pair: DecodingEngine) -> None:
    round_ = pair.decode("ab", "draft", max_new_tokens=4).round_events[0]
    line = json.loads(files.line(round_))
    assert "notes" not in line
    assert EVENT.validate_python(line | {"notes": {}}) == round_
    with pytest.raises(ValueError, match="notes"):
        EVENT.validate_python(line | {"notes": {"arm": 1.0}})
