"""A cascade of three tiers: copied guesses draft for a middle model, whose tokens draft for the target.

Cascade speculative drafting (Chen et al. 2312.11462), losslessly: the middle model verifies the guesses as a target
would, so what stands is drawn from its own law q, and q is what the target judges it with. Nothing of the inner tier is
left in the outer one but the time that it took. The middle tier tosses coins of its own: one that decided here and
again in the target's verdict would tie the two together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from time import perf_counter
from typing import Protocol

import torch
from torch import Tensor

from draftscope.drafters.base import Drafter, DrafterInfo, Outcome, Parts, State
from draftscope.drafters.ngram import NgramIndex
from draftscope.drafters.suffix import SuffixIndex
from draftscope.errors import DraftscopeError
from draftscope.judge import Verdict, judge_greedy, judge_tree
from draftscope.settings import Settings
from draftscope.streams import Coins, no_coins
from draftscope.tree import DraftTree, chain, chosen_chains, empty

TIER = 1  # of the middle model's coins; the target's are tier 0


class Guesser(Protocol):
    """The inner tier: reads what is committed, guesses what may follow that and what was drafted behind it."""

    def read(self, text: Sequence[int]) -> None: ...

    def guess(self, text: Sequence[int], count: int) -> list[int]: ...


class Cascade(Drafter):
    """A chain of `gamma` tokens of the middle model, in as few of its forwards as the guesses allow."""

    def __init__(self, parts: Parts) -> None:
        if parts.draft is None:
            raise DraftscopeError("No draft model is loaded; name one with --draft, or choose the drafter 'ngram'.")
        if parts.draft.stateful:
            raise DraftscopeError(
                f"A cascade cuts back what its middle model has read, and the state of '{parts.draft.name}' cannot be; "
                "choose another draft model, or the drafter 'draft'."
            )
        self._settings, self._sampling = parts.settings, parts.sampling
        self._model, self._vocabulary = parts.draft, parts.vocabulary
        self._cache = self._model.cache(parts.batch, parts.capacity + parts.settings.gamma)
        self._cached = [0] * parts.batch  # tokens that the middle model has read, drafted ones included
        self._committed = [0] * parts.batch
        self._streams = replace(parts.streams, tier=TIER)
        self._guessers: list[Guesser] = []
        self._device = self._model.device

    def begin(self, prompts: Sequence[list[int]], features: Tensor | None) -> None:
        last = self._model.vocabulary - 1
        self._model.read(self._cache, [[min(token, last) for token in prompt[:-1]] for prompt in prompts])
        self._cached = [len(prompt) - 1 for prompt in prompts]
        self._guessers = [_guesser(self._settings) for _ in prompts]

    def propose(self, state: State, depth: int) -> DraftTree:
        self._committed = [len(text) for text in state.texts]
        gamma = min(self._settings.gamma, depth)
        if gamma == 0:
            return empty(len(state.texts), self._device)
        for guesser, text in zip(self._guessers, state.texts, strict=True):
            guesser.read(text)
        drafts = [_Draft(list(text), len(text) + gamma) for text in state.texts]
        times: list[float] = []
        while any(draft.left for draft in drafts):
            began = perf_counter()
            self._middle_round(drafts, self._coins(state.round * self._settings.gamma + len(times)))
            times.append((perf_counter() - began) * 1e3)
        return self._tree(drafts, gamma, tuple(times))

    def observe(self, outcome: Outcome) -> None:
        """What the target rejected, the middle model has to forget."""
        stand = [start + len(path) for start, path in zip(self._committed, outcome.paths, strict=True)]
        self._cached = [min(cached, length) for cached, length in zip(self._cached, stand, strict=True)]

    def _coins(self, index: int) -> Coins:
        """The coins of one of the middle model's rounds; `gamma` of these are set aside for each of the target's."""
        batch, nodes = len(self._guessers), self._settings.gamma
        if self._sampling.greedy:
            return no_coins(batch, nodes, self._device)
        return self._streams.coins(index, nodes, self._device)

    def _middle_round(self, drafts: list[_Draft], coins: Coins) -> None:
        """One round of speculative decoding with the middle model as the target; finished drafts stay as they are."""
        guesses = [
            guesser.guess(draft.text, draft.left - 1) if draft.left else []
            for guesser, draft in zip(self._guessers, drafts, strict=True)
        ]
        tree = chosen_chains(guesses, [self._settings.inner] * len(drafts), self._device)
        law = self._laws([draft.text for draft in drafts], tree)
        verdict = self._judge(law, tree, coins.first(tree.nodes))
        ends = zip(verdict.accepted.tolist(), verdict.last.tolist(), strict=True)
        for b, (accepted, last) in enumerate(ends):
            if drafts[b].left:
                self._cached[b] = len(drafts[b].text) + accepted
                drafts[b].add(guesses[b][:accepted], last, law[b, : accepted + 1])

    def _laws(self, texts: list[list[int]], tree: DraftTree) -> Tensor:
        """The middle model's laws [B, N + 1, V] below the last token of every text and below each guess.

        Where the target accepted a whole draft, the middle model has not read its last token: all read one row more.
        """
        behind = max(len(text) - 1 - cached for text, cached in zip(texts, self._cached, strict=True))
        lengths = [len(text) - 1 - behind for text in texts]
        self._cache.truncate(torch.tensor(lengths, device=self._device), max(lengths))
        tokens = torch.cat([torch.tensor([text[-1 - behind :] for text in texts], device=self._device), tree.tokens], 1)
        offsets = torch.arange(tokens.shape[1], device=self._device).expand(len(texts), -1)
        logits = self._model.forward(self._cache, tokens.clamp(max=self._model.vocabulary - 1), offsets)[:, behind:]
        law = self._sampling.law(logits[..., : self._vocabulary])
        return torch.nn.functional.pad(law, (0, self._vocabulary - law.shape[-1]))

    def _judge(self, law: Tensor, tree: DraftTree, coins: Coins) -> Verdict:
        return judge_greedy(law.argmax(-1), tree) if self._sampling.greedy else judge_tree(law, tree, coins)

    def _tree(self, drafts: list[_Draft], gamma: int, times: tuple[float, ...]) -> DraftTree:
        """The chain, and with it the very laws that its tokens were drawn from."""
        slots = torch.arange(gamma + 1, device=self._device)
        belief = torch.where(slots < gamma, slots, -1).expand(len(drafts), -1)
        tokens = torch.tensor([draft.text[-gamma:] for draft in drafts], device=self._device)
        return DraftTree(
            topology=chain(gamma, len(drafts), self._device),
            tokens=tokens,
            laws=torch.stack([torch.cat(draft.laws) for draft in drafts]),
            family=torch.full_like(belief, -1) if self._sampling.greedy else belief,
            belief=belief,
            scout=torch.zeros_like(tokens, dtype=torch.bool),
            origin=tuple(tuple(draft.origin) for draft in drafts),
            drawn="none" if self._sampling.greedy else "all",
            forward_ms=times,
        )


class _Draft:
    """One sequence's text while its chain is drafted, up to a length of `end` tokens."""

    def __init__(self, text: list[int], end: int) -> None:
        self.text = text
        self.laws: list[Tensor] = []  # [n, V] of each of the middle model's rounds
        self.origin: list[str] = []
        self._end = end

    @property
    def left(self) -> int:
        return self._end - len(self.text)

    def add(self, accepted: list[int], last: int, laws: Tensor) -> None:
        self.text += [*accepted, last]
        self.origin += [*["middle model, guessed"] * len(accepted), "middle model"]
        self.laws.append(laws)


def _guesser(settings: Settings) -> Guesser:
    return SuffixIndex() if settings.inner == "suffix" else NgramIndex(settings.ngram)


INFO = DrafterInfo(
    name="cascade",
    title="Cascade: guesses, draft model, target",
    paper="cascade speculative drafting, Chen et al. 2312.11462, losslessly",
    create=Cascade,
    nodes=lambda settings: settings.gamma,
    uses=("gamma", "inner", "ngram", "rule"),
    needs_draft=True,
)
