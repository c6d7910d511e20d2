"""One audit of a server, for the command and for pytest: what it may cost at most, the audit, and its exit code."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import BaseModel, ConfigDict

from draftscope.base.errors import DraftscopeError, read_bytes
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, option

if TYPE_CHECKING:
    from draftscope.servers.audit.audit import AuditReport
    from draftscope.servers.audit.audit_events import AuditProgress
    from draftscope.servers.audit.plan import Plan
    from draftscope.servers.inside.decision_audit import InsideReport

MAX_PROMPTS = 64
ASKED, COST, CERTAINTY = "What is asked", "What it may cost", "Certainty"


class Options(BaseModel):
    """What an audit takes beside the server's address, the target and the sampling."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    plain: str | None = option(
        "a plain server of the same model: it writes the greedy texts, and without --target samples", None, ASKED, "URL"
    )
    model: str | None = option("the model to ask for, if there are several", None, ASKED, "NAME")
    prompts: Path | None = option("prompts of your own, one a line", None, ASKED, "FILE")
    chat: bool = option("put prompts into the model's chat template", False, ASKED)
    length: int = option("tokens of each sampled text", 12, ASKED)
    concurrency: int = option("requests at once", 4, ASKED)
    tokens: int = option("tokens that the server is asked for at most", 5000, COST)
    minutes: float = option("minutes of asking at most", 5.0, COST, "M")
    false_alarm: float = option("chance of a difference found where there is none", 1e-6, CERTAINTY, "P")
    tolerance: float | None = option(
        "what rounding may cost, in nats a token; default: measured", None, CERTAINTY, "NATS"
    )


def audited(url: str, chosen: Options, loading: Given, sampling: Given) -> AuditReport:
    """Audits a server. Raises `DraftscopeError` where it cannot be tested."""
    from draftscope.base.steps import last
    from draftscope.servers.field import Field
    from draftscope.servers.wire import WireLimits

    if "target" not in loading and chosen.plain is None:
        raise DraftscopeError(
            "An audit needs the weights that the server should run (--target), or a plain server of the same model "
            "(--plain)."
        )
    texts = _read(chosen.prompts)
    plan = _plan(chosen, sampling, len(texts))
    servers = {"audited": url} | ({} if chosen.plain is None else {"plain": chosen.plain})
    models = {} if chosen.model is None else dict.fromkeys(servers, chosen.model)
    with Field.open(servers, models=models, limits=WireLimits(total=plan.seconds)) as field:
        field.refuse_unauditable()
        terminal.print_note(_cost(plan, chosen))
        with _watched(plan) as watch:
            engine = command_options.load(command_options.models(loading)[0]) if "target" in loading else None
            return last(replace(field, engine=engine).audit(plan, texts, chosen.chat), watch)


def audited_inside(url: str, chosen: Options, sampling: Given) -> InsideReport:
    """Audits what a server's own recorder saw. Raises `DraftscopeError` where there is none."""
    from draftscope.servers.inside.decision_audit import InsidePlan, audit_inside
    from draftscope.verify.sampling import Sampling

    settings = Sampling.of(command_options.settings({"temperature": 1.0} | dict(sampling)))
    plan = InsidePlan(
        settings, chosen.tokens, chosen.length, chosen.concurrency, _seconds(chosen), chosen.model, chosen.false_alarm
    )
    return audit_inside(url, _read(chosen.prompts), plan)


def exit_code(report: AuditReport, known: frozenset[str] = frozenset()) -> ExitCode:
    """`known`: the differences of a baseline, which do not count."""
    if set(report.differences) - known:
        return ExitCode.FAILED
    if report.incomplete:
        return ExitCode.NOT_DONE
    return ExitCode.UNDECIDED if report.undecided else ExitCode.OK


def _plan(chosen: Options, sampling: Given, prompts: int) -> Plan:
    """As many samples as the tokens allow after the texts that are always asked for."""
    from draftscope.servers.audit.audit import always_asked
    from draftscope.servers.audit.plan import Plan
    from draftscope.verify.sampling import Sampling

    settings = command_options.settings({"temperature": 1.0} | dict(sampling))
    first = always_asked(prompts)
    samples = (chosen.tokens - first) // max(chosen.length, 1)
    if samples < 1:
        least = first + max(chosen.length, 1)
        raise DraftscopeError(
            f"--tokens {chosen.tokens}: {prompts} prompts take {first} before sampling; give {least} or more."
        )
    return Plan(
        Sampling.of(settings), samples, chosen.length, _seconds(chosen), chosen.concurrency, chosen.false_alarm,
        chosen.tolerance, settings.seed,
    )  # fmt: skip


def _seconds(chosen: Options) -> float:
    if not 0 < chosen.minutes < math.inf:
        raise DraftscopeError(f"--minutes {chosen.minutes:g}: choose a time above 0.")
    return 60 * chosen.minutes


def _cost(plan: Plan, chosen: Options) -> str:
    sampled = "" if plan.sampling.greedy else f", {plan.samples:,} samples of {plan.tokens} among them"
    return (
        f"the audit asks for {chosen.tokens:,} tokens at most{sampled}, within {chosen.minutes:g} minutes; it ends "
        "earlier where a difference is clear."
    )


@contextmanager
def _watched(plan: Plan) -> Iterator[Callable[[AuditProgress | None], None]]:
    """How far the audit is and what the evidence says: a bar on a terminal's stderr, elsewhere a line each tenth."""
    with terminal.progress("samples") as bar:
        task = bar.add_task("Greedy texts", total=plan.samples)
        tenths = 0

        def watch(state: AuditProgress | None) -> None:
            nonlocal tenths
            if state is None or not state.texts:
                return
            done = state.texts
            words = f"Evidence {max(state.evidence, 0):.1f} of {state.needed:.1f} nats"
            bar.update(task, completed=done, description=words)
            if bar.disable and 10 * done // plan.samples > tenths:
                tenths = 10 * done // plan.samples
                terminal.print_note(f"{done:,} of {plan.samples:,} samples in {state.seconds:.0f} s; {words.lower()}.")

        yield watch


def _read(prompts: Path | None) -> Sequence[str]:
    """The prompts, one a line; without a file, our own."""
    from draftscope.servers.audit.plan import AUDIT_PROMPTS

    if prompts is None:
        return AUDIT_PROMPTS
    try:
        text = read_bytes(prompts, "The prompt file").decode()
    except UnicodeDecodeError:
        raise DraftscopeError(f"--prompts {prompts}: it holds no text; give a text file.") from None
    lines = [line for line in text.splitlines() if line.strip()]
    if not 0 < len(lines) <= MAX_PROMPTS:
        raise DraftscopeError(f"--prompts {prompts}: {len(lines)} prompts; give 1 to {MAX_PROMPTS}, one a line.")
    return lines
