"""Regret: how much slower a policy is than the best arm in hindsight, by kind of text.

Every arm is also run alone on the same prompts; arms and policies take turns within each repeat, as systems do in a
benchmark. A speed is all tokens over all seconds of a kind, a ratio of sums like the policies' own reward. The best arm
is chosen from the same runs that it is compared with, so regret is overestimated rather than underestimated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from draftscope import drafters
from draftscope.base.prompts import Prompt
from draftscope.decode.lab import Lab
from draftscope.drafters.policy.arms import arms_of
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.cases import cases
from draftscope.measure.bench.plan import BenchPlan
from draftscope.measure.bench.report import machine
from draftscope.measure.bench.rounds import KeptStep, Rounds
from draftscope.measure.bench.rows import loop_share
from draftscope.measure.bench.runner import Bench, BenchRun
from draftscope.measure.bench.statistics import LOOP, bootstrap
from draftscope.measure.bench.systems import OWN, PLAIN, Case, Label, System, Write, Written
from draftscope.measure.regret.forms import ComparedTrees, unlike
from draftscope.measure.regret.regret_report import RegretReport, RegretRow
from draftscope.measure.regret.regret_tables import markdown


class Player(System):
    """An arm alone, or a policy over all arms, through the engine's own loop."""

    def __init__(self, lab: Lab, name: str, settings: Settings) -> None:
        self.label = Label(OWN, name)
        self._lab = lab
        self._settings = settings

    def prepare(self, case: Case, tokens: int, seed: int) -> Write:
        more = {"temperature": case.temperature, "max_new_tokens": tokens, "seed": seed}
        settings = Settings.of(**self._settings.model_dump() | more)
        prompts = [list(prompt) for prompt in case.prompts]

        def write() -> Written:
            session = self._lab.session_of(prompts, settings, tuple(range(case.batch)), ends=False)
            kept = [KeptStep.of(step) for step in session.steps()]
            return Written([transcript.tokens for transcript in session.transcripts], kept)

        return write


def regret(
    lab: Lab,
    plan: BenchPlan,
    texts: Mapping[str, Sequence[Prompt]],
    arms: tuple[str, ...],
    policies: tuple[str, ...],
    notes: Sequence[str] = (),
) -> RegretReport:
    """Runs plain, every arm and every policy over the arms. `notes` come first in the report's notes.

    Raises `DraftscopeError` for an invalid arm, one that these models cannot play, or if nothing could be measured.
    """
    base = Settings.of(drafter="bandit", arms=arms)
    fixed = arms_of(base, drafters.find)
    lab.session_of([[0]], base, (0,))  # raises for an arm that these models cannot play
    todo, unreadable = cases(lab, plan, texts)
    systems: list[System] = [Player(lab, PLAIN.drafter, Settings.of(drafter=PLAIN.drafter))]
    systems += [Player(lab, arm.name, arm.settings) for arm in fixed if arm.name != PLAIN.drafter]
    systems += [Player(lab, name, base.model_copy(update={"policy": name})) for name in policies]
    measuring = Bench(plan, systems, todo)
    runs = measuring.runs()
    shapes = {arm.name: arm.shape for arm in fixed}
    found = rows(runs, shapes, policies)
    left_out = [*notes, *unreadable, *measuring.notes]
    return RegretReport(machine(lab), method(plan), plan, arms, policies, found, compared(runs, shapes), left_out)


def save(report: RegretReport, folder: Path) -> str:
    """Writes `regret.json` and `regret.md`; returns the Markdown."""
    text = markdown(report)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "regret.json").write_text(report.as_json(), encoding="utf-8")
    (folder / "regret.md").write_text(text, encoding="utf-8")
    return text


def method(plan: BenchPlan) -> str:
    """How it was measured."""
    return (
        f"{plan.tokens} tokens per text, including prefill; ends of text are ignored; {plan.repeats} interleaved "
        "repeats after one warm-up pass; every text starts with a new policy. Speeds are all tokens over all seconds "
        "of a kind. Regret is 1 - speed / that of the best arm of the kind, which is chosen from these same runs, so "
        "it is rather overestimated. In brackets the 95% bootstrap interval of the speed over the best arm's, within "
        "the same repeat of the same prompt."
    )


def rows(
    runs: Sequence[BenchRun], arms: Mapping[str, tuple[int, ...] | None], policies: Sequence[str]
) -> list[RegretRow]:
    """A row for every arm and policy on every kind at every temperature; `arms` are the arms' shapes."""
    cells: dict[tuple[float, str], dict[str, list[BenchRun]]] = {}
    for run in runs:
        by_name = cells.setdefault((run.case.temperature, run.case.kind), {})
        by_name.setdefault(run.label.drafter, []).append(run)
    found = []
    for by_name in cells.values():
        best = max((by_name[name] for name in arms if name in by_name), key=_speed)
        for name in (name for name in (*arms, *policies) if name in by_name):
            row = _row(by_name[name], by_name[PLAIN.drafter], best)
            found.append(replace(row, policy=name in policies, shape=arms.get(name)))
    return found


def compared(runs: Sequence[BenchRun], shapes: Mapping[str, tuple[int, ...] | None]) -> list[ComparedTrees]:
    """The two most different trees among the arms, for each kind at each temperature."""
    pair = unlike(shapes)
    if pair is None:
        return []
    cells: dict[tuple[float, str], list[BenchRun]] = {}
    for run in runs:
        cells.setdefault((run.case.temperature, run.case.kind), []).append(run)
    found = []
    for (temperature, kind), own in cells.items():
        deep, wide = ([run for run in own if run.label.drafter == name] for name in pair)
        if ratios := _ratios(deep, wide):
            found.append(ComparedTrees(kind, temperature, *pair, bootstrap([ratios]), len(ratios)))
    return found


def _row(runs: Sequence[BenchRun], plain: Sequence[BenchRun], best: Sequence[BenchRun]) -> RegretRow:
    case, speed = runs[0].case, _speed(runs)
    return RegretRow(
        name=runs[0].label.drafter,
        policy=False,
        shape=None,
        kind=case.kind,
        temperature=case.temperature,
        tokens_per_s=speed,
        ratio_to_plain=speed / _speed(plain),
        regret=1 - speed / _speed(best),
        ratio_to_best=bootstrap([_ratios(runs, best)]),
        tokens_per_round=Rounds.joined([run.rounds for run in runs if run.rounds]).tokens_per_round(),
        looping=sum(loop_share(run) > LOOP for run in runs),
        runs=len(runs),
    )


def _speed(runs: Sequence[BenchRun]) -> float:
    return sum(len(ids) for run in runs for ids in run.ids) / sum(run.seconds for run in runs)


def _ratios(runs: Sequence[BenchRun], others: Sequence[BenchRun]) -> list[float]:
    """Speed over the other's in the same repeat of the same prompt; all runs write equally many tokens."""
    theirs = {(run.repeat, run.case.number): run.seconds for run in others}
    pairs = ((theirs.get((run.repeat, run.case.number)), run.seconds) for run in runs)
    return [other / own for other, own in pairs if other is not None]
