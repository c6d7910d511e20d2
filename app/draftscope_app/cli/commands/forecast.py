"""`draftscope forecast`: speculation on hardware that is not at hand, and the same held to a published record."""

from __future__ import annotations

import json as codec
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftscope.base.errors import DraftscopeError
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from draftscope.forecast.forecast import Forecast, Scenario

ASKED, RUN = "What is asked", "Hardware and load"

app = typer.Typer(add_completion=False)


def _option(help: str, panel: str, *flags: str, metavar: str | None = None, **limits: Any) -> Any:
    return typer.Option(*flags, help=help, rich_help_panel=panel, metavar=metavar, **limits)


@app.command()
def forecast(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="a name, such as Llama-3.3-70B, or a config.json")] = "",
    drafter: Annotated[str, _option("its kind: eagle3, mtp, draft, ngram, ...", ASKED)] = "eagle3",
    form: Annotated[str, _option("'k=3' or 'steps=7,topk=4,draft_tokens=8'; default: the usual one", ASKED)] = "",
    draft: Annotated[str, _option("the draft model, as MODEL", ASKED)] = "",
    tau: Annotated[float | None, _option("tokens a round; default: a prior with its interval", ASKED)] = None,
    text: Annotated[str, _option("kind of text for the prior: code, maths, copied or chat", ASKED)] = "chat",
    quant: Annotated[str, _option("format of the weights: fp8, nvfp4, q4, ...", ASKED)] = "",
    card: Annotated[str, _option("name of the card", RUN)] = "H100",
    tp: Annotated[
        int | None, _option("cards that share each layer; default: as many as the weights need", RUN, min=1, max=64)
    ] = None,
    engine: Annotated[str, _option("vllm, sglang, tensorrt-llm, llama.cpp, mlx or pytorch", RUN)] = "vllm",
    concurrency: Annotated[int, _option("requests at once", RUN, min=1, max=4096)] = 1,
    context: Annotated[int, _option("tokens behind a step", RUN, min=1, max=10_000_000)] = 1024,
    answer: Annotated[
        int, _option("tokens of an answer, to count the prefill; 0: decoding alone", RUN, min=0, max=10_000_000)
    ] = 0,
    price: Annotated[float | None, _option("dollars an hour for one card", RUN, min=0.0)] = None,
    validate: Annotated[
        Path | None, _option("a CSV file of published speedups to hold the forecast to", options.OUTPUT, metavar="FILE")
    ] = None,
    figures: Annotated[
        Path | None, _option("a folder for the figures of what decides", options.OUTPUT, metavar="DIR")
    ] = None,
    json: options.Json = False,
) -> int:
    """Forecast speculation on other hardware, from sizes and data sheets. Loads no model.

    The interval should hold nine of ten measurements; --validate shows how many of a published record it holds.
    """
    if validate is not None:
        from draftscope.forecast.validate import validate as held_to

        found = held_to(validate)
        print(codec.dumps(found.plain())) if json else terminal.markdown(found.markdown())
    if figures is not None:
        from draftscope_app.reports.forecast_figures import write_figures

        for path in write_figures(figures):
            terminal.say(f"wrote {path}.")
    if validate is not None or figures is not None:
        return ExitCode.OK
    if not model:
        raise DraftscopeError("a forecast needs a MODEL, such as Llama-3.3-70B, or --validate FILE, or --figures DIR")
    asked = _asked(model, drafter, form, draft, tau, text, quant, card, tp, engine, concurrency, context, answer)
    _print(asked, price, json)
    return ExitCode.OK


def _asked(
    model: str, drafter: str, form: str, draft: str, tau: float | None, text: str, quant: str, card: str,
    tp: int | None, engine: str, concurrency: int, context: int, answer: int,
) -> Scenario:  # fmt: skip
    from draftscope.forecast.acceptance import TEXTS
    from draftscope.forecast.architecture import find_architecture
    from draftscope.forecast.card import find_card
    from draftscope.forecast.cost import spread_over
    from draftscope.forecast.drafting import find_kind, plan_drafting
    from draftscope.forecast.engine_costs import find_engine
    from draftscope.forecast.forecast import Scenario

    if text not in (known := [name for name, _ in TEXTS]):
        raise DraftscopeError(f"--text '{text}' is not known; give one of: {', '.join(known)}")
    target, own = find_architecture(model).quantised(quant), find_engine(engine)
    smaller = find_architecture(draft) if draft else None
    drafting = plan_drafting(find_kind(drafter), target, form, smaller, own.trees)
    if tau is not None and not 1 <= tau <= drafting.depth + 1:
        raise DraftscopeError(
            f"--tau {tau:g} is not between 1 and {drafting.depth + 1}, which a round can emit; change --form"
        )
    machine = spread_over(find_card(card), own, target, tp)
    return Scenario(target, drafting, machine, concurrency, context, answer, tau, text)


def _print(asked: Scenario, price: float | None, json: bool) -> None:
    from draftscope.forecast.forecast import dollars_per_million, forecast

    found, cards = forecast(asked), asked.machine.tensor * asked.machine.stages
    dollars = [
        dollars_per_million(rate, cards, price)
        for rate in (found.plain_tokens_s, found.tokens_s.middle)
        if price is not None
    ]
    if json:
        print(codec.dumps(asdict(found) | {"cards": cards, "dollars_per_million": dollars or None}))
        return
    for line in _lines(asked, found, cards, dollars):
        print(line)
    for note in found.notes:
        terminal.say(f"{note}; give more cards with --tp, or fewer requests.")


def _lines(asked: Scenario, found: Forecast, cards: int, dollars: list[float]) -> list[str]:
    own, plan = asked.target, asked.drafting
    at = "request" if asked.concurrency == 1 else "requests at once"
    stops = (
        f"{found.stops_at.middle:.0f} [{found.stops_at.low:.0f}, {found.stops_at.high:.0f}] requests at once"
        if found.stops_at
        else "no load up to 4,096 requests"
    )
    whole = f", of answers of {asked.answer} tokens with their prefill" if asked.answer else ""
    lines = [
        f"{own.name}, {own.parameters / 1e9:.1f} billion weights ({own.source}), on {cards} x {asked.machine.card.name} with "
        f"{asked.machine.engine.name}; {plan.kind.name}, {plan.steps} draft steps, {plan.rows} rows; {asked.concurrency} {at}, "
        f"{asked.context:.0f} tokens behind them.",
        f"Speedup {found.speedup}{whole}: tau {found.tau}{'' if asked.tau else ' by the prior'} over a round of {found.round_ms / found.plain_ms:.2f} steps.",
        f"A step of plain decoding takes {found.plain_ms:.2f} ms; a round {found.round_ms:.2f}: drafting {found.drafting_ms:.2f}, "
        f"verifying {found.verify_ms:.2f}, the engine {found.round_ms - found.drafting_ms - found.verify_ms:.2f}.",
        f"Tokens a second: {found.plain_tokens_s:,.0f} plain, {found.tokens_s.middle:,.0f} [{found.tokens_s.low:,.0f}, {found.tokens_s.high:,.0f}] with {plan.kind.name}.",
        f"It stops paying at {stops}.",
    ]
    if dollars:
        lines.append(f"A million tokens cost ${dollars[0]:.2f} plain and ${dollars[1]:.2f} with {plan.kind.name}.")
    return lines
