"""FlashSpec (PyPI `flashspec`): speculative decoding of transformers models, on the same model objects."""

from __future__ import annotations

from typing import Any

import torch

from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.systems import Case, Label, MissingPeerError, System, Write, WrittenBatch, needed
from draftscope.models.model import Model

INSTALL = "pip install flashspec"


class FlashSpec(System):
    """Its engine with its default strategy. Its loop for several sequences is another one, not used here."""

    batches = False

    def __init__(self, package: Any, parts: Any, target: Model, draft: Model) -> None:
        self.label = Label("flashspec")
        self.note = (
            f"flashspec {package.__version__}: its default strategy, prompt lookup of 6 or else 2 drafted tokens."
        )
        self._package, self._parts = package, parts
        self._target, self._draft = target, draft
        self._engines: dict[float, Any] = {}  # by temperature; on CUDA the first run of each compiles

    def prepare(self, case: Case, tokens: int, seed: int) -> Write:
        if case.temperature not in self._engines:
            self._engines[case.temperature] = self._engine(case.temperature)
        engine = self._engines[case.temperature]
        ids = torch.tensor(case.prompts, device=self._target.device)
        torch.manual_seed(seed)  # its engine has no seed and uses torch's generator
        return lambda: WrittenBatch(engine.generate(ids, max_new_tokens=tokens).output_ids.tolist())

    def _engine(self, temperature: float) -> Any:
        target, draft = self._target, self._draft
        verifier = self._parts.TargetModel(target.name, target.device, target.dtype, model=target.network)
        drafter = self._parts.HuggingFaceDrafter(
            draft.name, draft.device, draft.dtype, temperature=temperature, model=draft.network
        )
        sampling = self._package.SamplingConfig(temperature=temperature)
        config = self._package.FlashSpecConfig(device=str(target.device), sampling=sampling)
        return self._package.SpeculativeEngine(config, [drafter], verifier)


def systems(engine: DecodingEngine) -> list[System]:
    """FlashSpec on this pair, or `MissingPeerError`."""
    package = needed("flashspec", "flashspec", INSTALL)
    if engine.draft is None:
        raise MissingPeerError(
            "flashspec was skipped: its default strategy needs a draft model; name one with --draft."
        )
    return [FlashSpec(package, needed("flashspec.engine", "flashspec", INSTALL), engine.target, engine.draft)]
