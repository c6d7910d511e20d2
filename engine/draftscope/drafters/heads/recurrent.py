"""Heads that draft token after token from the target's features: EAGLE-1, EAGLE-3, MTP. Here as drawn chains and trees.

Papers: EAGLE-1 2401.15077, EAGLE-3 2503.01840, multi-token prediction 2412.19437 (section 2.2). A head reads pairs: the
target's feature of a token, and the token after it. Pairs of committed tokens stay in the head's cache. While drafting,
the head's own output replaces features that the target has not computed yet. After the verification these rows are
discarded, and the true pairs of the accepted path are read in the same forward that predicts the next token.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.heads.pending import PendingFeatures
from draftscope.drafters.length import Lengths, lengths_of
from draftscope.drafters.model.levels import Drafted, LevelPlan, Levels
from draftscope.drafters.options import ChainOptions, DrafterOptions, ShapeOptions
from draftscope.models import head_kinds
from draftscope.models.cache.masks import Reach, attention_mask
from draftscope.models.forward.graphs import Call, Outputs
from draftscope.models.head_kinds import HeadKind
from draftscope.models.heads import RecurrentHead, kind_of
from draftscope.verify.tree import Counts, Topology, even

EVERYTHING = Reach()


class HeadRows:
    """A recurrent head and its cache: true pairs stay, drafted ones are discarded."""

    def __init__(self, head: RecurrentHead, parts: Parts[DrafterOptions]) -> None:
        self._head = head
        self._graphs = head.graphs
        self._sampling = parts.sampling
        self._cache = head.cache(parts.batch, parts.capacity)
        self._rows = [0] * parts.batch  # true pairs in the cache: row i is feature i and token i + 1
        self._length = torch.zeros(parts.batch, dtype=torch.long, device=head.shared.device)  # the same [B]
        read = (parts.batch, 1, len(head.layers) * head.shared.hidden)
        nothing = torch.zeros(read, dtype=head.shared.dtype, device=head.shared.device)
        self._ahead = head.fuse(nothing) * 0  # [B, 1, h] the output for the newest true pair
        self._logits: Tensor | None = None  # [B, 1, D] of it, if they are known
        self._pending_features: PendingFeatures | None = None

    def begin(self, prompts: Sequence[list[int]], states: Tensor) -> None:
        """Reads the prompts' pairs. A prompt of one token has none: its first draft comes from a feature of zeros."""
        self._pending_features = PendingFeatures(prompts, states)
        self._read(prompts)

    def observe(self, outcome: Outcome) -> None:
        """Discards the drafted rows; the true pairs of the accepted path are read at the next draft."""
        assert self._pending_features is not None
        self._cache.truncate(self._length, max(self._rows))
        self._cache.table.know_least(min(self._rows))
        self._pending_features.observe(outcome)

    def select_rows(self, rows: list[int]) -> bool:
        """Keeps only `rows` of the batch; False if graphs were recorded for the whole batch."""
        if self._graphs is not None:
            return False
        assert self._pending_features is not None
        kept = torch.tensor(rows, device=self._ahead.device)
        self._cache.select_rows(kept)
        self._pending_features.select_rows(rows)
        self._rows, self._ahead, self._logits = [self._rows[row] for row in rows], self._ahead[kept], None
        self._length = self._length[kept]
        return True

    def first(self, texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor]:
        """Distribution [B, 1, V] after the pending tokens, and the features [B, 1, h] that it came from."""
        self._read(texts)
        if self._logits is None:
            self._logits = self._head.logits(self._ahead)
        return self._distribution(self._logits), self._ahead

    def as_one_graph(
        self, texts: Sequence[Sequence[int]], form: object, more: tuple[Tensor, ...], fed: int, call: Call
    ) -> Outputs | None:
        """The result of `call(distribution, features, *more)` on what `first` returns, with forwards of `fed` rows, as
        one graph.

        `Graphs.loop` says what `call` may depend on. None if there are no graphs, or nothing has been read yet.
        """
        graphs = self._graphs
        if (
            graphs is None
            or graphs.only_forwards
            or self._cache.table.bound == 0
            or (fresh := self._fresh(texts)) is None
        ):
            return None
        bound = max(self._rows)

        def loop(tokens: Tensor, states: Tensor, kept: Tensor, ahead: Tensor, *more: Tensor) -> Outputs:
            ahead, _ = self._advanced(tokens, states, kept, ahead, bound)
            length = self._cache.table.length
            return ahead, length, *call(self._distribution(self._head.logits(ahead)), ahead, *more)

        given, widths = (*fresh, self._ahead, *more), [fresh[0].shape[1], fed]
        self._ahead, self._length, *outputs = graphs.loop(self._cache, loop, (form, self._sampling), given, widths)
        self._logits = None
        return tuple(outputs)

    def below(self, tokens: Tensor, features: Tensor, offsets: Tensor, sees: Tensor | None) -> tuple[Tensor, Tensor]:
        """Distributions [B, n, V] after drafted `tokens` [B, n], and their features. `features` are their parents'.

        offsets [B, n]: depth below the pending token. sees [B, n, open]: the drafted rows that each descends from.
        """
        logits, out = self._head(tokens, features, *self._begin_write(offsets, sees), self._cache)
        return self._distribution(logits), out

    def _read(self, texts: Sequence[Sequence[int]]) -> None:
        """Reads the pairs that were not read yet."""
        fresh = self._fresh(texts)
        if fresh is not None:
            self._ahead, self._logits = self._advanced(*fresh, self._ahead, max(self._rows))
            self._length = self._cache.table.length

    def _fresh(self, texts: Sequence[Sequence[int]]) -> tuple[Tensor, Tensor, Tensor] | None:
        """Takes the pairs to read next: tokens [B, R], states [B, R, F], the numbers of real ones. None without any."""
        assert self._pending_features is not None
        if self._pending_features.empty:
            return None
        room = [len(text) - 1 - rows for text, rows in zip(texts, self._rows, strict=True)]  # one pair less than tokens
        tokens, states, count, kept = self._pending_features.take(room)
        self._rows = [rows + more for rows, more in zip(self._rows, count, strict=True)]
        return tokens, states, kept

    def _advanced(
        self, tokens: Tensor, states: Tensor, kept: Tensor, ahead: Tensor, bound: int
    ) -> tuple[Tensor, Tensor | None]:
        """Reads pairs, of which the first `kept[b]` are real; returns the output for the newest one, else `ahead`, and
        its logits if they are known."""
        offsets = torch.arange(tokens.shape[1], device=tokens.device).expand(len(tokens), -1)
        position_ids, mask = self._begin_write(offsets, None)
        logits, out = self._head.read(tokens, states, position_ids, mask, self._cache)
        self._cache.keep_first(kept, bound)
        last, some = (kept - 1).clamp(min=0)[:, None, None], (kept > 0)[:, None, None]
        ahead = torch.where(some, out.gather(1, last.expand(-1, 1, out.shape[2])), ahead)
        if logits is None or not bool(some.all()):
            return ahead, None
        return ahead, logits.gather(1, last.expand(-1, 1, logits.shape[2]))

    def _begin_write(self, offsets: Tensor, sees: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Prepares the cache for the next rows; returns their positions and mask."""
        table = self._cache.table
        table.begin_write(offsets)
        position_ids = table.length[:, None] + offsets
        if sees is None and (table.before == 0 or self._head.step is not None):
            return position_ids, None
        table.widen()
        mask = attention_mask(table, EVERYTHING, sees, None)
        assert isinstance(mask, Tensor)
        return position_ids, mask

    def _distribution(self, logits: Tensor) -> Tensor:
        return self._head.to_target(self._sampling.distribution(logits))


class RecurrentLevels(Levels):
    """A chain or a fixed tree drawn by the head, verified like a draft model's."""

    def __init__(
        self, parts: Parts[DrafterOptions], head: RecurrentHead, counts: Counts, lengths: Lengths | None = None
    ) -> None:
        super().__init__(parts, counts, sampled=True, lengths=lengths)
        self.layers = head.layers
        self.step = f"{kind_of(head)} step"
        self._rows = HeadRows(head, parts)
        self._features = torch.empty(0)  # [B, slots, h] of the newest level

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        assert features is not None
        self._rows.begin(prompts, features)

    def drafted(self, state: State, plan: LevelPlan, going: list[bool]) -> Drafted | None:
        """With graphs and fixed lengths, the whole loop is one graph."""

        def levels(distribution: Tensor, features: Tensor, uniforms: Tensor) -> Outputs:
            self._features = features
            return self.grown(distribution, plan, uniforms, [], 0.0).parts

        form, fed = (plan, self.draws), sum(plan.fed)
        parts = None if going else self._rows.as_one_graph(state.texts, form, (state.uniforms.draft,), fed, levels)
        return super().drafted(state, plan, going) if parts is None else Drafted(len(plan.counts), *parts)

    def first(self, state: State) -> Tensor:
        distribution, self._features = self._rows.first(state.texts)
        return distribution

    def below(self, form: Topology, children: Tensor, start: int) -> Tensor:
        end = start + children.shape[1]
        offsets = form.depth[:, start + 1 : end + 1] - 1
        if form.is_chain:
            distribution, self._features = self._rows.below(children, self._features, offsets, None)
            return distribution
        above = form.parents[:, start:end] - (start - self._features.shape[1])  # in the level before
        parents = self._features.gather(1, above[:, :, None].expand(-1, -1, self._features.shape[2]))
        sees = form.ancestors[:, start + 1 : end + 1, 1 : end + 1]
        distribution, self._features = self._rows.below(children, parents, offsets, sees)
        return distribution

    def observe(self, outcome: Outcome) -> None:
        super().observe(outcome)
        self._rows.observe(outcome)

    def select_rows(self, rows: list[int]) -> bool:
        if not self._rows.select_rows(rows):
            return False
        self.keep_lengths(rows)
        return True


def recurrent_head(parts: Parts[DrafterOptions], kind: str) -> RecurrentHead:
    """The head of that kind. A drafter that needs it is created only if it was loaded."""
    head = parts.heads[kind]
    assert isinstance(head, RecurrentHead)
    return head


def _chain(kind: HeadKind, title: str, paper: str) -> DrafterInfo[ChainOptions]:
    def create(parts: Parts[ChainOptions]) -> Drafter:
        gamma = parts.options.gamma
        lengths = lengths_of(parts.options, parts.cost, gamma, parts.batch)
        return RecurrentLevels(parts, recurrent_head(parts, kind.name), even((1,) * gamma), lengths)

    return DrafterInfo(
        name=kind.name,
        title=title,
        paper=paper,
        create=create,
        options=ChainOptions,
        head=kind,
    )


def _sampled_tree(parts: Parts[ShapeOptions]) -> Drafter:
    return RecurrentLevels(parts, recurrent_head(parts, "eagle3"), even(parts.options.shape))


EAGLE = _chain(head_kinds.EAGLE, "EAGLE-1 head, chain", "Li et al. 2401.15077")
EAGLE3 = _chain(head_kinds.EAGLE3, "EAGLE-3 head, chain", "Li et al. 2503.01840")
EAGLE3_SAMPLED_TREE = DrafterInfo(
    name="eagle3-sampled-tree",
    title="EAGLE-3 head, sampled tree",
    paper="Li et al. 2503.01840; the tree: Jeon et al. 2402.12374 (recursive rejection sampling without replacement)",
    create=_sampled_tree,
    options=ShapeOptions,
    bench_shape=(2, 1, 1),
    head=head_kinds.EAGLE3,
    grows_trees=True,
)
MTP = _chain(head_kinds.MTP, "Multi-token prediction head, chain", "DeepSeek-V3 2412.19437, section 2.2")
