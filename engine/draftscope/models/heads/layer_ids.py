"""Which hidden states an EAGLE-3 head reads: config.json numbers them as inputs of layers or as outputs.

`eagle_aux_hidden_state_layer_ids` are inputs, as in this engine (vLLM, llama.cpp, speculators); inside `eagle_config`
they are outputs (SGLang, ModelOpt), and so are `target_layer_ids`, which DeepSpec writes for EAGLE-3 as for DFlash. In
both numberings the last one is what the last layer returns, before the final norm. Heads were published with inputs
inside `eagle_config`: if one of these is the number of layers, they can be nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.models.heads.head import SharedWeights
from draftscope.models.heads.head_files import Checkpoint

AUX = "eagle_aux_hidden_state_layer_ids"
DFLASH = "target_layer_ids"
INPUTS, OUTPUTS = "inputs", "outputs"


@dataclass(frozen=True)
class LayerIds:
    """The ids that a config.json states under `key`, what they number as they are read here, the inputs of layers that
    they then are, and those of the other numbering; None if the target does not have these."""

    key: str
    stated: tuple[int, ...]
    numbering: str
    layers: tuple[int, ...]
    other: tuple[int, ...] | None

    @property
    def other_numbering(self) -> str:
        return INPUTS if self.numbering == OUTPUTS else OUTPUTS


def layer_ids(saved: Checkpoint, shared: SharedWeights) -> LayerIds | None:
    """None if the configuration states no ids. `layers` may be some that the target does not have."""
    nested = saved.optional("eagle_config")
    if (ids := saved.indexes(AUX)) is not None:
        return _numbered(AUX, ids, INPUTS, shared.layers)
    if (ids := saved.indexes(AUX, nested)) is not None:
        return _numbered(f"eagle_config.{AUX}", ids, OUTPUTS, shared.layers)
    if (ids := saved.indexes(DFLASH)) is not None:
        return _numbered(DFLASH, ids, OUTPUTS, shared.layers)
    return None


def _numbered(key: str, ids: tuple[int, ...], numbering: str, count: int) -> LayerIds:
    inputs, outputs = ids, tuple(layer + 1 for layer in ids)
    if max(ids) == count:
        return LayerIds(key, ids, INPUTS, inputs, None)  # no layer has such an output
    if numbering == INPUTS:
        return LayerIds(key, ids, numbering, inputs, outputs)
    return LayerIds(key, ids, numbering, outputs, inputs)


def in_every_engine(layers: tuple[int, ...]) -> str:
    """The keys of a config.json with which vLLM, SGLang, llama.cpp and this engine read the inputs of these layers."""
    before = [layer - 1 for layer in layers]
    return f'"{AUX}": {list(layers)}, "eagle_config": {{"{AUX}": {before}}}'
