"""Drafters that read the target: their distributions are their head's on the true features of the text, whatever was
cached.

Exactness cannot show a drafter that reads the wrong rows (the output stays the target's), so every drafted distribution
is held to the head run from scratch over the whole text.
"""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.session import Step
from draftscope.drafters.drafter import Outcome
from draftscope.drafters.heads.dynamic import _Growth
from draftscope.drafters.heads.pending import PendingFeatures
from draftscope.drafters.heads.ranks import best_first, sparse_tree
from draftscope.drafters.settings import Settings
from draftscope.models.heads import Block, DSpark, Medusa, RecurrentHead
from draftscope.verify.tree import DraftTree, empty, grown, topology
from draftscope.verify.verify import Verification

PROMPTS = ("The quick brown fox", "ab")
CLOSE = {"atol": 2e-4, "rtol": 1e-3}
GROWN = {"tree_nodes": 8, "tree_depth": 3, "tree_width": 3}


def rounds(engine: DecodingEngine, **settings: object) -> list[tuple[list[list[int]], Step]]:
    """Every round of a ragged batch, with the texts of its sequences that stood when it began."""
    prompts = [engine.encode(prompt) for prompt in PROMPTS]
    chosen = Settings.of(temperature=1.0, max_new_tokens=18, seed=2, **settings)
    session = engine.start_batch(prompts, chosen, (0, 1), ends=False)
    texts, found = [list(prompt) for prompt in prompts], []
    for step in session.steps():
        found.append(([list(texts[row]) for row in step.rows], step))
        texts = [p + t.tokens for p, t in zip(prompts, session.transcripts, strict=True)]
    assert len(found) > 3
    return found


def states(engine: DecodingEngine, text: list[int], layers: tuple[int, ...]) -> Tensor:
    out = engine.target.network(input_ids=torch.tensor([text]), use_cache=False, output_hidden_states=True)
    return torch.cat([out.hidden_states[i] for i in layers], -1)


def unrolled(engine: DecodingEngine, head: RecurrentHead, text: list[int], drafted: list[int]) -> Tensor:
    """The distribution after `drafted`, without a cache: true features for the text, the head's own for drafted
    tokens."""
    features = head.fuse(states(engine, text[:-1], head.layers))
    tokens, place = torch.tensor([text[1:]]), torch.arange(len(text) - 1)[None]
    for token in [*drafted, None]:
        logits, out = head(tokens, features, place)
        if token is not None:
            tokens = torch.cat([tokens, torch.tensor([[token]])], 1)
            features = torch.cat([features, out[:, -1:]], 1)
            place = torch.arange(tokens.shape[1])[None]
    return head.to_target(logits[0, -1].softmax(-1))


def path_to(tree: DraftTree, b: int, slot: int) -> list[int]:
    """The drafted tokens from the root down to a slot."""
    path: list[int] = []
    while slot > 0:
        path.insert(0, int(tree.tokens[b, slot - 1]))
        slot = int(tree.topology.parents[b, slot - 1]) + 1
    return path


@pytest.mark.parametrize("kind", ["eagle", "eagle3", "mtp"])
@pytest.mark.parametrize(
    "settings",
    [{"gamma": 3}, GROWN, {"gamma": 4, "draft_length": "cost"}, {"gamma": 4, "draft_length": "heuristic"}],
)
@torch.inference_mode()
def test_recurrent_heads_draft_from_true_features_and_their_own(
    pair: DecodingEngine, kind: str, settings: dict[str, object]
) -> None:
    head = pair.heads[kind].network
    assert isinstance(head, RecurrentHead)
    drafter = kind if "gamma" in settings else f"{kind}-tree"
    held = 0
    for texts, step in rounds(pair, drafter=drafter, **settings):
        tree = step.tree
        for b, text in enumerate(texts):
            if not step.live[b] or tree.distributions is None:
                continue
            for slot in range(tree.nodes + 1):
                if tree.shown_row[b, slot] >= 0:
                    distribution = tree.distributions[b, tree.shown_row[b, slot]]
                    torch.testing.assert_close(
                        distribution, unrolled(pair, head, text, path_to(tree, b, slot)), **CLOSE
                    )
                    held += 1
    assert held > 10  # by cost an untrained head soon gives up, and looks again


@pytest.mark.parametrize("drafter", ["medusa", "medusa-tree"])
@torch.inference_mode()
def test_medusa_heads_use_the_newest_token_that_the_target_read(pair: DecodingEngine, drafter: str) -> None:
    head = pair.heads["medusa"].network
    assert isinstance(head, Medusa)
    for texts, step in rounds(pair, drafter=drafter, **GROWN):
        for b, text in enumerate(texts):
            if step.live[b] and step.tree.distributions is not None:
                want = head(states(pair, text[:-1], head.layers))[0, -1].softmax(-1)
                torch.testing.assert_close(
                    step.tree.distributions[b], want[: step.tree.distributions.shape[1]], **CLOSE
                )


@pytest.mark.parametrize("drafter", ["block", "block-tree"])
@torch.inference_mode()
def test_a_block_sees_every_committed_feature_and_no_drafted_one(pair: DecodingEngine, drafter: str) -> None:
    head = pair.heads["block"].network
    assert isinstance(head, Block)
    for texts, step in rounds(pair, drafter=drafter, **GROWN):
        for b, text in enumerate(texts):
            if not step.live[b] or step.tree.distributions is None:
                continue
            count = step.tree.distributions.shape[1]
            context = head.fuse(states(pair, text[:-1], head.layers))
            place = torch.arange(len(text) + count)[None]
            logits = head.project(head(head.tokens(torch.tensor([text[-1]]), count), context, place))
            torch.testing.assert_close(step.tree.distributions[b], logits[0, 1:].softmax(-1), **CLOSE)


@torch.inference_mode()
def test_a_dspark_block_is_corrected_for_the_drafted_token_before(pair: DecodingEngine) -> None:
    head = pair.heads["dspark"].network
    assert isinstance(head, DSpark)
    held = 0
    for texts, step in rounds(pair, drafter="dspark", gamma=4):
        for b, text in enumerate(texts):
            if not step.live[b] or step.tree.distributions is None:
                continue
            drafted = step.tree.tokens[b]
            context = head.fuse(states(pair, text[:-1], head.layers))
            place = torch.arange(len(text) + len(drafted))[None]
            logits = head.project(head(head.tokens(torch.tensor([text[-1]]), len(drafted)), context, place))[0, 1:]
            before = torch.cat([torch.tensor([text[-1]]), drafted[:-1]])
            want = head.to_target((logits + head.bias(head.read(before))).softmax(-1))
            torch.testing.assert_close(step.tree.distributions[b], want, **CLOSE)
            assert not torch.allclose(want, head.to_target(logits.softmax(-1)), atol=1e-2)
            held += 1
    assert held > 5


@torch.inference_mode()
def test_a_dynamic_tree_holds_the_most_probable_nodes(pair: DecodingEngine) -> None:
    """As in EAGLE-2: no expanded node outside the tree is more probable than one inside."""
    head = pair.heads["eagle"].network
    assert isinstance(head, RecurrentHead)
    texts, step = rounds(pair, drafter="eagle-tree", **GROWN)[2]
    tree, text = step.tree, texts[0]
    reached: dict[tuple[int, ...], float] = {}
    frontier = [((), 1.0)]
    for _ in range(3):
        level = {}
        for path, mass in frontier:
            top = unrolled(pair, head, text, list(path)).topk(3)
            level |= {(*path, t): mass * q for q, t in zip(top.values.tolist(), top.indices.tolist(), strict=True)}
        reached |= level
        frontier = sorted(level.items(), key=lambda item: -item[1])[:3]
    best = sorted(reached, key=lambda path: -reached[path])[:8]
    assert {tuple(path_to(tree, 0, slot)) for slot in range(1, tree.nodes + 1)} == set(best)


@given(
    st.lists(st.lists(st.floats(0.01, 1), min_size=3, max_size=3), min_size=1, max_size=3),
    st.integers(1, 40),
)
def test_best_first_finds_the_most_probable_prefixes(rows: list[list[float]], count: int) -> None:
    logs = [sorted((math.log(x / (sum(row) + 1)) for x in row), reverse=True) for row in rows]
    found = best_first(logs, count)
    every = [p for n in range(1, len(rows) + 1) for p in itertools.product(range(3), repeat=n)]
    assert len(found) == len(set(found)) == min(count, len(every))
    assert all(len(path) == 1 or path[:-1] in found[: found.index(path)] for path in found)

    def cost(path: tuple[int, ...]) -> float:
        return -sum(logs[k][rank] for k, rank in enumerate(path))

    want = sorted(cost(path) for path in every)[: len(found)]
    assert sorted(cost(path) for path in found) == pytest.approx(want)


def test_the_sparse_tree_prefers_first_guesses() -> None:
    tree = sparse_tree(3, 4, 10)
    assert tree[0] == (0,)
    assert (0, 0, 0) in tree
    assert (3, 3, 3) not in tree


@given(st.lists(st.integers(-1, 6), min_size=1, max_size=8), st.integers(0, 2))
def test_a_topology_grown_on_the_device_is_the_one_from_lists(wanted: list[int], more: int) -> None:
    parents = [min(parent, node - 1) for node, parent in enumerate(wanted)]
    want = topology([parents])
    found = grown(torch.tensor([parents]), want.width + more, want.height + more)
    assert found.parents.equal(want.parents)
    assert found.ancestors.equal(want.ancestors)
    assert found.depth.equal(want.depth)
    assert found.children[:, :, : want.width].equal(want.children)
    assert (found.children[:, :, want.width :] == -1).all()


def test_a_drafter_without_its_head_is_one_sentence(pair: DecodingEngine) -> None:
    bare = DecodingEngine(pair.target, None, pair.tokenizer)
    with pytest.raises(Exception, match=r"'eagle3' needs a head of the kind 'eagle3'.*--drafter eagle3:MODEL"):
        bare.decode("a b", "eagle3")
    offered = {info.name: info.why_not for info in bare.drafters()}
    assert offered["block-tree"] == "no block head is loaded"


def test_a_certain_child_does_not_displace_its_parent() -> None:
    """Where a head is certain, a child is as probable as its parent: the parent must still come first."""

    def certain(token: int, rows: int) -> Tensor:
        return torch.zeros((1, rows, 6)).index_fill(-1, torch.tensor([token]), 1.0)

    growth = _Growth(certain(1, 1), 2)
    features = torch.zeros((1, 1, 4))
    for token in (2, 3, 4):
        tokens, features, _ = growth.frontier(features)
        growth.expand(certain(token, tokens.shape[1]))
    for count in range(1, 5):
        tokens, *_, parents, _, _, depth = growth.best(count)
        assert all(parent < node for node, parent in enumerate(parents[0].tolist()))
        assert depth[0].tolist() == list(range(count + 1))
        assert tokens[0].tolist() == list(range(1, count + 1))


def test_a_text_that_has_ended_is_not_read_beyond_its_end() -> None:
    """Its neighbours continue, and every further round reads its last token again."""
    prompts = [[5, 6, 7], [8, 9]]
    pending_features = PendingFeatures(prompts, torch.arange(2 * 2 * 3).view(2, 2, 3).float())
    none = torch.zeros(2, dtype=torch.long)
    verification = Verification(none[:, None][:, :0], none, none, torch.tensor([1, 2]))
    outcome = Outcome(empty(2), [[], []], [1, 2], torch.full((2, 1, 3), 9.0), None, verification)
    for _ in range(3):
        pending_features.observe(outcome)
    tokens, states, real, kept = pending_features.take([2, 4])
    assert real == kept.tolist() == [2, 4]
    assert tokens[0, :2].tolist() == [6, 7]
    assert tokens[1, :4].tolist() == [9, 2, 2, 2]
    assert states.shape == (2, 5, 3)
    assert pending_features.empty
