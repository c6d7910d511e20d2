"""A engine of small random models on a card that is not there, and what its rounds cost beside the kernels."""

from __future__ import annotations

import gc
import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.pair import NamedHead
from draftscope.drafters.settings import Settings
from draftscope.models.heads import SharedWeights
from draftscope.models.probe import probed
from tests.conftest import byte_tokenizer, made_calibration, random_heads, random_llama
from tests.support import card as cards
from tests.support.card import Card

VOCABULARY = 258
COUNTED = ("read", "copy", "synchronise", "event", "launch", "replay", "capture")
TABLE = Path(__file__).with_name("card_rounds.json")  # by drafter, the most of each that a round may take


def small_pair(device: str = "cpu", graphs: bool = False) -> DecodingEngine:
    """The pair of `conftest` on a device; the same weights every time."""
    target = probed(random_llama(3, VOCABULARY).to(device), "byte-target")
    draft = probed(random_llama(4, VOCABULARY, layers=1, hidden=16).to(device), "byte-draft")
    made = random_heads(probed(random_llama(3, VOCABULARY), "byte-target"), tuple(range(0, VOCABULARY, 2)))
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
    """What two sessions wrote, one after the other, and the counts of the second one's rounds."""

    tokens: list[list[list[int]]]  # [session][sequence]
    rounds: int
    counts: dict[str, float]  # a round, of what `COUNTED` names
    states: list[str]  # of the graphs


def written(
    engine: DecodingEngine,
    settings: dict[str, Any],
    prompts: Sequence[list[int]],
    card: Card | None = None,
    sessions: int = 2,
) -> Rehearsed:
    """Decodes the prompts in `sessions` sessions of the same settings; counts the last, when graphs are warm."""
    tokens, rounds, counts = [], 0, {}
    for _ in range(sessions):
        session = engine.start_batch(
            [list(prompt) for prompt in prompts], Settings.of(**settings), tuple(range(len(prompts)))
        )
        session.prefill()
        if card is not None:
            card.counted.clear()
        rounds = sum(1 for _ in session.steps())
        if card is not None:
            counts = {what: card.total(what) / rounds for what in COUNTED}
        tokens.append([list(transcript.tokens) for transcript in session.transcripts])
        del session
        gc.collect()
    states = [model.graph_state for model in engine.models]
    return Rehearsed(tokens, rounds, counts, states)


def counts_of(drafter: str, options: dict[str, Any]) -> dict[str, float]:
    """What a round of one text takes, at temperature 0.8 with top-k and top-p, when graphs are warm."""
    settings = {
        "drafter": drafter,
        **options,
        "temperature": 0.8,
        "top_k": 40,
        "top_p": 0.9,
        "max_new_tokens": 24,
        "seed": 3,
    }
    with cards.card() as card:
        found = written(small_pair("cuda", graphs=True), settings, [[5, 6, 7]], card, sessions=3)
    return {what: round(count, 1) for what, count in found.counts.items()}


def main() -> None:
    """Prints what a round takes, and saves it as the most that tests allow: of the named drafters, or of all."""
    from tests.decode.test_loop import DRAFTERS

    if why := cards.why_not():
        raise SystemExit(why)
    table = json.loads(TABLE.read_text()) if TABLE.exists() else {}
    for drafter in sys.argv[1:] or DRAFTERS:
        table[drafter] = counts_of(drafter, DRAFTERS[drafter])
        print(f"| {drafter} | {' | '.join(f'{table[drafter][what]:g}' for what in COUNTED)} |", flush=True)
        TABLE.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
