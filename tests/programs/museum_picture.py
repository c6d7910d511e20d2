"""What a bug does to one token, in numbers: the target's probabilities beside what its server writes, or reports."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from draftscope.decode.engine import DecodingEngine
from draftscope.servers.adapter import Request
from draftscope.servers.audit.warp import Floats
from draftscope.servers.museum.exhibits import Exhibit
from draftscope.servers.museum.server import Kept, MuseumServer, Reporter, Verify

PROMPT = "The old man walked down to the sea. The old man"
DRAWS = 4000
ROWS = 6  # the others are one row
REPORTED = 8  # tokens whose probabilities are asked for


@dataclass(frozen=True)
class Row:
    """A token's bytes as latin-1 text; `wrong` and `mended` are its share of the draws, or what is reported with it."""

    raw: str  # empty: all other tokens
    target: float
    wrong: float
    mended: float


@dataclass(frozen=True)
class Picture:
    """After `prompt`: how often each token is written where one is drafted, or what is reported of a text's tokens."""

    kind: Literal["written", "reported"]
    prompt: str
    rows: list[Row]
    draws: int = 0
    variation: Mapping[str, float] = field(default_factory=dict)  # of the draws, on each side
    chance: float = 0.0  # the total variation that as many draws from the target itself have on average


def picture(engine: DecodingEngine, exhibit: Exhibit, kept: Kept) -> Picture:
    """Where both sides write alike, the difference is in what they report."""
    (wrong, report), (mended, mended_report) = exhibit.wrong, exhibit.mended
    if wrong is mended:
        return _reported(engine, exhibit, (report, mended_report), kept)
    p = np.exp(_server(engine, mended, exhibit.greedy, kept).round(engine.encode(PROMPT), 0, 1.0, _dice(0)).logp[0])
    before, after = (_shares(engine, verify, exhibit.greedy, kept, len(p)) for verify in (wrong, mended))
    shown = np.argsort(-np.maximum(p, before), kind="stable")[:ROWS]
    rows = [Row(engine.pieces.shown(int(at)), *(float(law[at]) for law in (p, before, after))) for at in shown]
    rest = Row("", *(float(1 - law[shown].sum()) for law in (p, before, after)))
    variation = {"wrong": float(np.abs(before - p).sum() / 2), "mended": float(np.abs(after - p).sum() / 2)}
    chance = float(np.sqrt(p * (1 - p) / DRAWS).sum() / math.sqrt(2 * math.pi))
    return Picture("written", PROMPT, [*rows, rest], DRAWS, variation, chance)


def _shares(engine: DecodingEngine, verify: Verify, greedy: bool, kept: Kept, vocabulary: int) -> Floats:
    """How often each token is written at a drafted place."""
    server, ids = _server(engine, verify, greedy, kept), engine.encode(PROMPT)
    written = Counter(verify(server.round(ids, 1, 1.0, dice), dice)[0] for dice in map(_dice, range(DRAWS)))
    return np.array([written[token] for token in range(vocabulary)]) / DRAWS


def _reported(engine: DecodingEngine, exhibit: Exhibit, reporters: tuple[Reporter, Reporter], kept: Kept) -> Picture:
    """The tokens of one text, each with its probability; its first one has no draft."""
    request = Request(tuple(engine.encode(PROMPT)), REPORTED + 1, seed=0, temperature=1.0, logprobs=True)

    def reported(report: Reporter) -> list[tuple[int, float]]:
        chunks = list(_server(engine, exhibit.mended[0], exhibit.greedy, kept, report).stream(request))
        return [pair for chunk in chunks for pair in zip(chunk.ids, np.exp(chunk.logprobs).tolist(), strict=True)][1:]

    target, wrong, mended = (reported(report) for report in (lambda logs: logs, *reporters))
    rows = [
        Row(engine.pieces.shown(token), p, before, after)
        for (token, p), (_, before), (_, after) in zip(target, wrong, mended, strict=True)
    ]
    return Picture("reported", PROMPT, rows)


def _server(
    engine: DecodingEngine, verify: Verify, greedy: bool, kept: Kept, report: Reporter = lambda logs: logs
) -> MuseumServer:
    return MuseumServer(engine.target, verify, report, greedy, kept=kept)


def _dice(number: int) -> np.random.Generator:
    return np.random.default_rng((11, number))
