"""Tiers of a cascade: each one decodes with its own model and drafts for the tier above it.

A tier is speculative decoding inside speculative decoding: the tier below proposes a chain, the tier's model reads it
in one forward and verifies it by an exact rule. So the tokens that a tier passes up are drawn from its own model's
distribution, whatever drafted below it, and the tier above verifies them with that distribution. Every tier has its
own uniforms.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.drafters.lookup.ngram import NgramIndex
from draftscope.drafters.lookup.suffix import SuffixIndex
from draftscope.models.model import Model
from draftscope.verify.sampling import Sampling
from draftscope.verify.tree import DraftTree, chain, deterministic_chains
from draftscope.verify.uniforms import Streams, Uniforms, no_uniforms
from draftscope.verify.verify import Verification, verify_block, verify_greedy, verify_tree


@dataclass(frozen=True)
class Chains:
    """What a tier drafted for B sequences: tokens and their origins [B][n_b], and the distributions [n_b, V] that they
    were drawn from (or, under greedy decoding, whose argmax they are); None if they were copied."""

    tokens: list[list[int]]
    origin: list[list[str]]
    distributions: list[Tensor] | None

    def tree(self, greedy: bool, device: torch.device) -> DraftTree:
        """The chains as a draft tree [B, N], padded with never-accepted nodes. Tokens with distributions count as drawn
        unless `greedy`."""
        bare = deterministic_chains(self.tokens, [""] * len(self.tokens), device)
        origin = tuple(tuple(labels + [""] * (bare.nodes - len(labels))) for labels in self.origin)
        if self.distributions is None or bare.nodes == 0:
            return DraftTree(
                bare.topology, bare.tokens, None, bare.proposal_row, bare.shown_row, bare.never_accepted, origin
            )
        slots = torch.arange(bare.nodes + 1, device=device)
        rows = torch.where(slots < bare.nodes, slots, -1).expand(len(self.tokens), -1)
        return DraftTree(
            topology=chain(bare.nodes, len(self.tokens), device),
            tokens=bare.tokens,
            distributions=torch.nn.utils.rnn.pad_sequence(self.distributions, batch_first=True),
            proposal_row=bare.proposal_row if greedy else rows,
            shown_row=rows,
            never_accepted=bare.never_accepted,
            origin=origin,
            drawn="none" if greedy else "all",
        )


class Below(Protocol):
    """What drafts for a tier."""

    def begin(self, prompts: Sequence[list[int]]) -> None:
        """Reads the prompts; the last token of each is pending."""

    def read(self, texts: Sequence[Sequence[int]]) -> None:
        """Receives the texts that the target has committed; they only grow."""

    def draft(self, texts: Sequence[Sequence[int]], counts: Sequence[int], index: int) -> Chains:
        """At most `counts[b]` tokens after each text, which begins with the committed text and may be longer. No two
        calls have the same `index`."""

    def forget(self, lengths: Sequence[int]) -> None:
        """Discards all but the first `lengths[b]` tokens of what was read."""


class Copier:
    """The lowest tier, which has no model: it copies from the text, or guesses nothing ('none')."""

    def __init__(self, name: str, ngram: int) -> None:
        self._name, self._ngram = name, ngram
        self._indexes: list[NgramIndex | SuffixIndex] = []

    def begin(self, prompts: Sequence[list[int]]) -> None:
        if self._name != "none":
            self._indexes = [SuffixIndex() if self._name == "suffix" else NgramIndex(self._ngram) for _ in prompts]

    def read(self, texts: Sequence[Sequence[int]]) -> None:
        for index, text in zip(self._indexes, texts, strict=False):
            index.read(text)

    def draft(self, texts: Sequence[Sequence[int]], counts: Sequence[int], index: int) -> Chains:
        tokens: list[list[int]] = [[] for _ in texts]
        for b, guesser in enumerate(self._indexes):
            tokens[b] = guesser.guess(texts[b], counts[b]) if counts[b] else []
        return Chains(tokens, [[self._name] * len(chain) for chain in tokens], None)

    def forget(self, lengths: Sequence[int]) -> None:
        """Nothing to discard: only committed text was read."""


class Tier:
    """One model and what drafts for it. At most `most` tokens are asked of it at once.

    `round_ms` are the milliseconds of its rounds since it last read: one forward of its own each, and the work of the
    tiers below for it. `vocabulary` is the target's, the width of every distribution.
    """

    def __init__(
        self,
        model: Model,
        below: Below,
        sampling: Sampling,
        streams: Streams,
        most: int,
        capacity: int,
        vocabulary: int,
    ) -> None:
        if model.stateful:
            raise DraftscopeError(
                f"A cascade has to discard tokens that its models have read, and the state of '{model.name}' does not "
                "allow that; choose another draft model, or the drafter 'draft'."
            )
        self.model, self.below = model, below
        self.round_ms: list[float] = []
        self._sampling, self._streams, self._most, self._vocabulary = sampling, streams, most, vocabulary
        batch = len(streams.sequences)
        self._cache = model.cache(batch, capacity + 2 * most + 1)
        self._cached = [0] * batch  # tokens that the model has read, drafted ones included

    def begin(self, prompts: Sequence[list[int]]) -> None:
        self.model.read(self._cache, [[self._readable(token) for token in prompt[:-1]] for prompt in prompts])
        self._cached = [len(prompt) - 1 for prompt in prompts]
        self.below.begin(prompts)

    def read(self, texts: Sequence[Sequence[int]]) -> None:
        """A text that reached its limit may be shorter than what was read of it; its last token is always pending."""
        self.round_ms = []
        self._cached = [min(cached, len(text) - 1) for cached, text in zip(self._cached, texts, strict=True)]
        self.below.read(texts)

    def draft(self, texts: Sequence[Sequence[int]], counts: Sequence[int], index: int) -> Chains:
        """Exactly `counts[b]` tokens from the model's own distribution; fewer forwards, the better the tiers below
        guess."""
        drafts = [_Draft(list(text), len(text) + count) for text, count in zip(texts, counts, strict=True)]
        turn = 0
        while any(draft.missing for draft in drafts):
            began = perf_counter()
            self._round(drafts, index * self._most + turn)  # each turn adds a token, so there are at most `most`
            self.round_ms.append((perf_counter() - began) * 1e3)
            turn += 1
        tokens = [draft.text[len(text) :] for draft, text in zip(drafts, texts, strict=True)]
        nothing = torch.empty((0, self._vocabulary), device=self.model.device)
        return Chains(
            tokens, [draft.origin for draft in drafts], [torch.cat([nothing, *d.distributions]) for d in drafts]
        )

    def forget(self, lengths: Sequence[int]) -> None:
        self._cached = [min(cached, length) for cached, length in zip(self._cached, lengths, strict=True)]
        self.below.forget(lengths)

    def _round(self, drafts: list[_Draft], index: int) -> None:
        """One round of speculative decoding with this tier's model as the target; finished drafts do not change."""
        texts = [draft.text for draft in drafts]
        guesses = self.below.draft(texts, [max(0, draft.missing - 1) for draft in drafts], index)
        tree = guesses.tree(self._sampling.greedy, self.model.device)
        distribution = self._distributions(texts, guesses.tokens)
        verification = self._verify(distribution, tree, self._uniforms(index).first(tree.nodes))
        ends = torch.stack([verification.accepted, verification.last], 1).tolist()
        kept = [len(text) + accepted for text, (accepted, _) in zip(texts, ends, strict=True)]
        for b, (accepted, last) in enumerate(ends):
            if drafts[b].missing:
                self._cached[b] = kept[b]
                drafts[b].add(self.model.name, guesses.tokens[b][:accepted], last, distribution[b, : accepted + 1])
        self.below.forget(kept)

    def _uniforms(self, index: int) -> Uniforms:
        if self._sampling.greedy:
            return no_uniforms(len(self._cached), self._most, self.model.device)
        return self._streams.uniforms(index, self._most, self.model.device)

    def _distributions(self, texts: list[list[int]], guesses: list[list[int]]) -> Tensor:
        """The model's distributions [B, N + 1, V] after the last token of every text and after each guess.

        Each sequence reads the tokens that its cache lacks, then its guesses; padding follows and is discarded.
        """
        device = self.model.device
        rows = [
            list(map(self._readable, [*text[cached:], *guess]))
            for text, guess, cached in zip(texts, guesses, self._cached, strict=True)
        ]
        most = max(len(row) for row in rows)
        tokens = torch.tensor([row + [0] * (most - len(row)) for row in rows], device=device)
        self._cache.truncate(torch.tensor(self._cached, device=device), max(self._cached))
        logits = self.model.forward(self._cache, tokens, torch.arange(most, device=device).expand(len(rows), -1))
        nodes = max(len(guess) for guess in guesses)
        first = torch.tensor([len(row) - len(guess) - 1 for row, guess in zip(rows, guesses, strict=True)])
        places = (first[:, None] + torch.arange(nodes + 1)).clamp(max=most - 1).to(device)
        logits = logits.gather(1, places[:, :, None].expand(-1, -1, logits.shape[2]))
        distribution = self._sampling.distribution(logits[..., : self._vocabulary])
        return torch.nn.functional.pad(distribution, (0, self._vocabulary - distribution.shape[-1]))

    def _verify(self, distribution: Tensor, tree: DraftTree, uniforms: Uniforms) -> Verification:
        """Verifies by the exact rule that accepts most; the run's own rule is for the target only."""
        if self._sampling.greedy:
            return verify_greedy(distribution.argmax(-1), tree)
        return (
            verify_block(distribution, tree, uniforms)
            if tree.drawn == "all"
            else verify_tree(distribution, tree, uniforms)
        )

    def _readable(self, token: int) -> int:
        """A token that only the target's padded embedding has becomes the model's last one: a worse guess."""
        return min(token, self.model.vocabulary - 1)


class _Draft:
    """One sequence's text while its chain is drafted, up to a length of `end` tokens."""

    def __init__(self, text: list[int], end: int) -> None:
        self.text = text
        self.distributions: list[Tensor] = []  # [n, V] of each round
        self.origin: list[str] = []
        self._end = end

    @property
    def missing(self) -> int:
        return self._end - len(self.text)

    def add(self, model: str, accepted: list[int], last: int, distributions: Tensor) -> None:
        self.text += [*accepted, last]
        self.origin += [*[f"{model}, guessed"] * len(accepted), model]
        self.distributions.append(distributions)
