"""Before the first token: how the prompt's reading is shown, which no slow motion draws out."""

from __future__ import annotations

from typing import Any

import pytest

from draftscope.decode.engine import DecodingEngine
from draftscope.trace.events import AnyEvent, Prefill, Round, RunStart
from draftscope.trace.files import line
from tests.support.raced import race_of

pytestmark = pytest.mark.browser
PROMPT = "a long prompt " * 30
SHOWN = """([lines, at]) => {
    const store = Inside.newStore();
    for (const line of lines) Inside.fold(store, JSON.parse(line));
    const transport = new Inside.Transport(() => {}, () => {});
    Object.assign(transport, { store, now: at === "end" ? Inside.raceClock(store) : at });
    const lane = Inside.draftLane(store) || store.lanes[0];
    return { slow: transport.slow, says: Inside.sentence(store, transport.now, false),
        foot: Inside.footText(lane, Inside.stateAt(lane, transport.now), transport.now),
        share: Inside.readShare(lane, transport.now) }; }"""


@pytest.fixture(scope="module")
def run(pair: DecodingEngine) -> list[AnyEvent]:
    return race_of(pair, prompt=PROMPT, drafter="draft", gamma=2)


def shown(functions: Any, events: list[AnyEvent], at: float | str = "end") -> dict[str, Any]:
    return dict(functions.evaluate(SHOWN, [[line(event) for event in events], at]))


def begun(run: list[AnyEvent], read: int | None) -> list[AnyEvent]:
    """The run as far as this many tokens of the prompt were read."""
    starts: list[AnyEvent] = [event for event in run if isinstance(event, RunStart)]
    prefills = [event for event in run if isinstance(event, Prefill)]
    some = prefills if read is None else [event.model_copy(update={"tokens": read}) for event in prefills]
    return starts + list(some)


@pytest.mark.parametrize("read", [0, 1, 200, None])
def test_a_prompt_that_is_read_is_not_slowed(functions: Any, run: list[AnyEvent], read: int | None) -> None:
    """3,329 tokens: 40 s after Run the clock stood at 2 of 19 s, "slowed 20×"."""
    assert shown(functions, begun(run, read))["slow"] == 1
    assert shown(functions, [event for event in run if isinstance(event, RunStart)])["slow"] == 1


def test_a_replay_does_not_slow_the_reading_either(functions: Any, run: list[AnyEvent]) -> None:
    first = min(event.start for event in run if isinstance(event, Round))
    assert shown(functions, run, 0)["slow"] == shown(functions, run, first / 2)["slow"] == 1
    assert shown(functions, run, first + 1)["slow"] > 1


@pytest.mark.parametrize("read", [1, 200])
def test_a_prompt_is_processed_only_when_it_is(functions: Any, run: list[AnyEvent], read: int) -> None:
    """The headline said that it has been processed, beside "reading the prompt: 1280 of 3329 tokens"."""
    wanted = next(event for event in run if isinstance(event, RunStart)).prompt_tokens - 1
    part = shown(functions, begun(run, read))
    assert part["says"] == f"Reading the prompt: {read} of {wanted} tokens."
    assert part["foot"] == f"reading the prompt: {read} of {wanted} tokens"
    assert part["share"] == pytest.approx(read / wanted)
    assert shown(functions, begun(run, None), 0)["says"] == "Reading the prompt."
    assert shown(functions, begun(run, None))["says"] == "The prompt has been processed; no token yet."
    assert shown(functions, [event for event in run if isinstance(event, RunStart)])["says"] == "Reading the prompt."


def test_a_run_that_was_stopped_while_it_read_does_not_say_that_it_has(functions: Any, run: list[AnyEvent]) -> None:
    ends = [event for event in run if event.kind == "run_end"]
    stopped = [*begun(run, 200), *(event.model_copy(update={"reason": "cancelled"}) for event in ends)]
    assert shown(functions, stopped)["says"] == "No token yet."


def test_a_long_prompt_has_a_bar_and_a_short_one_none(played: Any, run: list[AnyEvent], pair: DecodingEngine) -> None:
    page = played(run)
    bar = page.element.get_by_role("progressbar", name="Reading the prompt")
    assert bar.count() == 0
    page.ask("e => e.transport.scrub(e.store.lanes[1].prefill.end / 2)")
    page.painted()
    assert bar.last.evaluate("bar => bar.value") == pytest.approx(0.5, abs=0.01)
    assert page.element.locator(".lane:nth-child(2)").bounding_box()["height"] == pytest.approx(
        page.element.locator(".lane:nth-child(1)").bounding_box()["height"]
    )
    short = played(race_of(pair, drafter="draft"))
    short.ask("e => e.transport.scrub(0)")
    short.painted()
    assert short.element.get_by_role("progressbar").count() == 0
