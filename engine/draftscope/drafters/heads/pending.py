"""What the target has shown of committed tokens and a head has not read yet: read when next something is drafted."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from draftscope.drafters.drafter import Outcome


class PendingFeatures:
    """For each sequence, rows of the target's hidden states and the token behind each."""

    def __init__(self, prompts: Sequence[list[int]], states: Tensor) -> None:
        """states [B, T, F] of every prompt's tokens but the last, padded to the right."""
        self._tokens = [list(prompt[1:]) for prompt in prompts]
        self._states = [[states[b, : len(prompt) - 1]] for b, prompt in enumerate(prompts)]

    def hear(self, outcome: Outcome) -> None:
        """The pending token and the accepted ones were read by the target."""
        assert outcome.features is not None
        drafted = outcome.tree.tokens.tolist()
        for b, (path, last) in enumerate(zip(outcome.paths, outcome.last, strict=True)):
            self._tokens[b] += [*(drafted[b][node] for node in path), last]
            self._states[b].append(outcome.features[b, [0, *(node + 1 for node in path)]])

    def take(self, most: Sequence[int]) -> tuple[Tensor, Tensor, list[int]]:
        """Everything unread, no more than `most[b]` rows a sequence: tokens [B, R], states [B, R, F], real rows.

        Behind a sequence's real rows lies padding. A text that has ended says more than its reader has room for.
        """
        states = pad_sequence([torch.cat(rows) for rows in self._states], batch_first=True)
        longest = states.shape[1]
        tokens = [row + [0] * (longest - len(row)) for row in self._tokens]
        real = [min(len(row), room) for row, room in zip(self._tokens, most, strict=True)]
        self._tokens = [[] for _ in self._tokens]
        self._states = [[states[b, :0]] for b in range(len(states))]
        return torch.tensor(tokens, dtype=torch.long, device=states.device).view(len(tokens), longest), states, real

    def select_rows(self, rows: list[int]) -> None:
        """Goes on with `rows` alone."""
        self._tokens, self._states = [self._tokens[row] for row in rows], [self._states[row] for row in rows]

    @property
    def empty(self) -> bool:
        return not any(self._tokens)
