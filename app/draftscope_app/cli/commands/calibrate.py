"""`draftscope calibrate`: what rounds cost on this machine, measured once a pair and kept."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from draftscope.base.costs import PLAIN
from draftscope_app.cli.commands import options

if TYPE_CHECKING:
    from draftscope.base.costs import Calibration

WIDTHS = (1, 2, 3, 5, 9, 17, 33, 65)
GAMMAS = (1, 2, 3, 4, 6, 8)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--again", action="store_true", help="measure even where this was measured before")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    options.add_loading(parser)


def run(args: argparse.Namespace) -> int:
    from draftscope.base import costs as calibration
    from draftscope.decode.calibrate import calibration_of, measure

    lab = options.load(args)
    with options.waiting("Measuring"):
        found = measure(lab) if args.again else calibration_of(lab)
    if args.again:
        calibration.keep(found)
    print(found.model_dump_json() if args.json else _told(found))
    return 0


def _told(found: Calibration) -> str:
    own = found.belongs
    lines = [
        f"{own.target}, draft {own.draft or 'none'}; {own.device}, {own.dtype}, {own.threads} threads, {found.created}",
        f"One round of plain decoding: {found.plain_ms:.2f} ms, {found.rounds_of(PLAIN).overhead:.2f} of them no "
        "forward.",
        "",
        f"v, a verify forward divided by that round, behind {found.context} tokens:",
        *_verify(found),
        "",
        *_drafting(found),
        f"Copy {found.machine.copy_gb_s:.1f} GB/s, product {found.machine.matmul_gflop_s:.0f} GFLOP/s; the target's "
        f"forward reads its weights at {100 * found.bandwidth_share:.0f}% of the copy's rate.",
        _bits(found),
    ]
    return "\n".join(lines)


def _verify(found: Calibration) -> list[str]:
    batches = sorted({point.batch for point in found.verify})
    lines = ["  batch \\ rows " + "".join(f"{width:>7}" for width in WIDTHS)]
    for batch in batches:
        measured = {point.width for point in found.verify if point.batch == batch and point.context == found.context}
        cells = (f"{found.verify_ms(w, batch) / found.plain_ms:7.2f}" if w in measured else f"{'':>7}" for w in WIDTHS)
        lines.append(f"  {batch:>12} " + "".join(cells))
    return lines


def _drafting(found: Calibration) -> list[str]:
    """For each drafter: c, and the acceptance length from which a draft of each length pays, alone and in batches."""
    lines = []
    for name, own in found.drafting.items():
        if name == PLAIN:
            continue
        one = found.rounds_of(name)
        lines.append(f"{name}: c = {found.c(name):.3f} (a draft step {one.step:.2f} ms), o = {one.overhead:.2f} ms")
        for batch in sorted(each.batch for each in own):
            costs = ", ".join(f"gamma {gamma} above {found.round_cost(name, gamma, batch):.2f}" for gamma in GAMMAS)
            lines.append(f"  batch {batch}: pays where a round emits more tokens a sequence than it costs: {costs}")
        lines.append("")
    return lines


def _bits(found: Calibration) -> str:
    if not found.differing_widths:
        return "The first row of a forward is bit for bit the same at every width: greedy lanes agree exactly."
    widths = ", ".join(map(str, found.differing_widths))
    return (
        f"A row's last bits depend on how many rows go with it (widths {widths}): greedy lanes may part at near ties."
    )
