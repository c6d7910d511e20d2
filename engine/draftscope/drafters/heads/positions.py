"""Heads that predict all positions at once: Medusa's (2401.10774) and block drafters (DFlash, 2602.06036; DSpark,
2607.05147).

One forward gives a distribution for each of the next positions, none of which depends on the tokens drafted before it;
DSpark then corrects each for the token before. These distributions give a drawn chain, or a tree of deterministic
children: Medusa's sparse tree takes the same ranks every round, a best-first tree (DDTree, 2604.12989) this round's
most probable prefixes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from time import perf_counter

import torch
from torch import Tensor

from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.heads.pending import PendingFeatures
from draftscope.drafters.heads.ranks import best_first, rank_plan, sparse_tree
from draftscope.drafters.length import lengths_of
from draftscope.drafters.options import ChainOptions, DrafterOptions, GrownTreeOptions
from draftscope.models import head_kinds
from draftscope.models.cache.masks import Reach, attention_mask, common_of, with_common
from draftscope.models.forward.graphs import Call, Outputs
from draftscope.models.heads import Block, DSpark, Head, Medusa
from draftscope.verify.drawing import draw
from draftscope.verify.sampling import entropies
from draftscope.verify.tree import DraftTree, chain, empty, first_rows, padding


class PositionSource(ABC):
    """Where the distributions come from: one for each of the next positions."""

    name: str

    def __init__(self, head: Head, parts: Parts[DrafterOptions], capacity: int) -> None:
        self.layers = head.layers
        self._head = head
        self.max_draft = head.max_draft
        self._sampling = parts.sampling
        self._cache = head.cache(parts.batch, capacity)

    @abstractmethod
    def begin(self, prompts: Sequence[list[int]], states: Tensor) -> None:
        """Reads the prompts, and the target's hidden states [B, T, F] of all their tokens but the last."""

    @abstractmethod
    def run(
        self, texts: Sequence[Sequence[int]], count: int, form: object, more: tuple[Tensor, ...], call: Call
    ) -> Outputs | None:
        """`call(logits, pending, *more)`: the logits [B, count, D] of the positions after the pending tokens [B].

        One graph if there are graphs; `form` is what `call` depends on besides. None if there is no hidden state yet.
        """

    def distributions(self, logits: Tensor) -> Tensor:
        """Logits [..., D] -> the distributions [..., V] that are drafted from."""
        return self._head.to_target(self._sampling.distribution(logits))

    def drawn(self, logits: Tensor, pending: Tensor, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
        """Tokens [B, count], and the distributions [B, count, V] that they were drawn from with `uniforms` [B, N].

        None for `uniforms` takes the most probable ones.
        """
        q = self.distributions(logits)
        return _chosen(q, uniforms if uniforms is None else uniforms[:, : q.shape[1]]), q

    @abstractmethod
    def observe(self, outcome: Outcome) -> None:
        """Receives the result, with the target's hidden states of the round's rows."""

    @abstractmethod
    def select_rows(self, rows: list[int]) -> None:
        """Keeps only `rows` of the batch."""

    @property
    def whole(self) -> bool:
        """Whether graphs were recorded for the whole batch, so that no rows can be removed."""
        return self._head.graphs is not None


class MedusaSource(PositionSource):
    """K heads on the target's last hidden state, that of the newest token that it has read."""

    name = "medusa head"

    def __init__(self, head: Head, parts: Parts[DrafterOptions]) -> None:
        assert isinstance(head, Medusa)
        super().__init__(head, parts, 1)  # a cache that nothing is written to
        self._state: Tensor | None = None  # [B, 1, H]

    def begin(self, prompts: Sequence[list[int]], states: Tensor) -> None:
        if states.shape[1]:
            newest = [max(len(prompt) - 2, 0) for prompt in prompts]
            self._state = _at(states, torch.tensor(newest, device=states.device))

    def run(
        self, texts: Sequence[Sequence[int]], count: int, form: object, more: tuple[Tensor, ...], call: Call
    ) -> Outputs | None:
        if self._state is None:
            return None

        def whole(state: Tensor, *more: Tensor) -> Outputs:
            return call(self._head(state)[:, 0, :count], state, *more)

        graphs, given = self._head.graphs, (self._state, *more)
        if graphs is None:
            return whole(*given)
        return graphs.in_loop(self._cache, whole, (form, count, self._sampling), given)

    def observe(self, outcome: Outcome) -> None:
        assert outcome.features is not None and outcome.verification is not None
        self._state = _at(outcome.features, outcome.verification.slot)

    def select_rows(self, rows: list[int]) -> None:
        assert self._state is not None
        self._state = self._state[rows]


class BlockSource(PositionSource):
    """One forward of a block of mask tokens, which attends to the fused features of all committed tokens."""

    name = "block position"

    def __init__(self, head: Head, parts: Parts[DrafterOptions]) -> None:
        assert isinstance(head, Block)
        super().__init__(head, parts, parts.capacity + head.config.size)
        self._block = head
        self._rows = [0] * parts.batch  # committed features in the cache, each at its own position
        self._pending_features: PendingFeatures | None = None

    def begin(self, prompts: Sequence[list[int]], states: Tensor) -> None:
        self._pending_features = PendingFeatures(prompts, states)

    def run(
        self, texts: Sequence[Sequence[int]], count: int, form: object, more: tuple[Tensor, ...], call: Call
    ) -> Outputs | None:
        assert self._pending_features is not None
        room = [len(text) - 1 - rows for text, rows in zip(texts, self._rows, strict=True)]
        _, states, real, kept = self._pending_features.take(room)
        pending = torch.tensor([text[-1] for text in texts], device=states.device)
        self._rows = [rows + new for rows, new in zip(self._rows, real, strict=True)]
        table, bound = self._cache.table, max(self._rows)

        def whole(states: Tensor, kept: Tensor, pending: Tensor, *more: Tensor) -> Outputs:
            logits = self._head.project(self._read(states, kept, pending, count, bound))
            return table.length, *call(logits, pending, *more)

        graphs, given = self._head.graphs, (states, kept, pending, *more)
        if graphs is None:
            _, *outputs = whole(*given)
        else:
            rows = states.shape[1] + 1 + count
            length, *outputs = graphs.loop(self._cache, whole, (form, count, self._sampling), given, [rows])
            table.commit(length, bound, least=table.least)
        table.know_least(min(self._rows))
        return tuple(outputs)

    def _read(self, states: Tensor, kept: Tensor, pending: Tensor, count: int, bound: int) -> Tensor:
        """Hidden states [B, count, hidden] of a block: one forward reads it together with the features that are new.

        The cache keeps the features and drops the block.
        """
        tokens = self._block.tokens(pending, count)
        device, (batch, fresh) = tokens.device, states.shape[:2]
        inside = torch.arange(tokens.shape[1], device=device)
        offsets = torch.cat([torch.arange(fresh, device=device).expand(batch, -1), kept[:, None] + inside], 1)
        table = self._cache.table
        table.begin_write(offsets)
        position_ids = table.length[:, None] + offsets
        table.widen()
        context, mask = self._block.fuse(states), self._mask(kept, fresh, count)
        block: Tensor = self._head(tokens, context, position_ids, mask, self._cache)
        self._cache.keep_first(kept, bound)
        return block[:, 1:]

    def _mask(self, kept: Tensor, fresh: int, count: int) -> Tensor:
        """[B, 1, 1 + count, view]: every row of the block sees all real features and the whole block."""
        batch = len(kept)
        columns = torch.arange(fresh + 1 + count, device=kept.device)
        sees = (columns < kept[:, None]) | (columns >= fresh)
        mask = attention_mask(self._cache.table, Reach(), sees[:, None].expand(batch, len(columns), -1), None)
        assert isinstance(mask, Tensor)
        known = common_of(mask)
        assert known is not None
        return with_common(mask[:, :, fresh:], known.columns)

    def observe(self, outcome: Outcome) -> None:
        assert self._pending_features is not None
        self._pending_features.observe(outcome)

    def select_rows(self, rows: list[int]) -> None:
        assert self._pending_features is not None
        self._pending_features.select_rows(rows)
        self._cache.select_rows(torch.tensor(rows, device=self._cache.table.length.device))
        self._rows = [self._rows[row] for row in rows]


class DSparkSource(BlockSource):
    """A block whose logits are corrected for the token drafted before, one position after the other."""

    name = "dspark position"

    def __init__(self, head: Head, parts: Parts[DrafterOptions]) -> None:
        assert isinstance(head, DSpark)
        super().__init__(head, parts)
        self._table = head

    def drawn(self, logits: Tensor, pending: Tensor, uniforms: Tensor | None) -> tuple[Tensor, Tensor]:
        tokens, distributions, before = [], [], pending
        for k in range(logits.shape[1]):
            corrected = logits[:, k] + self._table.bias(self._table.read(before))
            row = self.distributions(corrected)[:, None]
            before = _chosen(row, None if uniforms is None else uniforms[:, k : k + 1])[:, 0]
            tokens.append(before)
            distributions.append(row)
        return torch.stack(tokens, 1), torch.cat(distributions, 1)


class PositionsChain(Drafter):
    """One draw from each position's distribution, verified as a drawn chain.

    If a rule decides its length, the chain ends after the first token where the rule says so.
    """

    def __init__(self, parts: Parts[ChainOptions], source: PositionSource) -> None:
        self.layers = source.layers
        self._source = source
        self._gamma = int(min(parts.options.gamma, source.max_draft))
        self._draws = not parts.sampling.greedy
        self._device = parts.device
        self._lengths = lengths_of(parts.options, parts.cost, self._gamma, parts.batch)

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        assert features is not None
        self._source.begin(prompts, features)

    def propose(self, state: State, depth: int) -> DraftTree:
        began, count, batch = perf_counter(), self._gamma, len(state.texts)
        going = self._lengths.begin() if self._lengths else []  # empty if all draft their full length
        uniforms = (state.uniforms.draft,) if self._draws else ()

        def call(logits: Tensor, pending: Tensor, *uniforms: Tensor) -> Outputs:
            return self._source.drawn(logits, pending, uniforms[0] if uniforms else None)

        drafts = depth and (not going or any(going))
        outputs = self._source.run(state.texts, count, "chain", uniforms, call) if drafts else None
        if outputs is None:
            return empty(batch, self._device)
        tokens, distributions = outputs
        kept = self._kept(going, tokens, distributions) if going else [count] * batch
        count = max(kept)
        tokens, distributions = tokens[:, :count], distributions[:, :count]
        shown_row = first_rows(count, count + 1, batch, self._device)
        return DraftTree(
            topology=chain(count, batch, self._device),
            tokens=tokens,
            distributions=distributions,
            proposal_row=shown_row if self._draws else first_rows(0, count + 1, batch, self._device),
            shown_row=shown_row,
            never_accepted=padding(tuple(kept), count, self._device),
            origin=(tuple(f"{self._source.name} {k + 1}" for k in range(count)),) * batch,
            drawn="all" if self._draws else "none",
            forward_ms=((perf_counter() - began) * 1e3,),
        )

    def observe(self, outcome: Outcome) -> None:
        if self._lengths:
            self._lengths.observe([len(path) for path in outcome.paths])
        self._source.observe(outcome)

    def select_rows(self, rows: list[int]) -> bool:
        if self._source.whole:
            return False
        if self._lengths:
            self._lengths.select_rows(rows)
        self._source.select_rows(rows)
        return True

    def _kept(self, going: list[bool], tokens: Tensor, distributions: Tensor) -> list[int]:
        """How many of its tokens [B, K], drawn from distributions [B, K, V], each sequence keeps."""
        assert self._lengths is not None
        q = distributions.gather(2, tokens[:, :, None])[:, :, 0].T.tolist()  # by position
        kept = [0] * len(tokens)
        for likely, distribution in zip(q, distributions.unbind(1), strict=True):
            kept = [count + more for count, more in zip(kept, going, strict=True)]
            going = self._lengths.go_on(going, likely, partial(entropies, distribution)) if any(going) else going
        return kept


class PositionsTree(Drafter):
    """Deterministic children: the same ranks every round (`sparse`), or the most probable prefixes of this round."""

    def __init__(self, parts: Parts[GrownTreeOptions], source: PositionSource, sparse: bool) -> None:
        self.layers = source.layers
        self._source = source
        self._options = parts.options
        self._sparse = sparse
        self._device = parts.device
        self._width = min(parts.options.tree_width, parts.vocabulary)

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        assert features is not None
        self._source.begin(prompts, features)

    def propose(self, state: State, depth: int) -> DraftTree:
        began, count = perf_counter(), int(min(self._options.tree_depth, self._source.max_draft))
        width, batch, nodes = self._width, len(state.texts), self._options.tree_nodes
        paths = tuple(sparse_tree(count, width, nodes)) if self._sparse else ()
        plan = rank_plan((paths,) * batch, width, count, self._device) if paths else None

        def call(logits: Tensor, _: Tensor) -> Outputs:
            distributions = self._source.distributions(logits)
            top = distributions.topk(width, -1)
            return distributions, *((top.indices, top.values) if plan is None else plan.nodes(top.indices, top.values))

        outputs = self._source.run(state.texts, count, (plan, width), (), call) if depth else None
        if outputs is None:
            return empty(batch, self._device)
        distributions, tokens, other = outputs
        if plan is None:
            grown = tuple(tuple(best_first(row, nodes)) for row in other.clamp(min=1e-30).log().tolist())
            plan = rank_plan(grown, width, count, self._device)
            tokens, other = plan.nodes(tokens, other)
        tree = plan.tree(tokens, other, distributions, self._source.name)
        return replace(tree, forward_ms=((perf_counter() - began) * 1e3,))

    def observe(self, outcome: Outcome) -> None:
        self._source.observe(outcome)

    def select_rows(self, rows: list[int]) -> bool:
        if not self._source.whole:
            self._source.select_rows(rows)
        return not self._source.whole


def _chosen(distributions: Tensor, uniforms: Tensor | None) -> Tensor:
    """Tokens [B, K] of distributions [B, K, V]."""
    return distributions.argmax(-1) if uniforms is None else draw(distributions, uniforms)


def _at(states: Tensor, index: Tensor) -> Tensor:
    """states [B, T, F], index [B] -> [B, 1, F]: row `index[b]` of each sequence."""
    return states.gather(1, index[:, None, None].expand(-1, 1, states.shape[2]))


MEDUSA_CHAIN = DrafterInfo(
    name="medusa",
    title="Medusa heads, chain",
    paper="Cai et al. 2401.10774",
    create=lambda parts: PositionsChain(parts, MedusaSource(parts.heads["medusa"], parts)),
    options=ChainOptions,
    head=head_kinds.MEDUSA,
)
MEDUSA = DrafterInfo(
    name="medusa-tree",
    title="Medusa heads, sparse tree",
    paper="Cai et al. 2401.10774",
    create=lambda parts: PositionsTree(parts, MedusaSource(parts.heads["medusa"], parts), sparse=True),
    options=GrownTreeOptions,
    head=head_kinds.MEDUSA,
    grows_trees=True,
)
BLOCK = DrafterInfo(
    name="block",
    title="Block drafter, chain",
    paper="DFlash 2602.06036",
    create=lambda parts: PositionsChain(parts, BlockSource(parts.heads["block"], parts)),
    options=ChainOptions,
    head=head_kinds.BLOCK,
)
BLOCK_TREE = DrafterInfo(
    name="block-tree",
    title="Block drafter, best-first tree",
    paper="DFlash 2602.06036, DDTree 2604.12989",
    create=lambda parts: PositionsTree(parts, BlockSource(parts.heads["block"], parts), sparse=False),
    options=GrownTreeOptions,
    head=head_kinds.BLOCK,
    grows_trees=True,
)
DSPARK = DrafterInfo(
    name="dspark",
    title="DSpark block drafter, chain",
    paper="DSpark 2607.05147",
    create=lambda parts: PositionsChain(parts, DSparkSource(parts.heads["dspark"], parts)),
    options=ChainOptions,
    head=head_kinds.DSPARK,
)
