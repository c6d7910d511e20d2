"""`draftscope audit`: is a server's output still its target's? Exit code 1 where a difference was found."""

from __future__ import annotations

import json as jsonlib
import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftscope.base.errors import DraftscopeError
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, decimal, takes, whole

if TYPE_CHECKING:
    from draftscope.servers.audit.asked import Plan
    from draftscope.servers.audit.audit import Report, Watch
    from draftscope.servers.audit.pairs import Compared
    from draftscope.servers.audit.rounds import Audited

ASKED, CERTAINTY = "What is asked", "Certainty"
DRAFTS = ("draft", "head", "draft_revision", "ballast", "graphs")  # options of loading that an audit has no use for
MODEL = [option for option in options.MODEL_OPTIONS if option.name not in DRAFTS]
MOST_PROMPTS = 64
POSITIONS = ("token", "samples", "log p - E log p, nats", "standard error", "z")

app = typer.Typer(add_completion=False)


@app.command()
@takes(loading=MODEL)
def audit(
    url: Annotated[str, typer.Argument(metavar="URL", help="the server, such as http://127.0.0.1:8000")],
    loading: Given,
    plain: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="a plain server of the same model: it writes the greedy texts, and without --target samples",
        ),
    ] = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="the model to ask for, if there are several")
    ] = None,
    prompts: Annotated[
        Path | None, typer.Option(metavar="FILE", help="prompts of your own, one a line", rich_help_panel=ASKED)
    ] = None,
    chat: Annotated[
        bool, typer.Option("--chat", help="put prompts into the model's chat template", rich_help_panel=ASKED)
    ] = False,
    temperature: Annotated[float, typer.Option(parser=decimal, metavar="T", rich_help_panel=ASKED)] = 1.0,
    top_k: Annotated[int, typer.Option(parser=whole, metavar="N", rich_help_panel=ASKED)] = 0,
    top_p: Annotated[float, typer.Option(parser=decimal, metavar="P", rich_help_panel=ASKED)] = 1.0,
    min_p: Annotated[float, typer.Option(parser=decimal, metavar="P", rich_help_panel=ASKED)] = 0.0,
    tokens: Annotated[
        int, typer.Option(parser=whole, metavar="N", help="tokens of each text", rich_help_panel=ASKED)
    ] = 12,
    concurrency: Annotated[
        int, typer.Option(parser=whole, metavar="N", help="requests at once", rich_help_panel=ASKED)
    ] = 4,
    seed: Annotated[int, typer.Option(parser=whole, metavar="N", rich_help_panel=ASKED)] = 0,
    samples: Annotated[
        int, typer.Option(parser=whole, metavar="N", help="texts at most", rich_help_panel=CERTAINTY)
    ] = 400,
    seconds: Annotated[
        float, typer.Option(parser=decimal, metavar="S", help="seconds of sampling at most", rich_help_panel=CERTAINTY)
    ] = 300.0,
    false_alarm: Annotated[
        float,
        typer.Option(
            parser=decimal,
            metavar="P",
            help="chance of a difference found where there is none",
            rich_help_panel=CERTAINTY,
        ),
    ] = 1e-6,
    tolerance: Annotated[
        float | None,
        typer.Option(
            parser=decimal,
            metavar="NATS",
            help="what rounding may cost, in nats a token; default: measured",
            rich_help_panel=CERTAINTY,
        ),
    ] = None,
    json: options.Json = False,
) -> int:
    """Ask whether a server's output is still its target's.

    At temperature 0 its tokens must be plain's, except at ties. Above it, the tokens that it samples are tested under
    the target's own probabilities, computed here: their log-probabilities, their ranks, and whether texts repeat. The
    audit ends as soon as a difference is clear, or says how large a difference it could have missed. The exit code is 1
    where a difference was found.
    """
    from draftscope.drafters.settings import Settings
    from draftscope.servers.audit.asked import Plan
    from draftscope.verify.sampling import Sampling

    settings = Settings.of(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p, seed=seed)
    sampling = Sampling.of(settings)
    plan = Plan(sampling, samples, tokens, seconds, concurrency, false_alarm, tolerance, seed)
    texts = _read(prompts)
    report = _audited(url, plain, model, loading, texts, chat, plan)
    if json:
        print(jsonlib.dumps(report.as_json()))
    else:
        _print(report)
    if report.different:
        return ExitCode.FAILED
    return ExitCode.BAD_INPUT if report.incomplete else ExitCode.OK


def _audited(
    url: str,
    plain: str | None,
    model: str | None,
    loading: Given,
    texts: Sequence[str],
    chat: bool,
    plan: Plan,
) -> Report:
    from draftscope.decode.prompt import read_prompt
    from draftscope.models.loading.chat import Chat
    from draftscope.servers.audit.audit import audit as audit_server
    from draftscope.servers.audit.audit import audit_without_weights
    from draftscope.servers.audit.greedy import GREEDY_TOKENS
    from draftscope.servers.identify import identify

    if "target" not in loading and plain is None:
        raise DraftscopeError(
            "An audit needs the weights that the server should run (--target), or a plain server of the same model "
            "(--plain)."
        )
    with ExitStack() as opened:
        listed = [each for each in (url, plain) if each is not None]
        server = opened.enter_context(identify(url, listed, model))
        other = None if plain is None else opened.enter_context(identify(plain, listed, model))
        about, watch = server.identity, opened.enter_context(_watched(plan))
        name = f"{about.url} ({about.kind} {about.version or 'of unknown version'}, {about.model})"
        if "target" not in loading:
            assert other is not None
            ids = [server.tokenize(text) for text in texts]
            return audit_without_weights(
                server, other, texts, ids, plan, watch, name, other.identity.url, server.detokenize
            )
        load, _ = options.models(loading)
        lab = options.load(load)
        read = [read_prompt(lab, text, max(plan.tokens, GREEDY_TOKENS), Chat(raw=not chat))[1] for text in texts]
        return audit_server(server, about.kind, lab, texts, read, plan, other, watch, name)


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
