"""At temperature 0 a server must write plain's tokens, except where rounding alone decides the target's best one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from draftscope.base.text import same_start
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure.ties import Parting, Rounding
from draftscope.servers.adapter import Request
from draftscope.servers.audit.target import Target, refuse_unknown
from draftscope.servers.audit.text_writer import Writer, write

GREEDY_TOKENS = 32  # of each text

Tokens = tuple[int, ...]
Expected = Callable[[Sequence[int]], Tokens]  # prompt -> plain's greedy tokens


@dataclass(frozen=True)
class GreedyResult:
    """`differs`: a sentence on the first text that parts from plain's elsewhere than at a tie; empty if none does."""

    texts: int
    tokens: int  # of plain's texts
    equal: int  # of these, written before a text parts
    ties: int  # texts that part where rounding alone decides
    untold: int  # texts that part where no weights tell whether it is a tie
    differs: str = ""


def greedy_request(prompt: Sequence[int]) -> Request:
    return Request(max_tokens=GREEDY_TOKENS, ids=tuple(prompt))


def written_by(writer: Writer, target: Target) -> Expected:
    """Plain's tokens are what this server writes; raises `DraftscopeError` where the target does not have them."""

    def written(prompt: Sequence[int]) -> Tokens:
        tokens = write(writer, greedy_request(prompt)).with_end(target.ends)
        refuse_unknown(target, tokens)
        return tokens

    return written


def decoded_by(engine: DecodingEngine) -> Expected:
    """Plain's tokens are what this pair's target writes here."""

    def decode(prompt: Sequence[int]) -> Tokens:
        settings = Settings.of(drafter="plain", temperature=0.0, max_new_tokens=GREEDY_TOKENS)
        session = engine.start_batch([list(prompt)], settings, (0,))
        for _ in session.steps():
            pass
        return tuple(session.transcripts[0].tokens)

    return decode


def greedy(
    writer: Writer,
    prompts: Sequence[Sequence[int]],
    expected: Sequence[Tokens],
    target: Target,
    rounding: Rounding | None,
) -> GreedyResult:
    """Compares a server's greedy texts with plain's, `expected`; without `rounding`, ties cannot be told apart."""
    equal = ties = untold = 0
    differs = ""
    for number, (prompt, plain) in enumerate(zip(prompts, expected, strict=True), 1):
        written = written_by(writer, target)(prompt)
        at = same_start(plain, written)
        equal += at
        if written == plain:
            continue
        if at == min(len(plain), len(written)):
            differs = differs or f"text {number} has {len(written)} tokens and plain's {len(plain)}"
        elif rounding is None:
            untold += 1
        elif (parting := rounding.parting(list(prompt), plain, written)) is not None and parting.tie:
            ties += 1
        else:
            differs = differs or _sentence(number, at, parting)
    return GreedyResult(len(prompts), sum(map(len, expected)), equal, ties, untold, differs)


def _sentence(number: int, at: int, parting: Parting | None) -> str:
    behind = f"; from there a token trails the target's best by {parting.behind:.3g} in fp32 logits" if parting else ""
    return f"text {number} parts from plain's at token {at + 1}{behind}"
