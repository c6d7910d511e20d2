"""Bandits: policies on made-up arms, implied results of smaller drafts, exactness through the loop, the trace."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import cycle
from typing import Any

import pytest
import torch

from draftscope import DraftscopeError, drafters
from draftscope.base.steps import last
from draftscope.decode import session
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import Outcome, State
from draftscope.drafters.policy import bandit
from draftscope.drafters.policy.arms import arms_of
from draftscope.drafters.policy.implied import SmallRounds, accepted, lies_in
from draftscope.drafters.policy.policies import POLICIES, Policy
from draftscope.drafters.settings import Settings
from draftscope.measure.findings import FALSE_ALARM
from draftscope.measure.greedy_checks import PROMPTS, TESTS, GreedyTest
from draftscope.trace import files
from draftscope.trace.events import EVENT, PolicyNote
from draftscope.verify.tree import DraftTree, Topology, full
from draftscope.verify.uniforms import Uniforms
from draftscope.verify.verify import verify_block, verify_greedy, verify_tree
from tests.decode.test_loop import PROMPT
from tests.support.distribution import distribution_test

ARMS = ("plain", "draft:1", "draft:3", "sampled-tree:2x1")
MIXED = ("draft:3", "topk-tree:2x2", "ngram:3", "suffix-tree", "lookahead", "cascade:3", "early-exit:2", "eagle3:2",
         "eagle-tree", "medusa:2", "block:3", "mtp:2")  # fmt: skip

# Policies on made-up arms.

Arm = Callable[[random.Random], tuple[float, float]]  # tokens and milliseconds of a round


def pulls(policy: Policy, arms: list[Arm], rounds: int, seed: int = 3) -> list[int]:
    dice, chosen = random.Random(seed), [0] * len(arms)
    for _ in range(rounds):
        arm = policy.choose([dice.random() for _ in range(len(arms) + 1)])
        tokens, ms = arms[arm](dice)
        policy.observe(arm, [tokens] * len(policy.implied[arm]), ms)
        chosen[arm] += 1
    return chosen


def alone(count: int) -> list[list[int]]:
    return [[i] for i in range(count)]


@pytest.mark.parametrize("name", POLICIES)
def test_the_arm_with_the_most_tokens_for_its_time_is_pulled_most(name: str) -> None:
    arms: list[Arm] = [
        lambda dice: (1.0, 4.0),
        lambda dice: (1.0 + (dice.random() < 0.9) + (dice.random() < 0.8), 5.0 + dice.random()),
        lambda dice: (1.0 + (dice.random() < 0.9) * 2, 12.0 + dice.random()),
    ]
    chosen = pulls(POLICIES[name](alone(3)), arms, 600)
    assert chosen[1] > 300, chosen


@pytest.mark.parametrize("name", POLICIES)
def test_the_reward_is_a_ratio_of_sums(name: str) -> None:
    """Arm 0 writes 1 token in 1 ms, or 1 in 9: 0.56 per ms as a mean of rates, but really 0.2. Arm 1 is always 0.4."""
    arms: list[Arm] = [lambda dice: (1.0, 1.0 if dice.random() < 0.5 else 9.0), lambda dice: (2.0, 5.0)]
    chosen = pulls(POLICIES[name](alone(2)), arms, 800)
    assert chosen[1] > 500, chosen


@pytest.mark.parametrize("name", ["ucb", "thompson"])
def test_one_slow_round_does_not_rule_out_an_arm(name: str) -> None:
    """The first round of a run includes set-up that later rounds use."""
    first = iter([60.0])
    arms: list[Arm] = [lambda dice: (3.0, next(first, 5.0)), lambda dice: (1.0, 5.0)]
    chosen = pulls(POLICIES[name](alone(2)), arms, 300)
    assert chosen[0] > 200, chosen


def test_every_arm_is_tried_once_in_order() -> None:
    for name in POLICIES:
        policy = POLICIES[name](alone(4))
        tried = []
        for _ in range(4):
            tried.append(policy.choose([0.99] * 5))
            policy.observe(tried[-1], [1.0], 5.0)
        assert tried == [0, 1, 2, 3]


def test_results_of_larger_drafts_imply_tokens_but_no_times() -> None:
    policy = POLICIES["ucb"]([[0], [0, 1]])
    policy.observe(1, [2.0, 3.0], 10.0)
    assert (policy.arms[0].tokens.mean, policy.arms[0].pulls) == (2.0, 0)
    policy.observe(0, [1.0], 4.0)
    assert policy.arms[0].rate == 1.5 / 4
    assert policy.arms[1].rate == 3.0 / 10


def test_exp3_draws_arms_from_the_distribution_that_it_reports() -> None:
    policy = POLICIES["exp3"](alone(3))
    for arm in range(3):
        policy.observe(arm, [1.0 + arm], 5.0)
    dice, chosen = random.Random(1), [0] * 3
    for _ in range(200):
        arm = policy.choose([dice.random() for _ in range(4)])
        policy.observe(arm, [1.0 + arm], 5.0)
    for _ in range(4000):
        chosen[policy.choose([dice.random() for _ in range(4)])] += 1
    distribution = policy._distribution()  # type: ignore[attr-defined]
    assert sum(distribution) == pytest.approx(1)
    assert distribution[2] > 0.8
    assert all(abs(seen / 4000 - mass) < 0.04 for seen, mass in zip(chosen, distribution, strict=True))


# Implied results of smaller drafts: the same counts as verifying the smaller draft.


def drawn(shape: tuple[int, ...], batch: int, seed: int) -> tuple[DraftTree, torch.Tensor, Uniforms]:
    """A tree whose children were drawn from random distributions, the target's distributions [B, N + 1, V] and the
    uniforms of its round."""
    dice = torch.Generator().manual_seed(seed)
    form, vocabulary = full(shape, batch), 6
    distributions = torch.rand((batch, form.nodes + 1, vocabulary), generator=dice).pow(2)
    distributions = distributions / distributions.sum(-1, keepdim=True)
    p = torch.rand((batch, form.nodes + 1, vocabulary), generator=dice).pow(2)
    slots = (form.parents + 1)[:, :, None].expand(-1, -1, vocabulary)
    tokens = distributions.gather(1, slots).flatten(0, 1).multinomial(1, generator=dice).view(batch, form.nodes)
    taken: dict[tuple[int, int], set[int]] = {}
    for b in range(batch):  # siblings carry different tokens
        for node in range(form.nodes):
            own = taken.setdefault((b, int(form.parents[b, node])), set())
            while int(tokens[b, node]) in own:
                tokens[b, node] = (tokens[b, node] + 1) % vocabulary
            own.add(int(tokens[b, node]))
    proposal_row = torch.arange(form.nodes + 1).expand(batch, -1)
    tree = DraftTree(
        form, tokens, distributions, proposal_row, proposal_row, torch.zeros_like(tokens, dtype=torch.bool), (), "all"
    )
    uniform = [torch.rand((batch, form.nodes + more), generator=dice, dtype=torch.float64) for more in (0, 0, 1)]
    return tree, p / p.sum(-1, keepdim=True), Uniforms(*uniform)


def smaller(
    tree: DraftTree, p: torch.Tensor, uniforms: Uniforms, large: tuple[int, ...], small: tuple[int, ...]
) -> Any:
    """The part of the tree that belongs to `small`, with the distributions and uniforms of the same nodes."""
    kept, places, level = [], {-1: -1}, [-1]
    children = tree.topology.children[0].tolist()
    for branches in small:
        level = [children[slot + 1][rank] for slot in level for rank in range(branches)]
        kept += level
    places |= {node: i for i, node in enumerate(kept)}
    slots = torch.tensor([0, *(node + 1 for node in kept)])
    nodes = torch.tensor(kept, dtype=torch.long)
    form = full(small, tree.topology.batch)
    part = replace(
        tree, topology=form, tokens=tree.tokens[:, nodes], distributions=tree.distributions[:, slots],
        never_accepted=tree.never_accepted[:, nodes],
        proposal_row=torch.arange(len(slots)).expand(form.batch, -1),
        shown_row=torch.arange(len(slots)).expand(form.batch, -1),
    )  # fmt: skip
    return part, p[:, slots], Uniforms(uniforms.draft[:, nodes], uniforms.accept[:, nodes], uniforms.last[:, slots])


def outcome_of(tree: DraftTree, verification: Any) -> Outcome:
    paths = [[node for node in row if node >= 0] for row in verification.path.tolist()]
    return Outcome(tree, paths, verification.last.tolist(), verification=verification)


@pytest.mark.parametrize(
    ("rule", "large", "small"),
    [
        *(("block", (1,) * 5, (1,) * length) for length in range(1, 6)),
        *(("token", (1,) * 5, (1,) * length) for length in range(1, 6)),
        *(("token", (3, 2, 1), small) for small in [(1,), (1, 1), (2, 1), (3, 1, 1), (2, 2), (1, 2, 1)]),
        *(("greedy", (3, 2, 1), small) for small in [(1, 1, 1), (2, 1), (3, 2)]),
    ],
)
def test_a_verification_implies_the_results_of_smaller_drafts(
    rule: str, large: tuple[int, ...], small: tuple[int, ...]
) -> None:
    assert lies_in(small, large)
    tree, p, uniforms = drawn(large, 400, 7)
    part, own_p, own_uniforms = smaller(tree, p, uniforms, large, small)
    if rule == "greedy":
        verifications = [verify_greedy(p.argmax(-1), tree), verify_greedy(own_p.argmax(-1), part)]
    else:
        verify = verify_block if rule == "block" else verify_tree
        verifications = [verify(p, tree, uniforms), verify(own_p, part, own_uniforms)]
    told = accepted(outcome_of(tree, verifications[0]), uniforms, small)
    assert told == verifications[1].accepted.tolist()
    assert len(set(told)) > 1


def test_a_shorter_block_is_not_the_beginning_of_a_longer_one() -> None:
    """Mutation: a shortened path is not the same; whether a block is accepted depends on the tokens after it."""
    tree, p, uniforms = drawn((1,) * 5, 400, 7)
    part, own_p, own_uniforms = smaller(tree, p, uniforms, (1,) * 5, (1, 1))
    want = verify_block(own_p, part, own_uniforms).accepted
    cut = verify_block(p, tree, uniforms).accepted.clamp(max=2)
    assert bool((cut < want).any())
    assert bool((cut > want).any())


NO_UNIFORMS = Uniforms(torch.zeros(1, 0), torch.zeros(1, 0), torch.zeros(1, 0))


def fully_drafted(form: Topology, path: list[int]) -> Outcome:
    """The outcome of a tree whose nodes on `path` were accepted."""
    tokens = torch.zeros(1, form.nodes, dtype=torch.long)
    shown_row = torch.zeros(1, form.nodes + 1, dtype=torch.long)
    return Outcome(DraftTree(form, tokens, None, shown_row, shown_row, tokens.bool(), (), "none"), [path], [0])


@pytest.mark.parametrize(
    ("large", "path", "small", "want"),
    [
        ((1,) * 8, [], (1,), [0]),
        ((1,) * 8, [0, 1, 2, 3], (1,), [1, 1, 0]),
        ((1,) * 8, [0, 1, 2, 3, 4], (1,), [1, 1, 1]),
        ((1,) * 8, list(range(7)), (1,) * 3, [3, 3]),
        ((1,) * 8, list(range(8)), (1,) * 2, [2, 2, 2]),
        ((3, 2, 1), [2, 8, 14], (2, 1), [0, 2]),
        ((3, 2, 1), [2, 7, 13], (1, 1), [0, 2]),
    ],
)
def test_a_small_draft_needs_several_rounds_where_a_large_one_needs_one(
    large: tuple[int, ...], path: list[int], small: tuple[int, ...], want: list[int]
) -> None:
    assert SmallRounds(small).add(fully_drafted(full(large, 1), path), NO_UNIFORMS) == want


@pytest.mark.parametrize(
    ("accepted_before", "accepted_after", "small", "want"),
    [
        (8, 8, 3, [3, 3, 3, 3]),  # 18 tokens, of which two are of a round that goes on
        (8, 8, 5, [5, 5, 5]),
        (8, 1, 5, [5, 4]),  # two, the token that nobody drafted, and one
        (8, 2, 5, [5, 5]),
        (8, 3, 5, [5, 5, 0]),
        (8, 0, 3, [3, 3, 1]),
    ],
)
def test_a_round_goes_on_behind_a_large_draft_that_was_accepted_as_a_whole(
    accepted_before: int, accepted_after: int, small: int, want: list[int]
) -> None:
    follows, form = SmallRounds((1,) * small), full((1,) * 8, 1)
    found = [follows.add(fully_drafted(form, list(range(n))), NO_UNIFORMS) for n in (accepted_before, accepted_after)]
    assert [took for each in found for took in each] == want


def test_under_block_verification_each_round_counts_once() -> None:
    tree, p, uniforms = drawn((1,) * 5, 200, 7)
    verification = verify_block(p, tree, uniforms)
    want = accepted(outcome_of(tree, verification), uniforms, (1, 1))
    alone = [drawn_alone(tree, uniforms, verification, b) for b in range(200)]
    follows = SmallRounds((1, 1))
    assert [follows.add(*each) for each in alone] == [[count] for count in want]


def drawn_alone(tree: DraftTree, uniforms: Uniforms, verification: Any, b: int) -> tuple[Outcome, Uniforms]:
    """One sequence of a batch."""
    assert tree.distributions is not None
    row = slice(b, b + 1)
    own = replace(
        tree, topology=full((1,) * tree.nodes, 1), tokens=tree.tokens[row], distributions=tree.distributions[row]
    )
    block = tuple(each[row] for each in verification.block)
    result = replace(verification, path=verification.path[row], last=verification.last[row], block=block)
    return outcome_of(own, result), Uniforms(uniforms.draft[row], uniforms.accept[row], uniforms.last[row])


def test_a_round_ends_where_nothing_is_drafted() -> None:
    follows, nothing = SmallRounds((1,) * 5), fully_drafted(full((), 1), [])
    assert follows.add(nothing, NO_UNIFORMS) == [0]
    assert follows.add(fully_drafted(full((1,) * 8, 1), list(range(8))), NO_UNIFORMS) == [5]
    assert [follows.add(nothing, NO_UNIFORMS) for _ in range(2)] == [[3], [0]]
    assert follows.add(fully_drafted(full((1,) * 3, 1), [0, 1, 2]), NO_UNIFORMS) == [3]  # as many as were drafted


@pytest.mark.parametrize("gamma", [1, 2, 3, 5])
def test_easy_passages_weigh_as_much_as_they_are_long(gamma: int) -> None:
    """A text that is half hard and half easy: tokens a round of a short chain, from the rounds of a long one."""
    dice = random.Random(3)
    right = [dice.random() < (0.95 if at // 500 % 2 else 0.2) for at in range(20_000)]

    def run(longest: int) -> list[int]:
        found, at = [], 0
        while at + longest < len(right):
            wrong = right[at : at + longest].index(False) if False in right[at : at + longest] else longest
            found.append(wrong)
            at += wrong + 1
        return found

    follows, form = SmallRounds((1,) * gamma), full((1,) * 8, 1)
    outcomes = {count: fully_drafted(form, list(range(count))) for count in range(9)}
    told = [took for count in run(8) for took in follows.add(outcomes[count], NO_UNIFORMS)]
    want = 1 + sum(run(gamma)) / len(run(gamma))
    assert 1 + sum(told) / len(told) == pytest.approx(want, rel=0.03)
    each_once = [min(count, gamma) for count in run(8)]
    assert 1 + sum(each_once) / len(each_once) < 0.93 * want


def test_only_smaller_drafts_with_the_same_verification_are_implied(tiny: DecodingEngine) -> None:
    arms = ("plain", "draft:2", "draft:4", "sampled-tree:3x1", "topk-tree:2x1", "ngram:3", "ngram:1", "eagle3:2")

    def told(**more: object) -> dict[str, set[str]]:
        made = tiny.start_batch([[0, 1]], Settings.of(drafter="bandit", arms=arms, **more), (0,)).drafter
        assert isinstance(made, bandit.Bandit)
        return {
            arm: {arms[i] for i in found} - {arm, "plain"}
            for arm, found in zip(arms, made._policy.implied, strict=True)
        }

    assert told(temperature=1.0, rule="block") == {
        "plain": set(), "draft:2": set(), "draft:4": {"draft:2"}, "sampled-tree:3x1": set(), "topk-tree:2x1": set(),
        "ngram:3": {"ngram:1"}, "ngram:1": set(), "eagle3:2": set(),
    }  # fmt: skip
    assert told(temperature=1.0, rule="token")["sampled-tree:3x1"] == {"draft:2"}
    assert told()["sampled-tree:3x1"] == {"draft:2", "topk-tree:2x1"}  # greedy children are the likeliest


# Through the loop.


def distance(engine: DecodingEngine, samples: int, batch: int, length: int = 3, **settings: object) -> float:
    """p of the chi-square test of the joint distribution. Sequences of a batch share their arms, and are
    independent. One alone ends with its outcome, which no later round changes."""
    chosen = Settings.of(**{"drafter": "bandit", "arms": ARMS, "temperature": 1.0, "seed": 5, **settings})
    return distribution_test(engine, "abcab", chosen, length, samples, batch, whole=batch > 1).p_value


@pytest.mark.usefixtures("steady")
@pytest.mark.parametrize(("policy", "rule"), zip(POLICIES, cycle(["block", "token"])))
def test_the_joint_distribution_is_the_targets(tiny: DecodingEngine, policy: str, rule: str) -> None:
    """Of two arms the third round has one that the policy chose."""
    assert distance(tiny, 1600, 32, 4, policy=policy, rule=rule, arms=ARMS[1:3]) > FALSE_ALARM


def test_one_text_at_a_time_has_the_distribution_too(tiny: DecodingEngine) -> None:
    assert distance(tiny, 300, 1, policy="thompson") > FALSE_ALARM


def test_drafters_of_every_kind_may_be_arms(tiny: DecodingEngine) -> None:
    small = {"tree_nodes": 4, "tree_depth": 2, "tree_width": 2}
    assert distance(tiny, 1000, 16, policy="exp3", arms=MIXED, **small) > FALSE_ALARM


class Lot(Policy):
    """Draws one of two arms with the first uniform, from the first round on."""

    def choose(self, uniforms: Sequence[float]) -> int:
        return int(uniforms[0] < 0.5)

    def _best(self, uniforms: Sequence[float]) -> int:
        raise NotImplementedError


def test_arms_drawn_with_the_uniforms_that_verify_are_caught(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A choice must not depend on the draws of its own round."""
    monkeypatch.setitem(POLICIES, "ucb", Lot)
    arms = ("plain", "draft:1")
    assert distance(tiny, 350, 1, 2, arms=arms) > FALSE_ALARM
    monkeypatch.setattr(bandit, "TIER", 0)
    assert distance(tiny, 350, 1, 2, arms=arms) < FALSE_ALARM


def test_an_arm_chosen_after_its_draft_was_seen_is_caught(
    tiny: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Drafts first, then takes a shorter draft depending on the first token."""
    right = bandit.Bandit.propose

    def peeking(self: bandit.Bandit, state: State, depth: int) -> DraftTree:
        tree = right(self, state, depth)
        if tree.nodes and tree.tokens[0, 0] > 2:
            return replace(tree, never_accepted=torch.ones_like(tree.never_accepted))
        return tree

    monkeypatch.setattr(bandit.Bandit, "propose", peeking)
    assert distance(tiny, 300, 1, 2, arms=("draft:2", "draft:1"), rule="token") < FALSE_ALARM


@pytest.mark.parametrize("policy", POLICIES)
def test_greedy_writes_plains_tokens_in_one_forward_a_round(pair: DecodingEngine, policy: str) -> None:
    want = pair.decode(PROMPT, "plain", max_new_tokens=60).token_ids
    exits = DecodingEngine(pair.target, pair.draft, pair.tokenizer, pair.heads)
    with pair.target.counter.widths() as widths:
        run = exits.decode(PROMPT, "bandit", policy=policy, arms=MIXED, max_new_tokens=60)
    assert run.token_ids == want
    assert widths[1:] == [event.width for event in run.round_events]
    assert {note_of(event).chosen for event in run.round_events} == set(range(len(MIXED)))


@pytest.fixture
def steady(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock on which every lap takes a millisecond."""

    class Steady(session.Stopwatch):
        def _since(self) -> float:
            self.now += 1.0
            return 1.0

    monkeypatch.setattr(session, "Stopwatch", Steady)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.usefixtures("steady")
def test_on_a_steady_clock_a_seed_repeats_and_recording_changes_nothing(pair: DecodingEngine, policy: str) -> None:
    runs = [
        pair.decode(
            PROMPT, "bandit", policy=policy, temperature=1.0, max_new_tokens=40, seed=4, record=record
        ).token_ids
        for record in (True, True, False)
    ]
    assert runs[0] == runs[1] == runs[2]


# The trace.


def note_of(event: Any) -> PolicyNote:
    (note,) = (each for each in event.annotations if each.kind == "policy")
    assert isinstance(note, PolicyNote)
    return note


@pytest.mark.usefixtures("steady")
def test_the_trace_records_what_the_policy_knew(pair: DecodingEngine) -> None:
    run = pair.decode(PROMPT, "bandit", arms=("plain", "draft:2", "draft:4"), policy="exp3", max_new_tokens=40)
    notes = [note_of(event) for event in run.round_events]
    pulled = [0, 0, 0]
    for event, note in zip(run.round_events, notes, strict=True):
        assert [arm.pulls for arm in note.arms] == pulled
        assert [arm.name for arm in note.arms] == ["plain", "draft:2", "draft:4"]
        assert event.depth <= (0, 2, 4)[note.chosen]
        assert (note.probability is None) == (min(pulled) == 0)
        pulled[note.chosen] += 1
    for arm, own in enumerate(zip(*(note.arms for note in notes), strict=True)):
        emitted = [len(e.emitted) for e, note in zip(run.round_events, notes, strict=True) if note.chosen == arm]
        if arm == 2:  # no larger arm implies the longest one: its tokens are those that it wrote
            assert own[-1].tokens_per_round == pytest.approx(sum(emitted[: own[-1].pulls]) / own[-1].pulls)
        assert own[-1].ms_per_round == pytest.approx(5.0)
    assert [EVENT.validate_json(files.line(event)) for event in run.events] == list(run.events)


@pytest.mark.parametrize(
    ("arms", "sentence"),
    [
        (("drat:4",), "There is no drafter 'drat'; did you mean 'draft'?"),
        (("draft:0",), "arms: 'draft:0', gamma = '0': should be greater than or equal to 1."),
        (("sampled-tree:2,1",), "arms: 'sampled-tree:2,1', shape"),
        (("plain:3",), "'plain' has neither gamma nor shape; write 'plain'"),
        (("bandit",), "arms: 'bandit' cannot be an arm"),
        (("oracle:3",), "arms: 'oracle' cannot be an arm"),
        (("draft:4", "draft"), "arms: 'draft' is named twice"),
        ((), "arms = ()"),
    ],
)
def test_wrong_arms_are_one_sentence(pair: DecodingEngine, arms: tuple[str, ...], sentence: str) -> None:
    with pytest.raises(DraftscopeError) as error:
        pair.decode(PROMPT, "bandit", arms=arms)
    assert sentence in str(error.value)


def test_an_arm_that_these_models_cannot_run_is_named(pair: DecodingEngine) -> None:
    headless = DecodingEngine(pair.target, pair.draft, pair.tokenizer)
    with pytest.raises(DraftscopeError, match="The arm 'eagle3:2' cannot run here: no eagle3 head is loaded"):
        headless.decode(PROMPT, "bandit", arms=("draft:2", "eagle3:2"))


def test_arms_share_the_draft_models_cache(pair: DecodingEngine) -> None:
    """The draft reads each committed token once, however many shapes are used: no arm has to catch up."""
    arms = ("draft:2", "draft:4", "sampled-tree:2x2")
    with pair.draft.counter.widths() as ran:
        pair.decode(PROMPT, "bandit", arms=arms, policy="exp3", max_new_tokens=60)
    prompt, *widths = ran
    assert prompt == len(pair.encode(PROMPT)) - 1
    assert max(widths) <= 2


@pytest.mark.parametrize("drafter", ["bandit", "ssd"])
def test_the_checks_of_a_pair_hold(pair: DecodingEngine, drafter: str) -> None:
    """Except the distribution, which is tested above. A run that depends on the clock need not repeat its seed."""
    for test in TESTS:
        finding = last(test(GreedyTest(pair, drafter, prompts=PROMPTS[:2], tokens=24)))
        assert finding.passed, finding.detail


def test_settings_of_the_arms_bound_the_tree() -> None:
    settings = Settings.of(drafter="bandit", arms=("draft:9", "sampled-tree:3x2"))
    assert drafters.find("bandit").max_nodes(settings) == 9
    assert [arm.shape for arm in arms_of(settings)] == [(1,) * 9, (3, 2)]
