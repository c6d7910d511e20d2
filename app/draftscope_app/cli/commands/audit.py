"""`draftscope audit`: is a server's output still its target's? Exit code 1 where a difference was found."""

from __future__ import annotations

import json as jsonlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from pydantic import BaseModel, ConfigDict, Field

from draftscope.base.errors import DraftscopeError
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, options_of, takes

if TYPE_CHECKING:
    from draftscope.servers.audit.asked import Plan
    from draftscope.servers.audit.audit import Report, Watch
    from draftscope.servers.audit.pairs import Compared
    from draftscope.servers.audit.rounds import Audited

ASKED, CERTAINTY = "What is asked", "Certainty"
DRAFTS = ("draft", "head", "draft_revision", "ballast", "graphs")  # options of loading that an audit has no use for
TARGET = "the weights that the server should run: hub id, folder, GGUF file, or a known name; without it give --plain"
MOST_PROMPTS = 64
POSITIONS = ("token", "samples", "log p - E log p, nats", "standard error", "z")


class Options(BaseModel):
    """What `audit` takes beside the server's address, the target and the sampling."""

    model_config = ConfigDict(frozen=True)

    plain: str | None = Field(
        None, description="a plain server of the same model: it writes the greedy texts, and without --target samples"
    )
    model: str | None = Field(None, description="the model to ask for, if there are several")
    prompts: Path | None = Field(None, description="prompts of your own, one a line")
    chat: bool = Field(False, description="put prompts into the model's chat template")
    tokens: int = Field(12, description="tokens of each text")
    concurrency: int = Field(4, description="requests at once")
    samples: int = Field(400, description="texts at most")
    seconds: float = Field(300.0, description="seconds of sampling at most")
    false_alarm: float = Field(1e-6, description="chance of a difference found where there is none")
    tolerance: float | None = Field(None, description="what rounding may cost, in nats a token; default: measured")


_CERTAIN = ("samples", "seconds", "false_alarm", "tolerance")
_METAVARS = {
    "plain": "URL",
    "model": "NAME",
    "prompts": "FILE",
    "seconds": "S",
    "false_alarm": "P",
    "tolerance": "NATS",
}
OPTIONS = options_of(Options.model_fields, lambda name: CERTAINTY if name in _CERTAIN else ASKED, _METAVARS)
# No stop strings: a server that leaves the string's tokens out does not say which tokens it sampled.
SAMPLING = options.sampling_options(without=("stop",), temperature=1.0)

app = typer.Typer(add_completion=False)


@app.command()
@takes(given=OPTIONS, sampling=SAMPLING, loading=options.model_options(DRAFTS, {"target": TARGET}))
def audit(
    url: Annotated[str, typer.Argument(metavar="URL", help="the server, such as http://127.0.0.1:8000")],
    given: Given,
    sampling: Given,
    loading: Given,
    json: options.Json = False,
) -> int:
    """Ask whether a server's output is still its target's.

    At temperature 0 its tokens must be plain's, except at ties. Above it, the tokens that it samples are tested under
    the target's own probabilities, computed here: their log-probabilities, their ranks, and whether texts repeat. The
    audit ends as soon as a difference is clear, or says how large a difference it could have missed. The exit code is 1
    where a difference was found.
    """
    chosen = Options(**given)
    report = _audited(url, chosen, loading, _read(chosen.prompts), _plan(chosen, sampling))
    if json:
        print(jsonlib.dumps(report.as_json()))
    else:
        _print(report)
    if report.different:
        return ExitCode.FAILED
    return ExitCode.BAD_INPUT if report.incomplete else ExitCode.OK


def _plan(chosen: Options, sampling: Given) -> Plan:
    from draftscope.servers.audit.asked import Plan
    from draftscope.verify.sampling import Sampling

    settings = options.settings({"temperature": 1.0} | dict(sampling))
    return Plan(
        Sampling.of(settings), chosen.samples, chosen.tokens, chosen.seconds, chosen.concurrency, chosen.false_alarm,
        chosen.tolerance, settings.seed,
    )  # fmt: skip


def _audited(url: str, chosen: Options, loading: Given, texts: Sequence[str], plan: Plan) -> Report:
    from draftscope.decode.prompt import read_prompt
    from draftscope.models.loading.chat import Chat
    from draftscope.servers.audit.audit import audit as audit_server
    from draftscope.servers.audit.audit import audit_without_weights
    from draftscope.servers.audit.greedy import GREEDY_TOKENS
    from draftscope.servers.audit.writer import refuse_without_ids
    from draftscope.servers.identify import identify

    if "target" not in loading and chosen.plain is None:
        raise DraftscopeError(
            "An audit needs the weights that the server should run (--target), or a plain server of the same model "
            "(--plain)."
        )
    with ExitStack() as opened:
        listed = [each for each in (url, chosen.plain) if each is not None]
        server = opened.enter_context(identify(url, listed, chosen.model))
        other = None if chosen.plain is None else opened.enter_context(identify(chosen.plain, listed, chosen.model))
        for each in (server, other):
            refuse_without_ids(each)
        watch, name = opened.enter_context(_watched(plan)), server.identity.sentence
        if "target" not in loading:
            assert other is not None
            ids = [server.tokenize(text) for text in texts]
            return audit_without_weights(
                server, other, texts, ids, plan, watch, name, other.identity.url, server.detokenize
            )
        engine = options.load(options.models(loading)[0])
        most, chat = max(plan.tokens, GREEDY_TOKENS), Chat(raw=not chosen.chat)
        read = [read_prompt(engine, text, most, chat)[1] for text in texts]
        return audit_server(server, server.identity.kind, engine, texts, read, plan, other, watch, name)


@contextmanager
def _watched(plan: Plan) -> Iterator[Watch]:
    """Shows how far the audit is and what the evidence says so far, on a terminal's stderr."""
    with terminal.progress("samples") as bar:
        task = bar.add_task("Greedy texts", total=plan.samples)

        def watch(state: Audited | Compared) -> None:
            total, done = state.total, state.texts
            words = f"Evidence {max(total, 0):.1f} of {math.log(1 / plan.false_alarm):.1f} nats"
            bar.update(task, completed=done, description=words)

        yield watch


def _read(prompts: Path | None) -> Sequence[str]:
    """The prompts, one a line; without a file, our own."""
    from draftscope.servers.audit.prompts import AUDIT_PROMPTS

    if prompts is None:
        return AUDIT_PROMPTS
    try:
        lines = [line for line in prompts.read_text(encoding="utf-8").splitlines() if line.strip()]
    except (OSError, UnicodeDecodeError) as error:
        raise DraftscopeError(f"--prompts {prompts}: cannot be read ({error}); give a text file.") from None
    if not 0 < len(lines) <= MOST_PROMPTS:
        raise DraftscopeError(f"--prompts {prompts}: {len(lines)} prompts; give 1 to {MOST_PROMPTS}, one a line.")
    return lines


def _print(report: Report) -> None:
    """The verdict, the numbers by position, and an example where something is wrong."""
    print(report.verdict)
    if report.sampled is None:
        return
    if "positions" in report.sampled:
        _print_positions(report.sampled["positions"])
    if report.different and report.example is not None:
        print(f"An example: after {report.example['prompt']!r} it wrote {report.example['text']!r}")


def _print_positions(positions: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        (
            str(each["position"]),
            str(each["tokens"]),
            f"{each['score']:+.3f}",
            f"{each['error']:.3f}",
            f"{each['z']:+.1f}",
        )
        for each in positions
    ]
    terminal.show(terminal.Table(POSITIONS, rows, frozenset(range(len(POSITIONS)))))
