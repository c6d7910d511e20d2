"""What nobody has measured has no prior, what is not known is not taken for something else, and what cannot be run is
refused: in one sentence, on the page and by the command."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.forecast.architecture import find_architecture
from draftscope.forecast.economics import LOADS, SEEDS
from draftscope.forecast.forecast import ask, fits, forecast
from draftscope.forecast.hardware_tables import exact_row, pick_row, read_table
from draftscope.forecast.held import held_to
from draftscope_app.cli.main import main
from draftscope_app.doors.decide.forecast.page import answered
from tests.doors.decide.forecast.test_hardware_form import ASKED

BIG, SMALL = "Llama-3.3-70B", "Qwen3-8B"
REFUSED: dict[str, tuple[tuple[str, ...], str]] = {
    "n-grams on chat": ((BIG, "--drafter", "ngram"), "no row of ngram on chat, only on copied"),
    "suffix on code": ((BIG, "--drafter", "suffix", "--text", "code"), "only on copied"),
    "a kind without rows": ((BIG, "--drafter", "hydra"), "no row of hydra on chat"),
    "trees of a kind of chains": ((SMALL, "--drafter", "eagle", "--engine", "pytorch"), "eagle on chat in trees"),
    "a usual draft": ((BIG, "--drafter", "draft"), "tokens of the draft Llama-3.2-1B are accepted"),
    "a draft": ((BIG, "--drafter", "draft", "--draft", "Qwen3-0.6B"), "tokens of the draft Qwen3-0.6B are accepted"),
    "a draft in one pass": ((BIG, "--drafter", "pard"), "are accepted; give the tokens a round"),
    "a larger draft": ((BIG, "--drafter", "draft", "--draft", "Llama-3.1-405B", "--tau", "3"), "not smaller than"),
    "itself": ((BIG, "--drafter", "draft", "--draft", BIG, "--tau", "3"), "is not smaller than Llama-3-70B"),
    "a draft of a head": ((BIG, "--draft", "Qwen3-0.6B"), "leave out the draft"),
    "H1000": ((BIG, "--card", "H1000"), "'H1000' is not known; did you mean H100 SXM"),
    "GH200": ((BIG, "--card", "GH200"), "did you mean H200, GB200"),
    "another product": ((BIG, "--card", "H100 PCIe"), "did you mean H100 SXM"),
    "another memory": ((SMALL, "--card", "RTX 3080 12GB"), "did you mean"),
    "M4 Pro": ((SMALL, "--card", "Apple M4 Pro"), "did you mean Apple M4"),
    "no card": ((SMALL, "--card", ""), "is not known"),
    "an engine": ((SMALL, "--engine", "vllm2"), "did you mean vLLM?"),
    "a drafter": ((SMALL, "--drafter", "eagle4"), "did you mean eagle"),
    "a format": ((SMALL, "--quant", "fp80"), "The format 'fp80' is not known"),
    "a form": ((SMALL, "--form", "5"), "write 'k=3'"),
    "half a form": ((SMALL, "--form", "k=3,topk=4"), "write 'k=3'"),
    "too many nodes": ((SMALL, "--form", "steps=2,topk=2,draft_tokens=60"), "no tree of 60 tokens"),
    "a tree of a look-up": (
        (SMALL, "--drafter", "ngram", "--tau", "2", "--form", "steps=2,topk=2,draft_tokens=4"), "drafts no tree",
    ),
    "seven cards": ((BIG, "--tp", "7"), "7 cards cannot share a layer of Llama-3-70B (64 heads, 8 of keys and values)"),
    "64 cards": ((BIG, "--tp", "64"), "64 x H100 SXM cannot share a layer: up to 8"),
    "cards without a link": ((BIG, "--card", "Apple M3 Ultra", "--tp", "2"), "no link to one another"),
    "a size only": (("Foo-13B", "--tp", "6"), "6 cards cannot share"),
    "weights": ((BIG, "--tp", "1"), "cannot run there: weights take 141 GB"),
    "caches": ((SMALL, "--concurrency", "4096"), "or at most 421 requests"),
    "a context": ((SMALL, "--context", "10000000"), "cannot run there"),
    "no room anywhere": (("Llama-3.1-405B", "--card", "Apple M4"), "no link to one another"),
    "the draft's weights": (
        (BIG, "--drafter", "draft", "--draft", "Qwen3-32B", "--tau", "3", "--tp", "2"), "weights take 207 GB",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_it_is_one_sentence_and_no_forecast(what: str, capsys: pytest.CaptureFixture[str]) -> None:
    words, sentence = REFUSED[what]
    assert main(["forecast", *words]) == 2
    said = capsys.readouterr()
    assert not said.out and said.err.count("\n") == 1 and sentence in said.err


@pytest.mark.parametrize(
    ("changed", "sentence"),
    [({"drafter": "ngram"}, "only on copied"), ({"drafter": "draft"}, "are accepted"), ({"tp": 7}, "cannot share"),
     ({"tp": 1}, "cannot run there"), ({"tp": 64}, "up to 8"), ({"concurrency": 4096}, "at most")],
    ids=["prior", "draft", "seven", "weights", "many", "caches"],
)  # fmt: skip
def test_the_page_refuses_the_same(changed: dict[str, Any], sentence: str) -> None:
    answer = answered(ASKED | changed)
    assert sentence in answer["refused"] and "points" not in answer


@pytest.mark.parametrize("table", ["cards", "drafters", "engines", "models"])
def test_a_name_of_a_table_is_its_own_row_and_with_more_behind_it_none(table: str) -> None:
    for row in read_table(table):
        name = row["name"]
        assert exact_row(table, name) == pick_row(table, name) == exact_row(table, name.upper()) == row
        assert exact_row(table, f"{name}x") is None and exact_row(table, f"x{name}") in (None, row)
        assert exact_row(table, f"{name}00") is None


NAMES = {
    "cards": {"h100": "H100 SXM", "NVIDIA H100 80GB HBM3": "H100 SXM", "A100 40GB": "A100 40 GB", "a100": "A100 80 GB",
              "RTX 3090 24GB": "RTX 3090", "NVIDIA GeForce RTX 4090": "RTX 4090", "M3 Ultra": "Apple M3 Ultra"},
    "engines": {"vLLM 0.27.1": "vLLM", "SGLang": "SGLang", "mlx": "MLX", "hf": "PyTorch"},
    "drafters": {"EAGLE-3": "eagle3", "n-gram": "ngram", "MTP": "mtp"},
    "models": {"meta-llama/Llama-3.1-8B-Instruct": "Llama-3-8B", "DeepSeek-V3-0324": "DeepSeek-V3",
               "Qwen3-30B-A3B-Instruct-2507": "Qwen3-30B-A3B", "Llama-3.3-70B-Instruct-FP8": "Llama-3-70B"},
}  # fmt: skip


@pytest.mark.parametrize("table", NAMES)
def test_what_names_no_other_product_is_left_over(table: str) -> None:
    named = {name: (exact_row(table, name) or {"name": ""})["name"] for name in NAMES[table]}
    assert named == NAMES[table]


def test_a_distilled_model_is_not_what_it_was_distilled_from() -> None:
    model = find_architecture("deepseek-ai/DeepSeek-R1-Distill-Qwen-7B")
    assert model.parameters < 10e9 and model.guessed
    assert find_architecture("DeepSeek-V3-7B-Lite").parameters < 10e9


def test_a_format_in_the_name_is_the_weights_format() -> None:
    sizes = [
        ask(name).target.weight_bytes for name in (BIG, f"{BIG}-FP8", f"{BIG}-Instruct-AWQ", "Qwen3-8B-Q4_K_M-GGUF")
    ]
    assert sizes == pytest.approx([2, 1, 4.85 / 8, 4.85 / 8])
    assert ask(f"{BIG}-FP8", quant="bf16").target.weight_bytes == 2


def test_the_answer_says_what_of_it_was_held_to_published_rows(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["forecast", SMALL, "--card", "RTX 5090"]) == 0
    assert "Outside the published record: no row of vLLM on RTX 5090; forecasts" in capsys.readouterr().out
    assert main(["forecast", SMALL, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert re.search(r"Held to \d+ published rows \(median error \d+%\)", result["known"]) and result["fits"] > 100
    assert "eagle3 with llama.cpp on RTX 5090; 30 rows of it have other drafters" in held_to(
        "eagle3", "llama.cpp", "RTX 5090"
    )
    assert "(median error 160%)" in held_to("dflash", "MLX", "Apple M1 Max")
    assert "no row of MLX on Apple M4 Max" in held_to("dflash", "MLX", "Apple M4 Max")
    answer = answered(ASKED | {"card": "RTX 4090", "engine": "SGLang", "model": "Qwen3-4B"})
    assert "Outside the published record" in str(answer["facts"])


def test_the_table_of_what_was_held_names_rows_of_the_other_tables() -> None:
    for row in read_table("held"):
        for name, table in (("engine", "engines"), ("card", "cards"), ("drafter", "drafters")):
            assert row[name] in {"", *(entry["name"] for entry in read_table(table))}, row
        assert int(row["rows"]) > 0 and float(row["median"]) >= 0


def test_nothing_is_said_to_pay_beyond_what_the_memory_holds() -> None:
    scenario = ask("Qwen3-30B-A3B")
    held = fits(scenario)
    assert forecast(scenario).fits == held and 0 < held < 4096
    with pytest.raises(DraftscopeError, match=f"at most {held} requests"):
        ask("Qwen3-30B-A3B", concurrency=held + 1)
    curves = [curve for seed in SEEDS for curve in seed.curves()]
    assert any(len(curve.x) < len(LOADS) for curve in curves) and all(len(curve.x) == len(curve.y) for curve in curves)


@pytest.mark.parametrize(
    "changed",
    [{"num_attention_heads": 0}, {"hidden_size": -1}, {"num_hidden_layers": 1e400}, {"vocab_size": float("nan")},
     {"num_key_value_heads": 0}, {"intermediate_size": "a"}, {"head_dim": [1]}, {"hidden_size": 10**30}],
    ids=lambda changed: next(iter(changed)),
)  # fmt: skip
def test_a_configuration_of_no_model_is_one_sentence(
    changed: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = {"hidden_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2, "vocab_size": 100} | changed
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["forecast", str(tmp_path)]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and next(iter(changed)) in said
