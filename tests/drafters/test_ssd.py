"""SSD: drafts prepared during the target's forward are used on a hit, never on a miss, and cause no bias.

What it shares with every drafter is in `tests/decode`; its joint distribution is in `test_distribution.py`.
"""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch

from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import Outcome, Parts
from draftscope.drafters.model import ssd
from draftscope.drafters.model.ssd import Ssd, fan_out
from draftscope.drafters.settings import Settings
from draftscope.measure.findings import FALSE_ALARM
from draftscope.models.probe import probed
from draftscope.trace import files
from draftscope.trace.events import EVENT, Prefetch
from draftscope.verify.uniforms import Streams, Uniforms
from tests.drafters.test_recurrent import fresh, random_mamba
from tests.support.distribution import distribution_test
from tests.support.models import letters

PROMPT = "The quick brown fox"


def notes(run: Any) -> list[Prefetch | None]:
    found = [[note for note in event.annotations if isinstance(note, Prefetch)] for event in run.round_events]
    return [own[0] if own else None for own in found]


@pytest.fixture(scope="module")
def twin(pair: DecodingEngine) -> DecodingEngine:
    """The target drafts for itself: every greedy outcome is predicted."""
    return DecodingEngine(pair.target, pair.target, pair.tokenizer)


def distribution(engine: DecodingEngine, samples: int = 2000, **settings: object) -> float:
    chosen = Settings.of(**{"drafter": "ssd", "gamma": 2, "temperature": 1.0, "seed": 5, **settings})
    return distribution_test(engine, "abcab", chosen, 4, samples).p_value


def test_a_recurrent_draft_prepares_branches_too(tiny: DecodingEngine) -> None:
    engine = DecodingEngine(tiny.target, probed(random_mamba(2, 5, layers=1), "mamba"), letters(5))
    assert distribution(engine, 1500, prefetch=6) > FALSE_ALARM


class NextRounds(Streams):
    """The uniforms with which the next round will verify what is prepared now."""

    def uniforms(self, round_index: int, nodes: int, device: torch.device | str = "cpu") -> Uniforms:
        verified = Streams(self.seed, self.sequences).uniforms(round_index + 1, 1, device).accept
        return Uniforms(verified.expand(-1, nodes), verified, verified)


def test_chains_prepared_with_the_uniforms_that_verify_are_caught(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Ssd.__init__

    def shared(self: Ssd, parts: Parts) -> None:
        right(self, parts)
        self._streams = NextRounds(parts.streams.seed, parts.streams.sequences)

    monkeypatch.setattr(Ssd, "__init__", shared)
    assert distribution(tiny, 3000, rule="token", gamma=1, prefetch=8) < FALSE_ALARM


def test_a_prepared_chain_of_another_outcome_is_caught(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutation: a miss uses any prepared chain. Its distribution is reported, so the output is still exact; but it is
    not the draft's own distribution."""
    monkeypatch.setattr(ssd, "_hit", lambda slots, following, accepted, last: 0)
    with pytest.raises(AssertionError):
        check_distributions(tiny, 2)


def test_a_hit_used_depending_on_its_chain_is_caught(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutation: the decision to use a chain depends on what was drawn."""
    right = Ssd.observe

    def choosy(self: Ssd, outcome: Outcome) -> None:
        right(self, outcome)
        if self._ready is not None:
            first = self._ready.tokens[:, :, 0].tolist()
            self._hits = [
                hit if hit is None or own[hit] > 2 else None for hit, own in zip(self._hits, first, strict=True)
            ]
            self._cached = [min(c, d - 1) for c, d in zip(self._cached, self._due, strict=True)]

    monkeypatch.setattr(Ssd, "observe", choosy)
    assert distribution(tiny, 4000, rule="token", gamma=1, prefetch=8) < FALSE_ALARM


@torch.inference_mode()
def check_distributions(engine: DecodingEngine, gamma: int) -> int:
    """Every distribution that a chain claims is the draft's own, from scratch; how many of the chains were prepared."""
    prompts = [[0, 1, 2, 3], [4]]
    settings = Settings.of(drafter="ssd", gamma=gamma, prefetch=9, temperature=1.0, max_new_tokens=24, seed=2)
    session = engine.start_batch(prompts, settings, (0, 1), ends=False)
    texts, prepared = [list(prompt) for prompt in prompts], 0
    for step in session.steps():
        for b, text in enumerate(texts):
            if not step.live[b] or step.tree.distributions is None:
                continue
            drafted = step.tree.tokens[b].tolist()
            want = fresh(engine.draft, text + drafted[:-1])[len(text) - 1 :].softmax(-1)
            torch.testing.assert_close(step.tree.distributions[b], want, atol=2e-5, rtol=1e-3)
            prepared += step.tree.origin[b][0].startswith("prefetched")
        texts = [prompt + t.tokens for prompt, t in zip(prompts, session.transcripts, strict=True)]
    return prepared


def test_every_chain_is_drawn_from_the_drafts_distribution_of_its_own_text(tiny: DecodingEngine) -> None:
    assert check_distributions(tiny, 3) > 3


def test_a_prepared_draft_is_not_drafted_again(twin: DecodingEngine) -> None:
    """Greedy, and the draft is the target: after the first round everything is prepared during the target's forward."""
    run = twin.decode(PROMPT, "ssd", gamma=3, max_new_tokens=41)
    assert run.token_ids == twin.decode(PROMPT, "plain", max_new_tokens=41).token_ids
    told = notes(run)
    assert all(note.hit for note in told if note is not None)
    origins = [{node.origin.split()[0] for node in event.nodes} for event in run.round_events]
    assert origins[0] == {"draft"}
    whole = [own for own, note in zip(origins[1:], told, strict=False) if note is not None and own]
    assert whole and all(own == {"prefetched"} for own in whole)


def test_hits_and_misses_in_the_trace_are_what_the_next_round_did(twin: DecodingEngine) -> None:
    run = twin.decode(PROMPT, "ssd", gamma=2, prefetch=6, temperature=0.6, seed=3, max_new_tokens=60)
    told = notes(run)
    seen = {True: 0, False: 0}
    for note, event in zip(told, run.round_events[1:], strict=False):
        if note is not None and event.nodes:
            assert note.hit == event.nodes[0].origin.startswith("prefetched")
            seen[note.hit] += 1
    assert min(seen.values()) > 0, seen
    assert {note.outcomes for note in told if note} == {6}
    assert {note.overlap for note in told if note} == {"thread"}
    assert all(note.busy_ms > 0 and note.waited_ms >= 0 for note in told if note)
    assert [EVENT.validate_json(files.line(event)) for event in run.events] == list(run.events)


def test_it_drafts_in_its_own_thread_which_ends_with_the_round(pair: DecodingEngine) -> None:
    ran: set[str] = set()
    settings = Settings.of(drafter="ssd", gamma=3, max_new_tokens=20)
    session = pair.start_batch([pair.encode(PROMPT)], settings, (0,))
    drafter: Any = session.drafter
    right = drafter._chains
    drafter._chains = lambda *args: (ran.add(threading.current_thread().name), right(*args))[1]
    for _ in session.steps():
        assert drafter._running is None
    assert ran == {"ssd_0"}


def test_as_an_arm_it_drops_what_it_prepared_before_other_arms_rounds(tiny: DecodingEngine) -> None:
    arms = ("ssd:2", "plain", "ssd:1")
    assert distribution(tiny, 1500, drafter="bandit", policy="exp3", arms=arms) > FALSE_ALARM


def test_outcomes_fan_out_geometrically() -> None:
    assert fan_out(8, 3, 0.9) == [1, 1, 1, 5]
    assert fan_out(8, 3, 0.1) == [6, 2, 0, 0]
    for alpha in (0.0, 0.3, 0.7, 1.0):
        fan = fan_out(12, 5, alpha)
        assert sum(fan) == 12
        assert sorted(fan[:-1], reverse=True) == fan[:-1]


def test_outcomes_leave_out_the_drafted_token() -> None:
    distributions = torch.tensor([[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]]])
    assert ssd._outcomes(distributions, torch.tensor([[0]]), [2, 1]).tolist() == [[1, 2, 2]]
