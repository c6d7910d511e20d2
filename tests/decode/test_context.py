"""How much text the models read: a draft with a small context hinders only the drafters that cannot do without it."""

from __future__ import annotations

import pytest

from draftscope import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.models.model import Model
from draftscope.models.probe import probed
from tests.support.models import byte_tokenizer, random_llama

PROMPT = "the cat and the hat and the cat and the hat and"
SMALL = 64  # tokens of the draft's context


def model(seed: int, context: int, name: str) -> Model:
    network = random_llama(seed, 258)
    network.config.max_position_embeddings = context
    return probed(network, name)


@pytest.fixture(scope="module")
def engine() -> DecodingEngine:
    models = (model(0, 512, "big"), model(1, SMALL, "small"), model(2, SMALL // 2, "smallest"))
    return DecodingEngine(models[0], models[1], byte_tokenizer(), smaller=models[2:])


@pytest.mark.parametrize("drafter", ["plain", "ngram", "suffix", "suffix-tree", "lookahead", "slem"])
def test_a_drafter_without_the_draft_reads_as_far_as_the_target(engine: DecodingEngine, drafter: str) -> None:
    run = engine.decode(PROMPT, drafter, max_new_tokens=40)
    assert run.token_ids == engine.decode(PROMPT, "plain", max_new_tokens=40).token_ids
    assert len(run.token_ids) == 40


def test_the_draft_is_used_while_it_fits(engine: DecodingEngine) -> None:
    room = SMALL - len(engine.encode(PROMPT))
    run = engine.decode(PROMPT, "draft", max_new_tokens=room)
    assert run.token_ids == engine.decode(PROMPT, "plain", max_new_tokens=room).token_ids
    with pytest.raises(DraftscopeError) as error:
        engine.decode(PROMPT, "draft", max_new_tokens=room + 1)
    assert str(error.value) == (
        f"The prompt has {SMALL - room} tokens and {room + 1} more were asked for, but the draft's ('small') context "
        f"holds {SMALL}; ask for at most {room} new tokens or shorten it, or choose 'ngram', which needs no draft."
    )


def test_a_cascade_needs_all_its_drafts(engine: DecodingEngine) -> None:
    with pytest.raises(DraftscopeError, match=r"the draft's \('smallest'\) context holds 32; shorten it, or choose"):
        engine.decode(PROMPT, "cascade", max_new_tokens=4)


def test_the_target_is_named_where_it_is_too_small(engine: DecodingEngine) -> None:
    for drafter in ("plain", "ngram"):
        with pytest.raises(DraftscopeError, match="but the target's context holds 512; ask for at most"):
            engine.decode(PROMPT, drafter, max_new_tokens=500)
