"""From prompts to cases: token ids, with the plan's batch sizes and context lengths."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle, islice, product

from draftscope.base.errors import DraftscopeError
from draftscope.base.prompts import Prompt
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.systems import Case

Tokens = tuple[int, ...]


def cases(
    engine: DecodingEngine, plan: BenchPlan, prompts: Mapping[str, Sequence[Prompt]]
) -> tuple[list[Case], list[str]]:
    """Every cell of the plan with every prompt, and a note for each prompt that these models cannot read.

    The B sequences of a case are its prompt and then the kind's other prompts, in turn.
    """
    _refuse_contexts(engine, plan)
    encoded, notes = _encoded(engine, plan, prompts)
    pool = [token for several in encoded.values() for tokens in several for token in tokens]
    made = []
    for context, batch, temperature in product(plan.contexts or (None,), plan.batches, plan.temperatures):
        for kind, several in encoded.items():
            texts = several if context is None else [_filled(tokens, context, pool) for tokens in several]
            for number in range(len(texts)):
                together = tuple(islice(cycle(texts), number, number + batch))
                made.append(Case(kind, number, together, temperature, context))
    return made, notes


def _encoded(
    engine: DecodingEngine, plan: BenchPlan, prompts: Mapping[str, Sequence[Prompt]]
) -> tuple[dict[str, list[Tokens]], list[str]]:
    encoded: dict[str, list[Tokens]] = {}
    notes: list[str] = []
    for kind, several in prompts.items():
        for number, prompt in enumerate(several, 1):
            try:
                encoded.setdefault(kind, []).append(tuple(engine.encode(prompt.text, plan.tokens)))
            except DraftscopeError as error:
                notes.append(f"Prompt {number} of '{kind}' was skipped: {error}")
    kept = {kind: several for kind, several in encoded.items() if several}
    if not kept:
        raise DraftscopeError(f"No prompt can be used. {notes[0]}")
    return kept, notes


def _filled(tokens: Tokens, context: int, pool: Sequence[int]) -> Tokens:
    """`context` tokens that end with `tokens`, after repetitions of all prompts."""
    front = tuple(islice(cycle(pool), max(0, context - len(tokens))))
    return (front + tokens)[-context:]


def _refuse_contexts(engine: DecodingEngine, plan: BenchPlan) -> None:
    room = min(model.context for model in engine.models)
    for context in plan.contexts:
        if context + plan.tokens > room:
            raise DraftscopeError(
                f"context = {context:,}: with {plan.tokens:,} tokens to write that is more than the {room:,} that "
                f"the models can hold; choose at most {max(0, room - plan.tokens):,}, or fewer --tokens."
            )
