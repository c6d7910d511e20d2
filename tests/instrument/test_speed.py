"""What the page says of a run's speed and of greedy lanes that part, called under node as the page calls it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.node import call

FILES = ["run/sentence.js", "run/speed.js", "run/parting.js", "base/numbers.js"]
Json = dict[str, Any]


def lane(drafter: str, tokens: list[int], per_round: int, ms: float, **more: Any) -> Json:
    """A lane of equal rounds; `gaps` by token, `seconds` of whole runs, `verify` ms of a round's forward."""
    gaps = more.get("gaps", {})
    rounds, written = [], []
    for index, start in enumerate(range(0, len(tokens), per_round)):
        emitted = tokens[start : start + per_round]
        at = ms * (index + 1)
        decisions = [{"gap": gaps.get(start + i, 5.0)} for i in range(len(emitted) - 1)]
        written += [{"id": token, "round": index, "at": at} for token in emitted]
        verify = more.get("verify", 0.6 * ms)
        rounds.append(
            {
                "start": at - ms,
                "end": at,
                "emitted": emitted,
                "firstToken": start,
                "tokensAfter": start + len(emitted),
                "drafted": per_round - 1,
                "accepted": len(emitted) - 1,
                "width": per_round,
                "nodes": [{}] * (per_round - 1),
                "decisions": decisions,
                "last": {"gap": gaps.get(start + len(emitted) - 1, 5.0)},
                "timings": {"propose": [0.1 * ms] * (per_round - 1) + [0.0], "verify": verify},
            }
        )
    seconds = more.get("seconds")
    return {
        "name": drafter, "rounds": rounds, "tokens": written, "clock": rounds[-1]["end"], "prefill": None,
        "start": {"drafter": drafter, "exact": True, "models": [], "dtype": more.get("dtype", "bfloat16"),
                  "settings": {"temperature": more.get("temperature", 0)}},
        "end": {"reason": "length", "other_cores": more.get("others")},
        "solo": seconds and {"tokens": len(tokens), "seconds": seconds, "other_cores": []},
        "verify": more.get("curve"),
    }  # fmt: skip


def store(plain: Json, draft: Json) -> Json:
    return {"run": "r", "source": "live", "over": True, "lanes": [plain, draft]}


WORDS = list(range(40))
CURVE = {"kind": "verify_costs", "widths": [1, 3, 9], "v": [1.0, 1.1, 1.5], "noise": [0.0, 0.2, 0.02]}


def said(run: Json, solo: str = "") -> tuple[str, str]:
    return tuple(call(FILES, [("sentence", [run, 1e9, True]), ("basisWords", [run, 1e9, True, solo])]))  # type: ignore[return-value]


def test_one_ratio_is_said_that_of_whole_runs_once_there_are_three() -> None:
    """A race at 2.0 times, whole runs at 1.9: headline and lanes have the latter and nothing else."""
    run = store(
        lane("plain", WORDS, 1, 10, seconds=[0.40, 0.41, 0.42]),
        lane("draft", WORDS, 4, 20, seconds=[0.21, 0.216, 0.22]),
    )
    headline, basis = said(run)
    assert (
        headline
        == "40 tokens in 10 passes of the large model; plain decoding needed 40; 1.90 times as fast, the same text."
    )
    assert basis == "185 against 97.6 tokens/s, prompt included: median of 3 whole runs [1.90, 1.91]"
    assert "Noise" not in basis


@pytest.mark.parametrize(("seconds", "words"), [(None, "(0 of 3)"), ([0.2], "(1 of 3)"), ([0.2, 0.9], "(2 of 3)")])
def test_whole_runs_are_being_measured_until_there_are_three(seconds: list[float] | None, words: str) -> None:
    run = store(lane("plain", WORDS, 1, 10, seconds=seconds), lane("draft", WORDS, 4, 20, seconds=seconds))
    headline, basis = said(run, "running")
    assert headline.endswith("; 2.00 times as fast, the same text.")
    assert "200 against 100 tokens/s in this race" in basis
    assert f"whole runs: measuring… {words}" in basis
    assert "median" not in basis


def test_noise_is_named_with_its_cause() -> None:
    quiet = lane("plain", WORDS, 1, 10, seconds=[0.4, 0.4, 0.4], others=0.0)
    apart = lane("draft", WORDS, 4, 20, seconds=[0.2, 0.2, 0.3], others=1.6)
    basis = said(store(quiet, apart))[1]
    assert "Noise: pairs of whole runs disagree by 50% (other processes: up to 1.6 cores)" in basis
    fast = lane("draft", WORDS, 4, 9, seconds=[0.09, 0.09, 0.09], others=0.0)
    basis = said(store(quiet, fast))[1]
    assert "a speedup above τ = 4.00 tokens per round is not the drafter's" in basis
    assert "other processes were idle, so the cause is not known" in basis
    slow = lane("draft", WORDS, 4, 20, seconds=[0.1, 0.1, 0.1])
    assert "race and whole runs disagree by 100%" in said(store(quiet, slow))[1]
    steady = lane("draft", WORDS, 4, 20, seconds=[0.2, 0.2, 0.2])
    assert "Noise" not in said(store(quiet, steady))[1]
    for round in steady["rounds"][:2]:
        round["timings"]["graphs_recorded"] = 2
    assert "Noise: 4 CUDA graphs were recorded inside timed rounds" in said(store(quiet, steady))[1]


def test_a_greedy_lane_that_parts_gets_a_badge_and_both_lengths_are_counted() -> None:
    other = [*WORDS[:21], *range(100, 119)]
    run = store(lane("plain", WORDS, 1, 10, gaps={21: 0.0}), lane("draft", other, 4, 20, gaps={21: 0.0}))
    run["lanes"][1]["parted"] = {"token": 21, "gap": 0.0, "behind": 0.01, "bound": 0.07, "tie": True}
    (parting,) = call(FILES, [("partingOf", [run["lanes"][1], run["lanes"][0]])])
    assert parting == {"index": 21, "gap": 0, "tie": True, "bound": 0.07}
    assert call(FILES, [("partingBadge", [parting])]) == ["differs from token 22: tie of 0.00"]
    assert said(run)[0] == (
        "40 tokens in 10 passes of the large model; plain decoding needed 40 for its 40 tokens, which differ from "
        "token 22 on (a tie); 2.00 times as fast."
    )
    shorter = store(lane("plain", WORDS, 1, 10), lane("draft", other[:32], 4, 20, gaps={21: 0.0}))
    words = "32 tokens in 8 passes of the large model; plain decoding needed 40 for its 40 tokens, which differ"
    assert said(shorter)[0].startswith(words)


def test_a_gap_that_rounding_does_not_explain_is_no_tie() -> None:
    other = [*WORDS[:21], *range(100, 119)]
    wide = [lane("draft", other, 4, 20, gaps={21: 1.5}), lane("plain", WORDS, 1, 10, gaps={21: 1.5})]
    sampled = [lane("draft", other, 4, 20, temperature=1), lane("plain", WORDS, 1, 10, temperature=1)]
    wide[0]["parted"] = {"token": 21, "gap": 1.5, "behind": 1.4, "bound": 0.07, "tie": False}
    found = call(FILES, [("partingOf", each) for each in (wide, sampled)] + [("partingOf", [*wide, 10])])
    assert [each and each["tie"] for each in found] == [False, None, None]
    assert call(FILES, [("partingBadge", [found[0]])]) == ["differs from token 22: logits 1.50 apart"]
    assert "further apart than rounding explains (0.07, measured)" in call(FILES, [("partingWords", [found[0]])])[0]


def test_nothing_is_called_a_tie_that_was_not_measured() -> None:
    """However small the gap: what rounding can move differs by model, and is measured after the race."""
    other = [*WORDS[:21], *range(100, 119)]
    near = [lane("draft", other, 4, 20, gaps={21: 0.01}), lane("plain", WORDS, 1, 10, gaps={21: 0.01})]
    (parting,) = call(FILES, [("partingOf", near)])
    assert parting == {"index": 21, "gap": 0.01, "tie": False, "bound": None}
    assert "is measured once the race is over" in call(FILES, [("partingWords", [parting])])[0]


# v by rows.


def costs_of(**own: Any) -> Json:
    (found,) = call(FILES, [("costsOf", [lane("draft", WORDS, 4, 20, **own), lane("plain", WORDS, 1, 10)])])
    return found  # type: ignore[no-any-return]


def test_a_forward_that_came_out_faster_than_one_of_a_single_row_is_noise_and_no_negative_cost() -> None:
    """The run that advised 'best gamma 6, S 12.9, pays above alpha < .001'."""
    costs = costs_of(verify=1.0)
    assert costs["noisy"] and costs["v"] == costs["row"] == pytest.approx(0.6)
    speeds = call(FILES, [("chainSpeed", [0.5, gamma, 0.1, costs]) for gamma in range(1, 4)])
    assert all(0 < speed < gamma + 1 for gamma, speed in enumerate(speeds, 1))
    assert call(FILES, [("longestChain", [costs]), ("chainSpeed", [0.5, 4, 0.1, costs])]) == [3, None]
    (alpha,) = call(FILES, [("breakEven", [3, 0.1, costs])])
    assert alpha > 0.1


def test_the_curve_is_the_machines_and_ends_where_it_was_measured() -> None:
    costs = costs_of(curve=CURVE)
    at = call(FILES, [("verifyAt", [width, CURVE]) for width in (1, 2, 3, 6, 9, 10)])
    assert [each["v"] for each in at] == [1, pytest.approx(1.05), pytest.approx(1.1), pytest.approx(1.3), 1.5, None]
    assert call(FILES, [("longestChain", [costs])]) == [8]
    (speed,) = call(FILES, [("chainSpeed", [1, 8, 0.1, costs])])
    assert speed == pytest.approx(9 / (0.8 + costs["row"] * 1.5 + costs["o"]))


def test_a_lane_that_reads_a_long_prompt_says_how_far_it_is() -> None:
    start = {"prompt_tokens": 2048, "drafter": "plain", "seed": 0}
    state = {"tokens": 0, "rounds": 0, "spent": 0}

    def case(read: int, **more: Any) -> tuple[str, list[Any]]:
        told = {"start": start, "prefill": {"tokens": read, "end": 900.0}, "end": None, "clock": 900.0, **more}
        return "footText", [told, state, 900.0]

    assert call(["run/foot.js"], [case(512), case(2047), case(512, end={"reason": "cancelled"})]) == [
        "reading the prompt: 512 of 2047 tokens",
        "0 tokens so far · 0 passes",
        "0 tokens · 0 passes",
    ]


def test_the_round_to_look_at_first_drafts_words_before_it_accepts_many() -> None:
    def with_nodes(index: int, accepted: int, *texts: str) -> Json:
        nodes = [{"raw": text, "fate": "rejected"} for text in texts]
        return {"index": index, "accepted": accepted, "nodes": nodes}

    rounds = [with_nodes(0, 2, "2", "0"), with_nodes(1, 1, " title"), with_nodes(2, 1, " year")]
    one, other = call(["base/store.js"], [("defaultRound", [{"rounds": rounds[:n]}]) for n in (3, 1)])
    assert (one["index"], other["index"]) == (1, 0)


def test_a_lane_that_failed_has_no_speed() -> None:
    """Its first tokens came in one burst, which was shown as a hundred times the speed of the others."""
    failed, plain = lane("a", [1, 2, 3], 3, 0.1), lane("b", WORDS, 1, 10)
    failed["end"] = {"reason": "error", "message": "It closed the connection."}
    servers = store(plain, failed)
    speeds = [("laneSpeed", [one, servers, now]) for one, now in ((failed, 1e9), (plain, 1e9))]
    assert call(FILES, speeds) == [None, pytest.approx(100)]
