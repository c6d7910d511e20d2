"""The target's hidden states of committed tokens that a head has not read yet; it reads them at its next draft."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from draftscope.drafters.drafter import Outcome


class PendingFeatures:
    """For each sequence, the target's hidden states and the token after each of them."""

    def __init__(self, prompts: Sequence[list[int]], states: Tensor) -> None:
        """states [B, T, F] of each prompt's tokens except the last, padded on the right."""
        self._tokens = [list(prompt[1:]) for prompt in prompts]
        self._states = [[states[b, : len(prompt) - 1]] for b, prompt in enumerate(prompts)]

    def observe(self, outcome: Outcome) -> None:
        """Adds the pending token and the accepted ones, which the target has read."""
        assert outcome.features is not None
        drafted = outcome.tree.tokens.tolist()
        for b, (path, last) in enumerate(zip(outcome.paths, outcome.last, strict=True)):
            self._tokens[b] += [*(drafted[b][node] for node in path), last]
            self._states[b].append(outcome.features[b, [0, *(node + 1 for node in path)]])

    def take(self, most: Sequence[int]) -> tuple[Tensor, Tensor, list[int]]:
        """All rows, but at most `most[b]` of a sequence: tokens [B, R], states [B, R, F], the numbers of real rows.

        Padding follows a sequence's real rows. A text that has ended may have more rows than its reader has room for.
        """
        states = pad_sequence([torch.cat(rows) for rows in self._states], batch_first=True)
        longest = states.shape[1]
        tokens = [row + [0] * (longest - len(row)) for row in self._tokens]
        real = [min(len(row), room) for row, room in zip(self._tokens, most, strict=True)]
        self._tokens = [[] for _ in self._tokens]
        self._states = [[states[b, :0]] for b in range(len(states))]
        return torch.tensor(tokens, dtype=torch.long, device=states.device).view(len(tokens), longest), states, real

    def select_rows(self, rows: list[int]) -> None:
        """Keeps only `rows` of the batch."""
        self._tokens, self._states = [self._tokens[row] for row in rows], [self._states[row] for row in rows]

    @property
    def empty(self) -> bool:
        return not any(self._tokens)
