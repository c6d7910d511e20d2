"""The tensor rules equal the readable rules of rules.py on random distributions and trees."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from draftscope.verify import drawing, rules, verify
from draftscope.verify.drawing import draw
from draftscope.verify.sampling import draw_distinct
from draftscope.verify.tree import DraftTree, Topology, chain, deterministic_chains, full, topology
from draftscope.verify.uniforms import Streams, Uniforms

VOCABULARY = 6


@pytest.fixture(params=["loops", "tensors"], autouse=True)
def computed_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both ways of a processor: with numba and without."""
    if request.param == "tensors":
        monkeypatch.setattr(drawing, "loops", lambda: None)
    else:
        assert drawing.loops() is not None


def random_distributions(seed: int, *shape: int, size: int = VOCABULARY) -> Tensor:
    """Random distributions in which some tokens have probability 0."""
    generator = torch.Generator().manual_seed(seed)
    logits = 2 * torch.randn(*shape, size, generator=generator)
    holes = torch.rand(*shape, size, generator=generator) < 0.2
    return logits.masked_fill(holes & (logits < logits.amax(-1, keepdim=True)), -torch.inf).softmax(-1)


def drawn_tree(form: Topology, seed: int, deterministic: tuple[int, ...] = (), size: int = VOCABULARY) -> DraftTree:
    """A tree with children drawn from random distributions without replacement, and some deterministic slots."""
    slots = form.nodes + 1
    distributions = random_distributions(seed, form.batch, slots, size=size)
    uniforms = torch.rand(
        form.batch, slots, max(form.width, 1), generator=torch.Generator().manual_seed(seed + 1)
    ).double()
    picked, real = draw_distinct(distributions, uniforms)
    tokens = torch.zeros(form.batch, form.nodes, dtype=torch.long)
    never_accepted = torch.zeros_like(tokens, dtype=torch.bool)
    for b, slot, rank in (form.children >= 0).nonzero().tolist():
        node = int(form.children[b, slot, rank])
        tokens[b, node], never_accepted[b, node] = picked[b, slot, rank], ~real[b, slot, rank]
    proposal_row = torch.arange(slots).repeat(form.batch, 1)
    for slot in deterministic:
        proposal_row[:, slot] = -1
    origin = (("test",) * form.nodes,) * form.batch
    return DraftTree(
        form,
        tokens,
        distributions,
        proposal_row,
        proposal_row,
        never_accepted,
        origin,
        drawn="some" if deterministic else "all",
    )


def readable(p: Tensor, tree: DraftTree, uniforms: Uniforms, b: int) -> tuple[list[int], int]:
    """Verification by rules.py: the accepted nodes and the last token."""
    slot, path = 0, []
    while True:
        children = [n for n in tree.topology.children[b, slot].tolist() if n >= 0 and not tree.never_accepted[b, n]]
        tokens = [int(tree.tokens[b, n]) for n in children]
        distribution = p[b, slot].double().tolist()
        if tree.proposal_row[b, slot] >= 0:
            rows, left = rules.sibling_rows(
                distribution, tree.distributions[b, tree.proposal_row[b, slot]].double().tolist(), tokens
            )
            wins = [node for node, row in zip(children, rows, strict=True) if uniforms.accept[b, node] < row.threshold]
            taken = wins[0] if wins else None
            last = int(draw(torch.tensor(left), uniforms.last[b, slot]))
        else:
            last = int(draw(p[b, slot], uniforms.last[b, slot]))
            at = rules.deterministic_child(tokens, last)
            taken = None if at is None else children[at]
        if taken is None:
            return path, last
        path.append(taken)
        slot = taken + 1


TOPOLOGIES = {
    "chain": chain(4, 64),
    "one": chain(1, 64),
    "pairs": full((2, 2), 64),
    "wide": full((5, 1), 64),
    "irregular": topology([[-1, 0, -1, 2, 2, 4, 0]] * 64),
    "two different": topology([[-1, 0, -1, 2, 2, 4, 0], [-1, -1, -1, 0, 1, 1, 3]] * 32),
}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", TOPOLOGIES)
@pytest.mark.parametrize("deterministic", [(), (0,), (1, 2)])
def test_tree_verification_equals_the_readable_rules(name: str, seed: int, deterministic: tuple[int, ...]) -> None:
    form = TOPOLOGIES[name]
    tree = drawn_tree(form, seed, tuple(slot for slot in deterministic if slot <= form.nodes))
    p = random_distributions(seed + 50, form.batch, form.nodes + 1)
    uniforms = Streams(seed, tuple(range(form.batch))).uniforms(0, form.nodes)
    verification = verify.verify_tree(p, tree, uniforms)
    for b in range(form.batch):
        path, last = readable(p, tree, uniforms, b)
        assert [node for node in verification.path[b].tolist() if node >= 0] == path
        assert (int(verification.accepted[b]), int(verification.last[b])) == (len(path), last)


@pytest.mark.parametrize("seed", range(6))
def test_block_verification_equals_the_readable_rule(seed: int) -> None:
    random.seed(seed)
    form = chain(4, 64)
    tree = drawn_tree(form, seed)
    lengths = torch.tensor([random.randint(1, 4) for _ in range(form.batch)])
    tree = replace(tree, never_accepted=torch.arange(4) >= lengths[:, None])
    p = random_distributions(seed + 50, form.batch, 5)
    uniforms = Streams(seed, tuple(range(form.batch))).uniforms(0, form.nodes)
    weights, thresholds = verify.block_thresholds(p, tree)
    verification = verify.verify_block(p, tree, uniforms)
    for b, length in enumerate(lengths.tolist()):
        rows = p[b, : length + 1].double().tolist(), tree.distributions[b, :length].double().tolist()
        tokens = tree.tokens[b, :length].tolist()
        want_weights, want = rules.block_thresholds(*rows, tokens)
        assert weights[b, 1 : length + 1].tolist() == pytest.approx(want_weights, abs=1e-6)
        assert thresholds[b, :length].tolist() == pytest.approx(want, abs=1e-5)
        tau = rules.block_accepted(thresholds[b, :length].tolist(), uniforms.accept[b].tolist()[:length])
        last = draw(torch.tensor(rules.block_last(*rows, tokens, tau)), uniforms.last[b, tau])
        assert (int(verification.accepted[b]), int(verification.last[b])) == (tau, int(last))


@pytest.mark.parametrize("size", [40, 512, 1300])
def test_loops_and_tensors_give_the_same(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where the draft is the target, so that nothing is left of it."""
    tree, uniforms = drawn_tree(chain(3, 96), 5, size=size), Streams(5, tuple(range(96))).uniforms(0, 3)
    tree = replace(tree, never_accepted=torch.arange(3) >= torch.arange(96)[:, None] % 4)
    p = random_distributions(6, 96, 4, size=size)
    p[:24] = tree.distributions[:24]
    ways = []
    for loops in (drawing.loops, lambda: None):
        monkeypatch.setattr(drawing, "loops", loops)
        ways.append((*verify.verify_block(p, tree, uniforms).parts[:7], draw(p[:, 0], uniforms.last[:, 0])))
    for one, other in zip(*ways, strict=True):
        torch.testing.assert_close(one, other, atol=1e-6, rtol=1e-5)
    assert 0 < ways[0][1].double().mean() < 3


def test_block_and_token_rule_agree_on_a_chain_of_one() -> None:
    tree = drawn_tree(chain(1, 256), 9)
    p, uniforms = random_distributions(70, 256, 2), Streams(1, tuple(range(256))).uniforms(0, 1)
    block, token = verify.verify_block(p, tree, uniforms), verify.verify_tree(p, tree, uniforms)
    assert block.accepted.equal(token.accepted)
    assert block.last.equal(token.last)


def test_greedy_descends_along_the_argmax() -> None:
    tree = deterministic_chains([[3, 1, 2], [3, 2], []], ["a", "b", "c"], "cpu")
    argmax = torch.tensor([[3, 1, 4, 5], [3, 1, 0, 0], [2, 0, 0, 0]])
    verification = verify.verify_greedy(argmax, tree)
    assert verification.accepted.tolist() == [2, 1, 0]
    assert verification.last.tolist() == [4, 1, 2]
    assert verification.path.tolist() == [[0, 1, -1], [0, -1, -1], [-1, -1, -1]]


def test_never_accepted_nodes_are_not_accepted() -> None:
    tree = deterministic_chains([[3, 1]], ["a"], "cpu")
    verification = verify.verify_greedy(
        torch.tensor([[3, 1, 2]]), replace(tree, never_accepted=torch.tensor([[True, False]]))
    )
    assert (verification.accepted.item(), verification.last.item()) == (0, 3)


def test_a_rejection_without_residual_mass_keeps_p() -> None:
    p = random_distributions(3, 1)
    left, rest = verify.reject(p, p, torch.tensor([0]))
    assert left.equal(p)
    assert rest[0, 0] == 0
    assert rest.sum().item() == pytest.approx(1.0)


def test_a_distribution_of_one_token_yields_one_child() -> None:
    tokens, real = draw_distinct(torch.tensor([[0.0, 1.0, 0.0]]), torch.tensor([[0.3, 0.6]]).double())
    assert tokens[0, 0] == 1
    assert real.tolist() == [[True, False]]


def test_a_token_of_probability_zero_is_never_drawn() -> None:
    distribution = torch.tensor([0.0, 0.5, 0.0, 0.5, 0.0]).expand(4, -1)
    uniforms = torch.tensor([0.0, 0.4999999, 0.5, 1 - 2**-53], dtype=torch.float64)
    assert draw(distribution, uniforms).tolist() == [1, 1, 3, 3]


def test_the_largest_uniform_draws_a_token_that_is_possible() -> None:
    """The order in which a row is added must not lead behind its last possible token."""
    rows = random_distributions(8, 256, size=1300) ** 4  # so unequal that sums in fp64 are rounded
    rows[:, 1200:] = 0.0
    tokens = draw(rows, torch.full((256,), 1 - 2**-53, dtype=torch.float64))
    assert (rows.gather(1, tokens[:, None]) > 0).all()


def test_a_parent_after_its_child_is_refused() -> None:
    with pytest.raises(ValueError, match="earlier node"):
        topology([[1, -1]])


def test_uniforms_in_any_memory_order_draw_the_same_without_a_warning() -> None:
    """PyTorch warns of the copy once per program, and only where a test turns warnings into errors is that seen."""
    distribution = torch.rand(7, 3, 5, generator=torch.Generator().manual_seed(1)).softmax(-1)
    uniform = torch.rand(3, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(2)).T
    assert draw(distribution, uniform).equal(draw(distribution, uniform.contiguous()))
