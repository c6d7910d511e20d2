"""Where vLLM is watched: in its V1 runner, or by v2.py in the other one. Only where `VLLM_PLUGINS` says so.

Every hook runs after what it watches and changes nothing. An error in one ends the recording and no request.
"""

from __future__ import annotations

import importlib
import os
import time
from functools import wraps
from typing import Any

from draftscope_vllm import v2
from draftscope_vllm.kept_rounds import RoundRecorder, log
from draftscope_vllm.rounds import VllmStep, VllmVerification, rounds
from draftscope_vllm.wrap import put

NAME = "draftscope"
SAMPLER, TRUNCATION = "vllm.v1.sample.rejection_sampler", "vllm.v1.sample.ops.topk_topp_sampler"
# What is wrapped, and the parameters that are read or that tell versions apart.
GLOBALS = {
    "rejection_sample": (SAMPLER, ("draft_token_ids", "num_draft_tokens", "draft_probs", "target_logits")),
    "generate_uniform_probs": (SAMPLER, ("num_tokens", "num_draft_tokens", "generators", "device")),
    "sample_recovered_tokens": (SAMPLER, ("draft_token_ids", "draft_probs", "target_probs", "sampling_metadata")),
    "apply_top_k_top_p": (TRUNCATION, ("logits", "k", "p")),
}
METHODS = {"execute_model": ("scheduler_output",), "_sample": ("logits", "spec_decode_metadata")}


def install() -> None:
    """The entry point `vllm.general_plugins`. Runs in every process; only a worker gets a runner to watch."""
    if NAME not in os.environ.get("VLLM_PLUGINS", "").split(","):
        return
    from vllm.v1.worker.worker_base import WorkerWrapperBase

    initialise = WorkerWrapperBase.init_device

    @wraps(initialise)
    def init_device(wrapper: Any, *args: Any, **named: Any) -> Any:
        result = initialise(wrapper, *args, **named)
        try:
            record(wrapper.worker)
        except Exception as error:
            log.warning("draftscope records nothing: %r. Answers are not affected.", error)
        return result

    WorkerWrapperBase.init_device = init_device


def record(worker: Any) -> None:
    """Watches the runner of the rank that samples; `draftscope_rounds` is what the routes call in every rank."""
    parallel, runner = worker.parallel_config, worker.model_runner
    if worker.rank != parallel.tensor_parallel_size * (parallel.pipeline_parallel_size - 1):
        type(worker).draftscope_rounds = lambda *_: None
        return
    every, second = os.environ.get("DRAFTSCOPE_INSIDE") == "all", not hasattr(runner, "_sample")
    recorder = RoundRecorder(v2.rounds_of, every, v2.WAITING) if second else RoundRecorder(rounds, every)
    type(worker).draftscope_rounds = lambda _, request, after: recorder.answer(request, after)
    try:
        (v2.watch if second else watch)(runner, recorder)
    except (LookupError, ImportError) as error:
        recorder.disable(f"this vLLM is not known here: {error}")


def watch(runner: Any, recorder: RoundRecorder) -> None:
    """Puts the hooks in, all or none. Raises `LookupError` for a vLLM with other functions."""
    hooks = Hooks(runner, recorder)
    globals_ = [(importlib.import_module(module), name, known) for name, (module, known) in GLOBALS.items()]
    methods = [(runner, name, known) for name, known in METHODS.items()]
    put(((at, name, known, getattr(hooks, name.removeprefix("_"))) for at, name, known in globals_ + methods), recorder)


class Hooks:
    """Collects the parts of one step from the functions that are called in it, in this order."""

    def __init__(self, runner: Any, recorder: RoundRecorder) -> None:
        self._runner, self._recorder = runner, recorder
        self._began = 0.0
        self._u: Any = None
        self._p: Any = None
        self._last: Any = None
        self._verification: VllmVerification | None = None

    def execute_model(self, given: dict[str, Any], result: Any, began: float) -> None:
        self._began = began
        self._recorder.end(given["scheduler_output"].finished_req_ids)
        self._forget()

    def apply_top_k_top_p(self, given: dict[str, Any], result: Any, began: float) -> None:
        self._last = result

    def generate_uniform_probs(self, given: dict[str, Any], result: Any, began: float) -> None:
        self._u = result

    def sample_recovered_tokens(self, given: dict[str, Any], result: Any, began: float) -> None:
        self._p = given["target_probs"]

    def rejection_sample(self, given: dict[str, Any], result: Any, began: float) -> None:
        self._verification = VllmVerification(
            given["draft_token_ids"], given["num_draft_tokens"], given["draft_probs"], given["target_logits"],
            self._u, self._p,
        )  # fmt: skip

    def sample(self, given: dict[str, Any], result: Any, began: float) -> None:
        """The step is complete. References suffice for what is made anew in each; buffers are copied."""
        batch, plan, wants = self._runner.input_batch, given["spec_decode_metadata"], self._recorder.wants
        if given["logits"] is None or not any(map(wants, batch.req_ids)):
            return self._forget()
        requests = list(batch.req_ids)
        count, settings = len(requests), batch.sampling_metadata
        step = VllmStep(
            requests=requests,
            temperature=batch.temperature_cpu[:count].tolist(),
            top_k=[k if 0 < k < given["logits"].shape[-1] else 0 for k in batch.top_k_cpu[:count].tolist()],
            top_p=batch.top_p_cpu[:count].tolist(),
            skipped=self._runner.discard_request_mask.np[:count].tolist(),
            wanted=list(map(wants, requests)),
            ms=1000 * ((now := time.perf_counter()) - self._began),
            at=1000 * now,
            logits=given["logits"],
            processed_elsewhere=not settings.no_penalties or plan is None,  # plain rows may be changed in place
            written=result.sampled_token_ids,
            last=self._last,
            verification=self._verification,
            rows=None if plan is None else plan.target_logits_indices,
            last_rows=None if plan is None else plan.bonus_logits_indices,
        )
        self._recorder.take(step)
        return self._forget()

    def _forget(self) -> None:
        self._u = self._p = self._last = self._verification = None
