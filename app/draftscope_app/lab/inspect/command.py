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

from draftscope.models import head_kinds
from draftscope_app.cli import options, terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, takes
from draftscope_app.engine.opening import chats

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine
    from draftscope.models.heads.head_files import Defect

PROMPTS, TOKENS, GAMMA = 20, 32, 4  # of the quick look at acceptance
LEAST = 1.1  # tokens a round; below, hardly a draft is accepted: the head drafts at random
PUBLISHED = (1.3, 5.0)  # tokens a round of published heads at 4 drafts, where its folder says nothing


@takes(loading=options.model_options(options.OF_DRAFTS, {"target": "the model that the head drafts for"}))
def inspect(
    head: Annotated[str, typer.Argument(metavar="HEAD", help="folder or hub id of a head, or KIND:MODEL")],
    loading: Given,
    json: options.Json = False,
) -> int:
    """Find out whether a head will be served as it was trained.

    Its files are compared with what vLLM, SGLang, llama.cpp and this engine read: tensors, vocabulary map, layer ids,
    norms and types. A head without defects then drafts for 20 short texts. The exit code is 1 where something is wrong.
    """
    from draftscope.models.heads.head import SharedWeights
    from draftscope.models.heads.head_files import read
    from draftscope.models.heads.inspected import inspect as inspect_files
    from draftscope.models.heads.inspected import kind_of_files

    kind, colon, source = head.partition(":")
    if not colon or Path(head).exists():
        source = head
        kind = kind_of_files(read(head))
    load, _ = options.models(loading)
    engine = options.load(load)
    defects = inspect_files(kind, source, SharedWeights.of(engine.target.network))
    tau = None
    if not defects:
        with_head = options.load(replace(load, heads=(f"{kind}:{source}",)))
        tau = _tokens_a_round(with_head, head_kinds.find(kind).name)
    low, high = _expected(Path(source))
    bad = bool(defects) or (tau is not None and tau < min(LEAST, low))
    if json:
        said = {"head": head, "kind": kind, "defects": [asdict(defect) for defect in defects]}
        print(jsonlib.dumps(said | {"tokens_a_round": tau, "expected": [low, high]}))
    else:
        _print(head, kind, defects, tau, low, high)
    return ExitCode.FAILED if bad else ExitCode.OK


def _print(head: str, kind: str, defects: Sequence[Defect], tau: float | None, low: float, high: float) -> None:
    for defect in defects:
        print(f"{defect.name}: {defect.sentence}. Served wrongly by: {', '.join(defect.served_wrongly)}.")
    if tau is None:
        print(f"'{head}' ({kind}) has {len(defects)} defects; mend them, and inspect it again.")
        return
    said = "as expected" if low <= tau <= high else "less than expected" if tau < low else "more than expected"
    print(f"'{head}' ({kind}): no defect was found in its files.")
    print(f"{PROMPTS} texts, T = 0, {GAMMA} drafts: {tau:.2f} tokens a round, {said} ({low:.2f} to {high:.2f}).")
    if tau < min(LEAST, low):
        terminal.print_note("hardly a draft is accepted: it drafts at random here; compare it with its training code.")


def _tokens_a_round(engine: DecodingEngine, kind: str) -> float:
    from draftscope.base.prompts import shipped

    chat = chats(engine)
    texts = [*shipped(chat), *shipped(not chat)][:PROMPTS]
    drafts = accepted = 0
    for defect in texts:
        metrics = engine.decode(defect.text, drafter=kind, gamma=GAMMA, max_new_tokens=TOKENS, temperature=0.0).metrics
        drafts, accepted = drafts + metrics.num_drafts, accepted + metrics.num_accepted_tokens
    return 1 + accepted / max(drafts, 1)


def _expected(folder: Path) -> tuple[float, float]:
    """Tokens a round, from the worst to the best kind of text that its training measured (`training.json`)."""
    record = folder / "training.json"
    record_of: dict[str, Any] = jsonlib.loads(record.read_text("utf-8")) if record.is_file() else {}
    curves = [kind["greedy"][:GAMMA] for kind in record_of.get("agreement", {}).values()]
    taus = [1 + sum(accumulate(curve, mul)) for curve in curves]
    return (min(taus), max(taus)) if taus else PUBLISHED
