"""Suffix decoding: proposes what followed most often after earlier occurrences of the text's longest known suffix.

SuffixDecoding, Oliaro et al. 2411.04975: a tree of all suffixes of prompt and generated text counts how often each
string occurred; a draft grows from the longest match, the most probable continuation first. Here the tree holds only
this text, and strings of at most `LONGEST` tokens. It needs no model and has no distribution: children are
deterministic.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field

from torch import Tensor

from draftscope.drafters.deterministic import TrieNode, deterministic_trees
from draftscope.drafters.drafter import Drafter, DrafterInfo, Parts, State
from draftscope.drafters.options import DrafterOptions, GammaOptions, GrownTreeOptions
from draftscope.verify.tree import DraftTree

LONGEST = 24  # tokens of the longest counted string; each new token costs this many steps, however long the text is


@dataclass(slots=True)
class SuffixPlace:
    """A string that occurred in the text. `below` are those one token longer, `shorter` is the string without its first
    token."""

    length: int
    shorter: SuffixPlace | None
    times: int = 0
    latest: int = 0  # where its last occurrence ended
    below: dict[int, SuffixPlace] = field(default_factory=dict)


class SuffixIndex:
    """Counts every string of up to `longest` tokens in a growing text. A token is read once, when it is added."""

    def __init__(self, longest: int = LONGEST) -> None:
        self._longest = longest
        self._ends = [SuffixPlace(0, None)]  # the text's suffixes, from the empty one to the longest that is counted
        self.size = 0

    def extend(self, tokens: Sequence[int]) -> None:
        """Appends tokens to the text: each one extends every suffix."""
        for token in tokens:
            self.size += 1
            ends = self._ends[:1]
            for place in self._ends[: self._longest]:
                if token not in place.below:
                    place.below[token] = SuffixPlace(place.length + 1, ends[-1])
                grown = place.below[token]
                grown.times += 1
                grown.latest = self.size
                ends.append(grown)
            self._ends = ends

    def read(self, text: Sequence[int]) -> None:
        """Appends the tokens that the text, which only grows, has gained since it was last read."""
        self.extend(text[self.size :])

    def guess(self, text: Sequence[int], count: int) -> list[int]:
        """Up to `count` tokens that may follow `text`, which begins with what was read and may be longer."""
        return [token for token, _ in self.continuation(count, text[self.size :])]

    def continuation(self, count: int, more: Sequence[int] = ()) -> list[tuple[int, int]]:
        """Up to `count` tokens that may follow, each the most frequent after the longest suffix that has one, and the
        length of that suffix. `more` continues the text but is not counted."""
        following: list[tuple[int, int]] = []
        end = self._ends[-1]
        for token in more:
            end = after(end, token)
        while len(following) < count and (match := followed(end)).length:
            token, end = max(match.below.items(), key=lambda item: (item[1].times, item[1].latest))
            following.append((token, match.length))
        return following

    def grow(self, count: int, depth: int, width: int, more: Sequence[int] = ()) -> list[TrieNode]:
        """Up to `count` nodes, the most probable first, at most `width` children each, `depth` levels; parents first.

        A node's children are the tokens that followed the longest suffix of text and path that has a continuation, each
        with its share of the occurrences; a node's probability is the product of shares. Of equal ones the latest comes
        first. `more` continues the text but is not counted.
        """
        nodes: list[TrieNode] = []
        heap: list[tuple[float, int, int, SuffixPlace, TrieNode]] = []  # -probability, order of arrival, depth, ...
        arrival = itertools.count()

        def offer(parent: int, above: SuffixPlace, probability: float, level: int) -> None:
            match = followed(above)
            total = sum(place.times for place in match.below.values())
            ranked = sorted(match.below.items(), key=lambda item: (-item[1].times, -item[1].latest))
            for token, place in ranked[:width] if match.length else ():
                node = TrieNode(parent, token, f"{match.length} matched, {place.times} of {total}")
                heapq.heappush(heap, (-probability * place.times / total, next(arrival), level, place, node))

        end = self._ends[-1]
        for token in more:
            end = after(end, token)
        offer(-1, end, 1.0, 1)
        while heap and len(nodes) < count:
            cost, _, level, place, node = heapq.heappop(heap)
            nodes.append(node)
            if level < depth:
                offer(len(nodes) - 1, place, -cost, level + 1)
        return nodes


def after(place: SuffixPlace, token: int) -> SuffixPlace:
    """The longest counted suffix of a string extended by `token`."""
    while token not in place.below:
        if place.shorter is None:
            return place
        place = place.shorter
    return place.below[token]


def followed(place: SuffixPlace) -> SuffixPlace:
    """The longest suffix of a string that has a continuation; else the empty one."""
    while place.shorter is not None and not place.below:
        place = place.shorter
    return place


class Suffix(Drafter):
    """A chain of the most frequent continuation, or a tree with up to `width` continuations of each node."""

    def __init__(self, parts: Parts[DrafterOptions], count: int, depth: int, width: int) -> None:
        self._device = parts.device
        self._form = count, depth, width
        self._indexes = [SuffixIndex() for _ in range(parts.batch)]

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        self._indexes = [SuffixIndex() for _ in prompts]
        for index, prompt in zip(self._indexes, prompts, strict=True):
            index.read(prompt)

    def propose(self, state: State, depth: int) -> DraftTree:
        count, deepest, width = self._form
        deepest = min(deepest, depth) if width == 1 else deepest
        drafts = []
        for index, text in zip(self._indexes, state.texts, strict=True):
            index.read(text)
            drafts.append(index.grow(count, deepest, width) if depth else [])
        return deterministic_trees(drafts, self._device)

    def select_rows(self, rows: list[int]) -> bool:
        self._indexes = [self._indexes[row] for row in rows]
        return True


def _chain(parts: Parts[GammaOptions]) -> Drafter:
    return Suffix(parts, parts.options.gamma, parts.options.gamma, 1)


def _tree(parts: Parts[GrownTreeOptions]) -> Drafter:
    return Suffix(parts, parts.options.tree_nodes, parts.options.tree_depth, parts.options.tree_width)


IDLE = "no earlier text repeats"
CHAIN = DrafterInfo(
    name="suffix",
    title="Suffix decoding, chain",
    paper="SuffixDecoding, Oliaro et al. 2411.04975",
    create=_chain,
    options=GammaOptions,
    idle=IDLE,
)
TREE = DrafterInfo(
    name="suffix-tree",
    title="Suffix decoding, tree",
    paper="SuffixDecoding, Oliaro et al. 2411.04975",
    create=_tree,
    options=GrownTreeOptions,
    idle=IDLE,
    grows_trees=True,
)
