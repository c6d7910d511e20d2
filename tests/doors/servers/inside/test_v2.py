"""The recorder on a stub of vLLM's V2 runner with the real signatures; test_real_v2.py has the real sampler."""

from __future__ import annotations

import json
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from draftscope_vllm import hooks, v2
from draftscope_vllm.kept_rounds import RoundRecorder

from draftscope.servers.inside.decisions import examine
from draftscope.servers.inside.recording import InsideRecording

K, V, NAME = 3, 16, "cmpl-draftscope-1-0"
HOOKS = ("execute_model", "verify", "sample_random", "sample_plain", "sample")


def uniforms(seeds: Any, requests: Any, positions: Any) -> Any:
    return torch.stack([torch.rand(1, generator=torch.Generator().manual_seed(int(pos)))[0] for pos in positions])


class StubSampler:
    def __init__(self) -> None:
        column = SimpleNamespace(np=np.ones(4), gpu=torch.zeros(4, dtype=torch.long))
        self.sampling_states = SimpleNamespace(
            temperature=column, top_p=column, top_k=SimpleNamespace(np=np.full(4, V)),
            min_p=SimpleNamespace(np=np.zeros(4)), seeds=column,
        )  # fmt: skip
        none = np.zeros(4, dtype=bool)
        self.logits_processors = [SimpleNamespace(use_logit_bias=none), SimpleNamespace(use_penalty=none),
                                  SimpleNamespace(num_bad_words=SimpleNamespace(np=none))]  # fmt: skip
        self.thinking_budget_state = SimpleNamespace(enabled=False)
        self.use_flashinfer = False

    def sample(
        self, logits, expanded_idx_mapping, idx_mapping, idx_mapping_np, pos, input_ids, expanded_local_pos,
        seq_lens_upper_bound_np, return_logprobs=False,
    ):  # fmt: skip
        return self._sample_random(logits, expanded_idx_mapping, idx_mapping_np, pos, None, None, self.use_flashinfer)

    def _sample_random(
        self, processed_logits, expanded_idx_mapping, idx_mapping_np, pos, top_k, top_p, use_fused_sampler
    ):
        return processed_logits.softmax(-1).multinomial(1).flatten(), processed_logits


class StubVerifier:
    use_block_verification, synthetic_conditional_rates, watermark_key = False, None, None

    def __init__(self, sampler: StubSampler) -> None:
        self.sampler = sampler

    def _verify(
        self, logits, draft_logits, draft_sampled, pos, cu_num_logits, idx_mapping, idx_mapping_np,
        expanded_idx_mapping, expanded_local_pos, seq_lens_upper_bound_np, verify_draft_sampled,
    ):  # fmt: skip
        p, q = logits.softmax(-1), draft_logits[idx_mapping[0]].softmax(-1)
        drafted, u = verify_draft_sampled[1:], uniforms(None, None, pos)[:K]
        accepted = u * q[range(K), drafted] < p[range(K), drafted]
        count = int(accepted.long().cumprod(0).sum())
        law = p[K] if count == K else (p[count] - q[count]).clamp_min(0)
        rubbish = torch.full((K - count,), 7)
        return logits, torch.cat([drafted[:count], law.multinomial(1), rubbish])[None], torch.tensor([count + 1])


class StubRunner:
    """One request at T = 1, in a place of its own; every third step drafts nothing."""

    def __init__(self) -> None:
        self.sampler, self.batch_sharder = here(v2.SAMPLER).Sampler(), None
        self.verifier = here(v2.VERIFIER).RejectionSampler(self.sampler)
        self.req_states = SimpleNamespace(index_to_req_id={2: NAME})
        self.draft_logits, self.position = torch.zeros(4, K, V), 5

    def execute_model(self, scheduler_output, intermediate_tensors=None, dummy_run=False):
        return None

    def sample(self, hidden_states, input_batch, grammar_output):
        places, mapping = input_batch.idx_mapping_np, torch.from_numpy(input_batch.idx_mapping_np)
        if len(hidden_states) == 1:
            sampled, _ = self.sampler.sample(hidden_states, None, mapping, places, None, None, None, None)
            sampled, counts = sampled[:, None], torch.tensor([1])
        else:
            drafted = torch.cat([torch.zeros(1).long(), input_batch.drafted])
            pos = torch.arange(self.position, self.position + K + 1)
            _, sampled, counts = self.verifier._verify(
                hidden_states, self.draft_logits, drafted, pos, torch.tensor([0, K + 1]), mapping, places,
                mapping.expand(K + 1), None, None, drafted,
            )  # fmt: skip
        self.position += int(counts)
        return SimpleNamespace(sampled_token_ids=sampled), counts, None

    def texts(self, steps: int, dummy: bool = False) -> list[list[int]]:
        torch.manual_seed(0)
        written = []
        for step in range(steps):
            self.execute_model(SimpleNamespace(finished_req_ids=set()), dummy_run=dummy)
            self.draft_logits[2] = torch.randn(K, V)
            drafted = self.draft_logits[2].softmax(-1).multinomial(1).flatten()
            batch = SimpleNamespace(req_ids=list(self.req_states.index_to_req_id.values()),
                                    idx_mapping_np=np.array([2]), drafted=drafted)  # fmt: skip
            output, counts, _ = self.sample(torch.randn(K + 1 if step % 3 else 1, V), batch, None)
            self.draft_logits.fill_(torch.nan)  # a buffer, which the next step writes to
            written.append(output.sampled_token_ids[0, : int(counts)].tolist())
        return written


def here(name: str) -> Any:
    return sys.modules[name]


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules that are looked up, each test's own."""
    classes = {v2.SAMPLER: ("Sampler", StubSampler), v2.VERIFIER: ("RejectionSampler", StubVerifier)}
    for name, (known, kind) in classes.items():
        for part in (name.rsplit(".", cut)[0] for cut in range(name.count(".") + 1)):
            monkeypatch.setitem(sys.modules, part, ModuleType(part))
        setattr(here(name), known, type(known, (), dict(vars(kind))))
    monkeypatch.setitem(sys.modules, v2.UNIFORMS, SimpleNamespace(uniforms=uniforms))


def watched() -> tuple[StubRunner, RoundRecorder]:
    runner, kept = StubRunner(), RoundRecorder(v2.rounds_of, every=False)
    v2.watch(runner, kept)
    return runner, kept


def recording(kept: RoundRecorder) -> InsideRecording:
    kept.drain()
    return InsideRecording.model_validate_json(kept.answer("draftscope-1"))


def test_answers_are_as_without_it_and_every_token_is_recorded_and_right() -> None:
    plain = StubRunner().texts(24)
    runner, kept = watched()
    assert runner.texts(24) == plain
    seen = recording(kept)
    assert (seen.why, [each.written for each in seen.rounds]) == ("", plain)
    assert {each.kind for each in seen.rounds} == {"plain", "bonus", "correction"}
    assert not [each for each in examine(seen.rounds) if each.fault]
    undecided = [token for each in seen.rounds for token in each.drafted if token.accepted is None]
    assert undecided and all(token.u is None for token in undecided)  # a later draft is compared with the same u


@pytest.mark.parametrize("name", HOOKS)
def test_an_error_in_a_hook_ends_the_recording_and_no_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("on purpose")

    plain = StubRunner().texts(5)
    monkeypatch.setattr(v2.V2Hooks, name, fail)
    runner, kept = watched()
    assert runner.texts(5) == plain
    assert not kept.on and "on purpose" in kept.why


def test_what_nobody_asked_for_and_what_warms_up_is_not_kept() -> None:
    runner, kept = watched()
    runner.texts(3, dummy=True)
    runner.req_states.index_to_req_id = {2: "cmpl-1-0"}
    runner.texts(3)
    kept.drain()
    assert kept.on and json.loads(kept.answer())["requests"] == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda runner: setattr(runner.verifier, "use_block_verification", True), "another rule than u < p/q"),
        (lambda runner: setattr(runner.verifier, "watermark_key", 1), "corrections have a watermark"),
        (lambda runner: setattr(runner.sampler, "use_flashinfer", True), "does not say from what"),
        (lambda runner: setattr(runner, "batch_sharder", object()), "each rank samples for some"),
    ],
)
def test_what_cannot_be_recorded_ends_it_and_says_why(change: Any, words: str) -> None:
    plain = StubRunner().texts(5)
    runner, kept = watched()
    change(runner)
    assert runner.texts(5) == plain
    assert words in kept.why


@pytest.mark.parametrize("known", [True, False])
def test_a_worker_with_this_runner_is_recorded_if_its_sampler_is_known(known: bool) -> None:
    verifier = here(v2.VERIFIER).RejectionSampler
    original = here(v2.SAMPLER).Sampler.sample
    if not known:
        verifier._verify = lambda self, logits, verdicts: None
    worker = type("StubWorker", (), {})()
    worker.rank, worker.model_runner = 0, StubRunner()
    worker.parallel_config = SimpleNamespace(tensor_parallel_size=1, pipeline_parallel_size=1)
    hooks.record(worker)
    why = json.loads(worker.draftscope_rounds("", -1))["why"]
    if known:
        assert not why and here(v2.SAMPLER).Sampler.sample is not original
    else:
        assert "_verify: expected the parameters" in why and "found self, logits, verdicts" in why
        assert here(v2.SAMPLER).Sampler.sample is original  # nothing was put in
