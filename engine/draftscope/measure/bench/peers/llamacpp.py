"""llama.cpp through `llama-cpp-python`, on a GGUF file with the same weights: plain decoding and prompt lookup."""

from __future__ import annotations

from contextlib import ExitStack
from itertools import islice
from typing import Any

import torch

from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.peers import gguf
from draftscope.measure.bench.systems import Case, Label, System, Write, WrittenBatch, needed

PEER, INSTALL = "llama.cpp", "pip install llama-cpp-python (it compiles C++ for some minutes)"
SPARE = 16  # slots after the longest text, for the drafts of prompt lookup


class LlamaCppPython(System):
    """One loaded model. `reset` clears its cache."""

    batches = False

    def __init__(self, name: str, note: str, model: Any) -> None:
        self.label = Label(name)
        self.note = note
        self._model = model

    def prepare(self, case: Case, tokens: int, seed: int) -> Write:
        self._model.reset()
        self._model.set_seed(seed)
        prompt = list(case.prompts[0])
        distribution = {"temp": case.temperature, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repeat_penalty": 1.0}
        return lambda: WrittenBatch([list(islice(self._model.generate(prompt, **distribution), tokens))])


def systems(engine: DecodingEngine, longest: int, open_until: ExitStack) -> list[System]:
    """llama.cpp with and without prompt lookup. Raises `MissingPeerError`."""
    package = needed("llama_cpp", PEER, INSTALL)
    lookup = needed("llama_cpp.llama_speculative", PEER, INSTALL).LlamaPromptLookupDecoding()
    path = gguf.file_for(PEER, engine.target, open_until)
    gguf.write(engine.target.network, path)
    from gguf import GGMLQuantizationType

    version, kind = package.__version__, GGMLQuantizationType[gguf.KINDS[engine.target.dtype]]

    def model(**options: Any) -> Any:
        threads = torch.get_num_threads()
        loaded = package.Llama(
            str(path),
            n_ctx=longest + SPARE,
            n_threads=threads,
            n_threads_batch=threads,
            type_k=int(kind),
            type_v=int(kind),
            verbose=False,
            **options,
        )
        open_until.callback(loaded.close)
        return loaded

    about = f"{PEER} by llama-cpp-python {version}, weights and cache in {kind.name}"
    return [
        LlamaCppPython(PEER, f"{about}.", model()),
        LlamaCppPython(
            f"{PEER}-prompt-lookup",
            f"{PEER}-prompt-lookup: the same, {lookup.num_pred_tokens} tokens behind a match of at most "
            f"{lookup.max_ngram_size}, the package's own defaults.",
            model(draft_model=lookup, logits_all=True),
        ),
    ]
