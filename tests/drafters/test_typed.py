"""Texts that people typed, as one tree. That the target's distribution stays: tests/decode/test_distribution.py."""

from __future__ import annotations

from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.deterministic import TrieNode
from draftscope.drafters.options import MAX_NODES
from draftscope.drafters.typed import merged
from draftscope.trace.events import Round


def test_equal_beginnings_stand_in_the_tree_once() -> None:
    tree = merged([[1, 2, 3], [1, 4], [5], [1, 2]])
    expected = [(-1, 1), (0, 2), (1, 3), (0, 4), (-1, 5)]
    assert tree == [TrieNode(parent, token, "typed") for parent, token in expected]
    assert merged([]) == [] and len(merged([range(MAX_NODES), range(MAX_NODES, 2 * MAX_NODES)])) == MAX_NODES


def test_the_branch_that_the_target_takes_is_kept_and_followed(tiny: DecodingEngine) -> None:
    plain = tiny.decode("abcab", drafter="plain", temperature=0.0, max_new_tokens=6).text
    wrong = "".join("b" if letter != "b" else "c" for letter in plain)
    run = tiny.decode("abcab", drafter="typed", typed=f"{wrong}||{plain[:2]}", temperature=0.0, max_new_tokens=6)
    first, *later = [event for event in run.events if isinstance(event, Round)]
    assert len(plain) > 2 and run.text == plain and first.accepted == 2
    assert [node.fate for node in first.nodes if node.parent == -1] == ["rejected", "accepted"]
    assert all(not round_.nodes for round_ in later)
