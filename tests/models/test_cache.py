"""Trees in the cache have the logits of their paths, and a rollback equals a fresh prefill."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from draftscope.decode.engine import DecodingEngine
from draftscope.models.cache.slots import SlotTable, Store
from draftscope.models.model import Model
from draftscope.models.probe import probed
from draftscope.verify.tree import Topology, chain, full, topology
from tests.support.models import random_llama

CLOSE = {"atol": 3e-5, "rtol": 1e-4}  # fp32 on one core, logits of order 10


def fresh(model: Model, tokens: list[int]) -> torch.Tensor:
    """Logits [T, V] of a sequence, by transformers' own forward without a cache."""
    with torch.inference_mode():
        return model.network(torch.tensor([tokens])).logits[0]


def path_to(form: Topology, b: int, node: int) -> list[int]:
    path = []
    while node >= 0:
        path.insert(0, node)
        node = int(form.parents[b, node])
    return path


TREES = {
    "chain": chain(4, 2),
    "full": full((3, 2), 2),
    "ragged": topology([[-1, 0, -1, 2, 3], [-1, -1, -1, 0, 0]]),
}


@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("name", TREES)
def test_tree_logits_equal_path_logits_and_the_kept_path_continues(name: str, attention: str) -> None:
    """Two sequences of different lengths with a tree each; then a path of different length is kept in each."""
    network = random_llama(7, 50)
    network.set_attn_implementation(attention)
    model = probed(network, "m")
    form, prompts = TREES[name], [[3, 1, 4, 1, 5], [9, 2]]
    tokens = torch.randint(2, 50, (2, form.nodes + 1), generator=torch.Generator().manual_seed(1))
    cache = model.cache(2, 32)
    model.read(cache, prompts)
    logits = model.forward(cache, tokens, form.depth, None if form.is_chain else form.ancestors)
    for b, prompt in enumerate(prompts):
        for node in range(-1, form.nodes):
            path = [int(tokens[b, 0]), *(int(tokens[b, n + 1]) for n in path_to(form, b, node))]
            torch.testing.assert_close(logits[b, node + 1], fresh(model, prompt + path)[-1], **CLOSE)

    kept = [path_to(form, 0, form.nodes - 1), path_to(form, 1, 0)[:1]]
    longest = max(len(path) for path in kept)
    rows = torch.tensor([[0, *(n + 1 for n in path), *[-1] * (longest - len(path))] for path in kept])
    counts = torch.tensor([len(path) + 1 for path in kept])
    cache.keep(rows, counts, 5 + 1 + longest)
    after = model.forward(cache, torch.tensor([[7], [8]]), torch.zeros(2, 1, dtype=torch.long))
    for b, prompt in enumerate(prompts):
        text = [*prompt, int(tokens[b, 0]), *(int(tokens[b, n + 1]) for n in kept[b]), 7 + b]
        torch.testing.assert_close(after[b, 0], fresh(model, text)[-1], **CLOSE)


def test_rows_of_several_forwards_stay_open_until_they_are_kept() -> None:
    """A draft writes its tree level by level; dropping the whole tree restores the cache."""
    model = probed(random_llama(7, 50), "m")
    cache = model.cache(1, 32)
    model.read(cache, [[3, 1, 4]])
    form = full((2, 2))
    model.forward(cache, torch.tensor([[5, 6]]), form.depth[:, 1:3] - 1, form.ancestors[:, 1:3, 1:3])
    below = torch.tensor([[7, 8, 9, 10]])
    logits = model.forward(cache, below, form.depth[:, 3:] - 1, form.ancestors[:, 3:, 1:])
    torch.testing.assert_close(logits[0, 2], fresh(model, [3, 1, 4, 6, 9])[-1], **CLOSE)
    cache.keep_first(torch.tensor([0]), 3)
    again = model.forward(cache, torch.tensor([[11]]), torch.zeros(1, 1, dtype=torch.long))
    torch.testing.assert_close(again[0, 0], fresh(model, [3, 1, 4, 11])[-1], **CLOSE)


def test_truncate_drops_permanent_slots() -> None:
    model = probed(random_llama(7, 50), "m")
    cache = model.cache(1, 32)
    model.read(cache, [[3, 1, 4, 1, 5]])
    cache.truncate(torch.tensor([2]), 2)
    logits = model.forward(cache, torch.tensor([[9, 8]]), torch.arange(2)[None])
    torch.testing.assert_close(logits[0, 1], fresh(model, [3, 1, 9, 8])[-1], **CLOSE)


class Apart(Store):
    """Gives every layer its own memory."""

    def place(self, layer: int, capacity: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor, bool]:
        separate = [each.new_zeros((*each.shape[:2], capacity, each.shape[3])) for each in (keys, values)]
        return separate[0], separate[1], False


@pytest.mark.parametrize("common", [True, False])
def test_sequences_can_be_removed_and_the_others_continue(common: bool) -> None:
    """With all layers in a common block of memory, and with separate memory for each."""
    model = probed(random_llama(7, 50), "m")
    cache, prompts = model.cache(4, 32), [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3], [5, 8, 9, 7]]
    if not common:
        for layer in cache.layers:
            layer._store = Apart(1)
    model.read(cache, prompts)
    model.forward(cache, torch.tensor([[1], [2], [3], [4]]), torch.zeros(4, 1, dtype=torch.long))
    with pytest.raises(ValueError, match="1 rows are open"):
        cache.select_rows(torch.tensor([0]))
    cache.keep_first(torch.tensor([1, 0, 1, 0]), 6)
    cache.select_rows(torch.tensor([3, 0]))
    assert cache.scattered != common
    assert cache.layers[0].keys.shape[0] == 2
    after = model.forward(cache, torch.tensor([[7], [8]]), torch.zeros(2, 1, dtype=torch.long))
    for row, text in enumerate(([*prompts[3], 7], [*prompts[0], 1, 8])):
        torch.testing.assert_close(after[row, 0], fresh(model, text)[-1], **CLOSE)


def test_writing_beyond_the_capacity_is_an_error() -> None:
    table = SlotTable(1, 4, torch.device("cpu"))
    with pytest.raises(ValueError, match="has 4 slots; 5 are needed"):
        table.begin_write(torch.zeros(1, 5, dtype=torch.long))


def test_eager_and_sdpa_agree(pair: DecodingEngine) -> None:
    """Eager attention needs an additive mask; a boolean one would be silently wrong."""
    network = random_llama(3, 258)
    network.set_attn_implementation("eager")
    eager = DecodingEngine(probed(network, "eager"), pair.draft, pair.tokenizer)
    for drafter in ("draft", "topk-tree"):
        want = pair.decode("abc", drafter, max_new_tokens=24).token_ids
        assert eager.decode("abc", drafter, max_new_tokens=24).token_ids == want
