"""Heads that draft token after token from the target's features: EAGLE-1, EAGLE-3, MTP. Here as chains of their draws.

Papers: EAGLE-1 2401.15077, EAGLE-3 2503.01840, multi-token prediction 2412.19437 (section 2.2). A head reads pairs: the
target's feature of a token, and the token behind it. What the target has read is committed: its pairs stay in the
head's cache. While drafting, the head's own output stands for the feature that the target has not computed yet; when
the verdict is in, those rows are forgotten and the true pairs of the accepted path are read in their place, in the same
forward that says what comes next.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from draftscope.drafters.base import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.levels import Levels
from draftscope.drafters.unread import Unread
from draftscope.heads import RecurrentHead, kind_of
from draftscope.masks import Reach, attention_mask
from draftscope.tree import Counts, Topology, even

EVERYTHING = Reach()


class HeadRows:
    """A recurrent head and its cache: true pairs that stay, drafted ones that are forgotten."""

    def __init__(self, head: RecurrentHead, parts: Parts) -> None:
        self._head = head
        self._sampling = parts.sampling
        self._cache = head.cache(parts.batch, parts.capacity)
        self._rows = [0] * parts.batch  # true pairs in the cache: row i is feature i and token i + 1
        nothing = head.lender.embedding.new_zeros((parts.batch, 1, len(head.layers) * head.lender.hidden))
        self._ahead = head.fuse(nothing) * 0  # [B, 1, h] what the newest true pair says
        self._unread: Unread | None = None

    def begin(self, prompts: Sequence[list[int]], states: Tensor) -> None:
        """Reads the prompt's pairs. A prompt of one token has none: its first draft comes from a feature of zeros."""
        self._unread = Unread(prompts, states)
        self._read([len(prompt) for prompt in prompts])

    def heard(self, outcome: Outcome) -> None:
        """Forgets what was drafted; the true pairs of the accepted path are read when they are needed."""
        assert self._unread is not None
        self._cache.truncate(self._lengths(), max(self._rows))
        self._unread.hear(outcome)

    def first(self, texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Law [B, 1, V] below the pending tokens, and the features [B, 1, h] that it came from."""
        self._read([len(text) for text in texts])
        return self._law(self._head.logits(self._ahead)), self._ahead

    def below(self, tokens: Tensor, features: Tensor, offsets: Tensor, sees: Tensor | None) -> tuple[Tensor, Tensor]:
        """Laws [B, n, V] below drafted `tokens` [B, n], and their features; `features` are those of their parents.

        offsets [B, n]: depth below the pending token. sees [B, n, open]: which drafted rows each descends from.
        """
        logits, out = self._head(tokens, features, *self._aimed(offsets, sees), self._cache)
        return self._law(logits), out

    def _read(self, lengths: Sequence[int]) -> None:
        """Reads the pairs that were not read yet; a text of `lengths[b]` tokens has one pair less."""
        assert self._unread is not None
        if self._unread.empty:
            return
        room = [length - 1 - rows for length, rows in zip(lengths, self._rows, strict=True)]
        tokens, states, count = self._unread.take(room)
        offsets = torch.arange(tokens.shape[1], device=tokens.device).expand(len(count), -1)
        position_ids, mask = self._aimed(offsets, None)
        out = self._head.advance(tokens, self._head.fuse(states), position_ids, mask, self._cache)
        self._rows = [rows + more for rows, more in zip(self._rows, count, strict=True)]
        kept = torch.tensor(count, device=tokens.device)
        self._cache.keep_first(kept, max(self._rows))
        newest = out.gather(1, (kept - 1).clamp(min=0)[:, None, None].expand(-1, 1, out.shape[2]))
        self._ahead = torch.where((kept > 0)[:, None, None], newest, self._ahead)

    def _aimed(self, offsets: Tensor, sees: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Positions and mask of the next rows, at which the cache is aimed."""
        table = self._cache.table
        table.aim(offsets)
        position_ids = table.length[:, None] + offsets
        if table.before == 0 and sees is None:
            return position_ids, None
        table.widen()
        mask = attention_mask(table, EVERYTHING, sees, None)
        assert isinstance(mask, Tensor)
        return position_ids, mask

    def _lengths(self) -> Tensor:
        return torch.tensor(self._rows, device=self._ahead.device)

    def _law(self, logits: Tensor) -> Tensor:
        return self._head.to_target(self._sampling.law(logits))


class RecurrentLevels(Levels):
    """A chain or a fixed tree of the head's own draws, judged as a draft model's would be."""

    def __init__(self, parts: Parts, head: RecurrentHead, counts: Counts, chooses_length: bool = False) -> None:
        super().__init__(parts, counts, sampled=True, chooses_length=chooses_length)
        self.layers = head.layers
        self.step = f"{kind_of(head)} step"
        self._rows = HeadRows(head, parts)
        self._features = torch.empty(0)  # [B, slots, h] of the newest level

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        assert features is not None
        self._rows.begin(prompts, features)

    def first(self, state: State) -> Tensor:
        law, self._features = self._rows.first(state.texts)
        return law

    def below(self, form: Topology, children: Tensor, start: int) -> Tensor:
        end = start + children.shape[1]
        offsets = form.depth[:, start + 1 : end + 1] - 1
        if form.is_chain:
            law, self._features = self._rows.below(children, self._features, offsets, None)
            return law
        above = form.parents[:, start:end] - (start - self._features.shape[1])  # in the level before
        parents = self._features.gather(1, above[:, :, None].expand(-1, -1, self._features.shape[2]))
        sees = form.ancestors[:, start + 1 : end + 1, 1 : end + 1]
        law, self._features = self._rows.below(children, parents, offsets, sees)
        return law

    def observe(self, outcome: Outcome) -> None:
        super().observe(outcome)
        self._rows.heard(outcome)


def recurrent_head(parts: Parts, kind: str) -> RecurrentHead:
    """The head of that kind; a drafter that needs it is created only where it was loaded."""
    head = parts.heads[kind]
    assert isinstance(head, RecurrentHead)
    return head


def _chain(kind: str, title: str, paper: str) -> DrafterInfo:
    def create(parts: Parts) -> Drafter:
        return RecurrentLevels(parts, recurrent_head(parts, kind), even((1,) * parts.settings.gamma), True)

    return DrafterInfo(
        name=kind,
        title=title,
        paper=paper,
        create=create,
        nodes=lambda settings: settings.gamma,
        uses=("gamma", "draft_length", "confidence", "rule"),
        needs_head=kind,
    )


EAGLE = _chain("eagle", "EAGLE-1 head, chain", "Li et al. 2401.15077")
EAGLE3 = _chain("eagle3", "EAGLE-3 head, chain", "Li et al. 2503.01840")
MTP = _chain("mtp", "Multi-token prediction head, chain", "DeepSeek-V3 2412.19437, section 2.2")
