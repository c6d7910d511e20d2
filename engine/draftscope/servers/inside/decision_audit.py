"""Asks a vLLM that records itself for texts, reads their rounds, and tests every decision."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from itertools import cycle, islice
from typing import Any
from uuid import uuid4

from pydantic import BaseModel

from draftscope.servers.inside.decisions import FALSE_ALARM, TensorFinding, examine
from draftscope.servers.inside.recording import RecordedRound, read_state
from draftscope.servers.programs.web_server import Cards, chosen
from draftscope.servers.wire import Wire, WireLimits
from draftscope.verify.sampling import Sampling

ARRIVES_S, PAUSE_S = 10.0, 0.05
LOST_S = 1.0  # in place of ARRIVES_S where steps were lost: what is missing may never come


class InsideChoice(BaseModel):
    token_ids: list[int]


class InsideAnswer(BaseModel):
    choices: list[InsideChoice]


@dataclass(frozen=True)
class InsidePlan:
    """Texts of `length` tokens, `tokens` in all at most, `concurrency` at once; none is begun after `seconds`."""

    sampling: Sampling
    tokens: int = 5000
    length: int = 48
    concurrency: int = 4
    seconds: float = 300.0
    model: str | None = None
    false_alarm: float = FALSE_ALARM


@dataclass(frozen=True)
class InsideReport:
    """What was recorded, and the tests of it, tensor by tensor."""

    server: str
    requests: int
    rounds: int
    decisions: int
    unlike: int  # texts that differ from what was recorded
    lost: int  # steps that the recorder had no time for
    gaps: int  # texts that lack rounds for it; what else they have is tested
    findings: list[TensorFinding]
    false_alarm: float

    @property
    def first_wrong(self) -> TensorFinding | None:
        return next((finding for finding in self.findings if finding.fault), None)

    @property
    def different(self) -> bool:
        return self.unlike > 0 or self.first_wrong is not None

    @property
    def incomplete(self) -> bool:
        return self.gaps > 0

    @property
    def verdict(self) -> str:
        seen = f"{self.decisions:,} decisions in {self.rounds:,} rounds of {self.requests} requests"
        if self.first_wrong is not None:
            return f"Different. First wrong tensor: {self.first_wrong.tensor}; {self.first_wrong.fault}. Seen: {seen}."
        if self.unlike:
            return f"Different: {self.unlike} texts are not what was recorded. Seen: {seen}."
        if self.incomplete:
            return (
                f"Undecided: the recorder was behind and lost {self.lost} steps, so {self.gaps} of {self.requests} "
                f"texts have gaps. No difference found in {seen}. Ask again with a smaller --concurrency."
            )
        if not self.decisions:
            return f"Nothing was drafted, so nothing was decided. Seen: {seen}."
        return f"No difference found in {seen}; chance of a false alarm at most {self.false_alarm:g}."

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "different": self.different, "incomplete": self.incomplete, "verdict": self.verdict}


def audit_inside(url: str, prompts: Sequence[str], plan: InsidePlan) -> InsideReport:
    """Raises `ServerError` where the server does not answer, has no recorder, or ended it."""
    end, wire = time.monotonic() + plan.seconds, Wire(url.rstrip("/"), WireLimits(total=plan.seconds))
    before = read_state(wire).lost
    model = chosen(wire.get("/v1/models", Cards), plan.model, wire.url).id
    sent = list(islice(cycle(prompts), max(plan.tokens // plan.length, 1)))

    def ask(prompt: str) -> tuple[list[int], list[RecordedRound]] | None:
        return _ask(wire, model, prompt, plan, before) if time.monotonic() < end else None

    with ThreadPoolExecutor(plan.concurrency) as pool:
        texts = [text for text in pool.map(ask, sent) if text is not None]
    lost = read_state(wire).lost - before
    rounds = [step for _, recorded in texts for step in recorded]
    parted = [pair for pair in texts if pair[0] != _written(pair[1])[: len(pair[0])]]
    gaps = sum(lost > 0 and has_gaps(*pair) for pair in parted)
    return InsideReport(
        server=wire.url,
        requests=len(texts),
        rounds=len(rounds),
        decisions=sum(token.accepted is not None for step in rounds for token in step.drafted),
        unlike=len(parted) - gaps,
        lost=lost,
        gaps=gaps,
        findings=examine(rounds, plan.false_alarm),
        false_alarm=plan.false_alarm,
    )


def has_gaps(written: list[int], rounds: Sequence[RecordedRound]) -> bool:
    """The text has these rounds in their order, and tokens between them. Rounds may run past its end."""
    place = 0
    for tokens in (step.written for step in rounds):
        starts = range(place, len(written))
        places = [at for at in starts if written[at : at + len(tokens)] == tokens[: len(written) - at]]
        if starts and not places:
            return False
        place = len(written) if not places else places[0] + len(tokens)
    return True


def _ask(wire: Wire, model: str, prompt: str, plan: InsidePlan, lost: int) -> tuple[list[int], list[RecordedRound]]:
    """The tokens of one answer, and its rounds, for which the recorder's thread is given some seconds.
    `lost`: steps before."""
    name = f"draftscope-{uuid4().hex}"
    body = {
        "model": model, "prompt": prompt, "max_tokens": plan.length, "ignore_eos": True, "return_token_ids": True,
        "temperature": plan.sampling.temperature, "top_k": plan.sampling.top_k, "top_p": plan.sampling.top_p,
        "request_id": name,
    }  # fmt: skip
    written = wire.post("/v1/completions", body, InsideAnswer).choices[0].token_ids
    began = time.monotonic()
    while True:
        state = read_state(wire, name)
        patience = LOST_S if state.lost > lost else ARRIVES_S
        if len(_written(state.rounds)) >= len(written) or time.monotonic() - began > patience:
            return written, state.rounds
        time.sleep(PAUSE_S)


def _written(rounds: Sequence[RecordedRound]) -> list[int]:
    return [token for step in rounds for token in step.written]
