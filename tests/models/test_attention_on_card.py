"""Attention on a card that is not there: CUDA's kernels are called as they demand, also in graphs, and give the CPU's
tokens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import pytest
import torch

from draftscope.models.forward import attention, graphs
from draftscope.models.model import Model
from tests.support import card_kernels
from tests.support.card import Card, card, why_not
from tests.support.rehearsal import small_pair, written

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())
PROMPTS = [list(range(2, 102)), list(range(40, 109)), list(range(3, 120))]
OPTIONS = {"gamma": 3, "shape": (2, 1), "max_new_tokens": 12, "temperature": 0.8, "top_k": 40, "seed": 3}


@pytest.fixture
def kernels(monkeypatch: pytest.MonkeyPatch) -> Iterator[Counter[str]]:
    """Counts the kernels; short texts are long ones."""
    monkeypatch.setattr(attention, "SPLIT_FROM", 16)
    for module in ("models.model", "models.heads.head", "models.forward.graphs"):
        monkeypatch.setattr(f"draftscope.{module}.WIDE", 32)
    found: Counter[str] = Counter()
    for operation, kernel in card_kernels.STAND_INS.items():
        monkeypatch.setitem(card_kernels.STAND_INS, operation, _counted(kernel, found))
    yield found
    attention.has_flash.cache_clear()


def _counted(kernel, found):  # type: ignore[no-untyped-def]
    def counted(*args, **named):  # type: ignore[no-untyped-def]
        found[kernel.__name__] += 1
        return kernel(*args, **named)

    return counted


@pytest.mark.parametrize(
    ("drafter", "batch", "with_graphs"),
    [("sampled-tree", 3, True),
     *(pytest.param(*case, marks=pytest.mark.slow)
       for case in (("draft", 1, True), ("eagle3", 1, False), ("block", 3, False)))],
)  # fmt: skip
def test_kernels_of_a_card_give_the_tokens_of_a_cpu(
    kernels: Counter[str], drafter: str, batch: int, with_graphs: bool
) -> None:
    """In float32 a card has one masked part."""
    options = {**OPTIONS, "drafter": drafter}
    expected = written(small_pair(), options, PROMPTS[:batch])
    with card() as there:
        found = written(small_pair("cuda", with_graphs), options, PROMPTS[:batch], there)
        assert there.wrong == []
    assert found.tokens == expected.tokens
    assert set(kernels) == {"_efficient"}
    assert all(state == ("on" if with_graphs else "") for state in found.states)


@pytest.mark.parametrize("with_graphs", [False, True])
def test_in_16_bits_the_text_is_read_by_flash_attention(kernels: Counter[str], with_graphs: bool) -> None:
    """To the same bits as by the CPU's own kernels, which the stand-ins are."""
    with card() as there:
        logits = _logits("cuda", with_graphs, there)
        assert there.wrong == []
    assert kernels["_flash"] == kernels["_efficient"] > 0  # the text, and the masked rows
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(attention, "DEVICES", {"cpu"})
        expected = _logits("cpu", False, None)
    assert torch.equal(logits, expected)


def _logits(device: str, with_graphs: bool, there: Card | None) -> torch.Tensor:
    """Of four rounds of five rows after two texts; each of the texts keeps all rows."""
    model: Model = small_pair(device).target
    model.network.to(torch.bfloat16)
    model.dtype, model.run = torch.bfloat16, model.network
    if with_graphs:
        model.record_graphs()
    cache = model.cache(2, 160) if there is not None else graphs.SlotCache(2, 2, 160, model.device, vector=32)
    model.read(cache, PROMPTS[:2])
    found = []
    for turn in range(4):
        rows = torch.arange(5).repeat(2, 1).to(device)
        found.append(model.forward(cache, 7 + turn + rows, rows).cpu())
        cache.keep_first(torch.full((2,), 5, device=device), 105 + 5 * turn)
        cache.table.know_least(74 + 5 * turn)
    if with_graphs:
        assert model.graph_state == "on"
    return torch.cat(found, 1)
