"""transformers' own decoding on the same model objects: plain, assisted, and prompt lookup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from transformers import GenerationConfig

from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.systems import Case, Label, System, Write, WrittenBatch

LOOKUP = 10  # tokens that prompt lookup copies at most, as in transformers' examples


class Transformers(System):
    """`generate` with options. Only plain decoding supports several sequences."""

    def __init__(self, engine: DecodingEngine, name: str, note: str = "", **options: Any) -> None:
        self.label = Label(name)
        self.note = note
        self.batches = not options
        self._network = engine.target.network
        self._device = engine.target.device
        self._options = options

    def prepare(self, case: Case, tokens: int, seed: int) -> Write:
        ids, mask = _left_padded(case.prompts, self._device)
        sample = {"temperature": case.temperature, "top_k": 0} if case.temperature else {}
        config = GenerationConfig(
            max_new_tokens=tokens,
            do_sample=bool(case.temperature),
            eos_token_id=-1,  # no token ends a text
            pad_token_id=0,
            **sample,
        )
        torch.manual_seed(seed)

        def write() -> WrittenBatch:
            with _without_defaults(self._network):
                out = self._network.generate(ids, attention_mask=mask, generation_config=config, **self._options)
            return WrittenBatch(out[:, ids.shape[1] :].tolist())

        return write


def systems(engine: DecodingEngine) -> list[System]:
    """Plain decoding, prompt lookup, and assisted generation if there is a draft model."""
    peers: list[System] = [Transformers(engine, "transformers-generate")]
    if engine.draft is not None:
        note = "transformers-assisted: its own defaults, 20 drafted tokens or until the draft's confidence is below .4."
        peers.append(Transformers(engine, "transformers-assisted", note, assistant_model=engine.draft.network))
    note = f"transformers-prompt-lookup: {LOOKUP} tokens after a match of at most 2, its own defaults."
    peers.append(Transformers(engine, "transformers-prompt-lookup", note, prompt_lookup_num_tokens=LOOKUP))
    return peers


def _left_padded(prompts: tuple[tuple[int, ...], ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Token ids and attention mask [B, longest] for `generate`."""
    longest = max(len(prompt) for prompt in prompts)
    ids = torch.tensor([[0] * (longest - len(prompt)) + list(prompt) for prompt in prompts], device=device)
    mask = torch.tensor([[0] * (longest - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
    return ids, mask


@contextmanager
def _without_defaults(network: Any) -> Iterator[None]:
    """Removes a checkpoint's generation defaults, such as top-p or a repetition penalty, which would apply here."""
    before, network.generation_config = network.generation_config, GenerationConfig()
    try:
        yield
    finally:
        network.generation_config = before
