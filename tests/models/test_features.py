"""Drafters read hidden states from the target's own forwards, without additional ones."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.session import Session
from draftscope.drafters.drafter import Drafter, Outcome, State
from draftscope.drafters.model.draft_model import DraftModel
from draftscope.drafters.settings import Settings
from draftscope.verify.tree import DraftTree

LAYERS = (0, 1, 2, 3)  # the embeddings, the state between the two layers, the final norm's output, and its input


class Reader(Drafter):
    """Drafts like another drafter and collects the features of all committed tokens."""

    layers = LAYERS

    def __init__(self, inner: DraftModel) -> None:
        self.inner = inner
        self.rows: list[list[Tensor]] = []

    def begin(self, prompts: list[list[int]], features: Tensor | None) -> None:
        assert features is not None
        self.rows = [list(features[b, : len(prompt) - 1]) for b, prompt in enumerate(prompts)]
        self.inner.begin(prompts, None)

    def propose(self, state: State, depth: int) -> DraftTree:
        return self.inner.propose(state, depth)

    def observe(self, outcome: Outcome) -> None:
        assert outcome.features is not None
        for b, path in enumerate(outcome.paths):
            self.rows[b] += [outcome.features[b, 0], *(outcome.features[b, node + 1] for node in path)]
        self.inner.observe(outcome)


def from_scratch(engine: DecodingEngine, text: list[int]) -> Tensor:
    inputs: list[Tensor] = []
    hook = engine.target.network.model.norm.register_forward_pre_hook(lambda _, given: inputs.append(given[0]))
    states = engine.target.network(input_ids=torch.tensor([text]), use_cache=False, output_hidden_states=True)
    hook.remove()
    return torch.cat([*states.hidden_states, *inputs], -1)[0]


@pytest.mark.parametrize("lean", [True, False])
@pytest.mark.parametrize("drafter", ["draft", "sampled-tree"])
def test_features_are_the_hidden_states_of_the_committed_text(
    pair: DecodingEngine, drafter: str, lean: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts of different lengths over several rounds: all tokens but the pending one have the right features."""
    if not lean:
        monkeypatch.setattr(pair.target, "run", pair.target.network)
    settings = Settings.of(drafter=drafter, gamma=3, shape=(2, 2), temperature=1.0, max_new_tokens=24)
    prompts = [pair.encode("The quick brown fox"), pair.encode("a b")]
    session: Session = pair.start_batch(prompts, settings, (0, 1), ends=False)
    assert isinstance(session.drafter, DraftModel)
    reader = session.drafter = session._pass._drafter = Reader(session.drafter)
    before = pair.target.counter.forwards
    rounds = sum(1 for _ in session.steps())
    assert pair.target.counter.forwards - before == rounds + 1  # one for the prompt and one for each round
    assert rounds > 3
    for prompt, transcript, rows in zip(prompts, session.transcripts, reader.rows, strict=True):
        text = prompt + transcript.tokens
        expected = from_scratch(pair, text)[: len(rows)]
        assert len(rows) >= len(text) - 2
        torch.testing.assert_close(torch.stack(rows)[: len(text)], expected, atol=1e-4, rtol=1e-4)
