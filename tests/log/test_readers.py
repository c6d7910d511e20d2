"""Logs as programs write them. Every line below is in the form that the program's source, or a log of it, has."""

from __future__ import annotations

import json
from datetime import datetime
from pathlib import Path

import pytest

from draftscope.base.errors import DraftscopeError
from draftscope.log.log_summary import summarize
from draftscope.log.profile import profile
from draftscope.log.read import read, read_text

VLLM = """\
(APIServer pid=347228) INFO 12-31 23:59:58 [loggers.py:310] Engine 000: Avg prompt throughput: 93.9 tokens/s
(APIServer pid=347228) INFO 12-31 23:59:58 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 3.49, \
Accepted throughput: 0.12 tokens/s, Drafted throughput: 0.34 tokens/s, Accepted: 92 tokens, Drafted: 259 tokens, \
Per-position acceptance rate: 0.757, 0.622, 0.432, 0.324, 0.189, 0.108, 0.054, Avg Draft acceptance rate: 35.5%
(APIServer pid=347228) INFO 12-31 23:59:59 [metrics.py:120] SpecDecoding metrics: Mean acceptance length: 7.24, \
Accepted throughput: 23.10 tokens/s, Drafted throughput: 25.90 tokens/s, Accepted: 231 tokens, Drafted: 259 tokens, \
Per-position acceptance rate: 1.000, 1.000, 0.973, 0.973, 0.892, 0.784, 0.622, Avg Draft acceptance rate: 89.2%
(APIServer pid=347228) INFO:     127.0.0.1:56326 - "POST /v1/chat/completions HTTP/1.1" 200 OK
"""
SGLANG = """\
[2026-05-27 20:14:33 TP0] Prefill batch. #new-seq: 4, #new-token: 1024, #cached-token: 256, token usage: 0.41
[2026-05-27 20:14:38 TP0] Decode batch. #running-req: 18, #token: 16384, token usage: 0.71, accept len: 2.40, \
accept rate: 0.84, pre-allocated usage: 0.28, cuda graph: True, gen throughput (token/s): 2520.18, #queue-req: 3
[2026-05-27 20:14:40 TP0] Decode batch, #running-req: 2, #full token: 5632, accept len: 3.12, accept rate: 0.56, \
cuda graph: True, gen throughput (token/s): 95.33, #queue-req: 1
"""
LLAMA_CPP = """\
2026-05-14 22:40:29.046 |        eval time =   30387.12 ms /  2048 tokens (   14.84 ms per token)
2026-05-14 22:40:29.046 | draft acceptance rate = 0.98260 ( 1186 accepted /  1207 generated)
2026-05-14 22:41:29.046 | draft acceptance rate = 0.37500 (    3 accepted /     8 generated)
"""
RECORD = {
    "engine": "vllm", "mean_acceptance_length": 1.2325, "draft_acceptance_rate": 0.0775,
    "acceptance_histogram": {"0": 39, "1": 1, "3": 3}, "num_accepted_draft_tokens": 10, "num_draft_tokens": 129,
    "num_spec_steps": 43, "num_spec_tokens": 3, "completion_tokens": 53,
}  # fmt: skip
VLLM_ANSWER = {
    "id": "cmpl-1", "choices": [{"text": "a"}], "usage": {"completion_tokens": 7},
    "metrics": {"speculative_decoding": {
        "mean_acceptance_length": 2.0, "draft_acceptance_rate": 0.4, "acceptance_histogram": [1, 1, 1, 0],
        "num_spec_steps": 3, "num_accepted_draft_tokens": 3, "num_draft_tokens": 8, "num_spec_tokens": 3,
        "per_step_accepted": [0, 1, 2], "per_step_drafted": [3, 2, 3],
    }},
}  # fmt: skip
SGLANG_ANSWER = {
    "text": "a",
    "meta_info": {
        "spec_verify_ct": 4, "spec_num_proposed_drafts": 12, "spec_num_correct_drafts": 5, "completion_tokens": 9,
        "spec_correct_drafts_histogram": [1, 1, 2, 0],
    },
}  # fmt: skip
LLAMA_CPP_ANSWER = {
    "choices": [], "timings": {"predicted_n": 665, "predicted_ms": 20629.211, "draft_n": 604, "draft_n_accepted": 515},
}  # fmt: skip
COUNTERS = """\
# TYPE vllm:spec_decode_num_drafts_total counter
vllm:spec_decode_num_drafts_total{engine="0",model_name="m"} 40.0
vllm:spec_decode_num_draft_tokens_total{engine="0",model_name="m"} 120.0
vllm:spec_decode_num_accepted_tokens_total{engine="0",model_name="m"} 60.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="0"} 30.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="1"} 20.0
vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",model_name="m",position="2"} 10.0
"""
GAUGES = """\
# TYPE sglang:spec_accept_length gauge
sglang:spec_accept_length{engine_type="draft",tp_rank="0"} 9.7
sglang:spec_accept_length{engine_type="unified",tp_rank="0"} 2.8
sglang:spec_accept_length{engine_type="unified",tp_rank="1"} 2.8
sglang:spec_accept_rate{engine_type="unified",tp_rank="0"} 0.6
"""


def test_vllms_log_has_counts_and_positions() -> None:
    found = read_text(VLLM)
    assert found.source == "vLLM's log"
    assert [(each.rounds, each.accepted, each.kept) for each in found.tallies] == [
        (37, 92, (28, 23, 16, 12, 7, 4, 2)),
        (37, 231, (37, 37, 36, 36, 33, 29, 23)),
    ]
    assert [each.at_ms for each in found.tallies] == [0, 1000]
    summary = summarize(found)
    assert summary.emitted == 2 * 37 + 92 + 231 and "any single round" in summary.unknown


def test_vllms_rounds_follow_from_the_mean_where_drafts_were_shorter() -> None:
    """With 40 rounds of which 10 drafted two tokens only, drafted tokens over positions are not the rounds."""
    line = (
        "SpecDecoding metrics: Mean acceptance length: 2.50, Accepted throughput: 1.00 tokens/s, Drafted throughput: "
        "1.00 tokens/s, Accepted: 60 tokens, Drafted: 110 tokens, Per-position acceptance rate: 0.750, 0.500, 0.250, "
        "Avg Draft acceptance rate: 54.5%"
    )
    assert read_text(line).tallies[0].rounds == 40


def test_sglangs_log_has_means_and_no_rounds() -> None:
    found = read_text(SGLANG)
    assert found.source == "SGLang's log"
    assert [(each.length, each.rate, each.at_ms) for each in found.tallies] == [(2.40, 0.84, 0), (3.12, 0.56, 2000)]
    summary = summarize(found)
    assert summary.lengths == (2.40, 3.12)
    assert (summary.rounds, summary.tokens_per_round, summary.positions) == (None, None, None)
    assert {"how many rounds there were", "acceptance by position"} <= set(summary.unknown)


def test_llama_cpps_log_has_drafted_and_kept_tokens() -> None:
    summary = summarize(read_text(LLAMA_CPP))
    assert (summary.drafted, summary.accepted, summary.rounds) == (1215, 1189, None)


@pytest.mark.parametrize(
    "wrapped",
    [json.dumps(VLLM_ANSWER), json.dumps(VLLM_ANSWER, indent=1), f"data: {json.dumps(VLLM_ANSWER)}\n\ndata: [DONE]\n"],
    ids=["line", "document", "stream"],
)
def test_vllms_answer_has_every_round(wrapped: str) -> None:
    found = read_text(wrapped)
    assert found.source == "vLLM's answer"
    assert [(each.drafted, each.accepted) for each in found.rounds] == [(3, 0), (2, 1), (3, 2)]


def test_vllms_answer_without_the_rounds_has_a_histogram() -> None:
    counted = {
        name: value
        for name, value in VLLM_ANSWER["metrics"]["speculative_decoding"].items()  # type: ignore[index]
        if not name.startswith("per_step")
    }
    found = read_text(json.dumps({"metrics": {"speculative_decoding": counted}}))
    assert not found.rounds and found.tallies[0].kept == (2, 1, 0) and found.tallies[0].drafted == 8


def test_rounds_of_which_one_number_is_missing_are_not_made_up() -> None:
    counted = dict(VLLM_ANSWER["metrics"]["speculative_decoding"])  # type: ignore[index]
    del counted["per_step_drafted"]
    assert not read_text(json.dumps({"speculative_decoding": counted})).rounds


def test_sglangs_answer() -> None:
    tally = read_text(json.dumps(SGLANG_ANSWER)).tallies[0]
    assert (tally.rounds, tally.drafted, tally.accepted, tally.kept) == (4, 12, 5, (3, 2, 0))


def test_llama_cpps_answers_have_no_rounds() -> None:
    found = read_text(json.dumps([LLAMA_CPP_ANSWER, LLAMA_CPP_ANSWER]))
    summary = summarize(found)
    assert found.source == "llama.cpp's answer" and summary.requests == 2
    assert (summary.drafted, summary.accepted, summary.rounds) == (1208, 1030, None)
    assert summary.tokens_per_s == pytest.approx(665 / 20.629211)


def test_aiperfs_record_of_each_request() -> None:
    found = read_text(
        "\n".join(json.dumps({"metadata": {}, "metrics": {}, "spec_decode_acceptance": RECORD}) for _ in "ab")
    )
    summary = summarize(found)
    assert found.source == "AIPerf's record"
    assert summary.rounds == 86 and summary.histogram == (78, 2, 0, 6)
    assert summary.tokens_per_round == summary.tokens_per_round_by_request == pytest.approx(1 + 10 / 43)


def test_aiperfs_pooled_histogram() -> None:
    found = read_text(json.dumps({"pooled_spec_decode_acceptance_histogram": {"0": 39, "1": 1, "3": 3}}, indent=2))
    summary = summarize(found)
    assert found.source == "AIPerf's summary" and summary.accepted == 10 and summary.drafted is None
    assert [each.kept for each in summary.positions or ()] == [4, 3, 3]


@pytest.mark.parametrize("prefix", ["vllm", "llamacpp"])
def test_counters(prefix: str) -> None:
    summary = summarize(read_text(COUNTERS.replace("vllm:", f"{prefix}:")))
    assert (summary.rounds, summary.drafted, summary.accepted, summary.emitted) == (40, 120, 60, 100)
    assert [each.share for each in summary.positions or ()] == [0.75, 0.5, 0.25]


def test_sglangs_gauges_count_no_rounds_and_no_drafting_engine() -> None:
    found = read_text(GAUGES)
    assert found.tallies[0].length == pytest.approx(2.8) and summarize(found).rounds is None and found.notes


# specspecs.


def specspecs(folder: Path, rounds: list[tuple[list[int], int, int]]) -> Path:
    """A folder with the columns of its `hooks.py`, version 0.1.0."""
    import pyarrow as pa
    from pyarrow import parquet

    stamp = pa.array([datetime(2026, 11, 1)] * len(rounds), pa.timestamp("us"))
    drafts, kept, emitted = zip(*rounds, strict=True)
    table = pa.table({
        "run_id": ["r"] * len(rounds), "sequence_id": ["s"] * len(rounds),
        "step": pa.array(range(len(rounds)), pa.int32()), "t": stamp, "draft_tokens": list(drafts),
        "acceptances": [[at < n for at in range(len(d))] for d, n in zip(drafts, kept, strict=True)],
        "k": pa.array([len(d) for d in drafts], pa.int16()), "acceptance_length": pa.array(kept, pa.int16()),
        "emitted_token": pa.array(emitted, pa.int32()),
    })  # fmt: skip
    parquet.write_table(table, folder / "drafts-1-00000.parquet")
    sequences = {"run_id": ["r"], "sequence_id": ["s"], "prompt_token_ids": [[1, 2, 3]], "prompt_len": [3]}
    parquet.write_table(pa.table(sequences), folder / "sequences-1-00000.parquet")
    return folder


def test_specspecs(tmp_path: Path) -> None:
    found = read(specspecs(tmp_path, [([5, 6, 7], 2, 9), ([1, 2, 3], 0, 4)]))
    assert [(each.draft, each.accepted, each.tokens, each.position) for each in found.rounds] == [
        ((5, 6, 7), 2, (5, 6, 9), 3),
        ((1, 2, 3), 0, (4,), 6),
    ]
    assert not found.notes


def test_a_token_that_is_drafted_again_is_not_counted(tmp_path: Path) -> None:
    found = read(specspecs(tmp_path, [([5, 6, 7], 2, 9), ([9, 2, 3], 1, 4), ([4, 8, 8], 3, 5)]))
    assert [(each.draft, each.accepted) for each in found.rounds] == [((5, 6, 7), 2), ((2, 3), 0), ((8, 8), 2)]
    assert found.notes


def test_other_parquet_is_refused_in_a_sentence(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    parquet.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1nothing")
    for name in ("a", "b"):
        with pytest.raises(DraftscopeError, match=name):
            read(tmp_path / f"{name}.parquet")
    with pytest.raises(DraftscopeError, match="drafts-"):
        read(tmp_path)


# The profile.


def test_the_profile_has_both_conventions() -> None:
    """The histogram and the rates are those of a test of Model-Optimizer's own producer."""
    written = json.dumps({"pooled_spec_decode_acceptance_histogram": {"0": 40, "1": 30, "2": 30}})
    found = read_text(written)
    made = profile(found, summarize(found))
    assert made["marginal_accept_rates"] == [0.6, 0.3] and made["conditional_accept_rates"] == [0.6, 0.5]
    assert made["mean_accept_length"] == 1.9 and made["accept_length_by_k"] == {"2": 1.9}
    assert made["acceptance_length_histogram"] == {"1": 40, "2": 30, "3": 30}
    assert made["validation"]["mean_consistency"]["passed"] and made["schema_version"] == "1.0"


def test_no_profile_without_positions() -> None:
    found = read_text(SGLANG)
    with pytest.raises(DraftscopeError, match="acceptance by position"):
        profile(found, summarize(found))


# What is no log.


@pytest.mark.parametrize(
    "text", ["", "hello\n", "{}", "[1, 2]", '{"timings": {}}', '{"meta_info": {"id": 3}}', "{" * 99]
)
def test_what_says_nothing_is_refused(text: str) -> None:
    with pytest.raises(DraftscopeError, match="says nothing about rounds"):
        read_text(text)


HOSTILE = (
    {"num_spec_steps": -1}, {"num_spec_steps": True}, {"num_draft_tokens": 1e9}, {"num_spec_tokens": 10**12},
    {"acceptance_histogram": {"x": 1}}, {"acceptance_histogram": {"99999999": 1}}, {"acceptance_histogram": [None]},
    {"per_step_accepted": [4], "per_step_drafted": [3]}, {"per_step_accepted": "123", "per_step_drafted": "123"},
)  # fmt: skip


@pytest.mark.parametrize("wrong", HOSTILE, ids=str)
def test_counts_that_cannot_be_are_not_believed(wrong: dict[str, object]) -> None:
    try:
        found = read_text(json.dumps({"spec_decode_acceptance": RECORD | wrong}))
    except DraftscopeError:
        return
    assert not found.rounds and len(found.tallies[0].kept or ()) <= 4096


def test_lines_that_only_look_like_a_log_take_no_time_and_say_nothing() -> None:
    """Patterns are bounded: a line of a million digits is no reason to search for minutes."""
    for line in (
        "SpecDecoding metrics: Mean acceptance length: " + "9" * 10**6,
        "Decode batch" + ", accept len" * 10**5,
    ):
        with pytest.raises(DraftscopeError):
            read_text(line)
