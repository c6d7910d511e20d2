"""Lookahead against a slow reference: every window row read from scratch, every n-gram ever seen kept in a list."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from draftscope import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.session import Step
from draftscope.drafters.lookup.lookahead import Lookahead, Pool, merged
from draftscope.drafters.settings import Settings
from draftscope.verify.tree import DraftTree

PROMPTS = ("The quick brown fox", "ab")
WIDTH, LEVELS = 3, 2


def rounds(engine: DecodingEngine, temperature: float) -> list[tuple[list[list[int]], Step]]:
    """Every round of a ragged batch, with the texts that stood when it began."""
    prompts = [engine.encode(prompt) for prompt in PROMPTS]
    settings = Settings.of(
        drafter="lookahead", window=WIDTH, ngram=LEVELS + 1, temperature=temperature, max_new_tokens=24, seed=4
    )
    session = engine.start_batch(prompts, settings, (0, 1), ends=False)
    texts, found = [list(prompt) for prompt in prompts], []
    for step in session.steps():
        found.append(([list(text) for text in texts], step))
        texts = [p + t.tokens for p, t in zip(prompts, session.transcripts, strict=True)]
    return found


def window_of(tree: DraftTree, b: int) -> list[list[int]]:
    """The window's tokens, level by level, as the forward saw them."""
    origins = tree.origin[b]
    return [
        [int(tree.tokens[b, n]) for n, origin in enumerate(origins) if origin == f"window level {j}"]
        for j in range(LEVELS)
    ]


def guesses_of(tree: DraftTree, b: int) -> set[tuple[int, ...]]:
    """Every path of acceptable or cut-off guesses, from the root down."""
    paths: dict[int, tuple[int, ...]] = {-1: ()}
    for node, parent in enumerate(tree.topology.parents[b].tolist()):
        if tree.origin[b][node].startswith("pooled"):
            paths[node] = (*paths[parent], int(tree.tokens[b, node]))
    return {path for path in paths.values() if path}


def target_says(engine: DecodingEngine, text: list[int]) -> int:
    return int(engine.target.network(torch.tensor([text]), use_cache=False).logits[0, -1].argmax())


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@torch.inference_mode()
def test_the_pool_and_the_window_are_those_of_a_slow_reference(pair: DecodingEngine, temperature: float) -> None:
    """A column is read after level 0 up to it, then its own levels; guesses are the pending token's newest n-grams."""
    history: list[list[tuple[int, ...]]] = [[], []]
    windows: list[list[list[int]]] = [[], []]
    found = rounds(pair, temperature)
    verified = 0
    for texts, step in found:
        for b, text in enumerate(texts):
            if not step.live[b]:
                continue
            behind: list[tuple[int, ...]] = []
            for ngram in reversed(history[b]):
                if ngram[0] == text[-1] and ngram[1:] not in behind and len(behind) < WIDTH:
                    behind.append(ngram[1:])
            want = {ngram[:end] for ngram in behind for end in range(1, LEVELS + 1)}
            assert guesses_of(step.tree, b) == (want if step.tree.nodes else set())
            verified += len(want)
            if not step.tree.nodes:
                continue
            window = window_of(step.tree, b)
            assert not windows[b] or window == windows[b]
            newest = []
            for i in range(WIDTH):
                column = [window[j][i] for j in range(LEVELS)]
                newest.append(target_says(pair, text + window[0][:i] + column))
                history[b].append((*column, newest[i]))
            past = len(step.paths[b]) % WIDTH
            windows[b] = [level[past:] + level[:past] for level in [*window[1:], newest]]
    assert verified > 10
    assert temperature or any(step.paths[0] for _, step in found)  # the tiny target loops, and lookahead finds it


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=30), st.integers(1, 4))
def test_a_pool_keeps_the_newest(ngrams: list[tuple[int, ...]], most: int) -> None:
    pool = Pool(most)
    for ngram in ngrams:
        pool.add(ngram)
    for token in range(3):
        newest = list(dict.fromkeys(n[1:] for n in reversed(ngrams) if n[0] == token))
        assert pool.behind(token) == newest[:most]


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=8))
def test_merged_guesses_have_no_equal_siblings(ngrams: list[tuple[int, ...]]) -> None:
    nodes = merged(ngrams)
    paths: list[tuple[int, ...]] = []
    for node in nodes:
        paths.append((*(paths[node.parent] if node.parent >= 0 else ()), node.token))
    assert len(set(paths)) == len(paths)
    assert set(paths) == {ngram[:end] for ngram in ngrams for end in (1, 2, 3)}


def test_window_rows_are_never_accepted_nor_counted(pair: DecodingEngine) -> None:
    run = pair.decode("abcabcabc", "lookahead", window=4, max_new_tokens=40)
    never_accepted = [node for event in run.round_events for node in event.nodes if node.origin.startswith("window")]
    assert {node.fate for node in never_accepted} == {"never_accepted"}
    assert all(
        event.drafted == sum(node.origin.startswith("pooled") for node in event.nodes)
        for event in run.round_events[:-4]
    )


def test_the_argmax_is_computed_only_for_drafters_that_read_it(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    heard: list[object] = []
    right = Lookahead.observe
    monkeypatch.setattr(Lookahead, "observe", lambda self, out: (heard.append(out.argmax), right(self, out))[1])
    pair.decode("ab", "lookahead", max_new_tokens=4)
    assert all(each is not None for each in heard)
    monkeypatch.setattr(Lookahead, "reads_argmax", False)
    heard.clear()
    with pytest.raises(AssertionError):
        pair.decode("ab", "lookahead", max_new_tokens=4)
    assert heard == [None]


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [({"ngram": 1}, "choose at least 2"), ({"window": 16, "ngram": 16}, r"keep 2 x window x \(ngram - 1\) to 256")],
)
def test_an_impossible_window_is_one_sentence(pair: DecodingEngine, settings: dict[str, int], sentence: str) -> None:
    with pytest.raises(DraftscopeError, match=sentence):
        pair.decode("ab", "lookahead", **settings)
