"""The forward compiled for this processor: exact, and the bits of a row do not depend on what is beside it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM

from draftscope.base.compiling import kept_or_not
from draftscope.decode.engine import DecodingEngine
from draftscope.models import model as modeling
from draftscope.models.forward.lean import LeanLlama
from draftscope.models.forward.native import NativeDecoder
from draftscope.models.forward.truncated import final_residual
from draftscope.models.model import ForwardMode, Model
from draftscope.models.native import available
from draftscope.models.native.linear import FastLinear, accelerate, linear
from draftscope.models.probe import probed
from draftscope.verify.tree import full, topology
from tests.support.models import letters, random_llama

pytest.importorskip("numba")

from numba import cfunc, types
from numba.core import caching, config

WINDOW = 6  # shorter than the texts
MIXED = ["sliding_attention", "full_attention", "sliding_attention"]
# By name: the type of model, and how it differs from the small Llama.
SHAPES: dict[str, tuple[str, dict[str, Any]]] = {
    "llama": ("llama", {}),
    "llama with biases": ("llama", {"attention_bias": True, "mlp_bias": True}),
    "mistral": ("mistral", {}),
    "mistral with a window": ("mistral", {"sliding_window": WINDOW}),
    "qwen2": ("qwen2", {}),
    "qwen2 with windows": ("qwen2", {"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1}),
    "qwen3": ("qwen3", {}),
    "gemma3": ("gemma3_text", {"sliding_window": WINDOW, "layer_types": MIXED, "query_pre_attn_scalar": 24}),
    "gpt_neox": ("gpt_neox", {"num_attention_heads": 2, "rotary_pct": 0.25}),
    "gpt_neox in turn": ("gpt_neox", {"num_attention_heads": 2, "use_parallel_residual": False}),
    "phi": ("phi", {"partial_rotary_factor": 0.5}),
    "phi3": ("phi3", {"sliding_window": WINDOW, "partial_rotary_factor": 0.75}),
}
OTHERS = tuple(name for name in SHAPES if name != "llama")


def llama(width: int = 32, kv_heads: int = 2, tied: bool = False, shape: str = "llama", **more: Any) -> Any:
    """A random bfloat16 Llama, or another shape, whose sizes are whole blocks. No bias is 0, no norm 1."""
    torch.manual_seed(7)
    kind, different = SHAPES[shape]
    sizes = {
        "vocab_size": 75,  # no whole tile, so that remainders are computed too
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "num_key_value_heads": kv_heads,
        "head_dim": width,
        "initializer_range": 0.2,
        "tie_word_embeddings": tied,
        "max_position_embeddings": 1024,
        "pad_token_id": 0,
    }
    network = AutoModelForCausalLM.from_config(CONFIG_MAPPING[kind](**(sizes | different | more))).eval()
    with torch.no_grad():
        for weight in network.parameters():
            if weight.dim() == 1:
                weight += 0.3 * torch.randn_like(weight)
    return network.bfloat16()


@pytest.fixture(scope="module", params=SHAPES)
def model(request: pytest.FixtureRequest) -> Model:
    found = probed(llama(shape=request.param), "native")
    assert found.forward_mode is ForwardMode.NATIVE and found.not_native == ""
    return found


def in_float32(network: Any) -> Model:
    """The same weights, computed by transformers' modules in float32."""
    other = type(network)(network.config)
    other.load_state_dict({name: weight.float() for name, weight in network.state_dict().items()})
    found = probed(other, "modules")
    found.run = found.network
    return found


def logits_of_rounds(model: Model, sizes: list[int], text: list[int]) -> torch.Tensor:
    """Logits of every token of `text`, read in forwards of `sizes` rows."""
    cache, start, found = model.cache(1, 64), 0, []
    for size in sizes:
        tokens = torch.tensor([text[start : start + size]])
        found.append(model.forward(cache, tokens, torch.arange(size)[None])[0])
        start += size
        cache.keep_first(torch.tensor([size]), start)
    return torch.cat(found)


def test_a_long_prompt_is_read_in_parts_with_the_same_bits(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    generator = torch.Generator().manual_seed(4)
    prompts = [torch.randint(0, 75, (length,), generator=generator).tolist() for length in (21, 9)]
    found = []
    for size in (modeling.CHUNK, 8):
        monkeypatch.setattr(modeling, "CHUNK", size)
        cache, parts = model.cache(2, 64), []
        reading = model.reading(cache, prompts, layers=(1, 3))
        while True:
            try:
                parts.append(next(reading))
            except StopIteration as end:
                features = end.value
                break
        logits = model.forward(cache, torch.tensor([[5], [6]]), torch.zeros(2, 1, dtype=torch.long))
        found.append((parts, features[0], features[1, :9], logits))
    assert [parts for parts, *_ in found] == [[], [8, 16]]
    assert all(torch.equal(one, other) for one, other in zip(found[0][1:], found[1][1:], strict=True))


@pytest.mark.parametrize(
    ("shape", "width", "kv_heads"),
    [("llama", 32, 1), ("llama", 64, 4), ("llama", 96, 2), ("llama", 160, 2), *((shape, 32, 2) for shape in OTHERS)],
)
def test_logits_are_closer_to_float32_than_those_of_the_modules(shape: str, width: int, kv_heads: int) -> None:
    """A prefill of different lengths, a tree, a kept path and one more row."""
    network = llama(width=width, kv_heads=kv_heads, shape=shape)
    form = full((3, 2), 2)
    tokens = torch.randint(2, 50, (2, form.nodes), generator=torch.Generator().manual_seed(1))
    native, modules = probed(network, "native"), probed(network, "modules")
    modules.run = modules.network
    seen = []
    for each in (in_float32(network), native, modules):
        cache = each.cache(2, 32)
        each.read(cache, [[3, 1, 4, 1, 5], [9, 2]])
        logits = each.forward(cache, tokens, form.depth[:, 1:] - 1, form.ancestors[:, 1:, 1:])
        cache.keep(torch.tensor([[0, 4], [1, -1]]), torch.tensor([2, 1]), 7)
        after = each.forward(cache, torch.tensor([[7], [8]]), torch.zeros((2, 1), dtype=torch.long))
        seen.append(torch.cat([logits, after], 1).float())
    errors = [(each - seen[0]).abs().max() for each in seen[1:]]
    assert errors[0] <= errors[1]
    torch.testing.assert_close(seen[1], seen[0], atol=0.05, rtol=0.02)


def test_bits_of_a_row_do_not_depend_on_the_rows_beside_it(model: Model) -> None:
    text = torch.randint(0, 75, (20,), generator=torch.Generator().manual_seed(2)).tolist()
    one_by_one = logits_of_rounds(model, [1] * 20, text)
    for sizes in ([20], [16, 4], [1, 2, 3, 4, 5, 5], [7, 8, 5], [9, 11], [17, 3]):
        assert logits_of_rounds(model, sizes, text).equal(one_by_one), sizes


def test_bits_of_a_tree_are_those_of_plain_decoding(model: Model) -> None:
    """Also after a path was kept: its rows then lie in other slots, and the siblings between them are gone."""
    prompt, form = [3, 1, 4, 1, 5], topology([[-1, -1, 0, 1, 1, 3]])
    tokens = torch.tensor([[10, 11, 12, 13, 14, 15, 16]])  # the pending token and the nodes
    cache = model.cache(1, 32)
    model.read(cache, [prompt])
    tree = model.forward(cache, tokens, form.depth, form.ancestors)[0]
    cache.keep(torch.tensor([[0, 2, 4, 6]]), torch.tensor([4]), 9)
    after = model.forward(cache, torch.tensor([[17]]), torch.zeros((1, 1), dtype=torch.long))[0]
    path = [10, 12, 14, 16, 17]
    plain = logits_of_rounds(model, [5, 1, 1, 1, 1, 1], prompt + path)[5:]
    assert torch.cat([tree[[0, 2, 4, 6]], after]).equal(plain)


def test_a_sequence_of_a_batch_has_the_bits_it_has_alone(model: Model) -> None:
    prompts = [[3, 1, 4, 1, 5, 9, 2], [6, 5], [3]]
    cache, tokens = model.cache(3, 32), torch.tensor([[7, 8], [9, 10], [11, 12]])
    model.read(cache, prompts)
    together = model.forward(cache, tokens, torch.arange(2).expand(3, 2))
    for row, prompt in enumerate(prompts):
        alone = model.cache(1, 32)
        model.read(alone, [prompt])
        assert model.forward(alone, tokens[row : row + 1], torch.arange(2)[None]).equal(together[row : row + 1])


def test_bits_do_not_depend_on_the_number_of_threads(model: Model) -> None:
    text = list(range(20))
    one = logits_of_rounds(model, [12, 1, 7], text)
    before = torch.get_num_threads()
    try:
        for threads in (2, 3):
            torch.set_num_threads(threads)
            assert logits_of_rounds(model, [12, 1, 7], text).equal(one)
    finally:
        torch.set_num_threads(before)


def test_hidden_states_are_those_of_the_modules(model: Model) -> None:
    tokens, offsets = torch.tensor([[3, 1, 4, 1, 5]]), torch.arange(5)[None]
    read = 0, 2, 3, 4  # the last two are the final norm's output and its input
    _, states = model.forward_with_features(model.cache(1, 8), tokens, offsets, None, read)
    networks = in_float32(model.network).network, model.network
    found = []
    for network in networks:
        with final_residual(network) as residual:
            found.append([*network(tokens, output_hidden_states=True).hidden_states, *residual])
    expected, by_modules = (torch.cat([each[i] for i in read], -1).float() for each in found)
    assert states is not None and states.dtype == torch.bfloat16
    torch.testing.assert_close(states.float(), expected, atol=0.2, rtol=0.02)
    assert (states.float() - expected).abs().mean() <= (by_modules - expected).abs().mean()


def test_the_first_layers_alone_run_natively_too(model: Model) -> None:
    shallow = model.first_layers(2)
    tokens, offsets = torch.tensor([[3, 1, 4]]), torch.arange(3)[None]
    actual = shallow.forward(shallow.cache(1, 8), tokens, offsets)
    expected = in_float32(shallow.network).network(tokens).logits
    assert shallow.forward_mode is ForwardMode.NATIVE
    torch.testing.assert_close(actual, expected, atol=0.05, rtol=0.02)


@pytest.mark.parametrize(
    ("shape", "more", "count"),
    [
        ("llama", {"num_hidden_layers": 6}, 2),
        ("gemma3", {"num_hidden_layers": 6, "layer_types": 3 * MIXED[:1] + MIXED}, 5),  # the first that has no window
    ],
)
def test_a_probe_runs_only_the_first_layers_with_every_kind(
    shape: str, more: dict[str, Any], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of both forwards that are compared; all of them are most of the time in which a large model is loaded."""
    network, run, compiled = llama(shape=shape, **more), set(), set()
    for number, layer in enumerate(network.model.layers):
        layer.register_forward_hook(lambda *_, number=number: run.add(number))
    call = NativeDecoder.__call__

    def counted(decoder: NativeDecoder, *given: Any, **named: Any) -> Any:
        compiled.add(len(decoder.decoder.layers))
        return call(decoder, *given, **named)

    monkeypatch.setattr(NativeDecoder, "__call__", counted)
    model = probed(network, shape)
    assert model.trees and model.layers == 6
    assert run == set(range(count)) and compiled == {count}


def test_a_wrong_mask_shows_in_the_first_layers(monkeypatch: pytest.MonkeyPatch) -> None:
    original = modeling.attention_mask
    monkeypatch.setattr(
        modeling, "attention_mask", lambda table, reach, _, additive: original(table, reach, None, additive)
    )
    assert not probed(llama(num_hidden_layers=6), "llama").trees


def test_logits_are_float32_sums(model: Model) -> None:
    """The output product is not rounded to 8 bits, which would make ties of tokens that differ."""
    logits = model.forward(model.cache(1, 8), torch.tensor([[3]]), torch.zeros((1, 1), dtype=torch.long))
    assert logits.dtype == torch.float32 and not logits.equal(logits.bfloat16().float())


def test_weights_lie_in_memory_once() -> None:
    network = llama(tied=True)
    native = probed(network, "native").run
    assert isinstance(native, NativeDecoder)
    assert native.decoder.head.data_ptr() == network.model.embed_tokens.weight.data_ptr()
    layer = native.decoder.layers[0]
    assert layer.up.data_ptr() == network.model.layers[0].mlp.gate_proj.weight.data_ptr()


def test_rotary_tables_grow() -> None:
    model = probed(llama(), "native")
    tokens, offsets = torch.randint(0, 75, (1, 150), generator=torch.Generator().manual_seed(3)), torch.arange(150)
    expected = in_float32(model.network).network(tokens).logits
    actual = model.forward(model.cache(1, 200), tokens, offsets[None])
    assert (actual - expected).abs().mean() < (model.network(tokens).logits - expected).abs().mean()


@pytest.mark.parametrize(
    ("shape", "more"),
    [
        ("llama", {"hidden_act": "relu"}),
        ("llama", {"rope_parameters": {"rope_theta": 1e4, "rope_type": "dynamic", "factor": 2.0}}),
        ("gemma3", {"final_logit_softcapping": 30.0}),
        ("phi", {"qk_layernorm": True, "num_attention_heads": 2}),
    ],
)
def test_what_the_program_does_not_compute_is_left_to_the_modules(shape: str, more: dict[str, Any]) -> None:
    model = probed(llama(shape=shape, **more), "modules")
    assert model.run is model.network and model.forward_mode is ForwardMode.EAGER


def test_a_trace_says_that_the_forward_is_compiled() -> None:
    for network, compiled in ((llama(), True), (llama().float(), False)):
        run = DecodingEngine(probed(network, "target"), None, letters(75)).decode("abc", "plain", max_new_tokens=2)
        assert [model.compiled for model in run.events[0].models] == [compiled]


def test_other_dtypes_and_sizes_keep_the_lean_forward() -> None:
    for network in (llama().float(), random_llama(7, 50).bfloat16()):  # the second has heads of 8 columns
        model = probed(network, "lean")
        assert type(model.run) is LeanLlama and model.forward_mode is ForwardMode.EAGER


def test_without_numba_the_lean_forward_runs_and_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    available.why_not.cache_clear()
    monkeypatch.setattr(available, "find_spec", lambda name: None)
    try:
        model = probed(llama(), "lean")
        assert type(model.run) is LeanLlama
        assert model.not_native.endswith("numba is not installed; install it: pip install numba.")
    finally:
        monkeypatch.undo()
        available.why_not.cache_clear()


def test_a_machine_that_cannot_compile_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> None:
        raise OSError("there must be exactly one OpenMP library in this process, and there are 2")

    available.why_not.cache_clear()
    monkeypatch.setattr(available, "programs", broken)
    try:
        assert available.why_not().endswith("exactly one OpenMP library in this process, and there are 2.")
    finally:
        available.why_not.cache_clear()


def test_importing_the_engine_does_not_import_numba() -> None:
    code = "import sys, draftscope; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("rows", "bias"), [*((rows, False) for rows in (1, 2, 3, 7, 8, 9, 16, 33)), (1, True), (9, True)]
)
def test_a_product_is_exact_and_its_rows_do_not_depend_on_each_other(rows: int, bias: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    weight, x = (torch.randn(size, generator=generator).bfloat16() for size in ((83, 96), (rows, 96)))
    more = torch.randn(83, generator=generator).bfloat16() if bias else None
    with torch.inference_mode():
        actual, exact = linear(x, weight, more), linear(x, weight, more, exact=True)
        alone = torch.cat([linear(row[None], weight, more, exact=True) for row in x])
    expected = torch.nn.functional.linear(x.double(), weight.double(), None if more is None else more.double())
    assert exact.equal(alone) and exact.dtype == torch.float32
    assert actual.equal(exact.bfloat16())
    torch.testing.assert_close(exact.double(), expected, atol=1e-4, rtol=1e-5)


def test_products_that_are_not_compiled_are_those_of_torch() -> None:
    weight, x = torch.randn(8, 64), torch.randn(2, 64)
    for kind, size in ((torch.float32, 64), (torch.bfloat16, 20)):
        one, other = x[:, :size].to(kind), weight[:, :size].to(kind)
        with torch.inference_mode():
            assert linear(one, other, exact=True).equal(torch.nn.functional.linear(one, other))
    trained = weight.bfloat16().requires_grad_()
    assert linear(x.bfloat16(), trained).requires_grad


def test_accelerated_modules_keep_their_weights() -> None:
    network = llama()
    before = {name: weight.data_ptr() for name, weight in network.state_dict().items()}
    accelerate(network)
    assert {name: weight.data_ptr() for name, weight in network.state_dict().items()} == before
    assert isinstance(network.model.layers[0].mlp.down_proj, FastLinear)


def test_programs_are_compiled_where_nothing_can_be_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container whose package and home are read-only, numba compiled nothing: forwards took the slow way."""
    (tmp_path / "a file").touch()
    for locator in (caching.InTreeCacheLocator, caching.UserWideCacheLocator):
        monkeypatch.setattr(locator, "get_cache_path", lambda _: str(tmp_path / "a file" / "in it"))
    folders: list[str] = []

    def compiled() -> int:
        folders.append(config.CACHE_DIR)
        return int(cfunc(types.int64(types.int64), cache=True)(doubled).ctypes(21))

    assert kept_or_not(compiled) == 42
    before, during = folders
    assert before == config.CACHE_DIR and during and not Path(during).exists()


def doubled(number: int) -> int:
    return 2 * number


COUNTED = """
from numba.core import caching
made = []
caching.Cache.save_overload = lambda *_: made.append(1)
from draftscope.models.native import available
assert available.why_not() == ""
print(len(made))
"""


def test_what_one_process_compiled_no_other_compiles_again() -> None:
    """One program was compiled in each process, which took 5 s: numba's key for it was another one each time."""
    available.programs()
    told = subprocess.run([sys.executable, "-c", COUNTED], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "0"
