"""A bandit: each round a policy chooses the drafter and its size, by the tokens and times of earlier rounds.

BanditSpec (2505.15141) chooses among configurations, TapOut (2511.02017) among stopping rules. If the result of one arm
implies the results of others, they are used too (2510.20064). Exact, because an arm is chosen before anything of its
round is drawn: by earlier rounds, their times, and uniforms of its own tier. Times are measured on the session's clock,
so above temperature 0 the same seed does not repeat a text: another arm draws other tokens from the same distribution.
A batch uses one arm in each round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.guard import create
from draftscope.drafters.model.levels import Levels
from draftscope.drafters.options import BanditOptions, DrafterOptions, TreeShape
from draftscope.drafters.policy.arms import BanditArm, arms_of, refuse
from draftscope.drafters.policy.implied import accepted, is_chain, lies_in
from draftscope.drafters.policy.policies import POLICIES
from draftscope.trace import events
from draftscope.verify.tree import Counts, DraftTree

TIER = 2  # of the uniforms with which a policy draws arms
MIN_MS = 1e-6  # of a round, in case a coarse clock measured no time


@dataclass(frozen=True)
class Play:
    """An arm and its drafter. Arms that differ only in shape share a drafter, and with it the draft model's cache."""

    arm: BanditArm
    drafter: Drafter
    counts: Counts | None  # of the tree that the drafter drafts for this arm, if it can be set
    drawn: bool  # whether its children are known to be drawn


@dataclass(frozen=True)
class PlayedRound:
    """The current round."""

    chosen: int
    lengths: list[int]  # [B] of the texts at its beginning
    state: State
    accepted: list[list[int]]  # [implied arms][B] accepted tokens; empty before the result


class Bandit(Drafter):
    """The arms that the options name, chosen by their policy."""

    def __init__(self, parts: Parts[BanditOptions]) -> None:
        self._plays = _plays(parts)
        self._drafters = list({id(play.drafter): play.drafter for play in self._plays}.values())
        self.layers = tuple(sorted({layer for drafter in self._drafters for layer in drafter.layers}))
        self.reads_argmax = any(drafter.reads_argmax for drafter in self._drafters)
        self._hidden = parts.target.hidden
        implied = [_implied_by(play, self._plays, parts) for play in self._plays]
        self._policy = POLICIES[parts.options.policy](implied)
        self._options = parts.options
        self._streams = parts.streams.below(TIER)
        self._round: PlayedRound | None = None

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        for drafter in self._drafters:
            drafter.begin(prompts, self._own_features(drafter, features))

    def propose(self, state: State, depth: int) -> DraftTree:
        self._report(state)
        uniforms = self._streams.uniforms(state.round, len(self._plays)).last[0].tolist()
        chosen = self._policy.choose(uniforms)
        self._round = PlayedRound(chosen, [len(text) for text in state.texts], state, [])
        play = self._plays[chosen]
        if play.counts is not None:
            assert isinstance(play.drafter, Levels)
            play.drafter.counts = play.counts
        return play.drafter.propose(state, depth)

    def overlap_start(self, tree: DraftTree) -> None:
        assert self._round is not None
        self._plays[self._round.chosen].drafter.overlap_start(tree)

    def observe(self, outcome: Outcome) -> None:
        """The round's drafter receives the result; drafters that read the target's features receive every result."""
        assert self._round is not None and outcome.uniforms is not None
        play = self._plays[self._round.chosen]
        for drafter in self._drafters:
            if drafter is play.drafter or drafter.layers:
                drafter.observe(replace(outcome, features=self._own_features(drafter, outcome.features)))
        lengths = [
            [len(path) for path in outcome.paths]
            if arm == self._round.chosen
            else accepted(outcome, outcome.uniforms, self._plays[arm].arm.shape or ())
            for arm in self._policy.implied[self._round.chosen]
        ]
        self._round = replace(self._round, accepted=lengths)

    def annotations(self, row: int) -> Sequence[events.Annotation]:
        assert self._round is not None  # the policy receives its result when the next round begins
        chosen = self._round.chosen
        return (self._annotation(chosen), *self._plays[chosen].drafter.annotations(row))

    def _report(self, state: State) -> None:
        """Passes the previous round to the policy: the tokens of every sequence that had not ended, and the time."""
        if self._round is None:
            return
        before = self._round
        live = [len(text) > length for text, length in zip(state.texts, before.lengths, strict=True)]
        tokens = [sum(n + 1 for n, alive in zip(counts, live, strict=True) if alive) for counts in before.accepted]
        ms = max(state.clock - before.state.clock, MIN_MS)
        self._policy.observe(before.chosen, tokens, ms)

    def _own_features(self, drafter: Drafter, features: Tensor | None) -> Tensor | None:
        """The columns [B, T, F] of the layers that a drafter reads."""
        if features is None or not drafter.layers:
            return None
        places = [self.layers.index(layer) * self._hidden for layer in drafter.layers]
        return torch.cat([features[..., place : place + self._hidden] for place in places], -1)

    def _annotation(self, chosen: int) -> events.PolicyNote:
        """What the policy knew when it chose."""
        arms = [
            events.Arm(
                name=play.arm.name,
                pulls=stats.pulls,
                tokens_per_round=stats.tokens.mean if stats.tokens.count else None,
                ms_per_round=stats.ms.mean if stats.pulls else None,
                tokens_per_s=1e3 * stats.rate if stats.pulls else None,
            )
            for play, stats in zip(self._plays, self._policy.arms, strict=True)
        ]
        return events.PolicyNote(
            policy=self._options.policy, chosen=chosen, probability=self._policy.probability, arms=arms
        )


def _plays(parts: Parts[DrafterOptions]) -> list[Play]:
    """Every arm with its drafter. `DraftscopeError` for an arm that these models cannot run."""
    shared: dict[object, Levels] = {}
    plays = []
    for arm in arms_of(parts.settings):
        refuse(arm, parts)
        made = create(arm.info, replace(parts, settings=arm.settings, options=arm.options))
        if isinstance(made, Levels) and made.shares:
            drafter = shared.setdefault((type(made), arm.info.needs_head, made.draws), made)
            plays.append(Play(arm, drafter, made.counts, made.draws))
        else:
            plays.append(Play(arm, made, None, drawn=False))
    return plays


def _implied_by(played: Play, plays: Sequence[Play], parts: Parts[BanditOptions]) -> list[int]:
    """The arms whose tokens the result of `played` implies, itself among them."""
    return [i for i, play in enumerate(plays) if play is played or _implies(played, play, parts)]


def _implies(played: Play, other: Play, parts: Parts[BanditOptions]) -> bool:
    large, small = played.arm.shape, other.arm.shape
    if small == ():
        return True  # plain: always one token
    if not large or small is None or not lies_in(small, large):
        return False
    if played.drafter is not other.drafter and played.arm.info is not other.arm.info:
        return False
    return _verified_alike(small, large, drawn=played.drawn, rule=parts.options.rule)


def _verified_alike(small: TreeShape, large: TreeShape, drawn: bool, rule: str) -> bool:
    """A drawn chain is verified by `rule`; a tree is always verified token by token."""
    return not drawn or rule == "token" or is_chain(small) == is_chain(large)


INFO = DrafterInfo(
    name="bandit",
    title="Bandit over drafters and shapes",
    paper="BanditSpec 2505.15141, TapOut 2511.02017; full information: 2510.20064",
    create=Bandit,
    options=BanditOptions,
    nodes=lambda settings: max(arm.info.max_nodes(arm.settings) for arm in arms_of(settings)),
    needs_draft=True,
    by_clock=True,
    arms=lambda settings: [(arm.info, arm.settings) for arm in arms_of(settings)],
)
