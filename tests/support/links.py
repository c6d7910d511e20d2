"""Links with settings of single drafters, and what the engine must get of them."""

from __future__ import annotations

from typing import Any

OWN_SETTINGS: list[tuple[str, dict[str, Any]]] = [
    ("drafter=lookahead&window=3", {"window": 3}),
    ("drafter=early-exit&exit_layer=3", {"exit_layer": 3}),
    ("drafter=early-exit", {"exit_layer": None}),
    ("drafter=oracle&oracle_alpha=0.5", {"oracle_alpha": 0.5}),
    ("drafter=ssd&prefetch=3", {"prefetch": 3}),
    ("drafter=bandit&policy=exp3&arms=draft:2,ngram:3", {"policy": "exp3", "arms": ["draft:2", "ngram:3"]}),
    ("temperature=1&top_k=5&min_p=0.2", {"top_k": 5, "min_p": 0.2}),
    ("draft_length=adaedl&confidence=0.2", {"draft_length": "adaedl", "confidence": 0.2}),
]
