"""Settings of a generation_config that no run here applies are said: at load, in the run's record, and on the page."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import GenerationConfig

import draftscope
from draftscope.base.errors import GenerationWarning
from draftscope.models.loading.generation import NEUTRAL, not_applied
from draftscope_app.engine.opening_models import introduced
from tests.support.command import command_line
from tests.support.models import byte_tokenizer, random_llama
from tests.support.node import call

STATED: dict[str, Any] = {  # a value of each, with which `generate` writes something else or refuses to
    "repetition_penalty": 1.1, "encoder_repetition_penalty": 1.2, "no_repeat_ngram_size": 2,
    "encoder_no_repeat_ngram_size": 3, "bad_words_ids": [[5]], "sequence_bias": [[[5], 2.0]], "min_length": 9,
    "min_new_tokens": 4, "forced_bos_token_id": 5, "forced_eos_token_id": 0,
    "exponential_decay_length_penalty": [4, 1.5], "suppress_tokens": [5], "begin_suppress_tokens": [6],
    "guidance_scale": 1.5, "watermarking_config": {"bias": 2.5}, "num_beams": 2, "penalty_alpha": 0.6,
    "typical_p": 0.9, "epsilon_cutoff": 0.1, "eta_cutoff": 0.1, "top_h": 0.5, "stop_strings": ["end"],
}  # fmt: skip


def saved(folder: Path, **stated: Any) -> Path:
    """A model whose generation_config states this."""
    network = random_llama(3, 258)
    network.save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    GenerationConfig(eos_token_id=0, pad_token_id=1, **stated).save_pretrained(folder)
    return folder


def test_every_setting_has_a_case() -> None:
    assert NEUTRAL.keys() == STATED.keys()


@pytest.mark.parametrize("name", STATED)
def test_a_setting_that_is_not_applied_is_named(name: str) -> None:
    network = random_llama(3, 20, layers=1)
    assert not_applied(network) == ()
    setattr(network.generation_config, name, STATED[name])
    (said,) = not_applied(network)
    assert said.startswith(f"{name} ")
    setattr(network.generation_config, name, NEUTRAL[name])
    assert not_applied(network) == ()


def test_a_text_that_generate_does_not_write_is_said_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Qwen2.5 is published with a repetition_penalty of 1.1, and greedy texts here were not those of `generate`."""
    folder = saved(tmp_path, repetition_penalty=1.3, min_new_tokens=6, top_k=20, temperature=0.6, do_sample=True)
    with pytest.warns(GenerationWarning, match="has repetition_penalty 1.3, min_new_tokens 6 in its generation_config"):
        engine = draftscope.load(folder, dtype="float32", threads=1)
    run = engine.decode("The quick brown fox", "plain", max_new_tokens=24, raw=True)
    ids = torch.tensor([byte_tokenizer()("The quick brown fox").input_ids])
    theirs = engine.target.network.generate(ids, do_sample=False, max_new_tokens=24)[0, ids.shape[1] :].tolist()
    assert run.token_ids != theirs
    assert run.start.not_applied == "repetition_penalty 1.3, min_new_tokens 6"
    assert "; not applied: repetition_penalty 1.3, min_new_tokens 6 of its" in introduced(engine, 1.0)
    start = run.start.model_dump(exclude_none=True)
    (line,) = call(["run/provenance.js"], [("provenance", [start])])
    assert line.endswith("not applied, of its generation_config: repetition_penalty 1.3, min_new_tokens 6")
    decode = command_line(capsys, "decode", "--target", str(folder), "--dtype", "float32", "--threads", "1")
    said = decode("abc", "--drafter", "ngram", "--max-new-tokens", "4").err
    assert said.count("has repetition_penalty 1.3, min_new_tokens 6 in its generation_config") == 1
    assert "GenerationWarning" not in said


def test_nothing_is_said_of_settings_that_a_run_has_itself(tmp_path: Path) -> None:
    folder = saved(
        tmp_path, do_sample=True, temperature=0.7, top_k=20, top_p=0.8, max_length=99, repetition_penalty=1.0
    )
    with draftscope.load(folder, dtype="float32", threads=1) as engine:
        assert engine.decode("ab", max_new_tokens=2).start.not_applied is None
