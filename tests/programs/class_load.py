"""A class of many phones on loopback, as a table: `python -m tests.programs.class_load --phones 200`.

Every phone joins, listens and answers each question at a random moment of two seconds; one in five loses its connection
in between and comes back. The projector measures how long an answer takes to be counted, and a reveal to be seen.
The server is a process of its own, whose memory and processor time are read. A third process decodes for two seconds
before each question and for two seconds of its answers, in turn, so that both see the same machine. The phones run on
that machine, too: what decoding loses is at most what the table says.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from statistics import median, quantiles
from typing import Annotated, Any

import httpx
import numpy as np
import psutil
import typer
from scipy.stats import bootstrap
from tabulate import tabulate

from draftscope.decode.engine import DecodingEngine
from draftscope.models.probe import probed
from draftscope_app.doors.learn.classroom.class_routes import KEY
from draftscope_app.doors.learn.classroom.rooms import Rooms
from tests.doors.learn.classroom.class_server import served_class, states
from tests.support.models import byte_tokenizer, random_llama

ANSWERING_S = 2.0
DROPPED = 0.2  # of the phones lose their connection in each question
PHONE_PAGE = (
    "/join",
    "/class/files/style.css",
    "/class/files/screens/phone.js",
    "/class/files/vendor/lit-html.js",
    "/class/files/base/order.js",
    "/class/files/screens/room.js",
    "/class/files/screens/drawing.js",
)


@dataclass
class Seen:
    """What the clients measured, in milliseconds, and counted."""

    counted: list[float] = field(default_factory=list)  # from an answer to the projector's count that has it
    revealed: list[float] = field(default_factory=list)  # from the presenter's key to a phone's reveal
    lost: int = 0  # answers that the reveal did not know
    bytes_at_start: int = 0
    quiet: list[float] = field(default_factory=list)  # tokens decoded per second before a question
    answering: list[float] = field(default_factory=list)  # and while it is answered
    first_rss: int = 0  # bytes of the server with one phone in the room,
    joined_rss: int = 0  # and with all of them
    answers_cpu_s: float = 0.0  # of the server, for all answers


class Client:
    """One phone."""

    def __init__(self, http: httpx.AsyncClient, code: str, seen: Seen) -> None:
        self.http, self.base, self.seen = http, f"/class/{code}", seen
        self.sent: dict[int, tuple[float, int]] = {}
        self.state: dict[str, Any] = {}
        self.listening: asyncio.Task[None] | None = None

    async def join(self) -> None:
        self.phone = (await self.http.post(f"{self.base}/join", json={})).json()["phone"]
        self.listen()

    def listen(self) -> None:
        self.listening = asyncio.create_task(self._listen())

    async def _listen(self) -> None:
        async for state in states(self.http, f"{self.base}/events?phone={self.phone}"):
            self.state = state
            if state["phase"] == "reveal" and state["number"] in REVEALED:
                self.seen.revealed.append(1e3 * (time.perf_counter() - REVEALED[state["number"]]))

    async def answer(self, number: int) -> None:
        await asyncio.sleep(random.uniform(0, ANSWERING_S))
        if random.random() < DROPPED and self.listening:
            self.listening.cancel()
            await asyncio.sleep(random.uniform(0, 0.3))
            self.listen()
        option = random.randrange(len(self.state["question"]["options"]))
        sent = {"phone": self.phone, "question": number, "option": option}
        (await self.http.post(f"{self.base}/answer", json=sent)).raise_for_status()
        self.sent[number] = (time.perf_counter(), option)


REVEALED: dict[int, float] = {}  # question -> when the presenter revealed it


def serve(pipe: Connection, phones: int) -> None:
    """A server of classes, until this process is ended."""
    with served_class(Rooms(9, phones)) as address:
        pipe.send(address)
        threading.Event().wait()


def decode(pipe: Connection) -> None:
    """Decodes for as many seconds as it is told, and answers tokens a second."""
    engine = DecodingEngine(probed(random_llama(3, 258, layers=8), "target"), None, byte_tokenizer())
    engine.decode("warm", drafter="plain", max_new_tokens=8)
    pipe.send(None)
    while True:
        seconds, tokens, begun = pipe.recv(), 0, time.perf_counter()
        while time.perf_counter() - begun < seconds:
            tokens += len(engine.decode("class", drafter="plain", max_new_tokens=16).token_ids)
        pipe.send(tokens / (time.perf_counter() - begun))


@contextmanager
def beside(work: Any, *arguments: Any) -> Iterator[tuple[int, Connection, Any]]:
    """Another process at work: its id, its pipe, and the first thing that it says."""
    spawn = multiprocessing.get_context("spawn")
    pipe, other = spawn.Pipe()
    process = spawn.Process(target=work, args=(other, *arguments), daemon=True)
    process.start()
    try:
        assert process.pid is not None
        yield process.pid, pipe, pipe.recv()
    finally:
        process.terminate()
        process.join()


async def joined(clients: list[Client], server: psutil.Process) -> int:
    """Bytes of the server when all of these have heard where the class is."""
    await asyncio.gather(*(client.join() for client in clients))
    while not all(client.state for client in clients):
        await asyncio.sleep(0.02)
    return int(server.memory_info().rss)


class LoadedClass:
    """One room, its presenter, and its phones."""

    def __init__(self, http: httpx.AsyncClient, room: dict[str, Any], phones: int, seen: Seen) -> None:
        self.http, self.room, self.seen = http, room, seen
        self.clients = [Client(http, room["code"], seen) for _ in range(phones)]
        self.counts: list[tuple[float, int, int]] = []  # when, in which question, how many answers the projector saw

    async def turn(self) -> dict[str, Any]:
        path, key = f"/class/{self.room['code']}/turn", {KEY: self.room["key"]}
        answer: dict[str, Any] = (await self.http.post(path, json={"action": "next"}, headers=key)).json()
        return answer

    async def project(self) -> None:
        async for state in states(self.http, f"/class/{self.room['code']}/events"):
            self.counts.append((time.perf_counter(), state["number"], state["answered"]))

    async def ask(self, number: int, server: psutil.Process, decoded: Callable[[], float]) -> None:
        """All phones answer one question, beside and without a decoder's turn of as many seconds."""
        while not all(c.state.get("phase") == "ask" and c.state["number"] == number for c in self.clients):
            await asyncio.sleep(0.02)
        self.seen.quiet.append(await asyncio.to_thread(decoded))
        before = sum(server.cpu_times()[:2])
        answers = asyncio.gather(*(client.answer(number) for client in self.clients))
        self.seen.answering.append(await asyncio.to_thread(decoded))
        await answers
        self.seen.answers_cpu_s += sum(server.cpu_times()[:2]) - before
        await asyncio.sleep(1)
        for n, sent in enumerate(sorted(client.sent[number][0] for client in self.clients), 1):
            taken = next((at for at, q, answered in self.counts if q == number and answered >= n), None)
            self.seen.counted.append(1e3 * max(0.0, taken - sent) if taken else float("inf"))

    async def reveal(self, number: int, state: dict[str, Any]) -> dict[str, Any]:
        """The presenter reveals; answers that the tally lacks are lost. The state of the next question."""
        while state["phase"] != "reveal":
            REVEALED[number] = time.perf_counter()
            state = await self.turn()
        options = range(len(state["question"]["options"]))
        tally = [sum(c.sent[number][1] == option for c in self.clients) for option in options]
        self.seen.lost += sum(abs(a - b) for a, b in zip(tally, state["tally"], strict=True))
        await asyncio.sleep(1)
        return await self.turn()

    def leave(self) -> None:
        for client in self.clients:
            if client.listening:
                client.listening.cancel()


async def run(
    address: str, phones: int, questions: int, server: psutil.Process, decoder: Connection
) -> tuple[Seen, float]:
    def decoded() -> float:
        decoder.send(ANSWERING_S)
        return float(decoder.recv())

    seen = Seen()
    limits = httpx.Limits(max_connections=None, max_keepalive_connections=None)
    async with httpx.AsyncClient(base_url=address, timeout=60, limits=limits) as http:
        room = (await http.post("/class/rooms", json={})).json()
        for page in PHONE_PAGE:
            seen.bytes_at_start += len((await http.get(page)).content)
        begun = time.perf_counter()
        loaded = LoadedClass(http, room, phones, seen)
        seen.first_rss = await joined(loaded.clients[:1], server)  # it pays for what a server loads once
        seen.joined_rss = await joined(loaded.clients[1:], server)
        joined_s = time.perf_counter() - begun
        watching = asyncio.create_task(loaded.project())
        state = await loaded.turn()
        for number in range(questions):
            await loaded.ask(number, server, decoded)
            state = await loaded.reveal(number, state)
        watching.cancel()
        loaded.leave()
    return seen, joined_s


def main(
    phones: Annotated[int, typer.Option(help="phones of the class")] = 200,
    questions: Annotated[int, typer.Option(help="questions of the deck that are asked", max=11)] = 5,
) -> None:
    """Run the class and print the table."""
    with beside(serve, phones) as (pid, _, address), beside(decode) as (_, decoder, _):
        server = psutil.Process(pid)
        before = server.memory_info().rss
        seen, joined_s = asyncio.run(run(address, phones, questions, server, decoder))
        after = server.memory_info().rss
    counted, revealed = quantiles(seen.counted, n=100), quantiles(seen.revealed, n=100)
    a_phone = (seen.joined_rss - seen.first_rss) / (phones - 1)
    quiet, answering = median(seen.quiet), median(seen.answering)
    ratios = [a / q for q, a in zip(seen.quiet, seen.answering, strict=True)]
    low, high = bootstrap((ratios,), np.median, rng=np.random.default_rng(0)).confidence_interval
    rows = [
        ("phones, questions", f"{phones}, {questions}"),
        ("all joined after", f"{joined_s:.1f} s"),
        ("a phone's page", f"{seen.bytes_at_start / 1e3:.0f} kB"),
        ("answer to the projector's count, p50 and p99", f"{counted[49]:.0f} and {counted[98]:.0f} ms"),
        ("reveal to a phone, p50 and p99", f"{revealed[49]:.0f} and {revealed[98]:.0f} ms"),
        ("answers lost", str(seen.lost)),
        ("the server's memory, a phone after the first", f"{a_phone / 1024:.0f} KiB"),
        ("the server's memory, grown by the whole class", f"{(after - before) / 2**20:.1f} MiB"),
        ("the server's processor time, an answer", f"{1e3 * seen.answers_cpu_s / phones / questions:.2f} ms"),
        ("decoding, quiet and while phones answer, medians", f"{quiet:.1f} and {answering:.1f} tokens/s"),
        ("decoding while phones answer, of quiet", " ".join(f"{ratio:.2f}" for ratio in ratios)),
        ("median of these, 95% interval", f"{median(ratios):.2f} [{low:.2f}, {high:.2f}]"),
    ]
    print(tabulate(rows, tablefmt="github", headers=("what", "measured")))


if __name__ == "__main__":
    typer.run(main)
