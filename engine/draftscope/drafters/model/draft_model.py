"""A small draft model: a chain, a tree sampled without replacement, or a tree of its top k.

Papers: chain 2211.17192 and 2302.01318; sampled tree 2402.12374; top-k tree 2305.09781. One class serves all three: a
chain is a tree with one child for each node. The draft model drafts level by level, one forward for each level, from
the same warped distribution that is used in verification.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.length import Lengths, lengths_of
from draftscope.drafters.model.levels import Drafted, LevelPlan, Levels
from draftscope.drafters.options import ChainOptions, DrafterOptions, ShapeOptions
from draftscope.models.forward.graphs import GraphMode, Outputs
from draftscope.trace.events import Annotation, DraftState
from draftscope.verify.tree import Counts, Topology, even

FRESH = 2  # most committed tokens that a round finds unread, if the draft has read every earlier round


class DraftModel(Levels):
    """Distributions of a model that reads the same tokens as the target, through its own cache."""

    def __init__(
        self, parts: Parts[DrafterOptions], counts: Counts, sampled: bool, lengths: Lengths | None = None
    ) -> None:
        super().__init__(parts, counts, sampled, lengths)
        if parts.draft is None:
            raise DraftscopeError("No draft model is loaded; name one with --draft, or choose the drafter 'ngram'.")
        self._model = parts.draft
        self._vocabulary = parts.vocabulary
        self._cache = self._model.cache(parts.batch, parts.capacity)
        self._cached = [0] * parts.batch  # committed tokens that the draft has read
        self._device = self._model.device

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        last = self._model.vocabulary - 1
        self._model.read(self._cache, [[min(token, last) for token in prompt[:-1]] for prompt in prompts])
        self._cached = [len(prompt) - 1 for prompt in prompts]

    def drafted(self, state: State, plan: LevelPlan, going: list[bool]) -> Drafted | None:
        """With graphs and fixed lengths, the whole loop is one graph; its levels are not timed."""
        lengths = [len(text) for text in state.texts]
        rows = self._lacking(lengths)
        if going or rows > FRESH or self._model.graph_mode is not GraphMode.ALL:
            return super().drafted(state, plan, going)
        tokens, cut = self._behind(state.texts, rows)
        self._cache.truncate(cut, max(lengths) - rows)
        self._cache.table.know_least(min(lengths) - rows)

        def loop(tokens: Tensor, uniforms: Tensor) -> Outputs:
            distribution = self._distribution(self._read_behind(tokens, max(lengths)))
            return *self.grown(distribution, plan, uniforms, [], 0.0).parts, self._cache.table.length

        form = plan, self._sampling, self.draws, self._vocabulary
        outputs = self._model.loop(self._cache, loop, form, (tokens, state.uniforms.draft), [rows, *plan.fed])
        *parts, length = outputs
        self._cache.truncate(length, max(lengths))
        self._cache.table.open = sum(plan.fed)
        self._cached = lengths
        return Drafted(len(plan.counts), *parts)

    def first(self, state: State) -> Tensor:
        return self._distribution(self._catch_up(state.texts))

    def below(self, form: Topology, children: Tensor, start: int) -> Tensor:
        return self._distribution(self._feed_level(form, children, start))

    def observe(self, outcome: Outcome) -> None:
        """Keeps the accepted nodes that the draft has read; it never reads the deepest level."""
        super().observe(outcome)
        fed, table = self._cache.table.open, self._cache.table
        kept = [sum(node < fed for node in path) for path in outcome.paths]
        self._cached = [cached + count for cached, count in zip(self._cached, kept, strict=True)]
        bound = max(self._cached)
        if not outcome.tree.topology.is_chain:
            assert outcome.verification is not None
            path = outcome.verification.path[:, : max(kept)]
            rows = torch.where(path < fed, path, -1)
            self._cache.keep(rows, (rows >= 0).sum(-1), bound)
        elif self._model.stateful:
            self._cache.keep_first(torch.tensor(kept, device=self._device), bound)
        else:
            table.commit(table.length, bound)  # the next round gives the lengths

    def select_rows(self, rows: list[int]) -> bool:
        if self._model.graphs is not None:
            return False
        self._cache.select_rows(torch.tensor(rows, device=self._device))
        self._cached = [self._cached[row] for row in rows]
        self.keep_lengths(rows)
        return True

    def annotations(self, row: int) -> Sequence[Annotation]:
        read = self._cached[row]
        constant = self._model.recurrent
        return (DraftState(bytes=self._model.kept_bytes(read), tokens=read, constant=constant),)

    def _catch_up(self, texts: Sequence[Sequence[int]]) -> Tensor:
        """Reads the committed tokens that the cache lacks (two after full acceptance); returns the last row's logits.

        Every sequence reads as many rows as the one that lacks most; the others read tokens again, into the same slots.
        """
        lengths = [len(text) for text in texts]
        if self._model.recurrent:
            return self._catch_up_state(texts, lengths)
        rows = self._lacking(lengths)
        tokens, cut = self._behind(texts, rows)
        self._cache.truncate(cut, max(lengths) - rows)
        self._cache.table.know_least(min(lengths) - rows)
        logits = self._read_behind(tokens, max(lengths))
        self._cached = lengths
        return logits

    def _lacking(self, lengths: list[int]) -> int:
        return max(length - cached for length, cached in zip(lengths, self._cached, strict=True))

    def _behind(self, texts: Sequence[Sequence[int]], rows: int) -> tuple[Tensor, Tensor]:
        """The last `rows` tokens of every text, [B, rows], and how many are before them, [B], in one copy."""
        given = [token for text in texts for token in text[-rows:]] + [len(text) - rows for text in texts]
        tokens, before = torch.split(torch.tensor(given, device=self._device), [rows * len(texts), len(texts)])
        return self._readable(tokens.view(len(texts), rows)), before

    def _read_behind(self, tokens: Tensor, bound: int) -> Tensor:
        """Reads `tokens` [B, rows] as committed, after the truncated cache; returns the last row's logits."""
        offsets = torch.arange(tokens.shape[1], device=self._device).expand(len(tokens), -1)
        logits = self._model.forward(self._cache, tokens, offsets, last_only=True)
        self._cache.keep_first(torch.full((len(tokens),), tokens.shape[1], device=self._device), bound)
        return logits

    def _catch_up_state(self, texts: Sequence[Sequence[int]], lengths: list[int]) -> Tensor:
        """The same for a recurrent state, which must not read a token twice: padding rows are discarded afterwards."""
        # a text that has ended lacks nothing, though its cache may hold more
        lacking = [max(0, length - cached) for length, cached in zip(lengths, self._cached, strict=True)]
        rows = max(lacking)
        padded = [
            [*text[length - missing :], *[0] * (rows - missing)]
            for text, length, missing in zip(texts, lengths, lacking, strict=True)
        ]
        count = torch.tensor(lacking, device=self._device)
        offsets = torch.arange(rows, device=self._device).expand(len(texts), -1)
        logits = self._model.forward(self._cache, self._readable(torch.tensor(padded, device=self._device)), offsets)
        self._cache.keep_first(count, max(lengths))
        self._cached = lengths
        last = (count - 1).clamp(min=0)[:, None, None].expand(-1, 1, logits.shape[2])
        return logits.gather(1, last)

    def _readable(self, tokens: Tensor) -> Tensor:
        """Tokens that only the target's padded embedding has become the draft's last one: a worse guess, no bias."""
        return tokens if self._model.vocabulary >= self._vocabulary else tokens.clamp(max=self._model.vocabulary - 1)

    def _distribution(self, logits: Tensor) -> Tensor:
        """The draft's warped distribution over the target's vocabulary; padding may make either embedding wider."""
        distribution = self._sampling.distribution(logits[..., : self._vocabulary])
        lacking = self._vocabulary - distribution.shape[-1]
        return torch.nn.functional.pad(distribution, (0, lacking)) if lacking else distribution

    def _feed_level(self, form: Topology, tokens: Tensor, start: int) -> Tensor:
        """Logits after each node of one level, whose nodes are open rows after those of the earlier levels."""
        end = start + tokens.shape[1]
        tokens = self._readable(tokens)
        if form.is_chain:
            return self._model.forward(self._cache, tokens, form.depth[:, start + 1 : end + 1] - 1)
        sees = form.ancestors[:, start + 1 : end + 1, 1 : end + 1]
        return self._model.forward(self._cache, tokens, form.depth[:, start + 1 : end + 1] - 1, sees)


def _chain(parts: Parts[ChainOptions]) -> Drafter:
    gamma = parts.options.gamma
    lengths = lengths_of(parts.options, parts.cost, gamma, parts.batch)
    return DraftModel(parts, even((1,) * gamma), sampled=True, lengths=lengths)


def _sampled(parts: Parts[ShapeOptions]) -> Drafter:
    return DraftModel(parts, even(parts.options.shape), sampled=True)


def _top_k(parts: Parts[ShapeOptions]) -> Drafter:
    return DraftModel(parts, even(parts.options.shape), sampled=False)


CHAIN = DrafterInfo(
    name="draft",
    title="Draft model, chain",
    paper="Leviathan et al. 2211.17192, Chen et al. 2302.01318; block verification: Sun et al. 2403.10444",
    create=_chain,
    options=ChainOptions,
    needs_draft=True,
)
SAMPLED_TREE = DrafterInfo(
    name="sampled-tree",
    title="Draft model, sampled tree",
    paper="Jeon et al. 2402.12374 (recursive rejection sampling without replacement)",
    create=_sampled,
    options=ShapeOptions,
    bench_shape=(2, 1, 1),
    needs_draft=True,
    grows_trees=True,
)
TOP_K_TREE = DrafterInfo(
    name="topk-tree",
    title="Draft model, top-k tree",
    paper="Miao et al. 2305.09781 (tree verification), deterministic children",
    create=_top_k,
    options=ShapeOptions,
    bench_shape=(2, 2, 1),
    needs_draft=True,
    grows_trees=True,
)
