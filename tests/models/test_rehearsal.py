"""The engine's code for CUDA on a card that is not there (`tests/support/card.py`): it must write the CPU's tokens.

Every case decodes several times on the card, so that later sessions reuse the first one's memory and graphs. A case
fails on two devices in one operation, on a read, a copy or a wait in a capture, on memory of a capture used outside it,
and on streams that do not wait for each other.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from draftscope.decode import target_pass
from draftscope.decode.engine import DecodingEngine
from draftscope.models.forward import graphs
from draftscope.models.probe import probed
from draftscope.verify.uniforms import Streams
from tests.decode.test_loop import DRAFTERS
from tests.support import card as cards
from tests.support.card import Card
from tests.support.card_streams import Stream
from tests.support.models import random_llama
from tests.support.quick import quick
from tests.support.rehearsal import (
    GREEDY,
    PROMPTS,
    SAMPLED,
    TABLE,
    Rehearsed,
    as_listed,
    rehearsed,
    small_pair,
    written,
)


@pytest.fixture
def card() -> Iterator[Card]:
    if why := cards.why_not():
        pytest.skip(why)
    with cards.card() as made:
        yield made


@pytest.fixture(scope="module")
def here() -> DecodingEngine:
    """The same models on the CPU."""
    return small_pair()


@pytest.mark.slow
def test_a_card_is_probed_as_the_cpu_is(card: Card) -> None:
    assert probed(random_llama(4, 258, layers=1, hidden=16).to("cuda"), "byte-draft").trees and card.wrong == []


def refuse_other(
    found: Rehearsed, card: Card, here: DecodingEngine, prompts: list[list[int]], settings: dict[str, Any]
) -> None:
    """Every session wrote the CPU's tokens, graphs stayed on, and nothing was wrong."""
    assert found.tokens == written(here, settings, prompts, sessions=1).tokens * len(found.tokens)
    assert card.wrong == []
    assert found.states == ["on", "on"]


@pytest.mark.slow
@pytest.mark.parametrize("drafter", DRAFTERS)
def test_a_card_writes_what_the_cpu_writes(card: Card, here: DecodingEngine, drafter: str) -> None:
    """Three texts together, in one session: what the next one reuses is rehearsed below."""
    settings = {"drafter": drafter, **DRAFTERS[drafter], **GREEDY}
    found = written(small_pair("cuda", graphs=True), settings, PROMPTS, card, sessions=1)
    refuse_other(found, card, here, PROMPTS, settings)


@pytest.mark.parametrize("drafter", quick(DRAFTERS, "draft"))
def test_a_card_draws_what_the_cpu_draws_and_waits_copies_and_launches_no_more_than_the_table_allows(
    card: Card, here: DecodingEngine, drafter: str
) -> None:
    found = rehearsed(drafter, DRAFTERS[drafter], card)
    refuse_other(found, card, here, PROMPTS[:1], {"drafter": drafter, **DRAFTERS[drafter], **SAMPLED})
    taken, allowed = as_listed(found), json.loads(TABLE.read_text())[drafter]
    assert taken["replay"] > 0
    assert not {what: count for what, count in taken.items() if what != "replay" and count > allowed[what]}


# Mutants: the rehearsal must notice each.

CHAIN = {"gamma": 3, **SAMPLED, "max_new_tokens": 6}


def a_tensor_stays_on_the_host(patch: pytest.MonkeyPatch) -> None:
    uniforms = Streams.uniforms
    patch.setattr(Streams, "uniforms", lambda streams, index, nodes, device="cpu": uniforms(streams, index, nodes))


def a_capture_reads(patch: pytest.MonkeyPatch) -> None:
    verify = target_pass.verify_block

    def reads(p: Any, tree: Any, uniforms: Any) -> Any:
        assert int(tree.tokens.sum()) >= 0
        return verify(p, tree, uniforms)

    patch.setattr(target_pass, "verify_block", reads)


def inputs_are_not_copied(patch: pytest.MonkeyPatch) -> None:
    source = inspect.getsource(graphs.Graphs._replayed)
    assert source.count("copy_all(graph.inputs, inputs)") == 1
    made: dict[str, Any] = {}
    exec("class Mutant:\n" + source.replace("copy_all(graph.inputs, inputs)", "pass"), vars(graphs) | made, made)
    patch.setattr(graphs.Graphs, "_replayed", made["Mutant"]._replayed)


def ssd_does_not_wait(patch: pytest.MonkeyPatch) -> None:
    wait = Stream.wait_stream

    def waits(stream: Stream, other: Stream) -> None:
        if not sys._getframe(1).f_code.co_filename.endswith("ssd.py"):
            wait(stream, other)

    patch.setattr(Stream, "wait_stream", waits)


@pytest.mark.parametrize(
    ("mutate", "drafter", "error"),
    [
        (a_tensor_stays_on_the_host, "draft", RuntimeError),
        (a_capture_reads, "draft", AssertionError),
        (inputs_are_not_copied, "draft", AssertionError),
        pytest.param(ssd_does_not_wait, "ssd", AssertionError, marks=pytest.mark.slow),
    ],
)
def test_a_mutant_is_noticed(
    card: Card,
    here: DecodingEngine,
    monkeypatch: pytest.MonkeyPatch,
    mutate: Callable[[pytest.MonkeyPatch], None],
    drafter: str,
    error: Any,
) -> None:
    mutate(monkeypatch)
    settings = CHAIN | {"drafter": drafter}

    def rehearse() -> None:
        found = written(small_pair("cuda", graphs=True), settings, PROMPTS[:1], card)
        refuse_other(found, card, here, PROMPTS[:1], settings)

    with pytest.raises(error):
        rehearse()
