"""TensorRT-LLM: its settings for advice. Its servers are not asked."""

from __future__ import annotations

from draftscope.servers.programs.program import Program, WantedChain


def _settings(wanted: WantedChain) -> str:
    """Its schedule maps the largest batch of each draft length to that length; beyond the last one it is off."""
    name = PROGRAM.drafters[wanted.kind]
    lines = ["speculative_config:", f"  decoding_type: {name}", f"  max_draft_len: {wanted.gamma}"]
    if wanted.has_model:
        lines.append(f"  speculative_model: {wanted.model}")
    if len(wanted.schedule) > 1:
        ranges = ", ".join(f"{part.last}: {part.gamma}" for part in wanted.schedule if part.gamma)
        lines[2] = f"  max_draft_len: {wanted.max_gamma}"
        lines.append(f"  draft_len_schedule: {{{ranges}}}")
    return "\n".join(lines)


PROGRAM = Program(
    kind="tensorrt-llm",
    title="TensorRT-LLM",
    names={"draft": "DraftTarget", "ngram": "NGram"},
    settings=_settings,
    checked="compared with the documentation of TensorRT-LLM 1.4.0rc1, not run",
)
