"""Lookahead decoding (Fu et al. 2402.02057): the target guesses its own future in extra rows of its verify forward.

A window of W columns and N - 1 levels holds guesses at the next tokens, as in Jacobi iteration: each forward also
computes the target's most likely token after every column, which becomes that column's next level. A column read
downwards is an n-gram that the target once found plausible; a pool keeps it under its first token. When the text
reaches a token with pooled n-grams, up to G = W of them are verified in the same forward that moves the window.

The window's rows are never-accepted nodes. The n-grams are deterministic children, so the output's distribution is
the target's.
"""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.deterministic import TrieNode, deterministic_trees
from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.options import MAX_NODES, LookaheadOptions
from draftscope.verify.tree import DraftTree

Ngram = tuple[int, ...]


class Pool:
    """N-grams by their first token: the `most` newest ones for each, the newest last."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._behind: dict[int, dict[Ngram, None]] = {}  # what follows a first token, oldest first

    def add(self, ngram: Ngram) -> None:
        kept = self._behind.setdefault(ngram[0], {})
        kept.pop(ngram[1:], None)
        kept[ngram[1:]] = None
        if len(kept) > self._most:
            del kept[next(iter(kept))]

    def behind(self, token: int) -> list[Ngram]:
        """What followed `token`, the newest first."""
        return list(self._behind.get(token, {}))[::-1]


class Window:
    """One sequence's guesses: `levels[j][i]` is the guess at the token i + j + 1 places after the pending one."""

    def __init__(self, prompt: Sequence[int], width: int, levels: int) -> None:
        """Begins with the prompt's last tokens, repeated: any guess will do."""
        self.width = width
        self.levels = [[prompt[-1 - (j * width + i) % len(prompt)] for i in range(width)] for j in range(levels)]

    def rows(self, first: int) -> list[TrieNode]:
        """The window as never-accepted nodes, numbered from `first`: level 0 is a chain, the other levels are branches,
        one for each column."""
        nodes = []
        for j, level in enumerate(self.levels):
            for i, token in enumerate(level):
                parent = first + (j - 1) * self.width + i if j else first + i - 1 if i else -1
                nodes.append(TrieNode(parent, token, f"window level {j}", never_accepted=True))
        return nodes

    def move(self, following: Sequence[int], emitted: int) -> list[Ngram]:
        """Appends the target's tokens `following` each column as the newest level; returns all columns.

        The oldest level is dropped. The text grew by `emitted` tokens, one of which this drop accounts for; columns
        that the text has passed move to the far end.
        """
        levels = [*self.levels, list(following)]
        past = (emitted - 1) % self.width
        self.levels = [level[past:] + level[:past] for level in levels[1:]]
        return list(zip(*levels, strict=True))


class Lookahead(Drafter):
    """A pool and a window for each sequence."""

    reads_argmax = True

    def __init__(self, parts: Parts[LookaheadOptions]) -> None:
        options = parts.options
        if options.ngram < 2:
            raise DraftscopeError("ngram = 1: lookahead needs n-grams of two tokens or more; choose at least 2.")
        if options.nodes > MAX_NODES:
            raise DraftscopeError(
                f"window = {options.window} with ngram = {options.ngram} makes {options.nodes} rows of n-grams "
                f"and window; keep 2 x window x (ngram - 1) to {MAX_NODES}."
            )
        self._size = options.window, options.ngram - 1
        self._device = parts.device
        self._pools: list[Pool] = []
        self._windows: list[Window] = []
        self._first: list[int] = []  # where each window began in the last tree

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        self._pools = [Pool(self._size[0]) for _ in prompts]
        self._windows = [Window(prompt, *self._size) for prompt in prompts]

    def propose(self, state: State, depth: int) -> DraftTree:
        drafts = []
        self._first = []
        for pool, window, text in zip(self._pools, self._windows, state.texts, strict=True):
            guesses = merged(pool.behind(text[-1]))
            self._first.append(len(guesses))
            drafts.append([*guesses, *window.rows(len(guesses))] if depth else [])
        return deterministic_trees(drafts, self._device)

    def observe(self, outcome: Outcome) -> None:
        if outcome.tree.nodes == 0:
            return
        assert outcome.argmax is not None
        width, levels = self._size
        for b, (pool, window) in enumerate(zip(self._pools, self._windows, strict=True)):
            newest = 1 + self._first[b] + (levels - 1) * width  # the slot of the newest level's first column
            for ngram in window.move(outcome.argmax[b][newest : newest + width], len(outcome.paths[b]) + 1):
                pool.add(ngram)


def merged(ngrams: Sequence[Ngram]) -> list[TrieNode]:
    """N-grams as one tree. Common beginnings share nodes, so no two siblings carry the same token."""
    nodes: list[TrieNode] = []
    place: dict[Ngram, int] = {(): -1}
    for ngram in ngrams:
        for end in range(1, len(ngram) + 1):
            if ngram[:end] not in place:
                place[ngram[:end]] = len(nodes)
                nodes.append(TrieNode(place[ngram[: end - 1]], ngram[end - 1], f"pooled {len(ngram) + 1}-gram"))
    return nodes


INFO = DrafterInfo(
    name="lookahead",
    title="Lookahead (Jacobi)",
    paper="Fu et al. 2402.02057",
    create=Lookahead,
    options=LookaheadOptions,
    idle="none of its n-grams begins where the text was",
    grows_trees=True,
)
