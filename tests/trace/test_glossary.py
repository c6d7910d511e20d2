"""The glossary: every metric with its denominator; names that can be asked for here exist."""

from __future__ import annotations

from inspect import getsource

from transformers import GenerationConfig
from transformers.generation import utils

from draftscope.trace.glossary import GLOSSARY
from draftscope.trace.metrics import Metrics


def test_every_metric_is_explained_once_and_in_order() -> None:
    assert [entry.name for entry in GLOSSARY] == list(Metrics.model_fields)


def test_a_rate_says_what_it_is_divided_by() -> None:
    for entry in GLOSSARY:
        if any(word in entry.name for word in ("rate", "acceptance", "_per_", "tpot")):
            assert " / " in entry.meaning or "the share" in entry.meaning, entry.name


def test_transformers_names_are_transformers_own() -> None:
    assert hasattr(GenerationConfig(), "num_assistant_tokens")
    assert "n_matches" in getsource(utils)
