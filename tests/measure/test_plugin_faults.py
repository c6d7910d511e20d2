"""Faults of plug-ins that `check` must convict: a drafter that copies from the text and draws from its q, and a dozen
that do one thing of it wrong. None may be acquitted. The drafter whose q is right passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import Drafter, DrafterInfo
from draftscope.drafters.drafter import Parts, State
from draftscope.drafters.options import GammaOptions, RuleOptions
from draftscope.measure import check as checks
from draftscope.measure.findings import Finding, verdict
from draftscope.measure.sampled import DRAFTED
from draftscope.verify.drawing import draw
from draftscope.verify.tree import DraftTree, chain
from tests.drafters.test_plugin import plugged_in


class Options(GammaOptions, RuleOptions):
    """A chain that any rule may verify."""


class Bigram(Drafter):
    """Draws what followed a token in this text, each follower as often as it did, any other token now and then."""

    name = "bigram"

    def __init__(self, parts: Parts[Options]) -> None:
        self.gamma, self.sampling, self.vocabulary = parts.options.gamma, parts.sampling, parts.vocabulary

    def begin(self, prompts: Any, features: Any) -> None: ...

    def scores(self, text: list[int]) -> Tensor:
        """[V] logits of the next token, before temperature and truncation."""
        counts = torch.full((self.vocabulary,), 0.3)
        for first, second in pairwise(text):
            counts[second] += first == text[-1]
        return counts.log()

    def chosen(self, q: Tensor, state: State, row: int, node: int) -> int:
        return int(draw(q, state.uniforms.draft[row, node]))

    def reported(self, q: Tensor, token: int) -> Tensor:
        return q

    def propose(self, state: State, depth: int) -> DraftTree:
        nodes, batch = min(self.gamma, depth), len(state.texts)
        tokens = torch.zeros((batch, nodes), dtype=torch.long)
        q = torch.zeros((batch, nodes, self.vocabulary))
        for row, text in enumerate(state.texts):
            written = list(text)
            for node in range(nodes):
                scores = self.scores(written)
                law = self.sampling.distribution(scores)
                tokens[row, node] = self.chosen(law, state, row, node)
                q[row, node] = self.reported(law, int(tokens[row, node]))
                written.append(int(tokens[row, node]))
        greedy = self.sampling.greedy
        rows = torch.cat([torch.arange(nodes), torch.tensor([-1])]).expand(batch, -1)
        none = torch.full_like(rows, -1)
        return DraftTree(
            topology=chain(nodes, batch), tokens=tokens, distributions=q, proposal_row=none if greedy else rows,
            shown_row=rows, never_accepted=torch.zeros((batch, nodes), dtype=torch.bool),
            origin=(("bigram",) * nodes,) * batch, drawn="none" if greedy else "all",
        )  # fmt: skip


def reports(change: Callable[[Tensor, int], Tensor]) -> type[Bigram]:
    """Tells another q than it drew from."""

    class Reports(Bigram):
        def reported(self, q: Tensor, token: int) -> Tensor:
            told = change(q, token)
            return told / told.sum()

    return Reports


def chooses(choose: Callable[[Tensor, State, int, int], int]) -> type[Bigram]:
    """Takes its tokens in another way than by its random numbers from q."""

    class Chooses(Bigram):
        def chosen(self, q: Tensor, state: State, row: int, node: int) -> int:
            return choose(q, state, row, node)

    return Chooses


class Stale(Bigram):
    """Tells the q of the token before."""

    last: Tensor | None = None

    def reported(self, q: Tensor, token: int) -> Tensor:
        told, self.last = self.last, q
        return q if told is None else told


class Unwarped(Bigram):
    """Tells q as it was before temperature, top-k and top-p."""

    def reported(self, q: Tensor, token: int) -> Tensor:
        return (q.clamp(min=0.02) ** 0.8) / (q.clamp(min=0.02) ** 0.8).sum()


class Sums(Bigram):
    """Tells weights that are no probabilities."""

    def reported(self, q: Tensor, token: int) -> Tensor:
        return 3.0 * q


class Dropped(Bigram):
    """Withdraws a token that it drew although it is improbable."""

    def propose(self, state: State, depth: int) -> DraftTree:
        tree = super().propose(state, depth)
        assert tree.distributions is not None
        q = tree.distributions.gather(2, tree.tokens[:, :, None])[:, :, 0]
        return replace(tree, never_accepted=(q < 0.3).cumsum(-1) > 0)


def best_of_two(q: Tensor, state: State, row: int, node: int) -> int:
    first, second = (int(draw(q, state.uniforms.draft[row, node] * k % 1.0)) for k in (1, 7919))
    return max(first, second, key=lambda token: float(q[token]))


FAULTS: dict[str, type[Bigram]] = {
    "flat q": reports(lambda q, _: (q > 0).float()),
    "square root of q": reports(lambda q, _: q.sqrt()),
    "sharp q": reports(lambda q, _: q**2),
    "argmax as a sample": chooses(lambda q, *_: int(q.argmax())),
    "always accepted": reports(lambda q, token: q.scatter(0, torch.tensor([token]), 1e-4)),
    "the random number that judges": chooses(lambda q, state, b, n: int(draw(q, state.uniforms.accept[b, n]))),
    "one random number for all": chooses(lambda q, *_: int(draw(q, torch.tensor(0.5, dtype=torch.float64)))),
    "best of two draws": chooses(best_of_two),
    "stale q": Stale,
    "q before temperature and truncation": Unwarped,
    "q that sums to 3": Sums,
    "improbable tokens dropped": Dropped,
}  # fmt: skip


@pytest.fixture
def sampled_findings(tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Finding]]:
    """What the sampled tests of `check` find of a drafter."""

    def find(create: type[Drafter], samples: int = 600, **more: Any) -> list[Finding]:
        info = DrafterInfo(name="bigram", title="Bigrams", paper="", create=create, options=Options)
        plugged_in(monkeypatch, info)
        monkeypatch.setattr(checks, "TESTS", ())
        return list(checks.check(tiny, "bigram", samples, rule="token", prompts=("abcab", "dacb"), **more))

    return find


def test_the_drafter_whose_q_is_right_passes(sampled_findings: Callable[..., list[Finding]]) -> None:
    findings = sampled_findings(Bigram)
    assert all(finding.passed and not finding.undecided for finding in findings), findings
    assert verdict(findings, exact=True, proved=False).startswith(
        "The rule is proved, the drafter's distributions are not; "
    )


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_convicted(sampled_findings: Callable[..., list[Finding]], fault: str) -> None:
    findings = sampled_findings(FAULTS[fault])
    assert any(not finding.passed for finding in findings), findings
    refused = fault in ("q that sums to 3", "stale q")  # in the round in which it is told
    sentence = "The engine ended with an error" if refused else "A difference was found"
    assert verdict(findings, exact=True, proved=False).startswith(sentence)
    if fault in ("square root of q", "flat q", "argmax as a sample"):
        assert not next(finding for finding in findings if finding.name == DRAFTED).passed


def test_a_drafter_that_drafts_nothing_is_not_acquitted(sampled_findings: Callable[..., list[Finding]]) -> None:
    """A wrong drafter passed that had one token accepted in 4,000 rounds."""

    class Silent(Bigram):
        def propose(self, state: State, depth: int) -> DraftTree:
            return super().propose(state, 0)

    findings = sampled_findings(Silent)
    assert all(finding.passed for finding in findings)
    assert verdict(findings, exact=True, proved=False).startswith("Undecided: no difference was found, but")
