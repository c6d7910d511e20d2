"""Times of one answer, "seen from here": from when its chunks arrived, not from what a server says.

TTFT: from sending to the first token. TPOT: the rest divided by its tokens. ITL: the gap before each token, 0 within a
burst. ICL: the gap before each burst. A burst is what a round wrote: a chunk where the server sends rounds, and tokens
with almost no gap between them where it sends tokens.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

NEAR = 0.2  # of the 90th percentile of gaps: below it two tokens are of one burst


@dataclass(frozen=True)
class Arrival:
    """A chunk with tokens."""

    at: float  # seconds since the request was sent
    tokens: int


@dataclass(frozen=True)
class Latency:
    """Seconds; None where an answer has too few tokens for it."""

    ttft: float | None
    tpot: float | None
    itl: tuple[float, ...]
    icl: tuple[float, ...]
    bursts: tuple[int, ...]  # tokens in each
    total: float  # until the last token

    @property
    def tokens(self) -> int:
        return sum(self.bursts)

    @property
    def speed(self) -> float | None:
        """Tokens per second, reading the prompt included."""
        return self.tokens / self.total if self.tokens and self.total > 0 else None


def latency(arrivals: Sequence[Arrival], chunks_are_bursts: bool, jitter: float) -> Latency:
    """The times of one answer. Gaps within `jitter` seconds, the loopback's own, always belong to one burst."""
    arrivals = [arrival for arrival in arrivals if arrival.tokens]
    if not arrivals:
        return Latency(None, None, (), (), (), 0.0)
    gaps = np.diff([arrival.at for arrival in arrivals])
    near = near_gap(arrivals, chunks_are_bursts, jitter)
    bursts, icl = [arrivals[0].tokens], []
    for gap, arrival in zip(gaps, arrivals[1:], strict=True):
        if gap <= near:
            bursts[-1] += arrival.tokens
        else:
            bursts.append(arrival.tokens)
            icl.append(float(gap))
    itl = [gap for gap, arrival in zip(gaps, arrivals[1:], strict=True) for gap in (gap, *[0.0] * (arrival.tokens - 1))]
    tokens, first, last = sum(bursts), arrivals[0].at, arrivals[-1].at
    after_first = tokens - arrivals[0].tokens
    return Latency(
        ttft=first,
        tpot=(last - first) / after_first if after_first else None,
        itl=tuple(map(float, itl)),
        icl=tuple(icl),
        bursts=tuple(bursts),
        total=last,
    )


def near_gap(arrivals: Sequence[Arrival], chunks_are_bursts: bool, jitter: float) -> float:
    """Seconds: a gap up to this joins two arrivals to one burst; negative where each chunk is a burst of its own."""
    gaps = np.diff([arrival.at for arrival in arrivals if arrival.tokens])
    return -1.0 if chunks_are_bursts or not len(gaps) else max(jitter, NEAR * float(np.percentile(gaps, 90)))


def loopback_jitter(messages: int = 200, pause: float = 0.0005) -> float:
    """Seconds, the 99th percentile: how much later than the quickest one a small message is read over the loopback.

    Sender and reader are threads of this process, as the reader of a stream is; a gap below this says nothing.
    """
    with socket.create_server(("127.0.0.1", 0)) as listening:
        sender = threading.Thread(target=_send, args=(listening.getsockname(), messages, pause), daemon=True)
        sender.start()
        connection, _ = listening.accept()
        delays: list[float] = []
        with connection:
            while len(delays) < messages and (sent := connection.recv(8, socket.MSG_WAITALL)):
                delays.append(time.monotonic() - float(np.frombuffer(sent)[0]))
        sender.join()
    return float(np.percentile(delays, 99) - min(delays))


def _send(address: tuple[str, int], messages: int, pause: float) -> None:
    with socket.create_connection(address) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(messages):
            time.sleep(pause)
            connection.sendall(np.array([time.monotonic()]).tobytes())
