"""The simulator: waits as queueing theory has them, saturation as the cost model has it, and a count of cards."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from types import SimpleNamespace
from typing import Any

import pytest
import simpy

from draftscope.base.errors import DraftscopeError
from draftscope.forecast.cluster import sizing
from draftscope.forecast.cluster.simulate import SimulatedRequest, SimulatedServer, Traffic, idlest, simulate
from draftscope.forecast.cluster.sizing import cards_needed, latency_curve
from draftscope.forecast.cluster.step_times import (
    Speculation,
    StepTimes,
    chances_of,
    chances_of_chain,
    drafted_times,
    in_strides,
    pays_up_to,
    plain_times,
)
from draftscope.forecast.forecast import ask, forecast
from draftscope_app.cli.main import main
from tests.programs.cluster import between, in_turn, line

ONE_AT_A_TIME = StepTimes((0.01,), lambda tokens: 0.001 * tokens)
MODEL = ask("Llama-3.3-70B", answer=256, tau=2.5)


@pytest.mark.parametrize("busy", [0.3, 0.6, 0.85])
def test_a_server_that_takes_one_at_a_time_is_the_queue_of_theory(busy: float) -> None:
    """M/D/1: the mean wait is rho / (2 (1 - rho)) services (Pollaczek and Khinchine)."""
    service = ONE_AT_A_TIME.answer_s(prompt=100, answer=3)
    assert service == pytest.approx(0.1 + 2 * 0.01)
    run = simulate(Traffic(busy / service, 100, 3, requests=60_000), ONE_AT_A_TIME, servers=1)
    wait = fmean(request.latency for request in run.requests) - service
    assert wait == pytest.approx(service * busy / (2 * (1 - busy)), rel=0.06)


def test_servers_in_turn_are_queues_of_their_own() -> None:
    """Every second request, each as soon as the server is free: request by request."""
    service = ONE_AT_A_TIME.answer_s(100, 3)
    run, free = simulate(Traffic(1.8 / service, 100, 3, requests=500), ONE_AT_A_TIME, 2, in_turn), [0.0, 0.0]
    for number, request in enumerate(run.requests):
        free[number % 2] = max(free[number % 2], request.arrives) + service
        assert request.ends == pytest.approx(free[number % 2])


def test_the_least_busy_server_takes_a_request_and_equals_take_turns() -> None:
    def chosen(number: int, *loads: int) -> int:
        servers: Any = [SimpleNamespace(place=place, load=load) for place, load in enumerate(loads)]
        result: Any = idlest(number, servers)
        return result.place

    assert chosen(0, 3, 1, 2) == chosen(2, 3, 1, 2) == 1
    assert [chosen(number, 1, 1, 1) for number in range(4)] == [0, 1, 2, 0]


def test_a_batch_that_grows_freely_never_waits() -> None:
    """With steps that take equally long at any batch: up to a step until it joins, that step, and one for each token
    after the first."""
    times = StepTimes((0.01,) * 400, lambda tokens: 0.0)
    run = simulate(Traffic(50, 10, 100, requests=2000), times, 1)
    assert all(0.99 - 1e-9 <= request.latency <= 1.01 + 1e-9 for request in run.requests)


def flood(times: StepTimes, requests: int, answer: int) -> float:
    """Tokens a second after the first of each, of requests that come all at once and whose prompts cost nothing."""
    clock = simpy.Environment()
    server = SimulatedServer(
        clock, replace(times, prefill=lambda tokens: 0.0), Traffic(1.0, 1, answer), random.Random(1)
    )
    for _ in range(requests):
        server.take(SimulatedRequest(0.0, answer))
    clock.run()
    return requests * (answer - 1) / clock.now


@pytest.mark.parametrize("concurrency", [1, 8, 64])
def test_throughput_at_saturation_is_that_of_the_cost_model(concurrency: int) -> None:
    """A full batch writes what the forecast says for as many concurrent requests."""
    scenario = replace(MODEL, concurrency=concurrency, context=MODEL.context + MODEL.answer / 2, answer=0)
    expected = forecast(scenario)
    assert flood(plain_times(MODEL), concurrency, 257) == pytest.approx(expected.plain_tokens_s)
    # A drafted batch ends with its unluckiest request: the last few sequences of a long answer are alone.
    drafted = flood(drafted_times(MODEL, 2.5), concurrency, 10_001)
    assert drafted == pytest.approx(expected.tokens_s.middle, rel=0.03)


def test_a_hit_of_the_prefix_cache_saves_exactly_its_prefill() -> None:
    rare = Traffic(0.001, 100, 41, requests=10)
    for shared in (0, 30, 99):
        run = simulate(replace(rare, shared=shared), ONE_AT_A_TIME, 2, in_turn)
        latencies = [request.latency for request in run.requests]
        service = ONE_AT_A_TIME.answer_s(100, 41)
        assert latencies[:2] == pytest.approx([service] * 2)  # the first of each server reads all of it
        assert latencies[2:] == pytest.approx([service - 0.001 * shared] * 8)


def test_the_first_token_is_there_when_the_prompt_is_read() -> None:
    run = simulate(Traffic(0.001, 100, 41, requests=5), ONE_AT_A_TIME, 1)
    assert [r.first - r.arrives for r in run.requests] == pytest.approx([0.1] * 5)
    assert run.latency_s(50) == run.settled().latency_s(90) == pytest.approx(0.5)


def test_equal_seeds_are_equal_runs_and_speculation_meets_the_same_arrivals() -> None:
    drafted, plain, traffic = drafted_times(MODEL, 2.5), plain_times(MODEL), Traffic(10, 1024, 256, requests=200)
    runs = [
        simulate(traffic, times, 2, seed=seed) for times, seed in ((drafted, 1), (drafted, 1), (drafted, 2), (plain, 1))
    ]
    ends = [[request.ends for request in run.requests] for run in runs]
    arrivals = [[request.arrives for request in run.requests] for run in runs]
    assert ends[0] == ends[1] and ends[0] != ends[2] and arrivals[0] == arrivals[3] and arrivals[0] != arrivals[2]


def test_a_round_writes_what_was_accepted() -> None:
    speculation = Speculation((1.0,), chances_of((0.8, 0.5, 0.1)), 1)
    assert speculation.tau == pytest.approx(2.4)
    draws, counts = random.Random(3), [0] * 5
    for _ in range(100_000):
        counts[speculation.draw(draws)] += 1
    shares = [0, 0.2, 0.3, 0.4, 0.1]
    for count, share in zip(counts, shares, strict=True):
        assert abs(count - 1e5 * share) <= 5 * math.sqrt(1e5 * share)
    for tau in (1.0, 2.5, 4.0):
        assert Speculation((), chances_of_chain(tau, 3), 0).tau == pytest.approx(tau)
    twice = speculation.repeated(2)
    assert twice.tau == pytest.approx(2 * 2.4) and twice.seconds == (2.0,)
    assert twice.chances == pytest.approx((0, 0, 0.04, 0.12, 0.25, 0.28, 0.22, 0.08, 0.01))


def test_speculation_is_off_above_the_batch_where_it_loses() -> None:
    assert pays_up_to((1, 1, 1, 1), (1.5, 1.9, 2.1, 1.9), tau=2) == 2
    times = StepTimes((0.01,) * 8, lambda tokens: 0.0, Speculation((0.01,) * 8, (0.0, 0.0, 1.0), 4))
    assert flood(times, 4, 65) == pytest.approx(4 * 2 / 0.01) and flood(times, 5, 65) == pytest.approx(5 / 0.01)


def test_measured_steps_are_lines_between_what_was_measured() -> None:
    assert between({1: 1.0, 4: 4.0, 2: 1.5}) == pytest.approx((1.0, 1.5, 2.75, 4.0))
    reading = line((10, 30), (0.2, 0.4))
    assert reading(20) == pytest.approx(0.3) and reading(0) == 0.0


def test_the_cards_suffice_and_one_server_less_does_not() -> None:
    answer = cards_needed(MODEL, per_second=20, within_s=6.0)
    assert answer.plain.servers and answer.drafted.servers and answer.slow.servers and answer.fast.servers
    assert answer.plain.servers > answer.drafted.servers
    assert answer.slow.servers >= answer.drafted.servers >= answer.fast.servers
    for times, needed in ((plain_times(MODEL), answer.plain), (drafted_times(MODEL, 2.5), answer.drafted)):
        assert needed.servers is not None and needed.latency_s is not None and needed.latency_s <= 6.0
        less = simulate(replace(answer.traffic, requests=2000), times, needed.servers - 1)
        assert less.settled().latency_s(90) > 6.0
    curve = latency_curve(MODEL, answer)
    assert list(curve.plain) == sorted(curve.plain, reverse=True)
    assert curve.plain[curve.servers.index(answer.plain.servers)] == answer.plain.latency_s


def test_long_answers_in_strides_take_as_long() -> None:
    traffic, fine = Traffic(1, 1024, 1600, requests=1000), drafted_times(MODEL, 2.5)
    run, quick = (simulate(traffic, times, 2) for times in (fine, in_strides(fine, 13)))
    for percent in (10, 50, 90):
        assert quick.latency_s(percent) == pytest.approx(run.latency_s(percent), rel=0.05)


def test_an_answer_that_takes_longer_alone_needs_no_cards() -> None:
    answer = cards_needed(MODEL, per_second=1, within_s=2.5)
    assert answer.plain.servers is None and answer.drafted.servers is not None


@pytest.mark.parametrize(
    ("scenario", "more", "words"),
    [
        (MODEL, {"per_second": 1e6}, "a part of the traffic"), (MODEL, {"per_second": 0.0}, "more than 0"),
        (MODEL, {"per_second": 1.0, "shared": 1024}, "fewer than"),
        (replace(MODEL, machine=replace(MODEL.machine, tensor=1)), {"per_second": 1.0}, "no room"),
        (replace(MODEL, answer=0), {"per_second": 1.0}, "1 or more"),
    ],
)  # fmt: skip
def test_a_traffic_that_cannot_be_simulated_gets_a_sentence(
    scenario: object, more: dict[str, float], words: str
) -> None:
    with pytest.raises(DraftscopeError, match=words):
        cards_needed(scenario, **more)  # type: ignore[arg-type]


def test_the_command_counts_cards_and_draws_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sizing, "RUN", 300)  # requests: enough for what is said of them
    asked = ["forecast", "Qwen3-8B", "--traffic", "4", "--answer", "64", "--tau", "2.5"]
    assert main([*asked, "--figures", str(tmp_path)]) == 0
    said = capsys.readouterr()
    assert "4 requests a second" in said.out and "Without speculation: 1 card (1 server)" in said.out
    assert "over the forecast's interval" in said.out and "Simulated, not run" in said.out
    assert "seconds in which nine of ten answers end" in (tmp_path / "traffic.html").read_text() and "wrote" in said.err
    assert main([*asked, "--json"]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["plain"]["servers"] == result["cards_per_server"] == 1
    assert 0 < result["drafted"]["latency_s"] < result["plain"]["latency_s"] < result["within_s"]
    assert main(["forecast", "Qwen3-8B", "--traffic", "0"]) == 2
    assert "give more than 0" in capsys.readouterr().err
