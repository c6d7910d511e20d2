"""GGUF files: logits, tokens and chat template of the original; converted once; one sentence where that cannot be."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as Kind
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    Gemma2Config,
    Gemma3TextConfig,
    LlamaConfig,
    Qwen2Config,
    Qwen3Config,
)
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS

import draftscope
from draftscope import DraftscopeError
from draftscope.measure.bench.report import machine
from draftscope.models.loading import converted as converting
from draftscope.models.loading.checkpoints import find
from draftscope.models.loading.converted import converted
from draftscope_app.engine.opening_models import introduced
from tests.support import gguf_files
from tests.support.gguf_models import HOW, SHAPE, TOKENIZER, loaded, logits, made, refused

GEMMA = {"head_dim": 256, "sliding_window": 16}
SCALED = {
    "rope_type": "llama3", "rope_theta": 500000.0, "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}  # fmt: skip
CONFIGS = {
    "Llama": LlamaConfig(**SHAPE),
    "tied Llama": LlamaConfig(**SHAPE, tie_word_embeddings=True),
    "Llama 3.1": LlamaConfig(**SHAPE, rope_parameters=SCALED),
    "Qwen2": Qwen2Config(**SHAPE),
    "Qwen3": Qwen3Config(**SHAPE, head_dim=32),
    "Gemma 2": Gemma2Config(**SHAPE, **GEMMA),
    "Gemma 3": Gemma3TextConfig(**SHAPE, **GEMMA),
}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "draftscope" / "models"


def rotary_factors(config: Any) -> dict[str, torch.Tensor]:
    """What llama.cpp's converter computes from Llama 3.1's settings."""
    scaled, _ = ROPE_INIT_FUNCTIONS["llama3"](config, torch.device("cpu"))
    plain = 1.0 / SCALED["rope_theta"] ** (torch.arange(0, config.head_dim, 2).float() / config.head_dim)
    return {"rope_freqs.weight": plain / scaled}


@pytest.fixture
def llama(tmp_path: Path) -> Path:
    return gguf_files.write(tmp_path / "small.gguf", made(CONFIGS["Llama"]), TOKENIZER)


# The model in a file.


@pytest.mark.parametrize("name", CONFIGS)
def test_a_file_has_the_logits_of_its_original(name: str, tmp_path: Path) -> None:
    network = made(CONFIGS[name])
    extra = rotary_factors(network.config) if name == "Llama 3.1" else {}
    model = loaded(gguf_files.write(tmp_path / "a.gguf", network, TOKENIZER, tensors=extra))
    torch.testing.assert_close(logits(model.network), logits(network))
    assert (model.name, model.weights) == ("a", "float32 weights of a GGUF file")


@pytest.mark.parametrize(("kind", "words"), [(Kind.Q4_1, "4-bit weights (Q4_1)"), (Kind.Q8_0, "8-bit weights (Q8_0)")])
def test_quantised_weights_are_widened_to_bfloat16(kind: Kind, words: str, tmp_path: Path) -> None:
    network = made(CONFIGS["Llama"])
    model = loaded(gguf_files.write(tmp_path / "a.gguf", network, TOKENIZER, kind))
    assert model.weights == f"{words} widened to bfloat16"
    for weight in network.parameters():
        read = gguf_files.dequantized(weight, kind) if weight.ndim > 1 else weight.data
        weight.data = read.to(torch.bfloat16).float()
    torch.testing.assert_close(logits(model.network), logits(network))


def test_half_precision_is_kept(tmp_path: Path) -> None:
    path = gguf_files.write(tmp_path / "a.gguf", made(CONFIGS["Llama"]), TOKENIZER, Kind.F16)
    stored = AutoModelForCausalLM.from_pretrained(converted(path), dtype="auto")
    assert stored.dtype == torch.float16


def test_files_are_target_and_draft_and_every_result_says_their_weights(tmp_path: Path) -> None:
    network = made(CONFIGS["Llama"])
    target = gguf_files.write(tmp_path / "big.gguf", network, TOKENIZER, Kind.Q8_0)
    draft = gguf_files.write(tmp_path / "little.gguf", network, TOKENIZER)
    pair = draftscope.load(target, draft, dtype="float32", threads=1)
    run = pair.decode("the cat", "draft", max_new_tokens=12)
    assert run.token_ids == pair.decode("the cat", "plain", max_new_tokens=12).token_ids
    assert run.metrics.num_accepted_tokens > 0
    models = next(event.models for event in run.events if event.kind == "run_start")
    widened = "8-bit weights (Q8_0) widened to bfloat16"
    assert [(model.name, model.weights) for model in models] == [
        ("big", widened), ("little", "float32 weights of a GGUF file"),
    ]  # fmt: skip
    assert introduced(pair, 1.0).startswith(f"big (2 × 64, {widened}) + little (2 × 64, float32 weights")
    assert (machine(pair)["target_weights"], machine(pair)["draft_weights"]) == (models[0].weights, models[1].weights)


# Converted once.


def test_a_large_file_becomes_several_that_are_the_same_model(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(converting, "PART", 100_000)
    model = loaded(llama)
    torch.testing.assert_close(logits(model.network), logits(made(CONFIGS["Llama"])))
    assert len(list(converted(llama).glob("*.safetensors"))) > 2 and model.digest


def test_a_file_is_converted_once_by_its_content(llama: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = converted(llama)
    moved = llama.rename(llama.with_name("moved.gguf"))
    monkeypatch.setattr(converting, "inspected", lambda path: pytest.fail("converted again"))
    assert converted(moved) == first
    assert loaded(moved).name == "moved"
    assert [path.name for path in cache.iterdir() if path.is_dir()] == [first.name]


def test_another_content_is_another_model(llama: Path) -> None:
    before = converted(llama)
    gguf_files.write(llama, made(CONFIGS["Llama"], seed=1), TOKENIZER)
    assert converted(llama) != before


def test_an_interrupted_conversion_is_done_again(llama: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(converting, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        converted(llama)
    assert not [path for path in cache.iterdir() if path.is_dir()]
    monkeypatch.undo()
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(cache.parents[1]))
    assert loaded(llama).parameters == made(CONFIGS["Llama"]).num_parameters()


def test_two_that_convert_the_same_file_wait_for_each_other(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counted: list[Any] = []
    save_file = converting.save_file
    monkeypatch.setattr(converting, "save_file", lambda *given: counted.append(given) or save_file(*given))
    with ThreadPoolExecutor(2) as threads:
        folders = [each.result() for each in [threads.submit(converted, llama) for _ in range(2)]]
    assert folders[0] == folders[1] and len(counted) == 1
    assert AutoTokenizer.from_pretrained(folders[0]).chat_template == gguf_files.CHAT


# What cannot be read.


def cut(path: Path, size: int) -> None:
    path.write_bytes(path.read_bytes()[:size])


@pytest.mark.parametrize("size", [3, 10, 400, 4000, -40])
def test_a_truncated_file_is_refused(llama: Path, size: int) -> None:
    cut(llama, size)
    sentence = refused(llama)
    assert sentence.startswith(f"'{llama}' is ")
    assert "is damaged or incomplete (" in sentence or "is not a GGUF file" in sentence


def test_other_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    assert refused(path) == f"There is no file '{path}'; check the path."
    path.write_bytes(b"PK\x03\x04 a zip")
    assert "is not a GGUF file (it begins with b'PK\\x03\\x04'); name a GGUF file" in refused(path)
    (tmp_path / "notes.txt").write_text("no model")
    assert "notes.txt' is a file, but no GGUF file; name a GGUF file, or a folder" in refused(tmp_path / "notes.txt")


Write = Callable[[Path, Any], Path]
REFUSED: dict[str, tuple[Write, str]] = {
    "architecture": (
        lambda path, network: gguf_files.write(path, network, TOKENIZER, architecture="rwkv7"),
        "has the architecture 'rwkv7', and GGUF files are read only for llama, ",
    ),
    "splitting": (
        lambda path, network: gguf_files.write(path, network, TOKENIZER, pre="tibetan"),
        "splits text in the way 'tibetan', which is not known here; name the original checkpoint",
    ),
    "parts": (
        lambda path, network: gguf_files.write(path, network, TOKENIZER, more={"split.count": 3}),
        "is one of 3 parts, and its name does not say so; call the first 'a-00001-of-00003.gguf', the others alike.",
    ),
    "layers": (
        lambda path, network: gguf_files.write(path, network, TOKENIZER, layers=10**9),
        "is damaged or incomplete (it claims 1,000,000,000 layers and holds ",
    ),
    "scaling": (
        lambda path, network: gguf_files.write(path, network, TOKENIZER, more={"llama.rope.scaling.type": "longrope"}),
        "scales its rotary angles ('longrope'), which is not read from GGUF files",
    ),
    "other scaling": (
        lambda path, network: gguf_files.write(
            path, network, TOKENIZER, tensors={"rope_freqs.weight": torch.linspace(1, 3, 8)}
        ),
        "scales its rotary angles in another way than Llama 3.1",
    ),
    "biases": (
        lambda path, network: gguf_files.write(path, network, TOKENIZER, tensors={"blk.0.attn_q.bias": torch.ones(64)}),
        "so it is another model; name the original checkpoint",
    ),
    "tokenizer": (lambda path, network: gguf_files.write(path, network), "has no tokenizer; name a file that has one."),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_become_another_model_is_refused(name: str, tmp_path: Path, cache: Path) -> None:
    write, sentence = REFUSED[name]
    assert sentence in refused(write(tmp_path / "a.gguf", made(CONFIGS["Llama"])))
    assert not cache.exists()


def test_a_gemma_whose_attention_is_scaled_otherwise_is_refused(tmp_path: Path) -> None:
    network = made(Gemma2Config(**SHAPE, head_dim=128, sliding_window=16))
    path = gguf_files.write(tmp_path / "a.gguf", network, TOKENIZER)
    assert "does not say how its attention is scaled (heads of width 128)" in refused(path)


def test_a_revision_of_a_file_is_refused(llama: Path) -> None:
    with pytest.raises(DraftscopeError, match="is a file without revisions; leave it out"):
        find(llama, HOW, "main")


def test_a_cache_that_cannot_hold_it_is_named(llama: Path, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache.parents[1].mkdir(parents=True)
    (cache.parents[1] / "draftscope").write_text("a file in its place")
    assert "cannot be written (" in refused(llama) and "set DRAFTSCOPE_CACHE to another folder." in refused(llama)
    (cache.parents[1] / "draftscope").unlink()
    usage = shutil.disk_usage(llama)._replace(free=1)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    assert "has 0.0 GB free, and converting takes 0.3 GB; set DRAFTSCOPE_CACHE to a folder" in refused(llama)


def test_what_an_older_version_converted_is_converted_again(llama: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = converted(llama)
    monkeypatch.setattr(converting, "CONVERSION", converting.CONVERSION + 1)
    assert converted(llama) != before
