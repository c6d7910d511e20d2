"""The recorder on a stub of vLLM's V1 runner with the real signatures: it changes no answer and ends no server."""

from __future__ import annotations

import json
import logging
import os
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from draftscope_vllm import hooks, kept_rounds
from draftscope_vllm.kept_rounds import RoundRecorder
from draftscope_vllm.rounds import rounds
from draftscope_vllm.routes import RoundRoutes
from fastapi import FastAPI
from fastapi.testclient import TestClient

from draftscope.servers.inside.recording import InsideRecording

K, V, SAMPLER, TRUNCATION = 3, 16, hooks.SAMPLER, hooks.TRUNCATION
HOOKS = ("execute_model", "sample", "apply_top_k_top_p", "generate_uniform_probs", "sample_recovered_tokens",
         "rejection_sample")  # fmt: skip


def generate_uniform_probs(num_tokens, num_draft_tokens, generators, device):
    return torch.rand(num_tokens, dtype=torch.float64)


def sample_recovered_tokens(
    max_spec_len, num_draft_tokens, cu_num_draft_tokens, draft_token_ids, draft_probs, target_probs,
    sampling_metadata, device, use_fp64_gumbel=False,
):  # fmt: skip
    return (target_probs - draft_probs).clamp_min(0).multinomial(1).flatten()


def rejection_sample(
    draft_token_ids, num_draft_tokens, max_spec_len, cu_num_draft_tokens, draft_probs, target_logits, bonus_token_ids,
    sampling_metadata, synthetic_mode=False, synthetic_conditional_rates=None, use_fp64_gumbel=False,
):  # fmt: skip
    here = sys.modules[SAMPLER]
    u = here.generate_uniform_probs(K, num_draft_tokens, {}, None)
    p = target_logits.softmax(-1)
    spare = here.sample_recovered_tokens(K, num_draft_tokens, None, draft_token_ids, draft_probs, p, None, None)
    accepted = (u * draft_probs[range(K), draft_token_ids] <= p[range(K), draft_token_ids]).long()
    count = int(accepted.cumprod(0).sum())
    last = bonus_token_ids.flatten() if count == K else spare[count : count + 1]
    return torch.cat([draft_token_ids[:count], last, torch.full((K - count,), -1)])[None]


def apply_top_k_top_p(logits, k, p):
    return logits


class StubRunner:
    """One request at T = 1; drafts are drawn from a q of its own."""

    def __init__(self) -> None:
        column = np.array([1.0, 0.0], dtype=np.float32)
        self.input_batch = SimpleNamespace(
            req_ids=["cmpl-draftscope-1-0"], temperature_cpu=column, top_p_cpu=column,
            top_k_cpu=np.array([V, 0]), sampling_metadata=SimpleNamespace(no_penalties=True),
        )  # fmt: skip
        self.discard_request_mask = SimpleNamespace(np=np.zeros(2, dtype=bool))

    def execute_model(self, scheduler_output, intermediate_tensors=None):
        return None

    def _sample(self, logits, spec_decode_metadata):
        q = torch.randn(K, V).softmax(-1)
        drafted = q.multinomial(1).flatten()
        bonus = sys.modules[TRUNCATION].apply_top_k_top_p(logits[K:], None, None).softmax(-1).multinomial(1)
        written = sys.modules[SAMPLER].rejection_sample(drafted, [K], K, None, q, logits[:K], bonus, None)
        return SimpleNamespace(sampled_token_ids=written)

    def step(self, ended: set[str]) -> None:
        self.execute_model(SimpleNamespace(finished_req_ids=ended))

    def texts(self, steps: int) -> list[list[int]]:
        plan = SimpleNamespace(target_logits_indices=torch.arange(K), bonus_logits_indices=torch.tensor([K]))
        torch.manual_seed(0)
        written = []
        for _ in range(steps):
            self.step(ended=set())
            written.append(self._sample(torch.randn(K + 1, V), plan).sampled_token_ids[0].tolist())
        return written


class StubWrapper:
    def init_device(self):
        self.worker = type("StubWorker", (), {})()
        self.worker.rank, self.worker.model_runner = 0, StubRunner()
        self.worker.parallel_config = SimpleNamespace(tensor_parallel_size=1, pipeline_parallel_size=1)


@pytest.fixture(autouse=True)
def vllm(monkeypatch: pytest.MonkeyPatch) -> None:
    """The modules that are looked up, with functions that have vLLM 0.32's parameters."""
    mine = (generate_uniform_probs, sample_recovered_tokens, rejection_sample)
    worker = type("StubWrapper", (), dict(vars(StubWrapper)))
    contents = {
        SAMPLER: {function.__name__: function for function in mine},
        TRUNCATION: {"apply_top_k_top_p": apply_top_k_top_p},
        "vllm.v1.worker.worker_base": {"WorkerWrapperBase": worker},
    }
    names = {name.rsplit(".", cut)[0] for name in contents for cut in range(5) if name.count(".") >= cut}
    for name in names:
        module = ModuleType(name)
        vars(module).update(contents.get(name, {}))
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setenv("VLLM_PLUGINS", "other,draftscope")


def started() -> Any:
    hooks.install()
    wrapper = sys.modules["vllm.v1.worker.worker_base"].WorkerWrapperBase()
    wrapper.init_device()
    return wrapper.worker


def watched(read: Any = rounds) -> tuple[StubRunner, RoundRecorder]:
    runner, kept = StubRunner(), RoundRecorder(read, every=False)
    hooks.watch(runner, kept)
    return runner, kept


def test_nothing_is_touched_without_its_name_in_vllm_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VLLM_PLUGINS", "other")
    wrapper = sys.modules["vllm.v1.worker.worker_base"].WorkerWrapperBase
    before = wrapper.init_device
    hooks.install()
    assert wrapper.init_device is before


def test_answers_are_as_without_it_and_every_token_is_recorded() -> None:
    plain = StubRunner().texts(20)
    runner, kept = watched()
    assert runner.texts(20) == plain
    kept.drain()
    seen = InsideRecording.model_validate_json(kept.answer("draftscope-1"))
    assert [each.written for each in seen.rounds] == [[t for t in text if t >= 0] for text in plain]
    assert all(len(each.drafted) == K and each.top_k == 0 for each in seen.rounds) and (seen.on, seen.lost) == (True, 0)
    assert json.loads(kept.answer())["requests"] == ["cmpl-draftscope-1-0"]
    assert len(InsideRecording.model_validate_json(kept.answer("draftscope-1", seen.rounds[7].number)).rounds) == 12


@pytest.mark.parametrize("name", HOOKS)
def test_an_error_in_a_hook_ends_the_recording_and_no_answer(
    name: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise ValueError("on purpose")

    plain = StubRunner().texts(5)
    monkeypatch.setattr(hooks.Hooks, name, fail)
    runner, kept = watched()
    with caplog.at_level(logging.WARNING):
        assert runner.texts(5) == plain
    assert not kept.on and "on purpose" in kept.why and name in kept.why
    assert len(caplog.records) == 1


def test_an_error_while_a_step_is_read_ends_the_recording_and_no_answer() -> None:
    plain = StubRunner().texts(5)
    runner, kept = watched(lambda step: [("x", {"p": object()})])  # which JSON does not have
    assert runner.texts(5) == plain
    kept.drain()
    assert "Unable to serialize" in kept.why


def test_a_request_that_did_not_ask_is_not_recorded() -> None:
    runner, kept = watched()
    runner.input_batch.req_ids = ["cmpl-1-0"]
    runner.texts(3)
    kept.drain()
    assert json.loads(kept.answer())["requests"] == []


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """By request, in all, and by steps that the thread has no time for: those are counted."""
    monkeypatch.setattr(kept_rounds, "PER_REQUEST", 4)
    monkeypatch.setattr(kept_rounds, "IN_ALL", 10)
    kept = RoundRecorder(lambda step: [(step, {})] * 6, every=True)
    for name in ("a", "b", "c"):
        kept.take(name)
    kept.drain()
    assert json.loads(kept.answer())["requests"] == ["b", "c"]
    assert len(json.loads(kept.answer("c"))["rounds"]) == 4
    with kept._lock:  # the thread waits
        for _ in range(kept_rounds.WAITING + 5):
            kept.take("d")
    assert kept.lost >= 3 and kept.on


def test_the_thread_leaves_the_core_to_which_the_engine_is_bound() -> None:
    """As vLLM for CPUs binds a worker, whose threads inherit it."""
    before, seen = os.sched_getaffinity(0), []
    os.sched_setaffinity(0, {min(before)})
    try:
        kept = RoundRecorder(lambda step: seen.append(os.sched_getaffinity(0)) or [], every=True)  # type: ignore[func-returns-value]
    finally:
        os.sched_setaffinity(0, before)
    kept.take("a step")
    kept.drain()
    assert seen == [before | os.sched_getaffinity(os.getppid())]


@pytest.mark.parametrize(("module", "name"), [(SAMPLER, "rejection_sample"), (TRUNCATION, "apply_top_k_top_p")])
def test_an_unknown_version_is_refused_with_what_was_expected_and_found(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules[module], name, lambda drafts, verdicts: None)
    worker = started()
    why = json.loads(worker.draftscope_rounds("", -1))["why"]
    assert f"{name}: expected the parameters" in why and "found drafts, verdicts" in why
    assert sys.modules[SAMPLER].generate_uniform_probs is generate_uniform_probs  # nothing was put in


def test_rounds_are_read_as_a_list_and_as_a_stream() -> None:
    worker = started()
    worker.model_runner.texts(3)

    class Client:
        async def collective_rpc(self, method: str, timeout: float, args: tuple[Any, ...]) -> list[str | None]:
            assert method == "draftscope_rounds"
            answer = worker.draftscope_rounds(*args)
            return [None, answer]

    app, routes = FastAPI(), RoundRoutes()
    routes.attach_router(app)
    with TestClient(app) as client:
        assert client.get("/v1/draftscope/rounds").status_code == 503
        routes._client = Client()
        assert not client.get("/v1/draftscope/rounds?request=draftscope-1").json()["ended"]
        worker.model_runner.step(ended={"cmpl-draftscope-1-0"})
        streamed = client.get("/v1/draftscope/stream?request=draftscope-1").text.split("\n\n")[:-1]
        listed = client.get("/v1/draftscope/rounds?request=draftscope-1").json()["rounds"]
    assert [json.loads(event.removeprefix("data: ")) for event in streamed] == listed and len(listed) == 3


def test_what_several_engines_recorded_is_read_as_one() -> None:
    """Data parallel: vLLM's `collective_rpc` gives the first engine's answer only."""
    kept = [RoundRecorder(lambda step: [(step, {})], every=True) for _ in range(2)]
    for recorder_of_one, names in zip(kept, (["a-1", "a-2", "a-3"], ["b-1"]), strict=True):
        for name in names:
            recorder_of_one.take(name)
        recorder_of_one.drain()
    kept[1].end({"b-1"})
    kept[1].lost = 2

    class Engines:
        async def call_utility_all_async(self, call: str, method: str, timeout: float, args: Any, named: Any) -> Any:
            assert (call, method, named) == ("collective_rpc", "draftscope_rounds", None)
            return [[None, each.answer(*args)] for each in kept]

    app, routes = FastAPI(), RoundRoutes()
    routes.attach_router(app)
    routes._client = SimpleNamespace(engine_core=Engines())
    with TestClient(app) as client:
        whole, *some = (client.get(f"/v1/draftscope/rounds?request={name}").json() for name in ("", "b-1", "-1", "-9"))
    assert (whole["on"], whole["lost"], whole["requests"]) == (True, 2, ["a-1", "a-2", "b-1", "a-3"])
    assert [[each["request"] for each in state["rounds"]] for state in some] == [["b-1"], ["a-1", "b-1"], []]
    assert [state["ended"] for state in some] == [True, False, None]


def test_a_request_has_ended_when_its_last_step_is_read() -> None:
    """Not before: the stream would end without its last rounds. Of several that are asked for, all have to."""
    kept = RoundRecorder(lambda step: [(step, {})], every=True)
    with kept._lock:  # the thread waits
        kept.take("draftscope-1")
        kept.end({"draftscope-1"})
        waiting = {name: kept._ended[name] > kept._read for name in kept._ended}
    assert waiting == {"draftscope-1": True}
    kept.take("draftscope-2")
    kept.drain()
    assert [json.loads(kept.answer(name))["ended"] for name in ("-1", "-2", "draftscope", "unknown")] == [
        True, False, False, None,
    ]  # fmt: skip
