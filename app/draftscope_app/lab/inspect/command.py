"""`draftscope inspect`: will a head be served as it was trained? Exit code 1 where something is wrong with it."""

from __future__ import annotations

import json as jsonlib
from collections.abc import Sequence
from dataclasses import asdict, replace
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from draftscope.base.errors import DraftscopeError, read_bytes, reason
from draftscope.models import head_kinds
from draftscope_app.cli import command_options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, takes
from draftscope_app.engine.opening_models import chats

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine
    from draftscope.models.heads.head_files import Defect
    from draftscope_app.lab.inspect.inspected import Drafted

PROMPTS, TOKENS, GAMMA = 20, 32, 4  # of the quick look at acceptance
MORE_TOKENS = 96  # where two numberings are compared, which differ little
LEAST = 1.1  # tokens a round; below, hardly a draft is accepted: the head drafts at random
PUBLISHED = (1.3, 5.0)  # tokens a round of published heads at 4 drafts, where its folder says nothing


@takes(
    loading=command_options.model_options(command_options.OF_DRAFTS, {"target": "the model that the head drafts for"})
)
def inspect(
    head: Annotated[str, typer.Argument(metavar="HEAD", help="folder or hub id of a head, or KIND:MODEL")],
    loading: Given,
    json: command_options.Json = False,
) -> int:
    """Find out whether a head will be served as it was trained.

    Its files are compared with what vLLM, SGLang, llama.cpp and this engine read: tensors, vocabulary map, layer ids,
    norms and types. A head without defects then drafts for 20 short texts, in both numberings where layers can be
    numbered in two ways. The exit code is 1 where something is wrong.
    """
    from draftscope.models.heads.head import SharedWeights
    from draftscope.models.heads.head_files import read
    from draftscope_app.lab.inspect.inspected import (
        compared,
        kind_of_files,
        misread,
        read_in_the_other,
        stated_ids,
        tokens_a_round,
    )
    from draftscope_app.lab.inspect.inspected import inspect as inspect_files

    kind, colon, source = head.partition(":")
    if not colon or Path(head).exists():
        source = head
        kind = kind_of_files(read(head))
    load, _ = command_options.models(loading)
    engine = command_options.load(load)
    shared = SharedWeights.of(engine.target.network)
    defects = inspect_files(kind, source, shared)
    here: list[Drafted] = []
    other: list[Drafted] = []
    tau = ids = None
    if all(defect.drafts for defect in defects):
        with_head, name = command_options.load(replace(load, heads=(f"{kind}:{source}",))), head_kinds.find(kind).name
        ids = stated_ids(name, source, shared)
        tau = tokens_a_round(_drafted(with_head, name, TOKENS))
        if ids is not None:
            here = _drafted(with_head, name, MORE_TOKENS)
            read_in_the_other(with_head.heads[name].network, ids)
            other = _drafted(with_head, name, MORE_TOKENS)
            defects = misread(defects, ids, here, other)
    low, high = _expected(Path(source))
    bad = bool(defects) or (tau is not None and tau < min(LEAST, low))
    if json:
        said = {"head": head, "kind": kind, "defects": [asdict(defect) for defect in defects]}
        by_other = tokens_a_round(other) if other else None
        numbers = {"tokens_a_round": tau, "in_the_other_numbering": by_other, "expected": [low, high]}
        print(jsonlib.dumps(said | numbers))
    else:
        _print(head, kind, defects, tau, low, high)
        if ids is not None:
            print(compared(ids, here, other))
    return ExitCode.FAILED if bad else ExitCode.OK


def _print(head: str, kind: str, defects: Sequence[Defect], tau: float | None, low: float, high: float) -> None:
    for defect in defects:
        terminal.say(f"{defect.name}: {defect.sentence}. Served wrongly by: {', '.join(defect.served_wrongly)}.")
    if defects:
        count = f"{len(defects)} defects; mend them" if len(defects) > 1 else "a defect; mend it"
        terminal.say(f"'{head}' ({kind}) has {count}, and inspect it again.")
    else:
        terminal.say(f"'{head}' ({kind}): no defect was found in its files.")
    if tau is None:
        return
    said = "as expected" if low <= tau <= high else "less than expected" if tau < low else "more than expected"
    print(f"{PROMPTS} texts, T = 0, {GAMMA} drafts: {tau:.2f} tokens a round, {said} ({low:.2f} to {high:.2f}).")
    if tau < min(LEAST, low):
        terminal.print_note("hardly a draft is accepted: it drafts at random here; compare it with its training code.")


def _drafted(engine: DecodingEngine, kind: str, tokens: int) -> list[Drafted]:
    """Rounds and accepted tokens of each text."""
    from draftscope.base.prompts import shipped

    chat, counts = chats(engine), []
    for prompt in [*shipped(chat), *shipped(not chat)][:PROMPTS]:
        run = engine.decode(prompt.text, drafter=kind, gamma=GAMMA, max_new_tokens=tokens, temperature=0.0)
        counts.append((run.metrics.num_drafts, run.metrics.num_accepted_tokens))
    return counts


def _expected(folder: Path) -> tuple[float, float]:
    """Tokens a round, from the worst to the best kind of text that its training measured (`training.json`)."""
    record = folder / "training.json"
    try:
        record_of: dict[str, Any] = jsonlib.loads(read_bytes(record)) if record.is_file() else {}
        curves = [kind["greedy"][:GAMMA] for kind in record_of.get("agreement", {}).values()]
        taus = [float(1 + sum(accumulate(curve, mul))) for curve in curves]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise DraftscopeError(
            f"'{record}' is no record of a training ({reason(error)}); mend it or take it away."
        ) from None
    return (min(taus), max(taus)) if taus else PUBLISHED
