"""Models whose weights stay as they lie in a GGUF file: exact, the default, and widened only with a reason."""

from __future__ import annotations

import platform
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AutoConfig, AutoModelForCausalLM

import draftscope
from draftscope.base.load_settings import LoadSettings
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.limit import memory_limit
from draftscope.models.forward.stored import stored_weights
from draftscope.models.heads import SharedWeights
from draftscope.models.loading.checkpoints import CheckpointOptions, find, load_model
from draftscope.models.loading.converted import readable
from draftscope.models.model import ForwardMode, Model
from draftscope.models.native import available
from draftscope.models.native import places as at
from draftscope.models.native.available import programs, stored_kinds
from draftscope.models.native.decoders import FORMATS
from draftscope.models.precise import fp32_logits
from draftscope.models.probe import probed
from draftscope_app.cli.command_options import load
from tests.models.test_head_steps import head
from tests.models.test_native import llama
from tests.support import gguf_files
from tests.support.gguf_blocks import blocks
from tests.support.gguf_models import SHAPE, TOKENIZER, made
from tests.support.models import letters

pytest.importorskip("numba")

Kind = gguf.GGMLQuantizationType
SIZES = {"Q4_K": 5e-5, "Q5_K": 3e-5, "Q6_K": 3e-5}  # of factors, with which weights are as large as trained ones
STORED = CheckpointOptions(torch.bfloat16, torch.device("cpu"), stored=True)
WIDE = replace(STORED, stored=False)
MIX = {"attn_v": "Q6_K", "ffn_down": "Q5_0", "attn_q": "Q8_0", "token_embd": "Q5_K"}  # by tensor; the others Q4_K
stays = pytest.mark.skipif(not stored_kinds(), reason="this processor lacks AVX2")


@pytest.fixture(autouse=True)
def any_type(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package `gguf` writes no k-quants: theirs are any blocks."""
    original = gguf.quants.quantize

    def quantize(values: np.ndarray[Any, Any], kind: Kind) -> np.ndarray[Any, Any]:
        try:
            return original(values, kind)
        except NotImplementedError:
            if kind.name in FORMATS:
                return blocks(kind.name, *values.shape, size=SIZES.get(kind.name, 1e-3))
            count, size = gguf.GGML_QUANT_SIZES[kind]
            return np.zeros((len(values), values.shape[1] // count * size), np.uint8)

    monkeypatch.setattr(gguf.quants, "quantize", quantize)


def network_of(architecture: str = "qwen2", **more: Any) -> Any:
    wide = {"hidden_size": 256, "intermediate_size": 512, "tie_word_embeddings": True}
    if architecture.startswith("gemma"):
        more |= {"head_dim": 256}
    return made(AutoConfig.for_model(architecture, **(SHAPE | wide | more))).float()


def file_of(folder: Path, kind: str, network: Any = None) -> Path:
    return gguf_files.write(folder / "a.gguf", network_of() if network is None else network, TOKENIZER, Kind[kind])


def loaded(path: Path, options: CheckpointOptions = STORED) -> Model:
    return load_model(find(path, options), options)


def in_float32(path: Path) -> Model:
    """The file's own values, computed by transformers' modules in float32."""
    file = readable(path)
    network = AutoModelForCausalLM.from_config(file.config, dtype=torch.float32)
    values = {name: weight.widened(torch.float32) for name, weight in file.weights.items()}
    network.load_state_dict(values, strict=False)
    network.tie_weights()
    model = probed(network, "float32")
    model.run = model.network
    return model


def logits_of_a_tree(model: Model) -> Tensor:
    """Of a prompt of each of two sequences, and of a tree after it."""
    cache = model.cache(2, 32)
    model.read(cache, [[1, 2, 3, 4], [5, 6]])
    sees = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool).expand(2, -1, -1)
    tokens = torch.tensor([[7, 8, 9, 10], [11, 12, 13, 14]])
    return model.forward(cache, tokens, torch.tensor([[0, 1, 1, 2]]).expand(2, -1), sees)


def assert_nearer_than_widened(path: Path) -> None:
    """The rest is the cache's: keys and values are bfloat16 in both."""
    exact = logits_of_a_tree(in_float32(path))
    stored, wide = (logits_of_a_tree(loaded(path, options)) for options in (STORED, WIDE))
    errors = [(logits - exact).abs().mean() for logits in (stored, wide)]
    assert errors[0] < 0.7 * errors[1]
    assert errors[0] < 0.01 * exact.std()


@stays
@pytest.mark.parametrize("kind", FORMATS)
def test_logits_are_those_of_the_file(kind: str, tmp_path: Path) -> None:
    path = file_of(tmp_path, kind)
    model = loaded(path)
    assert model.forward_mode is ForwardMode.PACKED
    assert model.parameters == in_float32(path).parameters
    assert_nearer_than_widened(path)


@stays
@pytest.mark.parametrize("architecture", ["llama", "qwen3", "gemma3_text"])
def test_every_architecture_stays_stored(architecture: str, tmp_path: Path) -> None:
    """Rotary pairs that a file keeps side by side, norms of heads, norms plus 1 and a scaled embedding."""
    path = file_of(tmp_path, "Q8_0", network_of(architecture, tie_word_embeddings=False))
    assert_nearer_than_widened(path)


def mixed(folder: Path, monkeypatch: pytest.MonkeyPatch, kinds: dict[str, str]) -> Path:
    """A file whose tensors have several types."""
    add = gguf.GGUFWriter.add_tensor

    def added(file: gguf.GGUFWriter, name: str, values: np.ndarray[Any, Any], raw_dtype: Kind) -> None:
        kind = next((Kind[kind] for part, kind in kinds.items() if part in name), raw_dtype)
        if raw_dtype is not Kind.F32 and kind is not raw_dtype:
            values = gguf.quants.quantize(gguf.quants.dequantize(values, raw_dtype), kind)
            raw_dtype = kind
        add(file, name, values, raw_dtype=raw_dtype)

    monkeypatch.setattr(gguf.GGUFWriter, "add_tensor", added)
    return file_of(folder, "Q4_K")


@stays
def test_types_are_mixed_as_files_mix_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = mixed(tmp_path, monkeypatch, MIX)
    assert loaded(path).weights == "4-bit weights (Q4_K, Q5_0, Q8_0, Q5_K, Q6_K), read as they are stored"
    assert_nearer_than_widened(path)


@stays
def test_a_type_without_a_program_is_widened_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = mixed(tmp_path, monkeypatch, {"ffn_down": "IQ4_XS"})
    model = loaded(path)
    assert model.weights.endswith("read as they are stored, IQ4_XS widened to bfloat16")
    assert model.forward_mode is ForwardMode.PACKED and not model.widened
    assert logits_of_a_tree(model).isfinite().all()


@stays
@pytest.mark.parametrize("kind", ["Q4_K", "Q4_1"])
def test_bits_of_a_row_do_not_depend_on_the_rows_beside_it(kind: str, tmp_path: Path) -> None:
    """One to sixteen rows, and more."""
    model, text = loaded(file_of(tmp_path, kind)), [int(token) for token in torch.randint(0, 280, (33,))]

    def logits(sizes: list[int]) -> Tensor:
        cache, start, parts = model.cache(1, 64), 0, []
        for size in sizes:
            tokens = torch.tensor([text[start : start + size]])
            parts.append(model.forward(cache, tokens, torch.arange(size)[None])[0])
            start += size
            cache.keep_first(torch.tensor([size]), start)
        return torch.cat(parts)

    plain = logits([1] * 33)
    for sizes in ([33], [16, 17], [1, 2, 3, 4, 5, 6, 7, 5], [8, 9, 10, 6], [11, 12, 10], [13, 14, 6], [15, 18]):
        assert logits(sizes).equal(plain), sizes


@stays
@pytest.mark.parametrize("kind", ["Q4_1", "Q6_K"])
def test_greedy_drafts_keep_the_text(kind: str, tmp_path: Path) -> None:
    target = loaded(file_of(tmp_path, kind))
    draft = probed(llama(vocab_size=len(TOKENIZER)), "d")
    engine = DecodingEngine(target, draft, letters(len(TOKENIZER)))
    plain = engine.decode("abcabc", "plain", max_new_tokens=24, temperature=0.0)
    for drafter in ("draft", "ngram", "sampled-tree", "early-exit"):
        assert engine.decode("abcabc", drafter, max_new_tokens=24, temperature=0.0).token_ids == plain.token_ids


@stays
def test_a_tied_matrix_lies_in_memory_once_and_is_read_once(tmp_path: Path) -> None:
    model = loaded(file_of(tmp_path, "Q6_K"))
    network = model.network
    assert network.lm_head.stored is network.model.embed_tokens.stored
    weights = in_float32(tmp_path / "a.gguf").network.parameters()
    values = sum(weight.numel() for weight in weights if weight.dim() > 1)
    others = sum(tensor.nbytes for tensor in [*network.parameters(), *network.buffers()])
    limit = memory_limit(model, 8)
    assert limit is not None and limit.weight_bytes == values // 256 * 210 + others


@stays
def test_logits_in_float32_are_the_files_own(tmp_path: Path) -> None:
    """An audit compares with them."""
    path = file_of(tmp_path, "Q4_K")
    tokens, model = [3, 1, 4, 1, 5], loaded(path)
    torch.testing.assert_close(fp32_logits(model, tokens), fp32_logits(in_float32(path), tokens), rtol=1e-3, atol=1e-4)


@stays
def test_who_asks_for_a_weight_gets_it_widened(tmp_path: Path) -> None:
    path = file_of(tmp_path, "Q4_K")
    stored, exact = loaded(path).network, in_float32(path).network
    for one, other in ((stored.lm_head, exact.lm_head), (stored.model.embed_tokens, exact.model.embed_tokens)):
        assert one.weight.equal(other.weight.bfloat16()) and one.weight is one.weight


@stays
def test_a_quantised_file_stays_stored_unless_another_dtype_is_named(tmp_path: Path) -> None:
    path = file_of(tmp_path, "Q4_1")
    as_stored, widened = "4-bit weights (Q4_1), read as they are stored", "4-bit weights (Q4_1) widened to bfloat16"
    measured = platform.machine() in ("x86_64", "AMD64")
    for dtype, words in (("stored", as_stored), ("auto", as_stored if measured else widened), ("bfloat16", widened)):
        engine = draftscope.load(path, dtype=dtype, threads=1)
        assert engine.target.weights == words
        assert engine.target.widened == (words == widened)
        assert engine.decode("the cat", "plain", max_new_tokens=4).events[0].models[0].compiled


@stays
def test_a_processor_without_an_instruction_widens_and_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(available, "_has", lambda feature: feature != "avx2")
    available.why_not_stored.cache_clear()
    try:
        engine = draftscope.load(file_of(tmp_path, "Q4_K"), threads=1)
        assert engine.target.forward_mode is ForwardMode.NATIVE
        assert engine.compiled == ["The weights of 'a' are widened to bfloat16. This processor lacks AVX2."]
    finally:
        monkeypatch.undo()
        available.why_not_stored.cache_clear()


@stays
def test_an_architecture_without_a_program_widens_and_is_named(tmp_path: Path) -> None:
    network = network_of("gemma2")
    engine = draftscope.load(file_of(tmp_path, "Q8_0", network), threads=1)
    (sentence,) = engine.compiled
    assert sentence.startswith("The weights of 'a' are widened to bfloat16.") and "gemma2" in sentence


@pytest.mark.parametrize("dtype", ["stored", "bfloat16"])
def test_a_heads_weights_are_rounded_beside_every_target(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_head = head("eagle3")
    monkeypatch.setattr(import_module("draftscope.decode.load"), "load_head", lambda *_: made_head)
    path = gguf_files.write(tmp_path / "a.gguf", llama(vocab_size=288).float(), TOKENIZER, Kind.Q4_1)
    draftscope.load(path, heads=("eagle3:any",), dtype=dtype, threads=1)
    assert made_head.step is not None
    assert bool(made_head.step._fixed[at.HEAD] & at.STORED) == programs().panels


@stays
def test_a_head_looks_tokens_up_without_widening_the_embedding(tmp_path: Path) -> None:
    network, tokens = loaded(file_of(tmp_path, "Q4_1")).network, torch.tensor([[3, 7], [9, 3]])
    shared = SharedWeights.of(network)
    found = shared.embed(tokens)
    assert not any("wide" in vars(weight) for weight in stored_weights(network))
    assert (shared.vocabulary, shared.hidden) == shared.embedding.shape
    assert found.equal(F.embedding(tokens, shared.embedding)) and found.dtype == shared.dtype


@stays
def test_the_command_line_says_how_weights_are_read_as_they_are_stored(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = file_of(tmp_path, "Q4_1")
    for dtype, said in (("bfloat16", True), ("stored", False)):
        load(LoadSettings(target=str(path), dtype=dtype, threads=1))
        assert ("--dtype stored" in capsys.readouterr().err) == said
