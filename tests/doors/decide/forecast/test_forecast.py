"""The forecast: models of the table have their public sizes, a forward is its bytes and operations by hand."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.forecast.acceptance_priors import Band, prior_tau, tau_of
from draftscope.forecast.architecture import Architecture, find_architecture
from draftscope.forecast.cost import BANDWIDTH, COMPUTE, Hardware, drafting_ms, forward_ms, plain_ms, round_ms
from draftscope.forecast.drafter_forwards import find_kind, plan_drafting
from draftscope.forecast.economics import SEEDS, forecast_of_claim
from draftscope.forecast.forecast import ask, dollars_per_million, forecast, speedup_of
from draftscope.forecast.hardware_tables import Card, EngineCosts, find_card, find_engine, read_table
from draftscope_app.cli.main import main
from draftscope_app.doors.decide.forecast.answer import sentences

SIZES = {  # billions of weights, and of those that multiply a row, as their authors say
    "Vicuna-13B": (13.0, 13.0), "meta-llama/Llama-3.1-8B-Instruct": (8.0, 8.0), "Llama-3.3-70B-Instruct": (70.6, 70.6),
    "Llama-4-Scout-17B-16E-Instruct": (109, 17), "Llama-4-Maverick-17B-128E": (400, 17), "Mixtral-8x7B": (46.7, 12.9),
    "Mixtral-8x22B": (141, 39), "Qwen2.5-7B-Instruct": (7.6, 7.6), "Qwen3-8B": (8.2, 8.2),
    "Qwen3-30B-A3B-Instruct-2507": (30.5, 3.3), "Qwen3-235B-A22B-Instruct-2507": (235, 22),
    "Qwen3-Coder-480B-A35B-Instruct": (480, 35), "Qwen3.8-27B": (27, 27), "Qwen3.6-35B-A3B": (35, 3),
    "DeepSeek-R1": (671, 37), "DeepSeek-V4-Flash-0731": (284, 13), "DeepSeek-V4": (1600, 49),
    "Kimi-K2-Instruct": (1026, 32), "Ling-flash-2.0": (103, 6.1), "MiniMax-M2.5": (229, 10), "GPT-OSS-20B": (20.9, 3.6),
    "gpt-oss-120b": (116.8, 5.1), "OPT-13B": (13, 13), "OPT-66B": (66, 66), "TinyLlama": (1.1, 1.1),
    "Tess-4-27B": (27, 27), "Foo-100B-A10B": (100, 10), "x-500M": (0.5, 0.5),
}  # fmt: skip


@pytest.mark.parametrize("name", SIZES)
def test_a_model_of_the_table_has_its_public_size(name: str) -> None:
    result, (whole, active) = find_architecture(name), SIZES[name]
    assert result.parameters / 1e9 == pytest.approx(whole, rel=0.1 if "usual" in result.source else 0.05)
    assert result.active / 1e9 == pytest.approx(active, rel=0.2)  # authors count the embedding or not, and round


LLAMA = {
    "hidden_size": 4096, "num_attention_heads": 32, "num_hidden_layers": 32, "num_key_value_heads": 8,
    "intermediate_size": 14336, "vocab_size": 128256, "tie_word_embeddings": False,
}  # fmt: skip
DEEPSEEK = {
    "hidden_size": 7168, "num_attention_heads": 128, "num_hidden_layers": 61, "num_key_value_heads": 128,
    "intermediate_size": 18432, "vocab_size": 129280, "n_routed_experts": 256, "num_experts_per_tok": 8,
    "n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3, "kv_lora_rank": 512,
    "qk_rope_head_dim": 64, "q_lora_rank": 1536, "head_dim": 128, "tie_word_embeddings": False,
    "quantization_config": {"quant_method": "fp8", "fmt": "e4m3"},
}  # fmt: skip


@pytest.mark.parametrize(("config", "name"), [(LLAMA, "Llama-3.1-8B"), ({"text_config": DEEPSEEK}, "DeepSeek-V3")])
def test_a_config_and_the_table_say_the_same(tmp_path: Path, config: dict[str, Any], name: str) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    result, table = find_architecture(str(tmp_path)), find_architecture(name)
    assert replace(result, name="", source="") == replace(table, name="", source="")


def test_a_cache_is_of_the_heads_the_latents_or_the_layers_that_attend() -> None:
    sizes = {"Llama-3.1-8B": 2 * 8 * 128 * 32 * 2, "DeepSeek-V3": 576 * 61 * 2, "Qwen3-Next-80B": 2 * 2 * 256 * 12 * 2}
    assert {name: find_architecture(name).cache_bytes() for name in sizes} == sizes


def test_experts_that_rows_wake() -> None:
    """Of one sequence as counted on Qwen3.6-35B; independent sequences as by uniform routing; never more than all."""
    local = find_architecture("Qwen3.6-35B-A3B")
    assert [round(local.awake(1, rows)) for rows in (1, 2, 4, 8, 16)] == [8, 13, 21, 35, 55]
    assert local.awake(4, 1) == pytest.approx(256 * (1 - (1 - 8 / 256) ** 4))
    assert local.awake(10**4, 8) == pytest.approx(256)
    assert (
        local.quantised("UD-Q4_K_XL").weight_bytes == pytest.approx(4.85 / 8) and local.quantised("").weight_bytes == 2
    )


BARE = EngineCosts("bare", False, True, 0.0, 0.0, 0.0, 0.0, 0.0)
TINY = Architecture("tiny", 2, 64, 4, 2, 16, 256, 1000)


def test_a_forward_is_its_bytes_or_its_operations() -> None:
    weights = 2 * (64 * 64 * 2 + 2 * 64 * 32 + 3 * 64 * 256) + 64 * 1000
    assert TINY.active == weights
    slow = Hardware(Card("reads slowly", 1.0, 1e6), BARE)
    assert forward_ms(TINY, slow, 1, 5, 0) == pytest.approx(1e3 * 2 * weights / (1e9 * BANDWIDTH))
    cache = 3 * 100 * (2 * 2 * 16 * 2) * 2
    assert forward_ms(TINY, slow, 3, 1, 100) == pytest.approx(1e3 * (2 * weights + cache) / (1e9 * BANDWIDTH))
    weak = Hardware(Card("multiplies slowly", 1e6, 1.0), BARE)
    assert forward_ms(TINY, weak, 3, 5, 0) == pytest.approx(1e3 * 2 * weights * 15 / (1e12 * COMPUTE))
    halves = Hardware(Card("two", 1.0, 1e6, link_gb_s=1e9), BARE, tensor=2)
    assert forward_ms(TINY, halves, 1, 1, 0) == pytest.approx(
        1e3 * weights / (1e9 * BANDWIDTH) + 2 * 2 * 0.006, rel=1e-3
    )


PRIOR_ON_CHAT = {"eagle3", "eagle", "mtp", "dflash", "dspark", "medusa"}


@pytest.mark.parametrize("kind", [row["name"] for row in read_table("drafters")])
def test_a_round_is_its_parts(kind: str) -> None:
    local = find_engine("vLLM 0.27.1")
    scenario = ask("Llama-3.1-8B", kind, concurrency=4, tau=1.5)
    parts = drafting_ms(scenario.drafting, scenario.machine, 4, 1024)
    parts += forward_ms(scenario.target, scenario.machine, 4, scenario.drafting.rows, 1024)
    parts += local.step_ms + local.round_ms + 8 * local.sequence_ms
    whole = round_ms(scenario.target, scenario.drafting, scenario.machine, 4, 1024)
    assert whole == pytest.approx(parts) and whole > plain_ms(scenario.target, scenario.machine, 4, 1024)
    if kind not in PRIOR_ON_CHAT:
        with pytest.raises(DraftscopeError, match=r"give the tokens a round \(tau\)"):
            prior_tau(scenario.drafting, "chat")
        return
    band = prior_tau(scenario.drafting, "chat")
    assert 1 < band.low < band.middle < band.high < scenario.drafting.depth + 1


@pytest.mark.parametrize(
    ("kind", "form", "expected"),  # steps, rows of a step, rows to verify, depth
    [
        ("EAGLE-3", "steps=7,topk=4,draft_tokens=8", (7, 4, 8, 7)), ("eagle3", "", (3, 1, 4, 3)),
        ("EAGLE", "chain max length 2 (no tree)", (2, 1, 3, 2)), ("MTP", "k=6", (6, 1, 7, 6)),
        ("DFlash", "k=15", (1, 16, 16, 15)), ("Medusa", "depth 4, top5, 31 nodes", (1, 32, 32, 4)),
        ("ngram", "key<=3, draft 5", (5, 1, 6, 5)), ("EAGLE-3", "steps,topk,draft_tokens=4,4,16", (4, 4, 16, 4)),
        ("mtp", "block 4", (3, 1, 4, 3)), ("EAGLE-3", "topk=1,draft_tokens=4", (3, 1, 4, 3)),
    ],
)  # fmt: skip
def test_the_form_of_a_draft(kind: str, form: str, expected: tuple[int, ...]) -> None:
    result = plan_drafting(find_kind(kind), TINY, form)
    assert (result.steps, result.width, result.rows, result.depth) == expected


def test_where_it_stops_paying_is_where_the_speedup_falls_below_one() -> None:
    scenario = ask("Llama-3.3-70B", tau=2.0, form="k=3")
    stop = forecast(scenario).stops_at
    assert stop is not None and stop.low < stop.middle
    for load, below in ((stop.middle, True), (round(stop.middle * 0.9), False)):
        assert (speedup_of(replace(scenario, concurrency=int(load))).middle < 1) == below


def test_an_edge_beyond_what_was_looked_at_is_said_to_be_beyond() -> None:
    scenario = ask("Llama-3-70B", card="H100 SXM")
    stop = forecast(scenario).stops_at
    assert stop is not None and stop.high is None
    assert str(stop) == f"{stop.middle} [{stop.low}, above 4,096]"
    assert f"stops paying at {stop} concurrent" in " ".join(sentences(scenario, forecast(scenario)))
    never = replace(scenario, tau=50.0)
    assert "within 533 concurrent requests, the most that the memory holds" in " ".join(
        sentences(never, forecast(never))
    )
    never = replace(never, context=16)
    assert "does not stop paying within 4,096" in " ".join(sentences(never, forecast(never)))


def test_answers_earn_the_prefill_back_and_one_token_never_does() -> None:
    scenario = replace(ask("Llama-3.3-70B", "draft", tau=3.0), context=4096)
    gained = [speedup_of(replace(scenario, answer=answer)).middle for answer in (1, 8, 64, 10**6)]
    assert gained == sorted(gained) and gained[0] < 1
    assert gained[-1] == pytest.approx(speedup_of(scenario).middle, rel=0.01)


def test_a_band_grows_with_the_error_of_the_cost() -> None:
    assert Band(2, 2, 2).divided_by(2, 0.0) == Band(1, 1, 1)
    wide = Band(2, 1, 3).divided_by(1, 0.3)
    assert wide.low < 1 and wide.high > 3 and wide.middle == 2
    assert tau_of(0.8, 5) == pytest.approx(3.69, abs=0.01)
    assert dollars_per_million(1000, 4, 2.5) == pytest.approx(2.78, abs=0.01)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "MODEL"), (["nobody"], "config.json"), (["Qwen3-8B", "--card", "X9"], "did you mean RX 9070, RTX 5090"),
        (["Qwen3-8B", "--drafter", "x"], "eagle3"), (["Qwen3-8B", "--tau", "9"], "from 1 to 4"),
        (["Qwen3-8B", "--tau", "nan"], "not a number"), (["Qwen3-8B", "--text", "x"], "code, maths"),
        (["--validate", "/nowhere.csv"], "check the path"), (["--figures", "/dev/null/x"], "another folder"),
        (["/"], "config.json"), (["Qwen3-8B", "--draft", "x"], "config.json"), (["Qwen3-8B", "--form", "k=0"], "1"),
        (["0B"], "config.json"), (["Qwen3-8B", "--form", "k=99999999999"], "4,096"),
    ],
)  # fmt: skip
def test_what_cannot_be_forecast_gets_a_sentence(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["forecast", *arguments])
    err = capsys.readouterr().err
    assert code == 2 and words in err and err.count("\n") == 1 and "Traceback" not in err


def test_the_command_says_the_forecast(capsys: pytest.CaptureFixture[str]) -> None:
    scenario = ["forecast", "Llama-3.3-70B", "--tp", "4", "--concurrency", "32", "--price", "2"]
    assert main(scenario) == 0
    text = capsys.readouterr().out
    assert (
        "on 4 x H100 SXM with vLLM" in text and "32 concurrent requests" in text and "A million tokens cost $" in text
    )
    assert main([*scenario, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    low, middle, high = (result["speedup"][end] for end in ("low", "middle", "high"))
    assert low < middle < high and f"{middle:.2f} [{low:.2f}, {high:.2f}]" in text


def test_figures_and_sentences_of_the_claims(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", "--figures", str(tmp_path / "new")]) == 0
    assert {path.stem for path in (tmp_path / "new").glob("*.html")} == {seed.name for seed in SEEDS}
    assert "wrote" in capsys.readouterr().err
    assert {number for number in range(1, 25) if forecast_of_claim(number)} == {3, 18, 19, 21, 24}


def test_every_row_of_the_tables_has_a_source_and_can_be_picked() -> None:
    for table in ("cards", "models", "engines", "drafters"):
        assert all(row["source"] for row in read_table(table))
    assert [find_architecture(row["name"]).name for row in read_table("models")] == [
        r["name"] for r in read_table("models")
    ]
    assert all(find_card(row["name"]).gb_s == float(row["gb_s"]) for row in read_table("cards"))


def test_a_forecast_starts_without_torch() -> None:
    script = (
        "import sys, draftscope.forecast.economics, draftscope.forecast.backtest; assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script], check=True)
