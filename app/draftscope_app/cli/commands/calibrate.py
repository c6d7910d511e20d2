"""`draftscope calibrate`: what rounds cost on this machine, measured once a pair and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from draftscope.base.costs import PLAIN
from draftscope.base.errors import DraftscopeError
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, takes
from draftscope_app.cli.terminal import Table
from draftscope_app.engine.plural import count

if TYPE_CHECKING:
    from draftscope.base.costs import Calibration

WIDTHS = (1, 2, 3, 4, 5, 7, 9, 17, 33, 65)
GAMMAS = (1, 2, 3, 4, 6, 8)


@takes(loading=command_options.MODEL_OPTIONS)
def calibrate(
    loading: Given,
    drafter: Annotated[
        str, typer.Option(metavar="NAME,...", help="drafters to measure; default: all that can run")
    ] = "",
    again: Annotated[bool, typer.Option("--again", help="measure again what was measured before")] = False,
    json: command_options.Json = False,
) -> int:
    """Measure what a round costs on this machine. The result is kept, so that each pair is measured once.

    Nothing is kept, and the exit code is 3, where other processes disturbed it or a figure is impossible.
    """
    from draftscope import drafters
    from draftscope.base import costs
    from draftscope.base.steps import last
    from draftscope.decode.availability import refuse_unavailable
    from draftscope.decode.calibration import calibration_of, drafting_of

    names = [name.strip() for name in drafter.split(",") if name.strip()]
    for name in names:
        drafters.find(name)
    chosen, _ = command_options.models(loading)
    engine = command_options.load(chosen)
    for name in names:
        refuse_unavailable(engine, drafters.find(name))
        if not drafting_of(engine, [name]):
            raise DraftscopeError(f"--drafter {name}: its rounds are not calibrated; 'draftscope bench' measures it.")
    with terminal.show_progress("Calibrating") as watch:
        calibration = last(calibration_of(engine, watch, names, again))
    if calibration.doubts:
        for sentence in (*calibration.doubts, costs.NOT_KEPT):
            terminal.print_note(sentence)
    elif costs.load_saved(calibration.measured_for) is None:
        terminal.print_note(
            f"'{costs.calibration_folder()}' cannot be written, so this is not kept; set DRAFTSCOPE_CACHE to another "
            "folder."
        )
    if json:
        print(calibration.model_dump_json())
    else:
        _show(calibration)
    return ExitCode.UNDECIDED if calibration.doubts else ExitCode.OK


def _show(saved: Calibration) -> None:
    from draftscope.models.native.available import instructions

    pair = saved.measured_for
    processor = f"{pair.device} ({instructions()})" if pair.device == "CPU" else pair.device
    place = f"{processor}, {pair.dtype}, {count(pair.threads, 'thread')}"
    print(f"{pair.target}, draft {pair.draft or 'none'}; {place}, {saved.created}")
    print(
        f"One round of plain decoding: {saved.plain_ms:.2f} ms, of which {saved.rounds_of(PLAIN).overhead:.2f} ms are "
        "spent outside the forward.\n"
    )
    terminal.show(verify_table(saved))
    print(
        "\nDrafting pays where a round emits more tokens for each sequence than these, by batch and gamma. At batch 1 "
        "each is gamma x (c + j) + v(gamma + 1 rows) + o, in rounds of plain decoding:\n"
    )
    for table in drafting_tables(saved):
        terminal.show(table)
        print()
    print(
        f"Copy {saved.machine.copy_gb_s:.1f} GB/s, product {saved.machine.matmul_gflop_s:.0f} GFLOP/s; the target's "
        f"forward reads its weights at {100 * saved.bandwidth_share:.0f}% of the copy's rate.\n"
        f"{_noise(saved)}{_bits(saved)}"
    )


def verify_table(saved: Calibration) -> Table:
    """v by batch and number of rows."""
    rows = []
    for batch in sorted({point.batch for point in saved.verify}):
        measured = {point.width for point in saved.verify if point.batch == batch and point.context == saved.context}
        cells = [f"{saved.verify_ms(w, batch) / saved.plain_ms:.2f}" if w in measured else "" for w in WIDTHS]
        rows.append([f"{batch}", *cells])
    title = f"v: a verify forward behind {saved.context} tokens, divided by that round, by batch and rows"
    return Table(["batch", *map(str, WIDTHS)], rows, frozenset(range(len(WIDTHS) + 1)), title)


def drafting_tables(saved: Calibration) -> list[Table]:
    """For each drafter: c, and the tokens a round must emit for each sequence before drafting pays, by batch."""
    tables = []
    for name, rounds_by_batch in saved.drafting.items():
        if name == PLAIN:
            continue
        one = saved.rounds_of(name)
        costs = [
            [f"{batch}", *(f"{saved.round_cost(name, gamma, batch):.2f}" for gamma in GAMMAS)]
            for batch in sorted(rounds.batch for rounds in rounds_by_batch)
        ]
        parts = (
            ("c", one.step, "a draft step"),
            ("j", one.accept_step, "judging a token"),
            ("o", one.overhead, "the rest"),
        )
        title = f"{name}: " + ", ".join(
            f"{symbol} = {ms / saved.plain_ms:.3f} ({what}, {ms:.2f} ms)" for symbol, ms, what in parts
        )
        tables.append(Table(["batch", *map(str, GAMMAS)], costs, frozenset(range(len(GAMMAS) + 1)), title))
    return tables


def _noise(saved: Calibration) -> str:
    """Where a verify forward cannot be told from one of a single row."""
    curve = saved.curve
    lost = [w for w, v, noise in zip(curve.widths, curve.v, curve.noise, strict=True) if w > 1 and v - 1 < 2 * noise]
    if not lost:
        return ""
    widths = ", ".join(map(str, lost))
    return f"With {widths} rows the difference from one row is within the noise of the measurement.\n"


def _bits(saved: Calibration) -> str:
    """What holds of greedy text, for drafters of chains and of trees: a sentence each."""
    return "\n".join(_bits_of(saved, branches) for branches in sorted({shape.branches for shape in saved.row_rounding}))


def _bits_of(saved: Calibration, branches: bool) -> str:
    shapes = [shape for shape in saved.row_rounding if shape.branches == branches]
    rows, differing = sum(shape.rows for shape in shapes), sum(shape.differing for shape in shapes)
    what = f"Rows of a {'tree' if branches else 'chain'}"
    who = f"greedy text of {'tree' if branches else 'chain'} drafters"
    if not differing:
        return f"{what}: all {rows} tried have the bits of a token decoded alone; {who} should equal plain's exactly."
    at = f"{differing} of {rows} tried differ from a token decoded alone"
    widths = [] if branches else sorted(shape.width for shape in shapes if shape.differing)
    if widths:
        at += f" (widths {', '.join(map(str, widths))})"
    largest = max(shape.largest for shape in shapes)
    return f"{what}: {at}, by up to {largest:.2g} in a logit; {who} may part from plain's at a tie."
