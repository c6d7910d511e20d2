"""A bandit: each round a policy chooses who drafts and how much, by the tokens and the time of the rounds before.

BanditSpec (2505.15141) plays configurations, TapOut (2511.02017) stopping rules; where a result tells what other arms
would have got, it is used (2510.20064). Exact, since an arm is chosen before anything of its round was drawn: from
earlier rounds, their times, and uniforms of a tier of its own. Times are the session's own clock, so above temperature
0 a seed no longer repeats a text: another arm draws other tokens from the same distribution. A batch plays one arm a
round.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.model.levels import Levels
from draftscope.drafters.options import BanditOptions, DrafterOptions, TreeShape
from draftscope.drafters.policy.arms import Arm, Find, arms_of, refuse
from draftscope.drafters.policy.implied import accepted, is_chain, lies_in
from draftscope.drafters.policy.policies import POLICIES
from draftscope.trace import events
from draftscope.verify.tree import Counts, DraftTree

TIER = 2  # of the uniforms that a policy draws arms with
LEAST_MS = 1e-6  # of a round, where a coarse clock saw no time pass


@dataclass(frozen=True)
class Play:
    """An arm at work: arms that differ in their shape alone share a `member`, and with it the draft model's cache."""

    arm: Arm
    member: Drafter
    counts: Counts | None  # what the member drafts for this arm, where it can be told
    drawn: bool  # are its children drawn, wherever that is known?


@dataclass(frozen=True)
class PlayedRound:
    """A round that is being played."""

    chosen: int
    lengths: list[int]  # [B] of the texts when it began
    state: State
    told: list[list[int]]  # [arms told][B] accepted tokens; empty until the result is in


class Bandit(Drafter):
    """The arms of the settings under their policy."""

    def __init__(self, parts: Parts[BanditOptions], find: Find) -> None:
        self._plays = _plays(parts, find)
        self._members = list({id(play.member): play.member for play in self._plays}.values())
        self.layers = tuple(sorted({layer for member in self._members for layer in member.layers}))
        self.reads_argmax = any(member.reads_argmax for member in self._members)
        self._hidden = parts.target.hidden
        tells = [_told_by(play, self._plays, parts) for play in self._plays]
        self._policy = POLICIES[parts.options.policy](tells)
        self._options = parts.options
        self._streams = parts.streams.below(TIER)
        self._round: PlayedRound | None = None

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        for member in self._members:
            member.begin(prompts, self._own_features(member, features))

    def propose(self, state: State, depth: int) -> DraftTree:
        self._settle(state)
        uniforms = self._streams.uniforms(state.round, len(self._plays)).last[0].tolist()
        chosen = self._policy.choose(uniforms)
        self._round = PlayedRound(chosen, [len(text) for text in state.texts], state, [])
        play = self._plays[chosen]
        if play.counts is not None:
            assert isinstance(play.member, Levels)
            play.member.counts = play.counts
        return play.member.propose(state, depth)

    def overlap_start(self, tree: DraftTree) -> None:
        assert self._round is not None
        self._plays[self._round.chosen].member.overlap_start(tree)

    def observe(self, outcome: Outcome) -> None:
        """Who drafted hears its result; who reads the target's features hears every one."""
        assert self._round is not None
        play = self._plays[self._round.chosen]
        for member in self._members:
            if member is play.member or member.layers:
                member.observe(replace(outcome, features=self._own_features(member, outcome.features)))
        told = [
            [len(path) for path in outcome.paths]
            if arm == self._round.chosen
            else accepted(outcome, self._round.state.uniforms, self._plays[arm].arm.shape or ())
            for arm in self._policy.tells[self._round.chosen]
        ]
        self._round = replace(self._round, told=told)

    def annotations(self, row: int) -> Sequence[events.Annotation]:
        assert self._round is not None  # the policy hears of it when the next one begins
        chosen = self._round.chosen
        return (self._annotation(chosen), *self._plays[chosen].member.annotations(row))

    def _settle(self, state: State) -> None:
        """Tells the policy of the round before this one: its tokens, of every sequence that went on, and its time."""
        if self._round is None:
            return
        went_on = [len(text) > length for text, length in zip(state.texts, self._round.lengths, strict=True)]
        tokens = [
            sum(count + 1 for count, live in zip(counts, went_on, strict=True) if live) for counts in self._round.told
        ]
        ms = max(state.clock - self._round.state.clock, LEAST_MS)
        self._policy.observe(self._round.chosen, tokens, ms)

    def _own_features(self, member: Drafter, features: Tensor | None) -> Tensor | None:
        """The columns [B, T, F] of the layers that a member asked for."""
        if features is None or not member.layers:
            return None
        places = [self.layers.index(layer) * self._hidden for layer in member.layers]
        return torch.cat([features[..., place : place + self._hidden] for place in places], -1)

    def _annotation(self, chosen: int) -> events.PolicyNote:
        """What the policy knew when it chose."""
        arms = [
            events.Arm(
                name=play.arm.name,
                pulls=seen.pulls,
                tokens_per_round=seen.tokens.mean if seen.tokens.count else None,
                ms_per_round=seen.ms.mean if seen.pulls else None,
                tokens_per_s=1e3 * seen.rate if seen.pulls else None,
            )
            for play, seen in zip(self._plays, self._policy.arms, strict=True)
        ]
        return events.PolicyNote(
            policy=self._options.policy, chosen=chosen, probability=self._policy.probability, arms=arms
        )


def _plays(parts: Parts[DrafterOptions], find: Find) -> list[Play]:
    """Every arm with who drafts for it. `DraftscopeError` for an arm that these models cannot play."""
    shared: dict[object, Levels] = {}
    plays = []
    for arm in arms_of(parts.settings, find):
        refuse(arm, parts)
        made = arm.info.create(replace(parts, settings=arm.settings, options=arm.options))
        if isinstance(made, Levels) and made.shares:
            member = shared.setdefault((type(made), arm.info.needs_head, made.draws), made)
            plays.append(Play(arm, member, made.counts, made.draws))
        else:
            plays.append(Play(arm, made, None, drawn=False))
    return plays


def _told_by(played: Play, plays: Sequence[Play], parts: Parts[BanditOptions]) -> list[int]:
    """The arms whose tokens the result on `played` tells."""
    return [i for i, play in enumerate(plays) if play is played or _tells(played, play, parts)]


def _tells(played: Play, other: Play, parts: Parts[BanditOptions]) -> bool:
    large, small = played.arm.shape, other.arm.shape
    if small == ():
        return True  # plain: one token, whatever happens
    if not large or small is None or not lies_in(small, large):
        return False
    if played.member is not other.member and played.arm.info is not other.arm.info:
        return False
    return _verified_alike(small, large, drawn=played.drawn, rule=parts.options.rule)


def _verified_alike(small: TreeShape, large: TreeShape, drawn: bool, rule: str) -> bool:
    """A drawn chain is verified by `rule`; a tree token by token, whatever the rule."""
    return not drawn or rule == "token" or is_chain(small) == is_chain(large)


def info(find: Find) -> DrafterInfo[BanditOptions]:
    """The bandit's entry. Its arms are drafters of the registry that it stands in itself, so it is given `find`."""
    return DrafterInfo(
        name="bandit",
        title="Bandit over drafters and shapes",
        paper="BanditSpec 2505.15141, TapOut 2511.02017; full information: 2510.20064",
        create=lambda parts: Bandit(parts, find),
        options=BanditOptions,
        nodes=lambda settings: max(arm.info.most_nodes(arm.settings) for arm in arms_of(settings, find)),
        needs_draft=True,
        by_clock=True,
    )
