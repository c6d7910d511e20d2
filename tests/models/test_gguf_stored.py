"""Weights of a GGUF file as they are stored: every type of blocks, by the names of the network's parameters."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import quants
from transformers import AutoModelForCausalLM, Gemma3TextConfig, LlamaConfig, Qwen2Config

from draftscope.models.files.gguf_file import inspected
from draftscope.models.loading.converted import converted
from draftscope.models.loading.gguf_config import config_of
from draftscope.models.loading.gguf_weights import FileWeight, stored_weights
from tests.support import gguf_files
from tests.support.gguf_models import SHAPE, TOKENIZER, made

WIDE = SHAPE | {"hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 1}  # whole blocks of 256 values
LLAMA = LlamaConfig(**WIDE)
CONFIGS = {
    "Llama": LLAMA,
    "Qwen2": Qwen2Config(**WIDE),
    "Gemma 3": Gemma3TextConfig(**WIDE, head_dim=256, sliding_window=16),
}
KINDS = (
    *("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ1_S", "IQ1_M", "IQ2_XXS"),
    *("IQ2_XS", "IQ2_S", "IQ3_XXS", "IQ3_S", "IQ4_NL", "IQ4_XS", "TQ1_0", "TQ2_0", "MXFP4"),
)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))


def read(path: Path, config: object, kind: Kind) -> tuple[torch.nn.Module, dict[str, FileWeight]]:
    """A file's network as it is widened, and its weights as they lie in the file."""
    written = gguf_files.write(path, made(config), TOKENIZER, kind)
    file = inspected(written)
    network = AutoModelForCausalLM.from_pretrained(converted(written), dtype="auto")
    return network, stored_weights(file, config_of(file))


@pytest.mark.parametrize("name", KINDS)
def test_every_type_of_blocks_is_widened_as_the_package_gguf_reads_it(name: str, tmp_path: Path) -> None:
    network, weights = read(tmp_path / "a.gguf", LLAMA, Kind[name])
    for parameter, value in network.named_parameters():
        weight = weights[parameter]
        if value.ndim > 1:
            assert weight.kind == name
            with np.errstate(all="ignore"):
                values = torch.from_numpy(quants.dequantize(weight.in_order(weight.tensor.raw()).numpy(), Kind[name]))
            assert torch.equal(values.bfloat16(), value)


@pytest.mark.parametrize("name", CONFIGS)
def test_every_parameter_has_its_stored_weight(name: str, tmp_path: Path) -> None:
    network, weights = read(tmp_path / "a.gguf", CONFIGS[name], Kind.Q8_0)
    assert weights.keys() == dict(network.named_parameters()).keys()
    for parameter, value in network.named_parameters():
        torch.testing.assert_close(weights[parameter].widened(value.dtype), value, rtol=0, atol=0)
