"""Defines each metric, and gives the name that vLLM and Hugging Face have for the same or nearly the same thing.

    python -m draftscope.trace.glossary

prints the table as Markdown. The names were looked up in vLLM's `v1/spec_decode/metrics.py`, `benchmarks/serve.py` and
`docs/design/metrics.md`, in transformers' `generation`, in the metrics page and router of text-generation-inference
(TGI), and in optimum-benchmark's `trackers/latency.py`. Imports no torch.
"""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.base import markdown


@dataclass(frozen=True)
class Entry:
    """A field of `draftscope.trace.metrics.Metrics`. The other two are empty if there is no counterpart."""

    name: str
    meaning: str
    vllm: str = ""
    hugging_face: str = ""


GLOSSARY = (
    Entry(
        "tokens",
        "emitted tokens; tokens cut off after an end of text are not counted",
        "`vllm:generation_tokens_total`",
        "TGI: `tgi_request_generated_tokens`",
    ),
    Entry("target_forwards", "rounds; the prefill's forward is not counted"),
    Entry("num_drafts", "rounds that drafted at least one token", "`num_drafts`"),
    Entry(
        "num_draft_tokens",
        "drafted nodes, without never-accepted nodes",
        "`num_draft_tokens`",
        "transformers: `num_assistant_tokens` is what one round may draft",
    ),
    Entry(
        "num_accepted_tokens",
        "accepted and emitted tokens, without corrections and bonuses",
        "`num_accepted_tokens`",
        "of one round: `n_matches` in transformers, `tgi_request_skipped_tokens` in TGI",
    ),
    Entry(
        "mean_acceptance_length",
        "1 + accepted / rounds that drafted",
        "`mean_acceptance_length`; bench: `spec_decode_acceptance_length`",
    ),
    Entry(
        "draft_acceptance_rate",
        "accepted / drafted, without corrections and bonuses",
        "`draft_acceptance_rate`; bench: `spec_decode_acceptance_rate`; both in percent",
    ),
    Entry(
        "acceptance_rate_per_position",
        "rounds that accepted position k / rounds that drafted",
        "`num_accepted_tokens_per_pos` / `num_drafts`; bench: `spec_decode_per_position_acceptance_rates`",
    ),
    Entry(
        "conditional_acceptance_per_position",
        "of the rounds that reached and drafted position k, the share that accepted it",
    ),
    Entry("tokens_per_round", "emitted / rounds, including rounds without a draft"),
    Entry(
        "tokens_per_s",
        "emitted / (prefill + rounds), on the lane's own clock",
        "`output_throughput`: tokens of all requests / duration of the benchmark",
        "optimum-benchmark: `decode.throughput`, without the prefill",
    ),
    Entry(
        "ttft_ms",
        "prefill and first round",
        "`ttft`, `vllm:time_to_first_token_seconds`: including waiting time",
        "optimum-benchmark: `prefill.latency`",
    ),
    Entry(
        "tpot_ms",
        "time after the first round / tokens after it",
        "`tpot`: (`e2el` - `ttft`) / (tokens - 1)",
        "TGI: `tgi_request_mean_time_per_token_duration`, all inference time / all tokens",
    ),
    Entry(
        "itl_ms",
        "gaps between tokens, 0 within a round: p50, p95, p99",
        "",
        "optimum-benchmark, without an assistant: `per_token.latency`",
    ),
    Entry(
        "icl_ms",
        "gaps between rounds, which show the jitter: p50, p95, p99",
        "`itl`: gaps between streamed chunks; `vllm:inter_token_latency_seconds`: between engine steps",
    ),
    Entry("stage_ms", "time in propose, verify, accept, commit and host, summed over the run"),
)


def table() -> str:
    """Markdown: one row for each metric."""
    rows = [(f"`{entry.name}`", entry.meaning, entry.vllm or "-", entry.hugging_face or "-") for entry in GLOSSARY]
    return markdown.table(("name", "is", "vLLM", "Hugging Face"), rows)


if __name__ == "__main__":
    print(table())
