"""An engine of small random models on a card that is not there, and what its rounds cost beside the kernels."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.pair import NamedHead
from draftscope.drafters.settings import Settings
from draftscope.models.counter import Capabilities
from draftscope.models.heads import SharedWeights
from draftscope.models.model import Model
from tests.support import card as cards
from tests.support.card import Card
from tests.support.models import byte_tokenizer, made_calibration, random_heads, random_llama

PROMPTS = [[5, 6, 7], [8, 9], [5, 6, 7, 8]]
GREEDY: dict[str, Any] = {"temperature": 0.0, "max_new_tokens": 8}
SAMPLED: dict[str, Any] = {"temperature": 0.8, "top_k": 40, "top_p": 0.9, "max_new_tokens": 8, "seed": 3}
VOCABULARY, TREES = 258, Capabilities(trees=True)
COUNTED = ("read", "copy", "synchronise", "event", "launch", "replay", "capture")
TABLE = Path(__file__).with_name("card_rounds.json")  # by drafter, the most of each that a round may take


def small_pair(device: str = "cpu", graphs: bool = False) -> DecodingEngine:
    """The pair of `conftest` on a device; the same weights every time. What they can do is not probed again."""
    target = Model(random_llama(3, VOCABULARY).to(device), "byte-target", capabilities=TREES)
    draft = Model(random_llama(4, VOCABULARY, layers=1, hidden=16).to(device), "byte-draft", capabilities=TREES)
    here = Model(random_llama(3, VOCABULARY), "byte-target", capabilities=TREES)
    made = random_heads(here, tuple(range(0, VOCABULARY, 2)))
    heads = {kind: _moved(head, target, device) for kind, head in made.items()}
    engine = DecodingEngine(target, draft, byte_tokenizer(), heads)
    engine.calibration = made_calibration()
    if graphs:
        for each in (target, draft, *(head.network for head in heads.values())):
            each.record_graphs()
    return engine


def _moved(head: NamedHead, target: Any, device: str) -> NamedHead:
    network = head.network.to(device)
    network.shared = SharedWeights.of(target.network)
    return NamedHead(network, head.name)


@dataclass
class Rehearsed:
    """What sessions wrote, one after the other, and what the rounds of the last one took."""

    tokens: list[list[list[int]]]  # [session][sequence]
    counts: dict[str, float]  # of what `COUNTED` names, in the mean of all rounds
    medians: dict[str, float]  # and in a round like most: a text's first round and its last take more
    states: list[str]  # of the graphs


def written(
    engine: DecodingEngine,
    settings: dict[str, Any],
    prompts: Sequence[list[int]],
    card: Card | None = None,
    sessions: int = 2,
) -> Rehearsed:
    """Decodes the prompts in `sessions` sessions of the same settings; counts the last, when graphs are warm."""
    tokens, taken = [], np.zeros((0, len(COUNTED)))  # [rounds, what]
    for _ in range(sessions):
        session = engine.start_batch(
            [list(prompt) for prompt in prompts], Settings.of(**settings), tuple(range(len(prompts)))
        )
        session.prefill()
        if card is not None:
            card.counted.clear()
        totals = [_totals(card), *(_totals(card) for _ in session.steps())]
        taken = np.diff(totals, axis=0)
        tokens.append([list(transcript.tokens) for transcript in session.transcripts])
        del session
        if card is not None:
            gc.collect()  # so that the next session reuses the memory and its graphs
    states = [model.graph_state for model in engine.models]
    mean, middle = (dict(zip(COUNTED, each.tolist(), strict=True)) for each in (taken.mean(0), np.median(taken, 0)))
    return Rehearsed(tokens, mean, middle, states)


def _totals(card: Card | None) -> list[int]:
    return [0 if card is None else card.total(what) for what in COUNTED]


def rehearsed(drafter: str, options: dict[str, Any], card: Card) -> Rehearsed:
    """One text, at temperature 0.8 with top-k and top-p, when graphs are warm."""
    settings = {"drafter": drafter, **options, **SAMPLED}
    return written(small_pair("cuda", graphs=True), settings, PROMPTS[:1], card, sessions=3)


def as_listed(run: Rehearsed) -> dict[str, float]:
    """What its rounds took, as the table has it."""
    return {what: round(count, 1) for what, count in run.counts.items()}


def main() -> None:
    """Prints what a round takes, mean (median), and saves the mean as the most that tests allow: of the named drafters,
    or of all."""
    from tests.decode.test_loop import DRAFTERS

    if why := cards.why_not():
        raise SystemExit(why)
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    for drafter in sys.argv[1:] or DRAFTERS:
        with cards.card() as card:
            run = rehearsed(drafter, DRAFTERS[drafter], card)
        table[drafter] = as_listed(run)
        cells = (f"{table[drafter][what]:g} ({run.medians[what]:g})" for what in COUNTED)
        print(f"| {drafter} | {' | '.join(cells)} |", flush=True)
        TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
