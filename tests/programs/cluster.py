"""The simulator beside two real servers: `python -m tests.programs.cluster --vllm build/vllm/bin/vllm --save FILE`.

Two vLLM servers of the embedded pair, a core each, first plain, then speculative. The steps of one of them are measured
at batches of 1 to 8, while the other one rests and while it does the same: they share the memory. Its acceptance is
counted. Then requests come at random moments, at four rates, to both servers in turn; the simulator gets the same
moments, and of the servers only what was measured before, once with each of the two lists of steps.
"""

from __future__ import annotations

import argparse
import datetime
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from statistics import fmean, median

import numpy as np

from draftscope.base import markdown
from draftscope.base.assets import assets
from draftscope.forecast.cluster.simulate import ClusterRun, SimulatedRequest, SimulatedServer, Traffic, simulate
from draftscope.forecast.cluster.step_times import Speculation, StepTimes, chances_of
from draftscope.servers.adapter import Request, Server, ServerError
from draftscope.servers.programs.program import ServedPair
from draftscope.servers.programs.program_list import find_start
from draftscope.servers.server_race import Answer, Race, RaceLane, RacePrompt, answered
from draftscope.train.data import prompt_mix
from draftscope_app.engine.plural import count
from tests.programs.interop import started

PORT, SERVERS, MOST, GAMMA = 8150, 2, 8, 4
PROMPT, ANSWER, PROMPTS, CONTEXT = 64, 64, 40, 512  # tokens, but for the number of different prompts
BATCHES, BURSTS = (1, 2, 3, 4, 6, 8), 3
LENGTHS, READS = (32, 64, 128, 256), 5  # prompts whose reading is timed, and how often each
LOADS = (0.3, 0.6, 0.8, 0.95)  # of what two plain servers can write
THREADS = 256


@dataclass(frozen=True)
class Point:
    """One rate: what two servers did, and what was simulated of them."""

    kind: str
    traffic: Traffic
    measured: ClusterRun
    simulated: tuple[
        ClusterRun, ...
    ]  # with the steps of a server whose neighbour rests, and of one whose does the same

    def cells(self) -> tuple[str, ...]:
        """A row of the table."""
        runs = (self.measured, *self.simulated)
        rows = [[run.tokens_s for run in runs], *([run.latency_s(at) for run in runs] for at in (50, 90))]
        texts = [(f"{real:.3g}", " to ".join(f"{one:.3g}" for one in simulated)) for real, *simulated in rows]
        return (self.kind, f"{self.traffic.per_second:.2f}", f"{self.traffic.requests}", *sum(texts, ()))


HEAD = ("servers", "requests a second", "requests", "tokens/s", "simulated", "median s", "simulated", "90th s",
        "simulated")  # fmt: skip


@contextmanager
def two_servers(vllm: Path, speculative: bool) -> Iterator[list[Server]]:
    """Plain or speculative ones, each on a core of its own, where there are two."""
    home, cores = assets() / "models", sorted(os.sched_getaffinity(0))
    draft = str(home / "llama-draftscope-draft-1m")
    pair = ServedPair(str(home / "llama-draftscope-15m"), "draft", draft, GAMMA, CONTEXT, requests=MOST)
    with ExitStack() as stack, ThreadPoolExecutor(SERVERS) as pool:
        waiting = []
        for number in range(SERVERS):
            command = find_start("vllm-cpu").commands(pair, PORT + 2 * number)[int(speculative)]
            pinned = ("", "-c", str(cores[number % len(cores)]), str(vllm), *command.arguments[1:])
            entered = started(Path("taskset"), replace(command, arguments=pinned), ("--enforce-eager",))
            waiting.append(pool.submit(stack.enter_context, entered))
        yield [one.result() for one in waiting]


def texts(server: Server, tokens: int) -> list[RacePrompt]:
    """Prompts of that many tokens each, cut from the texts that training is prompted with."""
    ids = server.tokenize("\n".join(prompt.text for prompt in prompt_mix.mix(prompt_mix.training_prompts(1, 2500), 1)))
    return [RacePrompt("", ids[start : start + tokens]) for start in range(0, PROMPTS * tokens, tokens)]


def ask(server: Server, prompt: RacePrompt, tokens: int = ANSWER) -> Answer:
    """One whole answer; raises `ServerError` for one that failed."""
    plan = Race([prompt], Request((0,), tokens, ignore_eos=True))
    heard = answered(RaceLane("", server), plan, prompt, 0, 0)
    answer = next(item for item in heard if isinstance(item, Answer))
    if answer.failure:
        raise ServerError(answer.failure)
    return answer


def measured_times(servers: Sequence[Server], speculative: bool) -> tuple[StepTimes, ...]:
    """What the simulator gets of the first server: with the others at rest, and with all of them at the same work."""
    inputs, before = texts(servers[0], PROMPT), servers[0].counters()
    lists = [step_times(busy, inputs) for busy in (servers[:1], servers)]
    after = servers[0].counters()
    reading = line(LENGTHS, [first_token_s(servers[0], length) for length in LENGTHS])
    if not speculative:
        return tuple(StepTimes(steps, reading) for steps in lists)
    assert before is not None and after is not None
    counted = after - before
    assert counted.rounds, "it drafted nothing"
    kept = [accepted / counted.rounds for accepted in counted.by_position]
    return tuple(StepTimes(steps, reading, Speculation(steps, chances_of(kept), MOST)) for steps in lists)


def in_turn(number: int, servers: Sequence[SimulatedServer]) -> SimulatedServer:
    """A router."""
    return servers[number % len(servers)]


def between(measured: Mapping[int, float]) -> tuple[float, ...]:
    """Seconds at every batch from 1 to the largest measured one, on lines between those that were measured."""
    batches = sorted(measured)
    return tuple(map(float, np.interp(range(1, batches[-1] + 1), batches, [measured[n] for n in batches])))


def line(lengths: Sequence[int], seconds: Sequence[float]) -> Callable[[int], float]:
    """Seconds of a prefill by its tokens: the straight line through what was measured, never below 0."""
    slope, start = np.polyfit(lengths, seconds, 1)
    return lambda tokens: max(0.0, float(start + slope * tokens)) if tokens else 0.0


def step_times(busy: Sequence[Server], inputs: Sequence[RacePrompt]) -> tuple[float, ...]:
    """Seconds of a step of the first of these servers, by batch, while all of them write as many answers."""
    times = {}
    with ThreadPoolExecutor(len(busy)) as pool:
        for batch in BATCHES:
            work = partial(burst, inputs=inputs, batch=batch)
            bursts = [list(pool.map(partial(work, number=number), busy)) for number in range(BURSTS)]
            times[batch] = fmean(first for first, *_ in bursts)
    return between(times)


def burst(server: Server, inputs: Sequence[RacePrompt], batch: int, number: int) -> float:
    """Seconds of a step while `batch` answers are written at once: from when all have begun until the first ends."""
    chosen = [inputs[(number * batch + place) % len(inputs)] for place in range(batch)]
    with ThreadPoolExecutor(batch) as pool:
        answers = list(pool.map(lambda prompt: ask(server, prompt), chosen))
    begin = max(answer.arrivals[0].at for answer in answers)
    end = min(max(arrival.at for arrival in answer.arrivals) for answer in answers)
    steps = []
    for answer in answers:
        inside = [arrival.at for arrival in answer.arrivals if arrival.tokens and begin <= arrival.at <= end]
        steps += [(inside[-1] - inside[0]) / (len(inside) - 1)] if len(inside) > 1 else []
    return fmean(steps)


def first_token_s(server: Server, length: int) -> float:
    """Until the first token of a prompt of that length, alone."""
    times = [ask(server, prompt, tokens=2).latency.ttft for prompt in texts(server, length)[:READS]]
    return median(seconds for seconds in times if seconds is not None)


def offer(servers: Sequence[Server], traffic: Traffic, seed: int) -> ClusterRun:
    """Sends the simulator's own requests at their moments, to the servers in turn."""
    requests, inputs = traffic.arrivals(seed), texts(servers[0], traffic.prompt)
    began = time.monotonic()

    def send(number: int, request: SimulatedRequest) -> None:
        sent = time.monotonic()
        answer = ask(servers[number % len(servers)], inputs[number % len(inputs)])
        request.ends = sent + answer.latency.total - began

    with ThreadPoolExecutor(THREADS) as pool:
        waiting = []
        for number, request in enumerate(requests):
            time.sleep(max(0.0, began + request.arrives - time.monotonic()))
            waiting.append(pool.submit(send, number, request))
        for one in waiting:
            one.result()
    return ClusterRun(requests, traffic.answer)


def rates(plain: StepTimes) -> list[float]:
    """Requests a second that are `LOADS` of what two plain servers with full batches can answer."""
    one = (plain.prefill(MOST * PROMPT) + (ANSWER - 1) * plain.plain[MOST - 1]) / MOST
    return [SERVERS * load / one for load in LOADS]


def compared(vllm: Path, seconds: float, say: Callable[[str], None]) -> None:
    """Plain servers, then speculative ones, at the same rates."""
    points: list[Point] = []
    chosen: list[float] = []
    for kind in ("plain", "speculative"):
        with two_servers(vllm, kind == "speculative") as servers:
            for server in servers:
                burst(server, texts(server, PROMPT), MOST, 0)  # warm
            times = measured_times(servers, kind == "speculative")
            chosen = chosen or rates(times[0])
            say(said_of(kind, servers[0], times))
            for seed, rate in enumerate(chosen):
                traffic = Traffic(rate, PROMPT, ANSWER, requests=max(2, round(rate * seconds)))
                simulated = tuple(simulate(traffic, one, SERVERS, in_turn, seed) for one in times)
                points.append(Point(kind, traffic, offer(servers, traffic, seed), simulated))
    say(markdown.table(HEAD, [point.cells() for point in points], "l" + "r" * (len(HEAD) - 1)))


def said_of(kind: str, server: Server, times: Sequence[StepTimes]) -> str:
    """What was measured before any traffic."""
    resting, busy = times
    step = "round" if resting.speculation else "step"
    tau = f" It writes {resting.speculation.tau:.2f} tokens a round." if resting.speculation else ""
    read = ", ".join(f"{1e3 * resting.prefill(length):.1f}" for length in LENGTHS)
    return (
        f"- vLLM {server.identity.version}, {kind}: a {step} of {_listed(BATCHES)} sequences takes {_steps(resting)} "
        f"ms while the other server rests, {_steps(busy)} ms while it does the same; prompts of {_listed(LENGTHS)} "
        f"tokens are read in {read} ms.{tau}"
    )


def _steps(times: StepTimes) -> str:
    return ", ".join(f"{1e3 * times.plain[batch - 1]:.1f}" for batch in BATCHES)


def _listed(numbers: Sequence[int]) -> str:
    return ", ".join(map(str, numbers))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.programs.cluster", description=__doc__)
    parser.add_argument("--vllm", type=Path, required=True, help="the program 'vllm' of an environment with vLLM")
    parser.add_argument("--seconds", type=float, default=18.0, help="of arrivals at each rate")
    parser.add_argument("--save", type=Path, help="a Markdown file to write the table to")
    given = parser.parse_args()
    parts: list[str] = []

    def say(text: str) -> None:
        parts.append(text)
        print(f"{text}\n", flush=True)

    say("# Two servers, simulated and real")
    cores = count(len(os.sched_getaffinity(0)), "core")
    say(
        f"{datetime.date.today()}: {SERVERS} servers, {cores}, prompts of {PROMPT} tokens, answers of {ANSWER}, T = 0, "
        f"drafts of {GAMMA}, up to {MOST} answers at once each, requests in turn, at "
        f"{', '.join(f'{load:.0%}' for load in LOADS)} of what the plain ones can answer."
    )
    compared(given.vllm.absolute(), given.seconds, say)
    if given.save is not None:
        given.save.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
