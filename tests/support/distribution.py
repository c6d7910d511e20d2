"""The joint distribution that a drafter's runs write, against the target's own."""

from __future__ import annotations

from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure.findings import FALSE_ALARM, Finding
from draftscope.measure.joint import along, chi_square, expected_joint, sampled_joint
from draftscope.measure.sampled import MIN_FREEDOM


def distribution_test(
    engine: DecodingEngine, prompt: str, settings: Settings, length: int, samples: int, batch: int = 2000,
    whole: bool = False,
) -> Finding:  # fmt: skip
    """Chi-square test of the first `length` tokens against the target's distribution, computed path by path. `whole`:
    rows are decoded to their ends, for drafters that decide for all of a batch together."""
    tokens = engine.encode(prompt, length + 2)
    expected = expected_joint(engine, tokens, settings, length)
    observed = along(sampled_joint(engine, tokens, settings, length, samples, batch, whole), expected)
    statistic, freedom, p_value = chi_square(observed, expected, samples)
    detail = f"{settings}: chi-square {statistic:.1f} with {freedom} degrees of freedom, p = {p_value:.3g}"
    passed = freedom >= MIN_FREEDOM and p_value >= FALSE_ALARM
    return Finding(settings.drafter, passed, detail, samples, p_value=p_value)
