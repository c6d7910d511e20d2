"""The suffix drafter against brute force: it drafts what a search through the whole text finds."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from draftscope.decode.engine import DecodingEngine
from draftscope.drafters.drafter import State
from draftscope.drafters.lookup.suffix import SuffixIndex
from draftscope.drafters.settings import Settings
from draftscope.verify.uniforms import no_uniforms

texts = st.lists(st.integers(0, 2), min_size=1, max_size=24)


def behind(text: list[int], context: list[int]) -> Counter[int]:
    """What followed each occurrence of `context`."""
    n = len(context)
    return Counter(text[i + n] for i in range(len(text) - n) if text[i : i + n] == context)


def searched(text: list[int], path: list[int], longest: int) -> tuple[int, Counter[int]]:
    """The longest suffix of text and path, shorter than `longest`, that has a continuation; and its continuations."""
    whole = text + path
    for length in range(min(longest - 1, len(whole)), 0, -1):
        if found := behind(text, whole[len(whole) - length :]):
            return length, found
    return 0, Counter()


def latest(text: list[int], string: list[int]) -> int:
    return max(i for i in range(len(text) + 1) if text[max(0, i - len(string)) : i] == string)


def paths(index: SuffixIndex, count: int, depth: int, width: int) -> dict[tuple[int, ...], str]:
    """Every drafted path with its node's origin, in the order in which they were drafted."""
    found: list[tuple[int, ...]] = []
    nodes = index.grow(count, depth, width)
    for node in nodes:
        found.append((*(found[node.parent] if node.parent >= 0 else ()), node.token))
    assert len(set(found)) == len(found)
    return {path: node.origin for path, node in zip(found, nodes, strict=True)}


@given(texts, st.integers(1, 5), st.integers(2, 6))
def test_a_chain_is_what_a_search_through_the_text_would_draft(text: list[int], gamma: int, longest: int) -> None:
    index = SuffixIndex(longest)
    index.extend(text)
    want: list[int] = []
    while len(want) < gamma:
        length, found = searched(text, want, longest)
        if not length:
            break
        context = (text + want)[-length:]
        want.append(max(found, key=lambda token: (found[token], latest(text, [*context, token]))))
    assert list(max(paths(index, gamma, gamma, 1), key=len, default=())) == want


@given(texts, st.integers(1, 12), st.integers(1, 4), st.integers(1, 3))
def test_a_tree_holds_the_most_probable_paths(text: list[int], count: int, depth: int, width: int) -> None:
    index = SuffixIndex()
    index.extend(text)
    drafted = paths(index, count, depth, width)
    every: dict[tuple[int, ...], Fraction] = {(): Fraction(1)}
    for path in every.copy():
        _grow_all(every, text, path, depth, width)
    del every[()]
    assert len(drafted) == min(count, len(every))
    assert set(drafted) <= set(every)
    left = sorted((every[path] for path in every), reverse=True)
    assert sorted((every[path] for path in drafted), reverse=True) == left[: len(drafted)]
    for path, origin in drafted.items():
        length, found = searched(text, list(path[:-1]), 99)
        assert origin == f"{length} matched, {found[path[-1]]} of {found.total()}"


def _grow_all(
    every: dict[tuple[int, ...], Fraction], text: list[int], path: tuple[int, ...], depth: int, width: int
) -> None:
    """All paths below `path`, `width` a node: of equally frequent tokens the one seen last."""
    if len(path) == depth:
        return
    length, found = searched(text, list(path), 99)
    context = (text + list(path))[len(text) + len(path) - length :]
    ranked = sorted(found, key=lambda token: (-found[token], -latest(text, [*context, token])))
    for token in ranked[:width]:
        every[*path, token] = every[path] * Fraction(found[token], found.total())
        _grow_all(every, text, (*path, token), depth, width)


@given(st.lists(texts, max_size=5))
def test_a_text_read_in_pieces_is_the_text_read_at_once(pieces: list[list[int]]) -> None:
    bit_by_bit, at_once = SuffixIndex(), SuffixIndex()
    for piece in pieces:
        bit_by_bit.extend(piece)
    at_once.extend([token for piece in pieces for token in piece])
    assert bit_by_bit.grow(30, 5, 3) == at_once.grow(30, 5, 3)


@pytest.mark.parametrize("drafter", ["suffix", "suffix-tree"])
def test_a_run_reads_each_token_once(pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch, drafter: str) -> None:
    read: list[int] = []
    right = SuffixIndex.extend
    monkeypatch.setattr(SuffixIndex, "extend", lambda self, tokens: (read.extend(tokens), right(self, tokens))[1])
    prompt = pair.encode("abcXabcYabc")
    run = pair.decode("abcXabcYabc", drafter, temperature=1.0, max_new_tokens=20, seed=1)
    assert read == (prompt + run.token_ids)[: len(read)]
    assert len(read) >= len(prompt) + 20 - run.round_events[-1].accepted - 1


def test_frequency_decides_where_the_n_gram_takes_the_latest(pair: DecodingEngine) -> None:
    text = "abcX-abcX.abcY abc"
    assert [n.raw for n in pair.decode(text, "ngram", gamma=2, max_new_tokens=4).round_events[0].nodes] == ["Y", " "]
    nodes = pair.decode(text, "suffix", gamma=2, max_new_tokens=4).round_events[0].nodes
    assert nodes[0].raw == "X"
    assert nodes[0].origin == "3 matched, 2 of 3"


@pytest.mark.parametrize("drafter", ["ngram", "suffix", "suffix-tree"])
def test_rows_that_stay_in_a_batch_are_looked_up_in_their_own_texts(pair: DecodingEngine, drafter: str) -> None:
    prompts = [[5, 6, 7, 5, 6], [8, 9, 8, 9], [3, 4, 3, 4, 3]]
    settings = Settings.of(drafter=drafter, max_new_tokens=9)

    def drafted(stay: list[int], *rows: int) -> list[list[int]]:
        session = pair.start_batch([prompts[row] for row in rows], settings, rows)
        session.prefill()
        texts = [prompts[row] for row in rows]
        session.drafter.propose(State(texts, 0, no_uniforms(len(texts), 9)), 4)
        assert len(stay) == len(rows) or session.drafter.select_rows(stay)
        texts = [texts[place] for place in stay]
        return session.drafter.propose(State(texts, 1, no_uniforms(len(texts), 9)), 4).tokens.tolist()

    left = drafted([2, 0], 0, 1, 2)
    assert left == drafted([0, 1], 2, 0)
    assert left[0][:2] == [4, 3]
