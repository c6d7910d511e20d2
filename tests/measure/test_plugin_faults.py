"""Faults of plug-ins that `check` must convict: a drafter that copies from the text and draws from its q, and a dozen
that do one thing of it wrong. None may be acquitted. The drafter whose q is right passes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

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
from tests.support.quick import quick


class Options(GammaOptions, RuleOptions):
    """A chain that any rule may verify."""


class Bigram(Drafter):
    """Draws what followed a token in this text, each follower as often as it did, any other token now and then."""

    name = "bigram"

    def __init__(self, parts: Parts[Options]) -> None:
        self.gamma, self.sampling, self.vocabulary = parts.options.gamma, parts.sampling, parts.vocabulary

    def begin(self, prompts: Any, features: Any) -> None: ...

    def scores(self, texts: Tensor) -> Tensor:
        """[B, V] logits of the next token, before temperature and truncation. `texts` [B, L] has -1 on the left."""
        follows = (texts[:, :-1] == texts[:, -1:]).float()
        counts = torch.full((len(texts), self.vocabulary), 0.3)
        return counts.scatter_add_(1, texts[:, 1:].clamp(min=0), follows).log()

    def chosen(self, q: Tensor, state: State, node: int) -> Tensor:
        return draw(q, state.uniforms.draft[:, node])

    def reported(self, q: Tensor, tokens: Tensor) -> Tensor:
        return q

    def propose(self, state: State, depth: int) -> DraftTree:
        nodes, batch = min(self.gamma, depth), len(state.texts)
        rows = [torch.tensor(text) for text in state.texts]
        written = pad_sequence(rows, batch_first=True, padding_value=-1, padding_side="left")
        q = torch.zeros((batch, nodes, self.vocabulary))
        for node in range(nodes):
            law = self.sampling.distribution(self.scores(written))
            tokens = self.chosen(law, state, node)
            q[:, node] = self.reported(law, tokens)
            written = torch.cat([written, tokens[:, None]], 1)
        greedy = self.sampling.greedy
        shown = torch.cat([torch.arange(nodes), torch.tensor([-1])]).expand(batch, -1)
        none = torch.full_like(shown, -1)
        return DraftTree(
            topology=chain(nodes, batch), tokens=written[:, written.shape[1] - nodes :], distributions=q,
            proposal_row=none if greedy else shown, shown_row=shown,
            never_accepted=torch.zeros((batch, nodes), dtype=torch.bool),
            origin=(("bigram",) * nodes,) * batch, drawn="none" if greedy else "all",
        )  # fmt: skip


def reports(change: Callable[[Tensor, Tensor], Tensor]) -> type[Bigram]:
    """Tells another q than it drew from."""

    class Reports(Bigram):
        def reported(self, q: Tensor, tokens: Tensor) -> Tensor:
            told = change(q, tokens)
            return told / told.sum(-1, keepdim=True)

    return Reports


def chooses(choose: Callable[[Tensor, State, int], Tensor]) -> type[Bigram]:
    """Takes its tokens in another way than by its random numbers from q."""

    class Chooses(Bigram):
        def chosen(self, q: Tensor, state: State, node: int) -> Tensor:
            return choose(q, state, node)

    return Chooses


class Stale(Bigram):
    """Tells the q of the token before."""

    def propose(self, state: State, depth: int) -> DraftTree:
        tree = super().propose(state, depth)
        assert tree.distributions is not None
        return replace(tree, distributions=torch.cat([tree.distributions[:, :1], tree.distributions[:, :-1]], 1))


class Unwarped(Bigram):
    """Tells q as it was before temperature, top-k and top-p."""

    def reported(self, q: Tensor, tokens: Tensor) -> Tensor:
        wide = q.clamp(min=0.02) ** 0.8
        return wide / wide.sum(-1, keepdim=True)


class Sums(Bigram):
    """Tells weights that are no probabilities."""

    def reported(self, q: Tensor, tokens: Tensor) -> Tensor:
        return 3.0 * q


class Dropped(Bigram):
    """Withdraws a token that it drew although it is improbable."""

    def propose(self, state: State, depth: int) -> DraftTree:
        tree = super().propose(state, depth)
        assert tree.distributions is not None
        q = tree.distributions.gather(2, tree.tokens[:, :, None])[:, :, 0]
        return replace(tree, never_accepted=(q < 0.3).cumsum(-1) > 0)


def best_of_two(q: Tensor, state: State, node: int) -> Tensor:
    tokens = torch.stack([draw(q, state.uniforms.draft[:, node] * k % 1.0) for k in (1, 7919)], -1)
    return tokens.gather(-1, q.gather(-1, tokens).argmax(-1, keepdim=True))[:, 0]


FAULTS: dict[str, type[Bigram]] = {
    "flat q": reports(lambda q, _: (q > 0).float()),
    "square root of q": reports(lambda q, _: q.sqrt()),
    "sharp q": reports(lambda q, _: q**2),
    "argmax as a sample": chooses(lambda q, *_: q.argmax(-1)),
    "always accepted": reports(lambda q, tokens: q.scatter(1, tokens[:, None], 1e-4)),
    "one random number for all": chooses(lambda q, *_: draw(q, torch.full((len(q),), 0.5, dtype=torch.float64))),
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
        monkeypatch.setattr(checks, "fresh_seed", lambda seed: seed)  # the same findings in every run of this test
        return list(checks.check(tiny, "bigram", samples, rule="token", prompts=("abcab", "dacb"), **more))

    return find


def test_the_drafter_whose_q_is_right_passes(sampled_findings: Callable[..., list[Finding]]) -> None:
    findings = sampled_findings(Bigram)
    assert all(finding.passed and not finding.undecided for finding in findings), findings
    assert verdict(findings, exact=True, proved=False).startswith(
        "The rule is proved, the drafter's distributions are not; "
    )


@pytest.mark.parametrize("fault", quick(FAULTS, "square root of q", "best of two draws", "stale q"))
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
