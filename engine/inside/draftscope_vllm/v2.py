"""vLLM's V2 runner, the one of GPUs: written by its source (0.32), where it can be recognised, and never run on a GPU.

What lives in buffers there is copied on the engine's stream. All else is read by reference on the recorder's thread,
once the GPU has made it.
"""

from __future__ import annotations

import importlib
from typing import Any

import torch
from torch import Tensor

from draftscope_vllm.kept_rounds import RoundRecorder
from draftscope_vllm.rounds import Content, rounds
from draftscope_vllm.v2_steps import SampledRows, TakenStep
from draftscope_vllm.wrap import put

SAMPLER, VERIFIER = "vllm.v1.worker.gpu.sample.sampler", "vllm.v1.worker.gpu.spec_decode.rejection_sampler"
UNIFORMS = "draftscope_vllm.drawn_again"  # needs Triton
WAITING = 4  # steps that the thread has not read yet: their logits stay in the GPU's memory
VERIFIES = ("logits", "draft_logits", "verify_draft_sampled", "pos", "cu_num_logits", "idx_mapping", "idx_mapping_np",
            "expanded_idx_mapping")  # fmt: skip


def rounds_of(step: TakenStep) -> list[tuple[str, Content]]:
    return rounds(step.read())


def watch(runner: Any, recorder: RoundRecorder) -> None:
    """Puts the hooks in, all or none. Raises `LookupError` for a vLLM with other functions, `ImportError` for one
    without Triton."""
    hooks = V2Hooks(runner, recorder, importlib.import_module(UNIFORMS).uniforms)
    verifier = importlib.import_module(VERIFIER).RejectionSampler
    sampler = importlib.import_module(SAMPLER).Sampler
    put(
        (
            (runner, "execute_model", ("scheduler_output", "dummy_run"), hooks.execute_model),
            (verifier, "_verify", VERIFIES, hooks.verify),
            (sampler, "_sample_random", ("processed_logits", "use_fused_sampler"), hooks.sample_random),
            (sampler, "sample", ("logits", "idx_mapping_np"), hooks.sample_plain),
            (runner, "sample", ("hidden_states", "input_batch", "grammar_output"), hooks.sample),
        ),
        recorder,
    )


class V2Hooks:
    """Collects the parts of one step from the functions that are called in it, in this order."""

    def __init__(self, runner: Any, recorder: RoundRecorder, uniforms: Any) -> None:
        self._runner, self._recorder, self._uniforms = runner, recorder, uniforms
        self._began: float | None = None  # None: nothing that is sampled is a step's
        self._law: Tensor | None = None
        self._parts: list[SampledRows] = []

    def execute_model(self, given: dict[str, Any], result: Any, began: float) -> None:
        self._forget()
        if not given.get("dummy_run"):
            self._began = began
            self._recorder.end(given["scheduler_output"].finished_req_ids)

    def verify(self, given: dict[str, Any], result: Any, began: float) -> None:
        verifier = given["self"]
        if self._began is None or not self._asked(given["idx_mapping_np"]):
            return
        if verifier.use_block_verification or verifier.synthetic_conditional_rates is not None:
            raise LookupError("drafts are verified by another rule than u < p/q")
        if verifier.watermark_key is not None:
            raise LookupError("corrections have a watermark")
        guesses, sampler = given["draft_logits"], verifier.sampler
        self._parts.append(
            SampledRows(
                requests=given["idx_mapping_np"].tolist(), logits=given["logits"], processed=result[0],
                ends=given["cu_num_logits"], drafted=given["verify_draft_sampled"],
                u=self._uniforms(sampler.sampling_states.seeds.gpu, given["expanded_idx_mapping"], given["pos"]),
                guesses=None if guesses is None else guesses.index_select(0, given["idx_mapping"]),
            )
        )  # fmt: skip

    def sample_random(self, given: dict[str, Any], result: Any, began: float) -> None:
        self._law = None if given["use_fused_sampler"] or self._began is None else result[1]

    def sample_plain(self, given: dict[str, Any], result: Any, began: float) -> None:
        if self._began is None or not self._asked(given["idx_mapping_np"]):
            return
        if self._law is None:
            raise LookupError("FlashInfer or a watermark drew tokens, and does not say from what")
        self._parts.append(SampledRows(given["idx_mapping_np"].tolist(), given["logits"], self._law))

    def sample(self, given: dict[str, Any], result: Any, began: float) -> None:
        """The step is complete."""
        batch, runner, parts = given["input_batch"], self._runner, self._parts
        if self._began is None or not parts:
            return self._forget()
        if runner.batch_sharder is not None:
            raise LookupError("each rank samples for some of the requests")
        output, counts, _ = result
        places = [place for place, name in enumerate(batch.req_ids) if self._recorder.wants(name)]
        mine, states = batch.idx_mapping_np[places], runner.sampler.sampling_states
        vocabulary = parts[0].logits.shape[-1]
        step = TakenStep(
            batch=len(batch.req_ids), names=[batch.req_ids[place] for place in places], places=places,
            numbers=mine.tolist(), temperature=states.temperature.np[mine].tolist(),
            top_k=[0 if k >= vocabulary else k for k in states.top_k.np[mine].tolist()],
            top_p=states.top_p.np[mine].tolist(), processed_elsewhere=_processed_elsewhere(runner.sampler, mine),
            parts=parts, sampled=output.sampled_token_ids, counts=counts, began=self._began,
            made=torch.cuda.current_stream().record_event() if torch.cuda.is_available() else None,
        )  # fmt: skip
        self._recorder.take(step)
        return self._forget()

    def _asked(self, places: Any) -> bool:
        names = self._runner.req_states.index_to_req_id
        return any(self._recorder.wants(names[place]) for place in places.tolist())

    def _forget(self) -> None:
        self._began, self._law, self._parts = None, None, []


def _processed_elsewhere(sampler: Any, places: Any) -> bool:
    """By penalties and the like: then p is not softmax(logits / temperature)."""
    bias, penalties, words, *more = sampler.logits_processors
    return bool(
        more or sampler.thinking_budget_state.enabled or bias.use_logit_bias[places].any()
        or penalties.use_penalty[places].any() or words.num_bad_words.np[places].any()
        or sampler.sampling_states.min_p.np[places].any()
    )  # fmt: skip
