"""Settings of a model's generation_config that change what transformers' `generate` writes and that no run here reads.

Those that a run has itself are left out: temperature, top-k, top-p, min-p, the number of tokens, and the ends of text.
"""

from __future__ import annotations

from typing import Any

NEUTRAL: dict[str, object] = {  # name -> the value that changes nothing, besides None
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "bad_words_ids": [],
    "sequence_bias": {},
    "min_length": 0,
    "min_new_tokens": 0,
    "forced_bos_token_id": None,
    "forced_eos_token_id": None,
    "exponential_decay_length_penalty": None,
    "suppress_tokens": [],
    "begin_suppress_tokens": [],
    "guidance_scale": 1.0,
    "watermarking_config": None,
    "num_beams": 1,
    "penalty_alpha": 0.0,
    "typical_p": 1.0,
    "epsilon_cutoff": 0.0,
    "eta_cutoff": 0.0,
    "top_h": None,
    "stop_strings": [],
}
LONGEST = 40  # characters of a value that is shown


def not_applied(network: Any) -> tuple[str, ...]:
    """The names and values of such settings."""
    config = getattr(network, "generation_config", None)
    values = {name: getattr(config, name, None) for name in NEUTRAL}
    stated = {name: value for name, value in values.items() if value is not None and value != NEUTRAL[name]}
    return tuple(f"{name} {_short(value)}" for name, value in stated.items())


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
