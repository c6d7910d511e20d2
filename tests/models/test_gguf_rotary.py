"""Rotary angles that a GGUF file says are scaled, for texts longer than those of the first training."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Gemma3TextConfig, LlamaConfig, Qwen2Config, Qwen3Config

import draftscope
from tests.support import gguf_files
from tests.support.gguf_models import SHAPE, TOKENIZER, loaded, logits, made, refused

GEMMA = {"head_dim": 256, "sliding_window": 16, "num_hidden_layers": 6}  # one layer of six sees the whole text
NEAR = {"rope_type": "default", "rope_theta": 10000.0}
LINEAR = {"rope_type": "linear", "factor": 8.0, "rope_theta": 10000.0}
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16, "rope_theta": 10000.0}
SHORT = {"max_position_embeddings": 64}
CONFIGS = {
    "linear Llama": LlamaConfig(**SHAPE, rope_parameters=LINEAR),
    "linear Llama, factor 1": LlamaConfig(**SHAPE, rope_parameters=LINEAR | {"factor": 1.0}),
    "linear Gemma 3": Gemma3TextConfig(
        **SHAPE | GEMMA, rope_parameters={"full_attention": LINEAR, "sliding_attention": NEAR}
    ),
    "yarn Llama": LlamaConfig(**SHAPE | SHORT, rope_parameters=YARN),
    "yarn Qwen2": Qwen2Config(**SHAPE | SHORT, rope_parameters=YARN),
    "yarn Qwen3": Qwen3Config(**SHAPE | SHORT, head_dim=32, rope_parameters=YARN),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))


def write(path: Path, config: Any, **more: Any) -> Path:
    return gguf_files.write(path, made(config), TOKENIZER, more=more)


@pytest.mark.parametrize("name", CONFIGS)
def test_scaled_angles_are_those_of_the_original(name: str, tmp_path: Path) -> None:
    network = made(CONFIGS[name])
    model = loaded(gguf_files.write(tmp_path / "a.gguf", network, TOKENIZER))
    torch.testing.assert_close(logits(model.network), logits(network))


@pytest.mark.parametrize("name", ["linear Gemma 3", "yarn Qwen2"])
def test_the_text_is_that_of_generate(name: str, tmp_path: Path) -> None:
    network = made(CONFIGS[name])
    engine = draftscope.load(gguf_files.write(tmp_path / "a.gguf", network, TOKENIZER), dtype="float32", threads=1)
    prompt = TOKENIZER("the cat and the hat, then the others", return_tensors="pt").input_ids
    theirs = network.generate(prompt, max_new_tokens=20, do_sample=False)[0, prompt.shape[1] :].tolist()
    assert (
        engine.decode("the cat and the hat, then the others", "ngram", max_new_tokens=20, raw=True).token_ids == theirs
    )


def test_a_yarn_file_may_give_limits_and_a_factor_of_attention(tmp_path: Path) -> None:
    """llama.cpp multiplies the factor with the usual one, which grows with the logarithm."""
    scaled = YARN | {"beta_fast": 16.0, "beta_slow": 2.0, "attention_factor": 0.5 * 1.1386294361119891}
    network = made(Qwen2Config(**SHAPE | SHORT, rope_parameters=scaled))
    given = {"yarn_beta_fast": 16.0, "yarn_beta_slow": 2.0, "yarn_attn_factor": 0.5}
    more = {f"qwen2.rope.scaling.{key}": value for key, value in given.items()}
    model = loaded(gguf_files.write(tmp_path / "a.gguf", network, TOKENIZER, more=more))
    torch.testing.assert_close(logits(model.network), logits(network))


@pytest.mark.parametrize("key", ["rope.scaling.factor", "rope.scale_linear"])
def test_a_factor_without_a_name_is_linear(key: str, tmp_path: Path) -> None:
    network = made(LlamaConfig(**SHAPE))
    path = gguf_files.write(tmp_path / "a.gguf", network, TOKENIZER, more={f"llama.{key}": 8.0})
    torch.testing.assert_close(logits(loaded(path).network), logits(made(CONFIGS["linear Llama"])))


def test_a_factor_that_is_switched_off_scales_nothing(tmp_path: Path) -> None:
    more = {"llama.rope.scaling.type": "none", "llama.rope.scaling.factor": 8.0}
    path = gguf_files.write(tmp_path / "a.gguf", made(LlamaConfig(**SHAPE)), TOKENIZER, more=more)
    torch.testing.assert_close(logits(loaded(path).network), logits(made(LlamaConfig(**SHAPE))))


def test_rotary_factors_of_one_scale_nothing(tmp_path: Path) -> None:
    network = made(LlamaConfig(**SHAPE))
    path = gguf_files.write(tmp_path / "a.gguf", network, TOKENIZER, tensors={"rope_freqs.weight": torch.ones(8)})
    torch.testing.assert_close(logits(loaded(path).network), logits(network))


def test_the_largest_gemma_scales_its_attention_by_hidden_values_per_head(tmp_path: Path) -> None:
    narrow = {"num_hidden_layers": 62, "head_dim": 8, "sliding_window": 16, "query_pre_attn_scalar": 16}
    network = made(Gemma3TextConfig(**SHAPE | narrow))
    model = loaded(gguf_files.write(tmp_path / "a.gguf", network, TOKENIZER))
    torch.testing.assert_close(logits(model.network), logits(network))


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"llama.rope.scaling.type": "longrope"}, "scales its rotary angles ('longrope'), which is not read"),
        ({"llama.rope.dimension_count": 8}, "has heads of width 16 and a 'rope.dimension_count' of 8; name the"),
        ({"llama.attention.value_length": 8}, "has heads of width 16 and a 'attention.value_length' of 8; name the"),
    ],
)
def test_what_is_rotated_in_another_way_is_refused(more: dict[str, Any], words: str, tmp_path: Path) -> None:
    path = gguf_files.write(tmp_path / "a.gguf", made(LlamaConfig(**SHAPE)), TOKENIZER, more=more)
    assert words in refused(path)
