"""Peers: on the same weights, with nobody else's defaults, and named where they cannot run."""

from __future__ import annotations

import sys
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType, GGUFReader

import draftscope
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench import peers
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.peers import gguf, transformers
from draftscope.measure.bench.rows import rows
from draftscope.measure.bench.runner import Bench
from draftscope.measure.bench.systems import Case, MissingPeerError, System, drafter_systems, needed
from draftscope.models.model import ForwardMode
from tests.models.test_native import llama
from tests.support import gguf_files
from tests.support.models import random_llama

PLAN = BenchPlan(drafters=("plain",), temperatures=(0.0,), tokens=12, repeats=1)


def words_of(engine: DecodingEngine, systems: list[System], *prompts: str, temperature: float = 0.0) -> dict[str, str]:
    """What each system's row says of its tokens beside plain's."""
    case = Case("any", 0, tuple(tuple(engine.encode(prompt)) for prompt in prompts), temperature)
    bench = Bench(PLAN, [*drafter_systems(engine, PLAN)[0], *systems], [case])
    found = {row.name: row.tokens_vs_plain for row in rows(bench.runs())}
    assert bench.notes == []
    return found


# transformers


def test_transformers_writes_plains_tokens_alone_assisted_and_by_lookup(pair: DecodingEngine) -> None:
    words = words_of(pair, transformers.systems(pair), "hello hello hello")
    assert words == dict.fromkeys(
        ("plain", "transformers-generate", "transformers-assisted", "transformers-prompt-lookup"), "equal"
    )


def test_transformers_pads_a_ragged_batch_on_the_left(pair: DecodingEngine) -> None:
    (generate,) = [system for system in transformers.systems(pair) if system.batches]
    assert words_of(pair, [generate], "hello", "a much longer prompt")["transformers-generate"] == "equal"


def test_defaults_of_a_checkpoint_do_not_reach_the_peers_and_stay_with_it(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = pair.target.network.generation_config
    monkeypatch.setattr(config, "repetition_penalty", 9.0)
    assert words_of(pair, transformers.systems(pair), "hello")["transformers-generate"] == "equal"
    assert pair.target.network.generation_config is config


def test_above_zero_tokens_are_sampled_anew_by_each_seed(pair: DecodingEngine) -> None:
    case = Case("any", 0, (tuple(pair.encode("hello")),), 1.0)
    generate = transformers.systems(pair)[0]
    first, again, other = (generate.prepare(case, 12, seed)().ids for seed in (1, 1, 2))
    assert first == again != other


def test_without_a_draft_nothing_is_assisted(pair: DecodingEngine) -> None:
    names = [system.label.name for system in transformers.systems(DecodingEngine(pair.target, None, pair.tokenizer))]
    assert names == ["transformers-generate", "transformers-prompt-lookup"]


# who is missing


def test_a_peer_that_is_not_installed_is_named_with_its_command(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("flashspec", "llama_cpp", "openvino_genai"):
        monkeypatch.setitem(sys.modules, name, None)  # type: ignore[arg-type]
    monkeypatch.setattr(peers, "find_spec", lambda _: None)
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("LLAMA_SERVER", raising=False)
    with ExitStack() as stack:
        systems, notes = peers.opened(pair, 40, stack)
    assert {system.label.name.split("-")[0] for system in systems} == {"transformers"}
    assert notes == [
        "flashspec was skipped: 'flashspec' is not installed; pip install flashspec.",
        "llama.cpp was skipped: there is no 'llama-server'; put llama-server on PATH or its path into LLAMA_SERVER, or "
        "pip install llama-cpp-python (it compiles C++).",
        "openvino-genai was skipped: 'openvino_genai' is not installed; pip install openvino-genai.",
    ]


def test_a_peer_that_does_not_load_is_named_with_its_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(name: str) -> ModuleType:
        raise OSError("libggml.so: cannot open\nshared object")

    monkeypatch.setattr("draftscope.measure.bench.systems.import_module", broken)
    with pytest.raises(MissingPeerError, match=r"'llama_cpp' does not load \(libggml.so: cannot open\); repair"):
        needed("llama_cpp", "llama.cpp", "pip install llama-cpp-python")


def test_flashspec_needs_a_draft(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "flashspec", ModuleType("flashspec"))
    with pytest.raises(MissingPeerError, match="needs a draft model"):
        peers.flashspec.systems(DecodingEngine(pair.target, None, pair.tokenizer))


# llama.cpp's file


def test_only_plain_llamas_are_converted(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    assert gguf.why_not(pair.target) is None
    monkeypatch.setattr(gguf, "MAX_BYTES", 1000)
    assert "would be a file of 0.0 GB" in str(gguf.why_not(pair.target))
    monkeypatch.setattr(pair.target.network.config, "hidden_act", "gelu")
    assert gguf.why_not(pair.target) == "only plain Llama models are converted, and 'byte-target' is not one"


def test_queries_and_keys_are_reordered_from_halves_to_neighbours(pair: DecodingEngine) -> None:
    network = pair.target.network
    weights = dict(gguf._weights(network))
    layer = network.model.layers[1]
    width = layer.self_attn.head_dim
    ours, theirs = weights["blk.1.attn_k.weight"], layer.self_attn.k_proj.weight
    for head in range(network.config.num_key_value_heads):
        for i in range(width // 2):
            for half in (0, 1):
                assert torch.equal(ours[head * width + 2 * i + half], theirs[head * width + half * width // 2 + i])
    assert torch.equal(weights["blk.1.attn_v.weight"], layer.self_attn.v_proj.weight)
    assert torch.equal(weights["output.weight"], network.lm_head.weight)
    assert len(weights) == 3 + 9 * network.config.num_hidden_layers


def test_the_servers_file_has_words(pair: DecodingEngine, tmp_path: Path) -> None:
    writer: Any = pytest.importorskip("gguf")
    gguf.write(pair.target.network, tmp_path / "target.gguf", gguf.byte_words)
    fields = writer.GGUFReader(tmp_path / "target.gguf").fields
    words = fields["tokenizer.ggml.tokens"].contents()
    assert len(words) == len(set(words)) == pair.target.network.config.vocab_size
    assert words[10] == "<0x0A>"  # without the bytes llama.cpp cannot read a text


# llama.cpp's server, played by a script that answers as it does

STAND_IN = """#!{python}
import json, sys
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def answer(self, content):
        body = json.dumps(content).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self):
        self.answer({{"build_info": "b1234"}} if self.path == "/props" else {{"status": "ok"}})

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        whole = asked["ignore_eos"] and not asked["cache_prompt"] and asked["samplers"] == ["temperature"]
        words = [asked["prompt"][0] + asked["seed"] + i for i in range(asked["n_predict"])]
        self.answer({{"tokens": words if whole else []}})

with open(sys.argv[0] + ".log", "a") as log:
    print(*sys.argv[1:], file=log)
HTTPServer(("127.0.0.1", int(sys.argv[sys.argv.index("--port") + 1])), Handler).serve_forever()
"""


@pytest.fixture
def binary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "llama-server"
    path.write_text(STAND_IN.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setenv("LLAMA_SERVER", str(path))
    return path


@pytest.mark.usefixtures("binary")
def test_llama_cpps_server_is_asked_for_every_token(pair: DecodingEngine) -> None:
    with ExitStack() as stack:
        (server,) = peers.llama_server.systems(pair, 60, stack)
        written = server.prepare(Case("any", 0, ((3, 5),), 0.0), 4, seed=10)()
    assert written.ids == [[13, 14, 15, 16]]
    assert server.note == "llama.cpp by its server, b1234, weights and cache in F32."


@pytest.mark.usefixtures("binary")
@pytest.mark.parametrize("dtype", ["stored", "bfloat16"])
def test_llama_cpp_reads_the_file_that_the_target_is_read_from(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same weights on both sides: as they are stored, or widened to bfloat16."""
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    tokenizer, path = gguf_files.tokenizer_with_merges(), tmp_path / "small.gguf"
    gguf_files.write(path, llama(vocab_size=len(tokenizer)).float(), tokenizer, GGMLQuantizationType.Q4_1)
    engine = draftscope.load(path, dtype=dtype, threads=1)
    with ExitStack() as stack:
        (server,) = peers.llama_server.systems(engine, 60, stack)
    stored = engine.target.forward_mode is ForwardMode.PACKED
    assert ("small.gguf (0 MB), cache in BF16" in server.note) == stored
    assert ("weights and cache in BF16" in server.note) != stored


def started_with(binary: Path) -> list[list[str]]:
    return [line.split() for line in binary.with_suffix(".log").read_text().splitlines()]


def test_llama_cpp_speculates_with_the_files_of_target_and_draft(
    binary: Path, pair: DecodingEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One server more, which is given the draft's file; a pair that is not read from such files has none."""
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    tokenizer, paths = gguf_files.tokenizer_with_merges(), [tmp_path / "large.gguf", tmp_path / "small.gguf"]
    for path in paths:
        gguf_files.write(path, llama(vocab_size=len(tokenizer)).float(), tokenizer, GGMLQuantizationType.Q4_1)
    engine = draftscope.load(*paths, dtype="stored", threads=1)
    assert engine.target.forward_mode is ForwardMode.PACKED
    with ExitStack() as stack:
        (server,) = peers.llama_server.speculating(engine, 60, stack)
        written = server.prepare(Case("any", 0, ((3, 5),), 0.0), 4, seed=10)()
        assert peers.llama_server.speculating(pair, 60, stack) == []
    assert written.ids == [[13, 14, 15, 16]]
    assert server.label.name == "llama.cpp-draft"
    assert "large.gguf (0 MB) with small.gguf (0 MB), its own draft length" in server.note
    (options,) = started_with(binary)
    assert options[options.index("-m") + 1] == str(paths[0])
    assert options[options.index("-md") + 1] == str(paths[1])
    binary.chmod(0o644)
    with ExitStack() as stack, pytest.raises(MissingPeerError, match=r"^llama\.cpp-draft was skipped"):
        peers.llama_server.speculating(engine, 60, stack)


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("echo cannot load >&2; exit 1", "llama-server' did not load the model; it said: cannot load"),
        ("kill -SEGV $$", "llama-server', which SIGSEGV ended, did not load the model; it said: nothing"),
        (None, "does not start"),
    ],
)
def test_a_server_that_does_not_load_is_named_with_its_last_line(
    pair: DecodingEngine, binary: Path, script: str | None, why: str
) -> None:
    if script is None:
        binary.chmod(0o644)
    else:
        binary.write_text(f"#!/bin/sh\n{script}\n")
    with ExitStack() as stack, pytest.raises(MissingPeerError, match=why):
        peers.llama_server.systems(pair, 60, stack)


# OpenVINO GenAI, played by a package that notes what it is given


class Pipeline:
    """Counts up from the prompt's first token; says that it read `skipped` tokens less than it was given."""

    skipped = 0

    def __init__(self, path: str, device: str, **properties: Any) -> None:
        self.path, self.device, self.properties = Path(path), device, properties
        self.stored = Counter(tensor.tensor_type.name for tensor in GGUFReader(path).tensors)

    def generate(self, prompt: tuple[Any, Any], config: dict[str, Any]) -> SimpleNamespace:
        self.config = config
        first, read = int(prompt[0][0, 0]), prompt[0].size - self.skipped
        return SimpleNamespace(
            tokens=[[first + i for i in range(config["max_new_tokens"])]],
            perf_metrics=SimpleNamespace(get_num_input_tokens=lambda: read),
        )


@pytest.fixture
def openvino(monkeypatch: pytest.MonkeyPatch) -> None:
    package, runtime = ModuleType("openvino_genai"), ModuleType("openvino")
    vars(package).update(
        __version__="2026.4.1.0-3408-ab01d1771e4",
        GenerationConfig=dict,
        LLMPipeline=Pipeline,
        SchedulerConfig=SimpleNamespace,
        TokenizedInputs=lambda ids, mask: (ids, mask),
    )
    vars(runtime).update(Tensor=lambda values: values)
    monkeypatch.setitem(sys.modules, "openvino_genai", package)
    monkeypatch.setitem(sys.modules, "openvino", runtime)


def by_openvino(engine: DecodingEngine) -> Any:
    with ExitStack() as stack:
        (system,) = peers.openvino.systems(engine, 60, stack)
    return system


@pytest.mark.usefixtures("openvino")
def test_openvino_reads_the_file_that_the_target_was_converted_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    tokenizer = gguf_files.tokenizer_with_merges()
    network, path = random_llama(3, len(tokenizer), hidden=64), tmp_path / "small.gguf"
    gguf_files.write(path, network, tokenizer, GGMLQuantizationType.Q4_1)
    engine = draftscope.load(target=path)
    system = by_openvino(engine)
    assert system._pipeline.path == path
    assert (system.label.name, system.note.partition(",")[0]) == (
        "openvino-genai, Q4_1",
        "openvino-genai 2026.4.1.0: Q4_1",
    )
    assert path.name in system.note
    path.write_bytes(path.read_bytes() + b"another")
    assert by_openvino(engine).label.name == "openvino-genai, Q8_0"


@pytest.mark.usefixtures("openvino")
def test_openvino_reads_weights_rounded_to_8_bits_where_there_is_no_such_file(pair: DecodingEngine) -> None:
    system = by_openvino(pair)
    pipeline = system._pipeline
    assert system.note == (
        "openvino-genai 2026.4.1.0: Q8_0, the target's weights rounded to 8 bits; other settings are its defaults."
    )
    assert pipeline.stored == {"Q8_0": 2 + 7 * 2, "F32": 1 + 2 * 2}
    scheduler = pipeline.properties["scheduler_config"]
    assert (pipeline.device, pipeline.properties["INFERENCE_NUM_THREADS"]) == ("CPU", torch.get_num_threads())
    assert (scheduler.enable_prefix_caching, scheduler.max_num_batched_tokens) == (False, 60)


@pytest.mark.usefixtures("openvino")
def test_openvino_writes_as_many_tokens_as_plain_whatever_they_are(pair: DecodingEngine) -> None:
    system = by_openvino(pair)
    asked = {"max_new_tokens": 4, "ignore_eos": True, "rng_seed": 10}
    for temperature, sampled in ((0.0, {"do_sample": False}), (0.7, {"do_sample": True, "temperature": 0.7})):
        assert system.prepare(Case("any", 0, ((3, 5),), temperature), 4, seed=10)().ids == [[3, 4, 5, 6]]
        assert system._pipeline.config == asked | sampled


@pytest.mark.usefixtures("openvino")
def test_openvino_is_skipped_if_it_reads_another_prompt_than_plain(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Pipeline, "skipped", 1)
    case = Case("any", 0, ((3, 5),), 0.0)
    bench = Bench(PLAN, [*drafter_systems(pair, PLAN)[0], by_openvino(pair)], [case])
    assert {run.label.name for run in bench.runs()} == {"plain"}
    assert bench.notes == [
        "openvino-genai, Q8_0 was skipped at T = 0: RuntimeError: it read 1 tokens of a prompt of 2."
    ]


@pytest.mark.usefixtures("openvino")
def test_a_model_that_openvino_refuses_is_named_with_its_last_line(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise RuntimeError("Exception from gguf_modeling.cpp:138:\nUnsupported model architecture\n")

    monkeypatch.setattr(sys.modules["openvino_genai"], "LLMPipeline", refused)
    with pytest.raises(MissingPeerError, match=r"did not load the model; it said: Unsupported model architecture$"):
        by_openvino(pair)


# those that a developer has installed


def test_flashspec_writes_plains_tokens(pair: DecodingEngine) -> None:
    pytest.importorskip("flashspec")
    assert words_of(pair, peers.flashspec.systems(pair), "hello hello hello")["flashspec"] == "equal"
    assert words_of(pair, peers.flashspec.systems(pair), "hello", temperature=1.0)["flashspec"] == "sampled"


def test_llama_cpp_writes_plains_tokens(pair: DecodingEngine) -> None:
    pytest.importorskip("llama_cpp")
    with ExitStack() as stack:
        words = words_of(pair, peers.llamacpp.systems(pair, 60, stack), "hello hello hello")
    assert (words["llama.cpp"], words["llama.cpp-prompt-lookup"]) == ("equal", "equal")


def test_the_gguf_file_holds_every_weight(pair: DecodingEngine, tmp_path: Path) -> None:
    writer: Any = pytest.importorskip("gguf")
    gguf.write(pair.target.network, tmp_path / "target.gguf")
    tensors = {tensor.name: tensor for tensor in writer.GGUFReader(tmp_path / "target.gguf").tensors}
    expected = dict(gguf._weights(pair.target.network))
    assert tensors.keys() == expected.keys()
    down = torch.from_numpy(tensors["blk.0.ffn_down.weight"].data.copy())
    assert torch.equal(down, expected["blk.0.ffn_down.weight"])
