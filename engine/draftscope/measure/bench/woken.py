"""How many distinct experts the verify forwards of a mixture of experts read, by their number of tokens.

Counted in runs of their own after the timed ones, since counting takes time. Of each number of tokens that a round may
have there are as many rounds of every prompt.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from statistics import fmean

from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.settings import Settings
from draftscope.measure.bench.systems import Case
from draftscope.models.forward import experts
from draftscope.trace.events import Experts

GAMMAS = (1, 2, 3, 4, 6, 8, 12, 15)
ROUNDS = 8  # of a prompt


@dataclass(frozen=True)
class Woken:
    """Verify forwards of `rows` tokens of one sequence."""

    rows: int
    touched: float  # distinct experts of a layer, mean over layers and forwards
    of: int  # experts of a layer, without shared ones
    active: int  # experts a token
    forwards: int


def woken(engine: DecodingEngine, cases: Sequence[Case]) -> list[Woken]:
    """By rows; empty for a dense target and for one whose experts cannot be watched."""
    if not experts.layers(engine.target.network) or engine.draft is None:
        return []
    notes: dict[int, list[Experts]] = {}
    for case in [case for case in cases if case.batch == 1]:
        for gamma in (0, *GAMMAS):
            for note in _notes(engine, case, gamma):
                if note.rows == gamma + 1:
                    notes.setdefault(gamma + 1, []).append(note)
    return [_woken(rows, seen) for rows, seen in sorted(notes.items())]


def _notes(engine: DecodingEngine, case: Case, gamma: int) -> list[Experts]:
    """Of the first rounds with a chain of `gamma` tokens."""
    drafter = {"drafter": "draft", "gamma": gamma} if gamma else {"drafter": "plain"}
    room = min(model.context for model in engine.models) - len(case.prompts[0])
    tokens = max(1, min((ROUNDS + 1) * (gamma + 1), room))
    settings = Settings.of(**drafter, temperature=case.temperature, max_new_tokens=tokens)
    session = engine.start_batch([list(case.prompts[0])], settings, (0,), ends=False)
    watch = experts.watch(engine.target.network)
    if watch is None:
        return []
    session.prefill()
    with closing(watch):
        session.experts = watch
        notes = [watch.note() for _ in islice(session.steps(), ROUNDS)]
    return [note for note in notes if note is not None]


def _woken(rows: int, notes: Sequence[Experts]) -> Woken:
    touched = fmean(fmean(note.touched) for note in notes)
    return Woken(rows, touched, notes[0].of, notes[0].active, len(notes))
