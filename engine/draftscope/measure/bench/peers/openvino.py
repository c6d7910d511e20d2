"""OpenVINO GenAI: plain decoding on the quantised GGUF file that the target was converted from.

Of other targets it gets a file whose weights are rounded to 8 bits: its reader takes quantised files only. The row's
name and note say which weights it has.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

import numpy as np
import torch

from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.peers import gguf
from draftscope.measure.bench.systems import Case, Label, MissingPeerError, System, Write, WrittenBatch, needed

PEER, INSTALL = "openvino-genai", "pip install openvino-genai"
ROUNDED = "Q8_0"


class OpenVino(System):
    """A pipeline without a cache of prompts, so that every run reads its whole prompt."""

    batches = False

    def __init__(self, label: Label, note: str, package: Any, runtime: Any, pipeline: Any) -> None:
        self.label = label
        self.note = note
        self._package, self._runtime = package, runtime
        self._pipeline = pipeline

    def prepare(self, case: Case, tokens: int, seed: int) -> Write:
        ids = np.array(case.prompts, dtype=np.int64)
        prompt = self._package.TokenizedInputs(self._runtime.Tensor(ids), self._runtime.Tensor(np.ones_like(ids)))
        sampled = {"do_sample": True, "temperature": case.temperature} if case.temperature else {"do_sample": False}
        config = self._package.GenerationConfig(max_new_tokens=tokens, ignore_eos=True, rng_seed=seed, **sampled)

        def write() -> WrittenBatch:
            answer = self._pipeline.generate(prompt, config)
            if (read := answer.perf_metrics.get_num_input_tokens()) != ids.size:
                raise RuntimeError(f"it read {read} tokens of a prompt of {ids.size}")
            return WrittenBatch([[int(token) for token in answer.tokens[0]]])

        return write


def systems(engine: DecodingEngine, longest: int, open_until: ExitStack) -> list[System]:
    """OpenVINO GenAI's plain decoding. Raises `MissingPeerError`."""
    package, runtime = needed("openvino_genai", PEER, INSTALL), needed("openvino", PEER, INSTALL)
    if engine.target.device.type != "cpu":
        raise MissingPeerError(f"{PEER} was skipped: it is measured on a CPU only.")
    weights = gguf.original(engine.target) or _rounded(engine, open_until)
    scheduler = package.SchedulerConfig()
    scheduler.enable_prefix_caching = False
    scheduler.max_num_batched_tokens = longest  # a prompt is read in one piece
    try:
        pipeline = package.LLMPipeline(
            str(weights.path), "CPU", scheduler_config=scheduler, INFERENCE_NUM_THREADS=torch.get_num_threads()
        )
    except RuntimeError as error:
        said = str(error).strip().splitlines()[-1:] or ["nothing"]
        raise MissingPeerError(f"{PEER} was skipped: it did not load the model; it said: {said[0][:160]}") from None
    version = str(package.__version__).partition("-")[0]
    note = f"{PEER} {version}: {weights.kind}, {weights.origin}; other settings are its defaults."
    return [OpenVino(Label(f"{PEER}, {weights.kind}"), note, package, runtime, pipeline)]


def _rounded(engine: DecodingEngine, open_until: ExitStack) -> gguf.GgufWeights:
    path = gguf.file_for(PEER, engine.target, open_until)
    from gguf.quants import QuantError

    try:
        gguf.write(engine.target.network, path, gguf.merged_words, ROUNDED)
    except QuantError as error:
        raise MissingPeerError(f"{PEER} was skipped: the weights cannot be rounded ({error}).") from None
    return gguf.GgufWeights(path, ROUNDED, "the target's weights rounded to 8 bits")
