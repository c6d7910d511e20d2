"""What a run's settings mean for the loaded models is resolved once, and said alike wherever it is said."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from draftscope.base.common_settings import LOSSY
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.lane import Lane
from draftscope.drafters.settings import Settings
from draftscope.measure.check import checked, steps

PROMPT = "abcabc"


Decoding = Callable[[DecodingEngine], object]


@pytest.mark.parametrize(
    "decoding",
    [
        lambda engine: engine.decode(PROMPT, "draft", max_new_tokens=4),
        lambda engine: engine.decode([PROMPT, "ab", "abc"], "draft", max_new_tokens=4, batch=2, progress=False),
        lambda engine: list(engine.rounds(PROMPT, "draft", max_new_tokens=4)),
        lambda engine: engine.start(PROMPT, Settings.of(max_new_tokens=4)),
        lambda engine: engine.start_batch([[1, 2], [3]], Settings.of(max_new_tokens=4), (0, 1)),
    ],
    ids=["a prompt", "a list of prompts", "rounds", "start", "a batch"],
)
def test_a_lane_is_resolved_once(pair: DecodingEngine, decoding: Decoding, monkeypatch: pytest.MonkeyPatch) -> None:
    resolved: list[Settings] = []
    right = Lane.of

    def counted(engine: DecodingEngine, settings: Settings) -> Lane:
        resolved.append(settings)
        return right(engine, settings)

    monkeypatch.setattr(Lane, "of", counted)
    decoding(pair)
    assert len(resolved) == 1


def test_what_drafts_through_text_is_named_alike_everywhere(through_text: DecodingEngine) -> None:
    settings = Settings.of(drafter="draft", max_new_tokens=4)
    said = {
        "run": through_text.decode(PROMPT, "draft", max_new_tokens=4).start.drafter,
        "checked": next(event.drafter for event in checked(through_text, settings) if event is not None),
    }
    assert set(said.values()) == {"slem"}, said


def test_a_check_takes_no_rule_that_its_drafter_does_not_read(through_text: DecodingEngine) -> None:
    """A draft with another tokenizer is verified without a choice of rule, so none is said to be checked."""
    event = next(iter(checked(through_text, Settings.of(drafter="draft", rule="token"))))
    assert event is not None and event.rule == ""
    with pytest.raises(Exception, match="'slem' has no choice of rule"):
        next(iter(steps(through_text, "draft", 500, rule="token")))


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("rule", ["block", "token", *LOSSY])
def test_only_a_lossy_rule_above_temperature_0_makes_a_lane_inexact(
    pair: DecodingEngine, rule: str, temperature: float
) -> None:
    chosen = {"rule": rule, "temperature": temperature}
    assert Lane.of(pair, Settings.of(drafter="draft", **chosen)).exact == (rule not in LOSSY or temperature == 0)
    assert Lane.of(pair, Settings.of(drafter="ngram", **chosen)).exact  # does not read the rule


def test_a_cache_has_room_for_the_longest_prompt_its_answer_and_a_round(pair: DecodingEngine) -> None:
    lane = Lane.of(pair, Settings.of(drafter="draft", gamma=3, max_new_tokens=10))
    assert lane.nodes == 3
    assert lane.capacity([[1, 2], [1, 2, 3, 4, 5]]) == 5 + 10 + 3 + 1
