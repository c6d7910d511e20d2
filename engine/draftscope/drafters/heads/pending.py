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
        self._chunks = [states]  # [B, R, F] each, of which the first `_real[i][b]` rows of a sequence are real
        self._real = [[len(prompt) - 1 for prompt in prompts]]

    def observe(self, outcome: Outcome) -> None:
        """Adds the pending token and the accepted ones, which the target has read."""
        assert outcome.features is not None and outcome.verification is not None
        for b, (path, last) in enumerate(zip(outcome.paths, outcome.last, strict=True)):
            self._tokens[b] += [*(outcome.tokens[b][node] for node in path), last]
        rows = torch.nn.functional.pad(outcome.verification.path + 1, (1, 0))  # row 0, then nodes
        self._chunks.append(outcome.features.gather(1, rows[:, :, None].expand(-1, -1, outcome.features.shape[2])))
        self._real.append([len(path) + 1 for path in outcome.paths])

    def take(self, most: Sequence[int]) -> tuple[Tensor, Tensor, list[int], Tensor]:
        """All rows, but at most `most[b]` of a sequence: tokens [B, R], states [B, R, F], the numbers of real rows, and
        the same [B] on the device.

        Padding follows a sequence's real rows. A text that has ended may have more rows than its reader has room for.
        """
        states = self._joined()
        longest = states.shape[1]
        real = [min(len(row), room) for row, room in zip(self._tokens, most, strict=True)]
        rows = [[*row, *[0] * (longest - len(row)), count] for row, count in zip(self._tokens, real, strict=True)]
        given = torch.tensor(rows, dtype=torch.long, device=states.device)  # one copy to the device
        self._tokens = [[] for _ in self._tokens]
        self._chunks, self._real = [states[:, :0]], [[0] * len(states)]
        return given[:, :longest], states, real, given[:, longest]

    def select_rows(self, rows: list[int]) -> None:
        """Keeps only `rows` of the batch."""
        self._tokens = [self._tokens[row] for row in rows]
        self._chunks = [chunk[rows] for chunk in self._chunks]
        self._real = [[real[row] for row in rows] for real in self._real]

    def _joined(self) -> Tensor:
        """The states of each sequence in one piece [B, R, F]. Rows after its real ones hold anything."""
        if len(self._chunks) > 1 and not any(self._real[0]):
            self._chunks, self._real = self._chunks[1:], self._real[1:]
        if len(self._chunks) == 1:
            return self._chunks[0][:, : max(self._real[0])]
        of_each = zip(*self._real, strict=True)
        rows = [
            torch.cat([chunk[b, :n] for chunk, n in zip(self._chunks, counts, strict=True)])
            for b, counts in enumerate(of_each)
        ]
        return pad_sequence(rows, batch_first=True)

    @property
    def empty(self) -> bool:
        return not any(self._tokens)
