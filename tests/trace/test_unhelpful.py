"""A drafter none of whose first guesses is accepted is named: by `decode`, and by the page in the same cases."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from draftscope.decode.engine import DecodingEngine
from draftscope.models.probe import probed
from draftscope.trace.unhelpful import GUESSES, unhelpful
from tests.support.command import command_line, instead_of_loading
from tests.support.models import byte_tokenizer, random_heads, random_llama
from tests.support.node import call

SETTINGS: dict[str, Any] = {"gamma": 3, "max_new_tokens": 60, "temperature": 0.0}


@pytest.fixture(scope="module")
def foreign() -> DecodingEngine:
    """A target whose greedy text is token 0, which neither its EAGLE-3 head nor its draft model ever drafts."""
    target, draft = random_llama(3, 258), random_llama(4, 258, layers=1, hidden=16)
    model = probed(target, "target")
    engine = DecodingEngine(model, probed(draft, "draft"), byte_tokenizer(), random_heads(model, tuple(range(1, 258))))
    engine.eos = frozenset()
    with torch.no_grad():
        target.lm_head.weight.zero_()
        draft.lm_head.weight[0] = 0.0
    return engine


REMEDIES = {
    "eagle3": "'draftscope inspect' says what may be wrong with the head.",
    "draft": "choose a draft model that was made for this target.",
    "eagle3-sampled-tree": "'draftscope inspect' says what may be wrong with the head.",
}


@pytest.mark.parametrize("drafter", REMEDIES)
def test_a_drafter_that_guesses_nothing_right_is_said(
    drafter: str, foreign: DecodingEngine, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = foreign.decode("abc", drafter, **SETTINGS)
    assert run.token_ids == [0] * 60
    sentence = unhelpful(run.start, run.round_events)
    assert sentence.startswith("None of the first 1") and sentence.endswith(
        f"guesses of '{drafter}' was accepted; {REMEDIES[drafter]}"
    )
    instead_of_loading(monkeypatch, foreign)
    flags = [word for name, value in SETTINGS.items() for word in (f"--{name.replace('_', '-')}", str(value))]
    assert sentence in command_line(capsys, "decode")("abc", "--drafter", drafter, *flags).err
    assert "guesses was accepted" in on_the_page(run)
    assert "guesses was accepted" not in on_the_page(run, rounds=5)


def test_a_drafter_that_is_right_now_and_then_is_not(foreign: DecodingEngine, tiny: DecodingEngine) -> None:
    """Nor one that made few guesses, nor one that copies."""
    cases = [
        (tiny, "eagle3", {"temperature": 1.0}),
        (tiny, "draft", {"temperature": 1.0}),
        (foreign, "plain", {}),
        (foreign, "ngram", {}),
    ]
    cases.append((foreign, "draft", {"max_new_tokens": GUESSES // 4}))
    for engine, drafter, more in cases:
        run = engine.decode("abc", drafter, **SETTINGS | more)
        assert not unhelpful(run.start, run.round_events), drafter
        assert "guesses was accepted" not in on_the_page(run)


def on_the_page(run: Any, rounds: int | None = None) -> str:
    """The line under the lane when so many rounds have passed."""
    shown = [{"end": event.end, "drafted": event.drafted, "accepted": event.accepted} for event in run.round_events]
    lane = {"start": run.start.model_dump(), "rounds": shown, "clock": shown[-1]["end"], "end": {"reason": "length"}}
    now = shown[-1 if rounds is None else rounds]["end"]
    (line,) = call(["run/foot.js"], [("footText", [lane, {"tokens": 60, "rounds": 60, "spent": 0}, now])])
    return str(line)
