"""A drafter of another package: the example in engine/README.md, and wrong ones that `check` must find."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from draftscope.decode.lab import Lab
from draftscope.drafters import DrafterInfo, plugins
from draftscope.measure.check import check
from draftscope.measure.findings import Finding
from draftscope.verify.tree import DraftTree

README = Path(__file__).resolve().parents[2] / "engine" / "README.md"


@pytest.fixture
def example() -> dict[str, Any]:
    """The names that the README's example defines."""
    section = README.read_text(encoding="utf-8").split("## Add a drafter")[1]
    code = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert code is not None
    assert len(code[1].splitlines()) <= 40
    names: dict[str, Any] = {}
    exec(code[1], names)
    return names


class Entry:
    """What an installed package's entry point looks like."""

    name, value = "bigram", "my_package:INFO"

    def __init__(self, info: DrafterInfo) -> None:
        self._info = info

    def load(self) -> DrafterInfo:
        return self._info


def plugged_in(monkeypatch: pytest.MonkeyPatch, info: DrafterInfo) -> None:
    monkeypatch.setattr(plugins, "installed", plugins.installed.__wrapped__)  # as a fresh process looks it up
    monkeypatch.setattr(plugins, "entry_points", lambda group: [Entry(info)] if group == "draftscope.drafters" else [])


def findings(lab: Lab) -> dict[str, Finding]:
    return {finding.name: finding for finding in check(lab, "bigram", samples=1500)}


def test_the_readmes_drafter_passes_every_check(
    pair: Lab, example: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    plugged_in(monkeypatch, example["INFO"])
    assert all(finding.passed for finding in findings(pair).values())
    run = pair.decode("abcabcabc", "bigram", max_new_tokens=40)
    assert run.metrics.num_draft_tokens > 0
    assert run.rounds[0].nodes[0].origin == "bigram"
    assert "bigram" in {info.name for info in pair.drafters()}


def test_a_drafter_that_remembers_another_run_is_found(
    tiny: Lab, example: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It drafts from the texts of all runs, so its uniforms meet other nodes the second time."""
    seen: list[list[int]] = []

    class Leaky(example["Bigram"]):  # type: ignore[misc]
        def follow(self, text: list[int], count: int) -> list[int]:
            seen.append(list(text))
            return [token % 5 for token in range(len(seen), len(seen) + count)]

    plugged_in(monkeypatch, replace(example["INFO"], create=Leaky))
    found = findings(tiny)
    assert not found["begun again"].passed


def test_a_drafter_that_claims_distributions_it_did_not_draw_from_is_found(
    tiny: Lab, example: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Liar(example["Bigram"]):  # type: ignore[misc]
        def propose(self, state: Any, depth: int) -> DraftTree:
            tree: DraftTree = super().propose(state, depth)
            if tree.nodes == 0:
                return tree
            distributions = torch.full((tree.tokens.shape[0], tree.nodes, 5), 1 / 5)
            slots = torch.arange(tree.nodes + 1)
            proposal_row = torch.where(slots < tree.nodes, slots, -1).expand(len(tree.tokens), -1)
            return replace(
                tree, distributions=distributions, proposal_row=proposal_row, belief=proposal_row, drawn="all"
            )

    plugged_in(monkeypatch, replace(example["INFO"], create=Liar))
    found = findings(tiny)
    assert not found["joint distribution (block)"].passed
