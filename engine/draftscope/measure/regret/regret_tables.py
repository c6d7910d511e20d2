"""A regret report as Markdown: speeds by kind of text, the best arm of each kind, and the policies' regret."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

from draftscope.base.machine import machine_words
from draftscope.base.markdown import one_line, table
from draftscope.drafters.options import nodes_in
from draftscope.measure.regret.forms import ComparedTrees, answer, form
from draftscope.measure.regret.regret_report import RegretReport, RegretRow


def markdown(report: RegretReport) -> str:
    """Machine, method, three tables for each temperature, and what was skipped."""
    parts = [machine_words(report.machine), report.method]
    for temperature in dict.fromkeys(row.temperature for row in report.rows):
        rows = [row for row in report.rows if row.temperature == temperature]
        parts += [_speeds(temperature, rows), _winners(temperature, rows)]
        parts += _forms([each for each in report.compared if each.temperature == temperature])
        parts += [_regrets(temperature, rows)] if any(row.policy for row in rows) else []
    if report.notes:
        parts.append("Skipped:\n\n" + "\n".join(f"- {one_line(note)}" for note in report.notes))
    return "\n\n".join(parts) + "\n"


def _speeds(temperature: float, rows: Sequence[RegretRow]) -> str:
    kinds, lines = _kinds(rows), []
    for own in _by_name(rows):
        cells = {row.kind: _speed(row) for row in own}
        lines.append([own[0].name, *_form(own[0].shape), *(cells.get(kind, "-") for kind in kinds)])
    title = f"Tokens/s over plain's, T = {temperature:g} (tokens a round; ~ if every run loops), the best arm in bold:"
    head = ["arm or policy", "nodes", "deep x wide", *kinds]
    return f"{title}\n\n{table(head, lines, 'lrr' + 'r' * len(kinds))}"


def _speed(row: RegretRow) -> str:
    said = f"{row.ratio_to_plain:.2f}"
    best = not row.policy and row.regret == 0
    return f"{f'**{said}**' if best else said} ({row.tokens_per_round:.2f}){' ~' if row.looping == row.runs else ''}"


def _winners(temperature: float, rows: Sequence[RegretRow]) -> str:
    """The best and the second-best arm of each kind. If the interval contains 1, either may be the best."""
    lines = []
    for kind in _kinds(rows):
        arms = sorted((row for row in rows if row.kind == kind and not row.policy), key=lambda row: row.regret)
        second = [arms[1].name, _median(arms[1])] if len(arms) > 1 else ["-", "-"]
        lines.append([kind, arms[0].name, _form(arms[0].shape)[1], *second])
    title = f"The best arm in hindsight, T = {temperature:g}, and the second best:"
    return f"{title}\n\n{table(['kind', 'best', 'deep x wide', 'second', 'second over best'], lines, 'llrlr')}"


def _forms(compared: Sequence[ComparedTrees]) -> list[str]:
    """The question, its answer, and the numbers behind it by kind; empty if the arms are too similar."""
    if not compared:
        return []
    first, lines = compared[0], []
    for each in compared:
        ratio = each.deep_over_wide
        lines.append([each.kind, f"{ratio.median:.2f} [{ratio.low:.2f}, {ratio.high:.2f}]", each.wants])
    title = (
        "Is it true that manuals want deep narrow trees and screenplays wide shallow ones, "
        f"T = {first.temperature:g}? {answer(compared)}"
    )
    return [f"{title}\n\n{table(['kind', f'{first.deep} over {first.wide}', 'written faster with'], lines, 'lrl')}"]


def _regrets(temperature: float, rows: Sequence[RegretRow]) -> str:
    """The policies, and the arm that is best over all kinds: its regret is the cost of not knowing the kind."""
    kinds, lines = _kinds(rows), []
    by_name = _by_name(rows)
    fixed = min((own for own in by_name if not own[0].policy), key=lambda own: fmean(row.regret for row in own))
    for own in [*(own for own in by_name if own[0].policy), fixed]:
        name = own[0].name if own[0].policy else f"{own[0].name} for all kinds"
        cells = {row.kind: f"{row.regret:.1%} {_interval(row)}" for row in own}
        mean = f"{fmean(row.regret for row in own):.1%}"
        lines.append([name, *(cells.get(kind, "-") for kind in kinds), mean])
    title = f"Regret against the best arm of each kind, T = {temperature:g} [its speed over the best arm's]:"
    return f"{title}\n\n{table(['policy', *kinds, 'mean'], lines, 'l' + 'r' * (len(kinds) + 1))}"


def _interval(row: RegretRow) -> str:
    return f"[{row.ratio_to_best.low:.2f}, {row.ratio_to_best.high:.2f}]"


def _median(row: RegretRow) -> str:
    return f"{row.ratio_to_best.median:.2f} {_interval(row)}"


def _form(shape: tuple[int, ...] | None) -> tuple[str, str]:
    """Nodes of a full tree, and its levels x the nodes of its widest level."""
    if not shape:
        return ("0" if shape == () else "-"), "-"
    deep, wide = form(shape)
    return str(nodes_in(shape)), f"{deep} x {wide}"


def _kinds(rows: Sequence[RegretRow]) -> list[str]:
    return list(dict.fromkeys(row.kind for row in rows))


def _by_name(rows: Sequence[RegretRow]) -> list[list[RegretRow]]:
    found: dict[str, list[RegretRow]] = {}
    for row in rows:
        found.setdefault(row.name, []).append(row)
    return list(found.values())
