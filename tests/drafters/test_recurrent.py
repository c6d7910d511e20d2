"""Mamba-2 as draft and as target: logits of every path, states that branch and are kept, the distribution, memory that
stays."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import Mamba2Config, Mamba2ForCausalLM

from draftscope import DraftscopeError
from draftscope.base.steps import last
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.model.draft_model import DraftModel
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.report import kept_memory
from draftscope.measure.findings import FALSE_ALARM
from draftscope.models.cache.state import LayerState, StateCache
from draftscope.models.forward import mamba
from draftscope.models.forward.mamba import READ, ancestors
from draftscope.models.model import Model
from draftscope.models.probe import probed
from draftscope.trace.events import DraftState
from draftscope.verify.tree import full
from tests.models.test_cache import CLOSE, fresh, path_to
from tests.support.distribution import distribution_test
from tests.support.models import byte_tokenizer, letters, random_llama

PROMPT = "The quick brown fox"
SHAPES: dict[str, dict[str, Any]] = {
    "draft": {"gamma": 3},
    "draft, token": {"drafter": "draft", "gamma": 3, "rule": "token"},
    "sampled-tree": {"shape": (3, 2)},
    "topk-tree": {"shape": (2, 2)},
}


def random_mamba(seed: int, vocabulary: int, layers: int = 2, groups: int = 1) -> Mamba2ForCausalLM:
    """A random Mamba-2 whose distributions are far from flat and whose state remembers."""
    torch.manual_seed(seed)
    config = Mamba2Config(
        vocab_size=vocabulary,
        hidden_size=32,
        num_hidden_layers=layers,
        state_size=8,
        head_dim=8,
        num_heads=8,
        n_groups=groups,
        chunk_size=8,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=1,
    )
    model = Mamba2ForCausalLM(config)
    for layer in model.backbone.layers:
        layer.mixer.dt_bias.data.normal_(0.5)
    return model


@pytest.fixture(scope="module")
def tiny_mamba(tiny: DecodingEngine) -> DecodingEngine:
    """The tiny target with a Mamba-2 draft."""
    return DecodingEngine(tiny.target, probed(random_mamba(2, 5, layers=1), "tiny-mamba"), letters(5))


@pytest.fixture(scope="module")
def stateful() -> DecodingEngine:
    """Target and draft are Mamba-2s over five tokens. No token ends a text."""
    engine = DecodingEngine(
        probed(random_mamba(7, 5), "mamba-target"), probed(random_mamba(2, 5, 1), "mamba-draft"), letters(5)
    )
    engine.eos = frozenset()
    return engine


@pytest.fixture(scope="module")
def bytes_mamba(pair: DecodingEngine) -> DecodingEngine:
    return DecodingEngine(pair.target, probed(random_mamba(4, 258), "byte-mamba"), byte_tokenizer())


# The forward.


@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_prompt_has_the_models_own_logits(groups: int, dtype: torch.dtype) -> None:
    """Longer than one chunk of reading, and than the model's own chunks."""
    model = probed(random_mamba(1, 40, groups=groups).to(dtype), "m")
    text = torch.randint(2, 40, (1, READ + 9), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        want = model.network(input_ids=text, use_cache=False).logits[0, -9:]
    cache = model.cache(1, 4)
    model.read(cache, [text[0, :READ].tolist()])
    found = model.forward(cache, text[:, READ:], torch.arange(9)[None])[0]
    close = CLOSE if dtype == torch.float32 else {"atol": 0.05 * float(want.float().std()), "rtol": 0.05}
    torch.testing.assert_close(found.float(), want.float(), **close)


def test_ancestors_are_found_through_tree_and_window() -> None:
    form = full((2, 1))
    above = ancestors(form.ancestors, 4)[:, 0]  # [4, 5]; 3 committed rows in the window, the root is row 3
    assert above[:, 0].tolist() == [3, 2, 1, 0]
    assert above[:, 1].tolist() == [4, 3, 2, 1]
    assert above[:, 2].tolist() == [5, 3, 2, 1]
    assert above[:, 3].tolist() == [6, 4, 3, 2]
    assert above[:, 4].tolist() == [7, 5, 3, 2]


def test_siblings_that_shared_a_state_would_be_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Mutation: rows of a tree read in order, one state for all, as a scan would."""
    right = mamba._mixed
    monkeypatch.setattr(
        mamba,
        "_mixed",
        lambda mixer, x, layer, sees, *more: right(mixer, x, layer, torch.ones_like(sees).tril(), *more),
    )
    with pytest.raises(AssertionError):
        branch_and_keep(probed(random_mamba(1, 40), "m"))


def test_branches_have_states_of_their_own_before_and_after_a_path_is_kept() -> None:
    branch_and_keep(probed(random_mamba(1, 40), "m"))


def branch_and_keep(model: Model) -> None:
    """A ragged batch: a tree each, an unequal path kept in each, another tree behind it."""
    dice = torch.Generator().manual_seed(3)
    texts = [torch.randint(2, 40, (count,), generator=dice).tolist() for count in (11, 2)]
    cache, form = model.cache(2, 0), full((2, 2), 2)
    model.read(cache, texts)
    for paths in ([[0, 2, 6], [0]], [[], [0, 1, 3]]):
        tokens = torch.randint(2, 40, (2, form.nodes + 1), generator=dice)
        logits = model.forward(cache, tokens, form.depth, form.ancestors)
        for b, text in enumerate(texts):
            for leaf in range(form.nodes - 4, form.nodes):
                slots = [0, *(node + 1 for node in path_to(form, b, leaf))]
                alone = fresh(model, text + tokens[b, slots].tolist())[len(text) :]
                torch.testing.assert_close(logits[b, slots], alone, **CLOSE)
        rows = torch.tensor([path + [-1] * (3 - len(path)) for path in paths])
        cache.keep(rows, torch.tensor([len(path) for path in paths]), 20)
        texts = [text + tokens[b, paths[b]].tolist() for b, text in enumerate(texts)]


def test_rolling_back_leaves_what_a_fresh_prefill_leaves() -> None:
    model, text = probed(random_mamba(1, 40), "m"), list(range(2, 14))
    kept, new = model.cache(1, 0), model.cache(1, 0)
    model.read(kept, [text[:9]])
    model.forward(kept, torch.tensor([[30, 31, 32]]), torch.arange(3)[None])
    kept.truncate(torch.tensor([9]), 9)  # rejected
    model.forward(kept, torch.tensor([[*text[9:], 33]]), torch.arange(4)[None])
    kept.keep_first(torch.tensor([3]), 12)
    model.read(new, [text])
    assert isinstance(kept, StateCache) and isinstance(new, StateCache)
    for ours, theirs in zip(kept.states, new.states, strict=True):
        torch.testing.assert_close(ours.state, theirs.state, **CLOSE)
        torch.testing.assert_close(ours.window, theirs.window, **CLOSE)
    torch.testing.assert_close(
        model.forward(kept, torch.tensor([[5]]), torch.zeros(1, 1, dtype=torch.long))[0],
        fresh(model, [*text, 5])[-1:],
        **CLOSE,
    )


def test_a_state_cannot_be_truncated() -> None:
    model = probed(random_mamba(1, 40), "m")
    cache = model.cache(1, 0)
    model.read(cache, [[2, 3, 4, 5]])
    with pytest.raises(ValueError, match=r"a recurrent state of \[4\] tokens cannot be cut to \[3\]"):
        cache.truncate(torch.tensor([3]), 3)
    cache.truncate(torch.tensor([0]), 0)  # to nothing it may
    model.read(cache, [[2, 3]])
    found = model.forward(cache, torch.tensor([[4]]), torch.zeros(1, 1, dtype=torch.long))[0]
    torch.testing.assert_close(found, fresh(model, [2, 3, 4])[-1:], **CLOSE)


# Decoding.


def p_value(engine: DecodingEngine, name: str) -> float:
    settings = Settings.of(**{"drafter": name, "temperature": 1.0, "seed": 5} | SHAPES[name])
    return distribution_test(engine, "abcab", settings, 4, samples=2000).p_value


@pytest.mark.parametrize("name", SHAPES)
def test_the_joint_distribution_is_the_targets(tiny_mamba: DecodingEngine, name: str) -> None:
    assert p_value(tiny_mamba, name) > FALSE_ALARM


@pytest.mark.parametrize("name", SHAPES)
def test_a_recurrent_target_writes_its_own_distribution(stateful: DecodingEngine, name: str) -> None:
    assert p_value(stateful, name) > FALSE_ALARM


def test_a_state_that_keeps_rejected_tokens_is_caught(
    stateful: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Mutation: a recurrent target whose state keeps all verify rows."""
    right = LayerState.fold

    def careless(self: LayerState, rows: torch.Tensor, count: torch.Tensor) -> None:
        right(self, rows, torch.full_like(count, rows.shape[1]))

    monkeypatch.setattr(LayerState, "fold", careless)
    assert p_value(stateful, "draft") < FALSE_ALARM


def test_a_draft_that_is_the_target_is_always_accepted(stateful: DecodingEngine) -> None:
    twin = DecodingEngine(stateful.target, stateful.target, stateful.tokenizer)
    twin.eos = frozenset()
    run = twin.decode("abcab", "draft", gamma=3, temperature=1.0, max_new_tokens=40)
    full_rounds = [event for event in run.round_events if event.depth == 3]
    assert sum(event.last.kind == "bonus" for event in full_rounds) >= len(full_rounds) - 1 > 5


@pytest.mark.parametrize("name", SHAPES)
def test_greedy_writes_plains_tokens_in_one_forward_a_round(
    pair: DecodingEngine, bytes_mamba: DecodingEngine, name: str
) -> None:
    want = pair.decode(PROMPT, "plain", max_new_tokens=24).token_ids
    with pair.target.counter.widths() as widths:
        run = bytes_mamba.decode(PROMPT, **{"drafter": name, "max_new_tokens": 24} | SHAPES[name])
    assert run.token_ids == want
    assert widths[1:] == [event.width for event in run.round_events]


@pytest.mark.parametrize("drafter", ["draft", "sampled-tree"])
def test_a_ragged_batch_writes_what_each_text_writes_alone(
    bytes_mamba: DecodingEngine, stateful: DecodingEngine, drafter: str
) -> None:
    prompts = [[0, 1, 2], [3], [4, 4, 1, 2, 0, 3, 1]]
    for engine, temperature in ((stateful, 1.0), (bytes_mamba, 0.0)):
        settings = Settings.of(drafter=drafter, shape=(2, 2), temperature=temperature, max_new_tokens=20, seed=3)
        together = engine.start_batch(prompts, settings, (0, 1, 2), ends=False)
        last(together.steps())
        for b, prompt in enumerate(prompts):
            alone = engine.start_batch([prompt], settings, (b,), ends=False)
            last(alone.steps())
            assert together.transcripts[b].tokens == alone.transcripts[0].tokens


def test_an_end_inside_a_block_and_a_cancelled_run_leave_nothing_behind(stateful: DecodingEngine) -> None:
    want = stateful.decode("abcab", "plain", max_new_tokens=16).token_ids
    ends = DecodingEngine(stateful.target, stateful.draft, stateful.tokenizer)
    ends.eos = frozenset({want[6]})
    assert ends.decode("abcab", "draft", max_new_tokens=16).token_ids == want[: want.index(want[6]) + 1]
    next(stateful.start("abcab", Settings.of(drafter="draft"), record=False).steps())
    assert stateful.decode("abcab", "draft", max_new_tokens=16).token_ids == want


def test_a_bandit_plays_a_recurrent_draft_that_has_to_catch_up(
    bytes_mamba: DecodingEngine, pair: DecodingEngine
) -> None:
    """After rounds of other arms it lacks more than one token, and not the same number in every sequence."""
    arms = ("plain", "ngram:3", "draft:2", "topk-tree:2x1")
    settings = Settings.of(drafter="bandit", arms=arms, policy="exp3", max_new_tokens=40)
    prompts = [pair.encode(text) for text in ("a", "abcabcabcabc", "zz top")]
    together = bytes_mamba.start_batch(prompts, settings, (0, 1, 2), ends=False)
    last(together.steps())
    for b, prompt in enumerate(prompts):
        plain = pair.start_batch([prompt], Settings.of(drafter="plain", max_new_tokens=40), (b,), ends=False)
        last(plain.steps())
        assert together.transcripts[b].tokens == plain.transcripts[0].tokens


@torch.inference_mode()
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 2)])
def test_drafted_distributions_are_the_mambas_own_over_the_whole_text(
    bytes_mamba: DecodingEngine, shape: tuple[int, ...]
) -> None:
    """Rejections, kept branches and ragged catching up included: every slot's distribution, from scratch."""
    prompts = [bytes_mamba.encode(text) for text in ("abcabcabc", "z")]
    settings = Settings.of(drafter="sampled-tree", shape=shape, temperature=1.0, max_new_tokens=16, seed=2)
    session = bytes_mamba.start_batch(prompts, settings, (0, 1), ends=False)
    texts, held = [list(prompt) for prompt in prompts], 0
    for step in session.steps():
        form = step.tree.topology
        for b, text in enumerate(texts[row] for row in step.rows):
            for slot in range(
                step.tree.distributions.shape[1] if step.live[b] and step.tree.distributions is not None else 0
            ):
                path = [] if slot == 0 else [step.tree.tokens[b, node].item() for node in path_to(form, b, slot - 1)]
                want = fresh(bytes_mamba.draft, text + path)[-1].softmax(-1)
                torch.testing.assert_close(step.tree.distributions[b, slot], want, atol=2e-5, rtol=1e-3)
                held += 1
        texts = [prompt + t.tokens for prompt, t in zip(prompts, session.transcripts, strict=True)]
    assert held > 10


@torch.inference_mode()
def test_states_of_the_rows_that_stay_in_a_batch(bytes_mamba: DecodingEngine) -> None:
    model, prompts = bytes_mamba.draft, [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3]]
    cache = model.cache(3, 0)
    model.read(cache, prompts)
    cache.select_rows(torch.tensor([2, 0]))
    after = model.forward(cache, torch.tensor([[7], [8]]), torch.zeros(2, 1, dtype=torch.long))
    for row, text in enumerate(([*prompts[2], 7], [*prompts[0], 8])):
        torch.testing.assert_close(after[row, 0], fresh(model, text)[-1], atol=2e-5, rtol=1e-3)


# Memory.


def states(run: Any) -> list[DraftState]:
    return [note for event in run.round_events for note in event.annotations if isinstance(note, DraftState)]


def test_its_state_is_constant_while_a_transformers_cache_grows(
    pair: DecodingEngine, bytes_mamba: DecodingEngine
) -> None:
    constant = states(bytes_mamba.decode(PROMPT, "draft", max_new_tokens=40))
    growing = states(pair.decode(PROMPT, "draft", max_new_tokens=40))
    # 2 layers x (8 heads x 8 x 8 numbers of state + 3 rows of 64 + 2 x 8 channels), 4 bytes each
    assert {note.bytes for note in constant} == {2 * (8 * 8 * 8 + 3 * 80) * 4}
    assert all(note.constant for note in constant) and not any(note.constant for note in growing)
    a_token = 2 * 1 * 2 * 4 * 4  # keys and values, 1 layer, 2 heads of 4
    assert [note.bytes for note in growing] == [note.tokens * a_token for note in growing]
    assert growing[-1].tokens > growing[0].tokens


def test_the_benchmark_weighs_a_state_beside_caches_that_grow(
    pair: DecodingEngine, bytes_mamba: DecodingEngine
) -> None:
    engine = DecodingEngine(pair.target, pair.draft, pair.tokenizer, smaller=(bytes_mamba.draft,))
    found = kept_memory(engine, BenchPlan(contexts=(16, 64, 256), tokens=8))
    sizes = {model.name: [line.bytes for line in found if line.model == model.name] for model in engine.models}
    assert sizes[bytes_mamba.draft.name] == [2 * (8 * 8 * 8 + 3 * 80) * 4] * 3
    for grows in (pair.target, pair.draft):
        assert [each / sizes[grows.name][0] for each in sizes[grows.name]] == [1, 72 / 24, 264 / 24]
    assert {line.model for line in found if line.constant} == {bytes_mamba.draft.name}
    assert [line.role for line in found] == ["target"] * 3 + ["draft"] * 6


def test_drafters_that_a_recurrent_state_cannot_serve_are_refused(
    tiny: DecodingEngine, stateful: DecodingEngine
) -> None:
    with pytest.raises(DraftscopeError, match="A cascade has to discard tokens that its models have read"):
        stateful.decode("abcab", "cascade")
    offered = {info.name: info for info in stateful.drafters()}
    assert offered["early-exit"].why_not == "its layers keep a state"
    assert offered["sampled-tree"].available


def test_arms_share_the_state(bytes_mamba: DecodingEngine) -> None:
    settings = Settings.of(drafter="bandit", arms=("draft:2", "sampled-tree:2x1"))
    drafter: Any = bytes_mamba.start_batch([[3, 4]], settings, (0,)).drafter
    assert len({id(play.drafter) for play in drafter._plays}) == 1
    assert isinstance(drafter._plays[0].drafter, DraftModel)


def test_a_larger_target_takes_a_recurrent_draft_of_more_groups(pair: DecodingEngine) -> None:
    engine = DecodingEngine(
        probed(random_llama(3, 258), "t"), probed(random_mamba(4, 258, groups=2), "m"), byte_tokenizer()
    )
    want = engine.decode(PROMPT, "plain", max_new_tokens=12).token_ids
    assert engine.decode(PROMPT, "topk-tree", shape=(3, 2), max_new_tokens=12).token_ids == want
