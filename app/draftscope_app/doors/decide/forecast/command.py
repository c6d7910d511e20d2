"""`draftscope forecast`: speculation on hardware that is not at hand, and the same held to a published record."""

from __future__ import annotations

import json as codec
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from pydantic import BaseModel

from draftscope.base.errors import DraftscopeError
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, option, options_of, read_options, takes

if TYPE_CHECKING:
    from draftscope.forecast.forecast import Scenario

ASKED, RUN, CARDS, OUTPUT = "What is asked", "Hardware and load", "How many cards for a traffic", command_options.OUTPUT
MOST = 10_000_000  # tokens


class Options(BaseModel):
    """What `forecast` takes. The names of the first two headings are those of `ask`."""

    drafter: str = option("its kind: eagle3, mtp, draft, ngram, ...", "eagle3", ASKED, "KIND")
    form: str = option("'k=3' or 'steps=7,topk=4,draft_tokens=8'; default: the usual one", "", ASKED, "FORM")
    draft: str = option("the draft model; default: a usual one", "", ASKED, "MODEL")
    tau: float | None = option("tokens a round; default: a prior with its interval", None, ASKED)
    text: str = option("kind of text for the prior: code, maths, copied or chat", "chat", ASKED, "KIND")
    quant: str = option("format of the weights: fp8, nvfp4, q4, ...", "", ASKED, "FORMAT")
    card: str = option("name of the card", "H100", RUN, "NAME")
    tp: int | None = option("cards that share each layer; default: enough", None, RUN, ge=1, le=64)
    engine: str = option("vllm, sglang, tensorrt-llm, llama.cpp, mlx, pytorch or other", "vllm", RUN, "NAME")
    concurrency: int = option("concurrent requests", 1, RUN, ge=1, le=4096)
    context: int = option("tokens behind a step", 1024, RUN, ge=1, le=MOST)
    answer: int = option(
        "tokens of an answer, prefill counted; 0: decoding alone, and 256 with --traffic", 0, RUN, ge=0, le=MOST
    )
    price: float | None = option("dollars an hour for one card", None, RUN, ge=0, le=1e6)
    traffic: float | None = option("requests a second", None, CARDS, ge=0, le=1e6)
    within: float = option(
        "seconds in which nine of ten answers end; 0: twice a plain answer on an idle server", 0.0, CARDS, ge=0, le=1e6
    )
    shared: int = option("tokens that all prompts begin with, read once by a server", 0, CARDS, ge=0)
    validate_: Path | None = option("published speedups to hold it to, as CSV", None, OUTPUT, "FILE")
    figures: Path | None = option("a folder for figures of what decides", None, OUTPUT, "DIR")


BESIDE = ("price", "traffic", "within", "shared", "validate_", "figures")  # the fields that `ask` does not take


@takes(given=options_of(Options.model_fields))
def forecast(
    given: Given,
    model: Annotated[str, typer.Argument(metavar="MODEL", help="a name, such as Llama-3.3-70B, or a config.json")] = "",
    json: command_options.Json = False,
) -> int:
    """Forecast speculation on other hardware, from sizes and data sheets. Loads no model.

    The interval should hold nine of ten measurements; --validate says how many of a published record it holds.

    Example: draftscope forecast Llama-3.3-70B --drafter eagle3 --card H100 --concurrency 32
    """
    chosen = read_options(Options, given)
    for name in ("within", "shared") if chosen.traffic is None else ("price",):
        if name in given:
            raise DraftscopeError(f"--{name} is not used {'without' if chosen.traffic is None else 'with'} --traffic.")
    if chosen.validate_ is not None:
        _validate(chosen.validate_, json)
    draws = chosen.figures is not None and chosen.traffic is None
    if chosen.figures is not None and draws:
        _draw(chosen.figures)
    if chosen.validate_ is not None or draws:
        return ExitCode.OK
    if not model:
        raise DraftscopeError(
            "A forecast needs a MODEL, such as Llama-3.3-70B; or give --validate FILE or --figures DIR."
        )
    from draftscope.forecast.forecast import ask

    scenario = ask(model, **chosen.model_dump(exclude=set(BESIDE)))
    if chosen.traffic is None:
        _print(scenario, chosen.price, json)
    else:
        _count_cards(scenario, chosen.traffic, chosen.within, chosen.shared, chosen.figures, json)
    return ExitCode.OK


def _validate(path: Path, json: bool) -> None:
    from draftscope.forecast.backtest import validate

    result = validate(path)
    if json:
        print(codec.dumps(result.plain()))
    else:
        terminal.markdown(result.markdown())


def _draw(folder: Path) -> None:
    from draftscope_app.doors.decide.forecast.forecast_figures import write_figures

    for path in write_figures(folder):
        terminal.print_note(f"wrote {path}.")


def _print(scenario: Scenario, price: float | None, json: bool) -> None:
    from draftscope.forecast.forecast import dollars_per_million, forecast
    from draftscope_app.doors.decide.forecast.answer import sentences

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


def _count_cards(
    scenario: Scenario, per_second: float, within: float, shared: int, figures: Path | None, json: bool
) -> None:
    from draftscope.forecast.cluster.sizing import USUAL_ANSWER, cards_needed
    from draftscope_app.doors.decide.forecast import forecast_figures as forecast_figures
    from draftscope_app.doors.decide.forecast import traffic as traffic_answer

    scenario = replace(scenario, answer=scenario.answer or USUAL_ANSWER)
    answer = cards_needed(scenario, per_second, within or None, shared)
    if json:
        print(codec.dumps(asdict(answer) | {"cards_per_server": scenario.machine.cards}))
    else:
        print("\n".join(traffic_answer.traffic_sentences(scenario, answer)))
    if figures is not None:
        path = forecast_figures.write_figure(traffic_answer.draw_traffic(scenario, answer), figures, "traffic")
        terminal.print_note(f"wrote {path}.")
