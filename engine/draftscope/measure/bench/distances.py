"""What a lossy rule costs in distribution: how far what it writes lies from the target's own, measured as `check`
measures it.

Sampled through the real loop, after the clock: the joint distribution of the first tokens behind one prompt, at the
row's temperature, cut down to the target's likeliest tokens so that all outcomes can be worked out.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftscope.decode.lab import Lab
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.systems import Label
from draftscope.measure.check import PROMPTS, Distance, joint_distance

TOKENS, TOP_K, SAMPLES = 4, 3, 2048  # as `draftscope check`


def distances(lab: Lab, labels: Sequence[Label], temperatures: Sequence[float]) -> dict[tuple[Label, float], Distance]:
    """By label and temperature, of the lossy labels; at temperature 0 every rule writes the target's tokens."""
    prompt = lab.encode(PROMPTS[0], TOKENS + 2)
    found = {}
    for label in labels:
        for temperature in temperatures:
            if label.lossy and temperature:
                settings = Settings.of(**label.settings, temperature=temperature, top_k=TOP_K)
                found[label, temperature] = joint_distance(lab, prompt, settings, TOKENS, SAMPLES)
    return found
