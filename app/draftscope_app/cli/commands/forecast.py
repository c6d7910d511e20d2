"""`draftscope forecast`: speculation on hardware that is not at hand, and the same held to a published record."""

from __future__ import annotations

import json as codec
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftscope.base.errors import DraftscopeError, quoted
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode

if TYPE_CHECKING:
    from draftscope.forecast.forecast import Scenario

ASKED, RUN, CARDS, OUTPUT = "What is asked", "Hardware and load", "How many cards for a traffic", options.OUTPUT
MOST = 10_000_000  # tokens
ANSWER = "tokens of an answer, prefill counted; 0: decoding alone, and 256 with --traffic"
WITHIN = "seconds in which nine of ten answers end; 0: twice a plain answer on an idle server"

app = typer.Typer(add_completion=False)


def _option(panel: str, help: str, metavar: str | None = None, **limits: Any) -> Any:
    return typer.Option(help=help, rich_help_panel=panel, metavar=metavar, **limits)


@app.command()
def forecast(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="a name, such as Llama-3.3-70B, or a config.json")] = "",
    drafter: Annotated[str, _option(ASKED, "its kind: eagle3, mtp, draft, ngram, ...", "KIND")] = "eagle3",
    form: Annotated[str, _option(ASKED, "'k=3' or 'steps=7,topk=4,draft_tokens=8'; default: the usual one")] = "",
    draft: Annotated[str, _option(ASKED, "the draft model; default: a usual one", "MODEL")] = "",
    tau: Annotated[float | None, _option(ASKED, "tokens a round; default: a prior with its interval")] = None,
    text: Annotated[str, _option(ASKED, "kind of text for the prior: code, maths, copied or chat")] = "chat",
    quant: Annotated[str, _option(ASKED, "format of the weights: fp8, nvfp4, q4, ...")] = "",
    card: Annotated[str, _option(RUN, "name of the card")] = "H100",
    tp: Annotated[int | None, _option(RUN, "cards that share each layer; default: enough", min=1, max=64)] = None,
    engine: Annotated[str, _option(RUN, "vllm, sglang, tensorrt-llm, llama.cpp, mlx or pytorch")] = "vllm",
    concurrency: Annotated[int, _option(RUN, "concurrent requests", min=1, max=4096)] = 1,
    context: Annotated[int, _option(RUN, "tokens behind a step", min=1, max=MOST)] = 1024,
    answer: Annotated[int, _option(RUN, ANSWER, min=0, max=MOST)] = 0,
    traffic: Annotated[float | None, _option(CARDS, "requests a second", min=0.0, max=1e6)] = None,
    within: Annotated[float, _option(CARDS, WITHIN, min=0.0, max=1e6)] = 0.0,
    shared: Annotated[int, _option(CARDS, "tokens that all prompts begin with, read once by a server", min=0)] = 0,
    price: Annotated[float | None, _option(RUN, "dollars an hour for one card", min=0.0)] = None,
    validate: Annotated[Path | None, _option(OUTPUT, "published speedups to hold it to, as CSV", "FILE")] = None,
    figures: Annotated[Path | None, _option(OUTPUT, "a folder for figures of what decides", "DIR")] = None,
    json: options.Json = False,
) -> int:
    """Forecast speculation on other hardware, from sizes and data sheets. Loads no model.

    The interval should hold nine of ten measurements; --validate says how many of a published record it holds.
    """
    if validate is not None:
        _validate(validate, json)
    if figures is not None and traffic is None:
        _draw(figures)
    if validate is not None or (figures is not None and traffic is None):
        return ExitCode.OK
    if not model:
        raise DraftscopeError(
            "A forecast needs a MODEL, such as Llama-3.3-70B; or give --validate FILE or --figures DIR."
        )
    if form and not any(map(str.isdigit, form)):
        raise DraftscopeError(f"--form {quoted(form)}: write 'k=3' or 'steps=7,topk=4,draft_tokens=8'.")
    from draftscope.forecast.forecast import ask

    scenario = ask(
        model, drafter, card, form=form, draft=draft, quant=quant, engine=engine, tp=tp, concurrency=concurrency,
        context=context, answer=answer, tau=tau, text=text,
    )  # fmt: skip
    if traffic is None:
        _print(scenario, price, json)
    else:
        _count_cards(scenario, traffic, within, shared, figures, json)
    return ExitCode.OK


def _validate(path: Path, json: bool) -> None:
    from draftscope.forecast.validate import validate

    result = validate(path)
    if json:
        print(codec.dumps(result.plain()))
    else:
        terminal.markdown(result.markdown())


def _draw(folder: Path) -> None:
    from draftscope_app.reports.forecast_figures import write_figures

    for path in write_figures(folder):
        terminal.print_note(f"wrote {path}.")


def _print(scenario: Scenario, price: float | None, json: bool) -> None:
    from draftscope.forecast.forecast import dollars_per_million, forecast
    from draftscope_app.reports.forecast_answer import sentences

    result, cards = forecast(scenario), scenario.machine.cards
    rates = (result.plain_tokens_s, result.tokens_s.middle)
    dollars = None if price is None else [dollars_per_million(rate, cards, price) for rate in rates]
    if json:
        print(codec.dumps(asdict(result) | {"cards": cards, "dollars_per_million": dollars}))
        return
    print("\n".join(sentences(scenario, result)))
    if dollars is not None:
        print(
            f"A million tokens cost ${dollars[0]:.2f} plain and ${dollars[1]:.2f} with {scenario.drafting.kind.name}."
        )
    for note in result.notes:
        terminal.print_note(f"{note}; give more cards with --tp, or fewer requests.")


def _count_cards(
    scenario: Scenario, per_second: float, within: float, shared: int, figures: Path | None, json: bool
) -> None:
    from draftscope.forecast.cluster.sizing import USUAL_ANSWER, cards_needed
    from draftscope_app.reports import forecast_figures, traffic_answer

    scenario = replace(scenario, answer=scenario.answer or USUAL_ANSWER)
    answer = cards_needed(scenario, per_second, within or None, shared)
    if json:
        print(codec.dumps(asdict(answer) | {"cards_per_server": scenario.machine.cards}))
    else:
        print("\n".join([*traffic_answer.traffic_sentences(scenario, answer), traffic_answer.HOW]))
    if figures is not None:
        path = forecast_figures.write_figure(traffic_answer.draw_traffic(scenario, answer), figures, "traffic")
        terminal.print_note(f"wrote {path}.")
