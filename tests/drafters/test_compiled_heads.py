"""A head whose steps are compiled drafts from the same rows as its modules do, in batches of unequal texts too."""

from __future__ import annotations

import pytest
import torch

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.pair import NamedHead
from draftscope.drafters.settings import Settings
from draftscope.models.probe import probed
from tests.drafters.test_feature_drafters import unrolled
from tests.models.test_head_steps import V, head
from tests.models.test_native import llama
from tests.support.models import letters

pytest.importorskip("numba")

PROMPTS = [[3, 14, 15, 9, 26, 5, 35], [8, 9, 7]]


@pytest.mark.parametrize("drafter", ["eagle3", "eagle", "mtp"])
def test_every_draft_comes_from_the_newest_true_row(drafter: str) -> None:
    made = head(drafter)
    made.compile_step()
    assert made.step is not None
    target = probed(llama(vocab_size=V, num_hidden_layers=4), "target")
    engine = DecodingEngine(target, None, letters(V), {drafter: NamedHead(made, "head")})
    chosen = Settings.of(temperature=1.0, max_new_tokens=18, seed=2, drafter=drafter, gamma=2)
    session = engine.start_batch(PROMPTS, chosen, (0, 1), ends=False)
    texts, rounds, known = [list(prompt) for prompt in PROMPTS], 0, 0
    for step in session.steps():
        rows = step.tree.distributions
        for b, row in enumerate(step.rows) if rows is not None else ():
            expected = unrolled(engine, made, texts[row], []).float()
            torch.testing.assert_close(rows[b, 0], expected, atol=0.02, rtol=0.1)
            known += 1
        texts = [p + t.tokens for p, t in zip(PROMPTS, session.transcripts, strict=True)]
        rounds += 1
    assert rounds > 3 and known > 6
