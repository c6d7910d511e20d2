"""Where the time of a plain step goes: the parts are those of a step, and add up to it."""

from __future__ import annotations

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.models.native.available import why_not
from draftscope.models.probe import probed
from tests.conftest import letters
from tests.models.test_native import llama
from tests.programs import step

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())


def test_the_parts_of_a_step_add_up_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(step, "PROMPT", "abc")
    monkeypatch.setattr(step, "TOKENS", 1)  # of one step medians add up
    found = step.measured(DecodingEngine(probed(llama(), "target"), None, letters(75)), runs=1)
    assert list(found) == ["T = 0", "T = 1"]
    for parts in found.values():
        whole = parts["step"]
        assert sum(each for name, each in parts.items() if name != "step") == pytest.approx(whole)
        assert all(parts[name] > 0 for name in parts if name not in ("rest of the program", "between rounds"))
    lines = step.table(found).splitlines()
    assert [line.split("|")[1].strip() for line in lines[2:]] == list(found["T = 0"])
    assert [cell.strip() for cell in lines[-1].split("|")][3] == "100.0%"
