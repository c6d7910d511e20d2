"""What the page says first of a race of servers, called under node as the page calls it."""

from __future__ import annotations

from typing import Any

from tests.support.node import call

Json = dict[str, Any]


def lane(name: str, bursts: int, seconds: list[float], reason: str = "length") -> Json:
    """16 tokens in equal bursts, and how long each counted answer of 16 tokens took."""
    each = 16 // bursts
    return {
        "name": name, "start": {"server": {"program": "vllm"}, "settings": {}}, "end": {"reason": reason},
        "clock": 10.0 * bursts, "prefill": None,
        "rounds": [{"end": 10.0 * (i + 1), "tokensAfter": each * (i + 1)} for i in range(bursts)],
        "tokens": [{"round": i // each, "at": 10.0 * (i // each + 1)} for i in range(16)],
        "served": {"seconds": seconds, "tokens": [16] * len(seconds)},
    }  # fmt: skip


def said(*lanes: Json) -> tuple[str, str]:
    store = {"run": "r", "source": "live", "over": True, "lanes": list(lanes)}
    words = call(["run/served.js"], [("serversSentence", [store, 1e9, True]), ("serversBasis", [store, True])])
    return words[0], words[1]


def test_every_lane_is_called_by_its_own_name_and_compared_with_the_first() -> None:
    """The lanes of this page's engine among them."""
    headline, basis = said(
        lane("one", 8, [0.4, 0.4, 0.4]), lane("plain (here)", 16, [0.8, 0.8, 0.8]), lane("draft (here)", 4, [0.2] * 3)
    )
    assert headline == (
        "one wrote 16 tokens in 8 bursts, plain (here) 16 in 16, draft (here) 16 in 4; plain (here) is 0.50 times as "
        "fast as one, draft (here) is 2.00 times as fast as one."
    )
    assert "one 40.0, plain (here) 20.0, draft (here) 80.0: median of 3 answers each" in basis


def test_a_lane_that_failed_is_named_and_not_compared() -> None:
    headline, _ = said(lane("one", 8, [0.4]), lane("two", 4, [], "error"))
    assert headline == "one wrote 16 tokens in 8 bursts. two failed; see below."


def test_a_race_that_was_stopped_before_it_began_says_so() -> None:
    assert said(*({**lane(name, 8, [], "cancelled"), "rounds": [], "tokens": []} for name in ("one", "two"))) == (
        "Stopped before there was a token.", ""
    )  # fmt: skip


def test_answers_that_disagree_about_who_is_faster_give_a_range() -> None:
    noisy, _ = said(lane("one", 8, [0.4, 0.4, 0.4]), lane("two", 8, [0.5, 0.4, 0.3]))
    assert noisy.endswith("; two is 0.80 to 1.33 times as fast as one, too noisy to tell.")
    close, _ = said(lane("one", 8, [0.4, 0.4, 0.4]), lane("two", 8, [0.41, 0.4, 0.39]))
    assert close.endswith("; two is 1.00 times as fast as one.")
