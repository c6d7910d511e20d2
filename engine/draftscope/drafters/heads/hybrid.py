"""An EAGLE-3 head and copying in one chain: each token comes from whichever is expected to pay.

SuffixDecoding (2411.04975) and llama.cpp copy where the text repeats and ask a model elsewhere, greedily. Here the
chain is exact at every temperature: where a token comes from depends on the text and on the tokens drafted before it
alone, so a copied token is a deterministic child and a guessed one a drawn child of the same tree. What is copied is
not read by the head, so a chain begins with guesses, if any, and ends with copies.
"""

from __future__ import annotations

from collections.abc import Sequence
from time import perf_counter

import numpy as np
import torch
from torch import Tensor

from draftscope.drafters.drafter import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.heads.recurrent import HeadRows, recurrent_head
from draftscope.drafters.mixed_length import MixedChain, MixedCosts
from draftscope.drafters.options import DrawnChainOptions
from draftscope.models import head_kinds
from draftscope.verify.copies import tensors_on
from draftscope.verify.tree import DraftTree, chain, empty, first_rows

HEAD, COPYING = "eagle3", "ngram"  # whose calibrated costs a round's are made of


class HybridDrafter(Drafter):
    """A chain of at most gamma tokens for each sequence, as long as more are expected to pay."""

    def __init__(self, parts: Parts[DrawnChainOptions]) -> None:
        head = recurrent_head(parts, HEAD)
        self.layers = head.layers
        self._rows = HeadRows(head, parts)
        self._sampling = parts.sampling
        self._device = parts.device
        self._gamma = parts.options.gamma
        self._costs = MixedCosts(parts.cost_like, HEAD, COPYING, self._gamma, parts.batch)
        self._chains = [MixedChain(self._costs) for _ in range(parts.batch)]

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        assert features is not None
        self._rows.begin(prompts, features)

    def propose(self, state: State, depth: int) -> DraftTree:
        for mixed, text in zip(self._chains, state.texts, strict=True):
            mixed.begin(text, min(self._gamma, depth))
        distributions: list[Tensor] = []
        times: list[float] = []
        began, tokens, features = perf_counter(), torch.empty(0), torch.empty(0)
        while any(mixed.guesses_on for mixed in self._chains):
            step = len(distributions)
            if step == 0:
                distribution, features = self._rows.first(state.texts)
            else:
                offsets = torch.full_like(tokens, step - 1)
                distribution, features = self._rows.below(tokens, features, offsets, None)
            tokens = self._sampling.draw(distribution, state.uniforms.draft[:, step : step + 1])
            likely = distribution[:, 0].gather(1, tokens)[:, 0].tolist()
            for mixed, token, q in zip(self._chains, tokens[:, 0].tolist(), likely, strict=True):
                if mixed.guesses_on:
                    mixed.guessed(token, q)
            distributions.append(distribution)
            times.append((perf_counter() - began) * 1e3)
            began = perf_counter()
        return self._tree(distributions, tuple(times))

    def observe(self, outcome: Outcome) -> None:
        for mixed, path in zip(self._chains, outcome.paths, strict=True):
            mixed.observe(len(path))
        self._rows.observe(outcome)

    def select_rows(self, rows: list[int]) -> bool:
        if not self._rows.select_rows(rows):
            return False
        self._chains = [self._chains[row] for row in rows]
        self._costs.of_batch(len(rows))
        return True

    def _tree(self, distributions: list[Tensor], times: tuple[float, ...]) -> DraftTree:
        chains, batch = self._chains, len(self._chains)
        nodes = max(len(mixed.tokens) for mixed in chains)
        if nodes == 0:
            return empty(batch, self._device)
        copies = any(mixed.copied for mixed in chains)
        tokens = np.zeros((batch, nodes), dtype=np.int64)
        never = np.ones((batch, nodes), dtype=np.bool_)
        rows = np.full((batch, nodes + 1), -1, dtype=np.int64)
        for b, mixed in enumerate(chains):
            tokens[b, : len(mixed.tokens)] = mixed.tokens
            never[b, : len(mixed.tokens)] = False
            guessed = len(mixed.guesses) if copies else nodes  # padding of guesses has their distributions
            rows[b, :guessed] = np.arange(guessed)
        there = tensors_on(self._device, tokens, rows, never)
        greedy = self._sampling.greedy or not distributions
        return DraftTree(
            topology=chain(nodes, batch, self._device),
            tokens=there[0],
            distributions=torch.cat(distributions, 1) if distributions else None,
            proposal_row=first_rows(0, nodes + 1, batch, self._device) if greedy else there[1],
            shown_row=there[1],
            never_accepted=there[2],
            origin=tuple(mixed.origin(nodes) for mixed in chains),
            drawn="none" if greedy else "some" if copies else "all",
            forward_ms=times,
        )


INFO = DrafterInfo(
    name="hybrid",
    title="EAGLE-3 head and copying, by cost",
    paper="EAGLE-3 2503.01840 beside SuffixDecoding 2411.04975; lengths by measured cost",
    create=HybridDrafter,
    options=DrawnChainOptions,
    head=head_kinds.EAGLE3,
    chooses_by=(HEAD, COPYING),
    idle="no draft was expected to pay for its time",
)
