"""The class is the drafter: what its phones propose becomes one draft tree, and the real target verifies it.

The tree is deterministic, so the text stays the target's own whatever a class writes. A trained head drafts at the same
places, so that the class has somebody to compete with.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from draftscope.drafters.options import BETWEEN
from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent, Round
from draftscope_app.doors.learn.classroom.questions import Guess
from draftscope_app.doors.learn.classroom.recorded_lanes import CONTEXT, decoded, readable

DEPTH = 4  # tokens of a draft, the class's and the head's
PROPOSALS_MOST = 24  # different ones of a round
PROPOSAL_MOST = 60  # characters
ROUNDS_MOST = 40
LIKELY, OTHERS = 2, 2  # words offered to phones: of the target's most probable ones, and of the least probable shown
NO_SPACE = (".", ",", ";", ":", "!", "?", "'", ")")  # follow a word directly

Decode = Callable[[str, Settings, tuple[int, ...]], Awaitable[list[AnyEvent]]]  # prompt, settings, tokens before it


@dataclass
class ClassRound:
    """One round of the class: its tree, what the target made of it, and how many tokens the head had kept here."""

    nodes: list[dict[str, Any]]  # text, parent, fate, p, votes
    last: Guess
    kept: int
    emitted: tuple[int, ...]
    text: str
    head_kept: int | None  # None where no head is loaded


@dataclass
class Writing:
    """A text that a class drafts."""

    prompt: str = ""
    tokens: tuple[int, ...] = ()
    text: str = ""
    rounds: list[ClassRound] = field(default_factory=list)
    proposals: dict[str, str] = field(default_factory=dict)  # phone -> what it proposes for the present round
    head: str = ""  # title of the drafter that competes
    ended: bool = False  # the target ended it
    hidden: set[str] = field(default_factory=set)  # continuations that the presenter keeps out of the text's rounds
    options: tuple[str, ...] = ()  # words to choose from, in no order
    spaced: bool = False  # the first word follows a space: a text is continued, and no question answered

    def shown(self, closed: bool) -> dict[str, Any]:
        """What phones and projector may see. Proposals of an open round are nobody's but the phone's that sent it."""
        last = self.rounds[-1] if self.rounds else None
        before = self.text.removesuffix(last.text) if closed and last else self.text
        words = " ".join(before.split())
        return {
            "prompt": self.prompt,
            "context": words if len(words) <= CONTEXT else f"… {words[-CONTEXT:].split(' ', 1)[-1]}",
            "round": len(self.rounds) + (not closed),
            "head": self.head,
            "kept": [round_.kept for round_ in self.rounds],
            "headKept": [round_.head_kept for round_ in self.rounds],
            "nodes": last.nodes if closed and last else [],
            "last": last.last.model_dump() if closed and last else None,
            "text": self.text,
            "ended": self.ended,
            "options": () if closed else self.options,
        }

    def begin(self, prompt: str) -> None:
        """The prompt, as long as nothing was written after another."""
        if not self.rounds:
            self.prompt = prompt

    async def offer(self, decode: Decode) -> None:
        """Gives phones words to choose from, once a round: likely ones under the target, mixed with unlikely ones."""
        if self.options:
            return
        before = len(self.rounds)
        plain = Settings.of(drafter="plain", temperature=0.0, max_new_tokens=1)
        last = _first(await decode(self.prompt, plain, self.tokens)).last
        if len(self.rounds) != before or self.options or last.distributions is None:
            return  # the presenter was faster, or the round was left and opened again
        ranked = sorted(zip(last.distributions.p, last.distributions.raw, strict=True), reverse=True)
        words_by_p = [(p, text) for p, raw in ranked if (text := decoded(raw)).strip().isalpha()]
        if not self.text:
            self.spaced = 2 * sum(p for p, text in words_by_p if text.startswith(" ")) > sum(p for p, _ in words_by_p)
        words = list(dict.fromkeys(text.strip() for _, text in words_by_p if text.startswith(" ") == self._spaced))
        offered = words[:LIKELY] + words[LIKELY:][-OTHERS:]
        self.options = tuple(random.sample(offered, len(offered)))

    def proposed(self) -> list[dict[str, Any]]:
        """For the presenter alone: the different proposals, the most frequent first, and which are hidden."""
        counted = Counter(self._following(proposal) for proposal in self.proposals.values())
        return [{"text": text, "votes": n, "hidden": text in self.hidden} for text, n in counted.most_common()]

    def hide(self, text: str) -> None:
        """Keeps one of the proposals out of the draft."""
        if any(proposal["text"] == text for proposal in self.proposed()):
            self.hidden.add(text)

    def continuations(self) -> dict[str, int]:
        """The proposals that are not hidden as texts that can follow, the most frequent first, with their votes."""
        shown = [(proposal["text"], proposal["votes"]) for proposal in self.proposed() if not proposal["hidden"]]
        return dict(shown[:PROPOSALS_MOST])

    def _following(self, proposal: str) -> str:
        words = words_in(proposal)
        return f" {words}" if self._spaced and not words.startswith(NO_SPACE) else words

    @property
    def _spaced(self) -> bool:
        return self.spaced or bool(self.text)

    async def close(self, decode: Decode, head: str, title: str) -> None:
        """Ends the round: the target verifies the proposals. `head`, a drafter's name or none, drafts too."""
        votes = self.continuations()
        typed = BETWEEN.join(votes)
        common = {"temperature": 0.0, "max_new_tokens": DEPTH + 1}
        drafter = (
            Settings.of(drafter="typed", typed=typed, **common) if typed else Settings.of(drafter="plain", **common)
        )
        mine = _first(await decode(self.prompt, drafter, self.tokens))
        head_kept = None
        if head:
            other = Settings.of(drafter=head, gamma=DEPTH, **common)
            head_kept = _first(await decode(self.prompt, other, self.tokens)).accepted
        self.head = title
        self.rounds.append(_class_round(mine, head_kept, votes))
        self.ended = mine.cut == "eos"
        self.tokens += tuple(mine.emitted)
        self.text += mine.text_delta
        self.proposals.clear()
        self.options = ()


def words_in(proposal: str) -> str:
    """What a phone proposes, without what would divide it; empty where there are no words."""
    return " ".join(proposal.replace(BETWEEN, " ").split())[:PROPOSAL_MOST]


def _class_round(round_: Round, head_kept: int | None, votes: dict[str, int]) -> ClassRound:
    paths: list[bytes] = []  # the text from the beginning of the draft to each node
    for node in round_.nodes:
        paths.append((paths[node.parent] if node.parent >= 0 else b"") + node.raw.encode("latin-1"))
    counts = _votes(paths, [node.parent for node in round_.nodes], votes)
    nodes: list[dict[str, Any]] = [
        {"text": readable(node.raw), "parent": node.parent, "fate": node.fate, "p": node.p, "votes": count}
        for node, count in zip(round_.nodes, counts, strict=True)
    ]
    last = Guess(text=readable(round_.last.raw), fate="bonus" if round_.last.kind == "bonus" else "correction")
    return ClassRound(nodes, last, round_.accepted, tuple(round_.emitted), round_.text_delta, head_kept)


def _votes(paths: Sequence[bytes], parents: Sequence[int], votes: dict[str, int]) -> list[int]:
    """How many phones propose each node. A phone proposes one path: where one token begins another, as in 'a' and 'an',
    the path that says most of its text."""
    counts = [0] * len(paths)
    for text, count in votes.items():
        followed = [node for node, path in enumerate(paths) if text.encode().startswith(path)]
        node = max(followed, key=lambda node: len(paths[node]), default=-1)
        while node >= 0:
            counts[node] += count
            node = parents[node]
    return counts


def _first(events: Sequence[AnyEvent]) -> Round:
    return next(event for event in events if isinstance(event, Round))
