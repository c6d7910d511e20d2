"""Figures of a calibration that no machine can have: something else ran while they were measured."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from draftscope.base.costs import PLAIN, Calibration, Verify

FALLS = 1.25  # times: so much longer with fewer rows, and beyond the noise, is not the machine's
ERRORS = 3  # standard errors
SMALL = 0.1  # of the target's bytes: a step of such a draft takes no longer than a round of plain decoding
LEAST_OVERHEAD = 5.0  # ms: a round beside its forwards may take so long however small the model is


def impossible(calibration: Calibration, draft_bytes: Mapping[str, int]) -> list[str]:
    """A sentence for each impossible figure, with its values. `draft_bytes`: the weights that a drafter's step reads;
    a drafter without a model is left out."""
    points = [point for point in calibration.verify if point.context == calibration.context]
    said = [*falling(points), *_slow(calibration)]
    for name, size in draft_bytes.items():
        if name in calibration.drafting and size < SMALL * calibration.target_bytes and calibration.c(name) > 1:
            said.append(
                f"A draft step of {name} took {calibration.rounds_of(name).step:.2f} ms and a round of plain decoding "
                f"{calibration.plain_ms:.2f} ms, though the draft has {size / calibration.target_bytes:.0%} of the "
                "target's bytes."
            )
    return said


def falling(points: Iterable[Verify]) -> list[str]:
    """Forwards that took much less time than smaller ones: of fewer rows, or of fewer sequences."""
    every = sorted(points, key=lambda point: (point.batch, point.width))
    said = []
    for large in every:
        smaller = [point for point in every if point.batch <= large.batch and point.width <= large.width]
        least = max(smaller, key=lambda point: point.ms)
        if least.ms > FALLS * large.ms and least.ms - large.ms > ERRORS * (least.noise + large.noise):
            said.append(
                f"A forward of {_rows(large)} took {large.ms:.2f} ms and one of {_rows(least)} {least.ms:.2f} ms: "
                "more rows cannot take less time."
            )
    return said


def _slow(calibration: Calibration) -> list[str]:
    """Rounds that take longer beside their forwards than a whole round of plain decoding does."""
    most = max(LEAST_OVERHEAD, calibration.verify_ms(1) if calibration.verify else 0.0)
    return [
        f"{'A round of plain decoding' if name == PLAIN else f'A round of {name}'} took {one.overhead:.2f} ms beside "
        f"its forwards, and a forward of one row {calibration.verify_ms(1):.2f} ms."
        for name in calibration.drafting
        if (one := calibration.rounds_of(name)).overhead > most
    ]


def _rows(point: Verify) -> str:
    return f"{point.width} row{'s' if point.width > 1 else ''} at batch {point.batch}"
