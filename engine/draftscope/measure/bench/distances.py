"""The distance of a lossy rule's output from the target's distribution, measured as in `check`.

Sampled with the real loop, outside the timed runs: the joint distribution of the first tokens after one prompt, at the
row's temperature, restricted to the target's most likely tokens so that all outcomes can be computed.
"""

from __future__ import annotations

from collections.abc import Sequence

from draftscope.decode.lab import Lab
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.systems import Label
from draftscope.measure.greedy import PROMPTS
from draftscope.measure.joint import Distance, joint_distance

TOKENS, TOP_K, SAMPLES = 4, 3, 2048  # as `draftscope check`


def distances(lab: Lab, labels: Sequence[Label], temperatures: Sequence[float]) -> dict[tuple[Label, float], Distance]:
    """By label and temperature, for lossy labels above temperature 0, where rules differ."""
    prompt = lab.encode(PROMPTS[0], TOKENS + 2)
    found = {}
    for label in labels:
        for temperature in temperatures:
            if label.lossy and temperature:
                settings = Settings.of(**label.settings, temperature=temperature, top_k=TOP_K)
                found[label, temperature] = joint_distance(lab, prompt, settings, TOKENS, SAMPLES)
    return found
