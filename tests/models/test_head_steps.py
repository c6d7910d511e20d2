"""The compiled step of a head: its modules' arithmetic, closer to float32, with bits that depend on no other row."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from draftscope.models.cache.masks import Reach, attention_mask
from draftscope.models.cache.slots import SlotCache
from draftscope.models.heads import (
    Eagle1,
    Eagle1Config,
    Eagle3,
    Eagle3Config,
    HeadShape,
    Mtp,
    MtpConfig,
    OwnWeights,
    RecurrentHead,
    SharedWeights,
)
from draftscope.models.native.available import programs, why_not

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not())

V, H = 96, 64
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
SHAPE = HeadShape(hidden=H, heads=4, key_value_heads=2, head_width=32, mlp=96, rope=ROPE, positions=64)
EAGLE3 = ("eagle3", "eagle3 norm_before_residual", "eagle3 norm_output", "eagle3 fc_norm", "eagle3 subset")
VARIANTS = ("eagle", *EAGLE3, "mtp")


def shared(dtype: torch.dtype) -> SharedWeights:
    weights = torch.randn(2, V, H, generator=torch.Generator().manual_seed(1)).bfloat16().to(dtype)
    return SharedWeights(weights[0], weights[1] / 8, 4)


def head(name: str, dtype: torch.dtype = torch.bfloat16, shape: HeadShape = SHAPE) -> RecurrentHead:
    """A head with random weights that bfloat16 can hold, in either dtype."""
    kind, _, variant = name.partition(" ")
    made: RecurrentHead
    if kind == "eagle":
        made = Eagle1(Eagle1Config(shape), shared(dtype))
    elif kind == "mtp":
        made = Mtp(MtpConfig(shape), shared(dtype))
    else:
        own = OwnWeights(lm_head=True, vocabulary=32 if variant == "subset" else None)
        more: dict[str, Any] = {variant: True} if variant not in ("", "subset") else {}
        made = Eagle3(Eagle3Config(shape, (1, 2, 3), own, **more), shared(dtype))
    generator = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for weight in made.parameters():
            spread = 0.3 if weight.dim() == 1 else weight.shape[-1] ** -0.5
            noise = torch.randn(weight.shape, generator=generator) * spread
            weight.copy_((1 + noise if weight.dim() == 1 else noise).bfloat16())
    return made.to(dtype).eval()


def compiled(name: str) -> RecurrentHead:
    """With weights of 16 bits."""
    made = head(name)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("draftscope.models.heads.step.programs", lambda: programs()._replace(panels=False))
        made.compile_step()
    assert made.step is not None
    return made


def step(
    one: RecurrentHead, cache: SlotCache, given: tuple[Tensor, Tensor], offsets: Tensor, sees: Tensor | None
) -> Any:
    """Logits and features of a step; a chain has no mask where the step is compiled."""
    cache.table.begin_write(offsets)
    mask = None
    if sees is not None or one.step is None:
        cache.table.widen()
        mask = attention_mask(cache.table, Reach(), sees, None)
        assert isinstance(mask, Tensor)
    return one(*given, cache.table.length[:, None] + offsets, mask, cache)


@torch.inference_mode()
def drafted(one: RecurrentHead, lengths: tuple[int, ...] = (5, 3), seed: int = 3) -> list[Tensor]:
    """The real rows of logits and features of a prompt, of a chain of two and of a tree below it, by sequence."""
    generator, batch, longest = torch.Generator().manual_seed(seed), len(lengths), max(lengths)
    tokens = torch.randint(0, V, (2, longest + 5), generator=generator)[:batch]
    features = torch.randn(2, longest, H, generator=generator).bfloat16()[:batch].to(one.shared.embedding.dtype)
    cache = one.cache(batch, 32)
    given = tokens[:, :longest], features
    logits, out = step(one, cache, given, torch.arange(longest).expand(batch, -1), None)
    cache.keep_first(torch.tensor(lengths), longest)
    rows = [each[b, :length] for b, length in enumerate(lengths) for each in (logits, out)]
    newest = torch.stack([out[b, length - 1 : length] for b, length in enumerate(lengths)])
    for i in range(2):
        logits, newest = step(one, cache, (tokens[:, longest + i, None], newest), torch.full((batch, 1), i), None)
        rows += [*logits, *newest]
    depth = torch.tensor([2, 2, 3]).expand(batch, -1)
    sees = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 0, 1, 0], [1, 1, 0, 1, 1]], dtype=torch.bool).expand(batch, -1, -1)
    logits, out = step(one, cache, (tokens[:, longest + 2 :], newest.expand(-1, 3, -1)), depth, sees)
    return [*rows, *logits, *out]


@pytest.mark.parametrize("name", VARIANTS)
def test_weights_rounded_to_bytes_give_nearly_the_same_step(name: str) -> None:
    made = head(name)
    made.compile_step()
    wide, packed = drafted(compiled(name)), drafted(made)
    pairs = zip(packed, wide, strict=True)
    errors = [float((a.float() - b.float()).abs().max() / b.float().abs().max()) for a, b in pairs]
    assert max(errors) < 0.1 and (max(errors) > 0) == programs().panels


@pytest.mark.parametrize("name", VARIANTS)
def test_a_step_is_closer_to_float32_than_the_modules(name: str) -> None:
    expected = drafted(head(name, torch.float32))
    errors = [
        max(float((a.float() - b).abs().max() / b.abs().max()) for a, b in zip(found, expected, strict=True))
        for found in (drafted(compiled(name)), drafted(head(name)))
    ]
    assert errors[0] <= errors[1]
    assert errors[0] < 0.02


@pytest.mark.parametrize("name", VARIANTS)
def test_bits_of_a_row_do_not_depend_on_other_sequences_or_threads(name: str) -> None:
    one = compiled(name)
    together, alone = drafted(one), drafted(one, lengths=(5,))
    firsts = [*together[:2], together[4], together[6], together[8], together[10], together[12], together[14]]
    assert all(torch.equal(a, b) for a, b in zip(firsts, alone, strict=True))
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(3 - min(threads, 2))
        assert all(torch.equal(a, b) for a, b in zip(drafted(one), together, strict=True))
    finally:
        torch.set_num_threads(threads)


@pytest.mark.parametrize("name", [*EAGLE3, "eagle3 norm_before_fc", "mtp"])
def test_hidden_states_are_fused_as_the_modules_do_it(name: str) -> None:
    def read(one: RecurrentHead) -> Tensor:
        generator = torch.Generator().manual_seed(5)
        tokens = torch.randint(0, V, (2, 4), generator=generator)
        states = torch.randn(2, 4, len(one.layers) * H, generator=generator).bfloat16() * 2
        cache, offsets = one.cache(2, 16), torch.arange(4).expand(2, -1)
        cache.table.begin_write(offsets)
        with torch.inference_mode():
            logits, features = one.read(tokens, states.to(one.shared.embedding.dtype), offsets, None, cache)
            return one.logits(features) if logits is None else logits

    expected, found, modules = read(head(name, torch.float32)), read(compiled(name)), read(head(name))
    errors = [float((each.float() - expected).abs().max() / expected.abs().max()) for each in (found, modules)]
    assert errors[0] <= errors[1] and errors[0] < 0.02
    step = compiled(name).step
    assert step is not None and step.fuses == (name in EAGLE3)


def test_features_alone_are_those_with_logits() -> None:
    one = compiled("eagle3")
    tokens, features = torch.arange(4)[None], torch.randn(1, 4, H).bfloat16()
    caches = [one.cache(1, 16) for _ in range(2)]
    for cache in caches:
        cache.table.begin_write(torch.arange(4)[None])
    with torch.inference_mode():
        _, both = one(tokens, features, torch.arange(4)[None], None, caches[0])
        only = one.advance(tokens, features, torch.arange(4)[None], None, caches[1])
    assert torch.equal(both, only)


def test_weights_are_in_memory_once() -> None:
    one = compiled("mtp")
    attention = one.parts().attention
    storage = attention.q_proj.weight.untyped_storage().data_ptr()
    assert storage == attention.v_proj.weight.untyped_storage().data_ptr()
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), head("mtp").parameters(), strict=True))


@pytest.mark.parametrize(
    ("dtype", "shape"),
    [
        (torch.float32, SHAPE),
        (torch.bfloat16, replace(SHAPE, qk_norm=True)),
        (torch.bfloat16, replace(SHAPE, qkv_bias=True)),
        (torch.bfloat16, replace(SHAPE, out_bias=True)),
        (torch.bfloat16, replace(SHAPE, mlp=80)),
        (torch.bfloat16, replace(SHAPE, head_width=16)),
    ],
)
def test_other_heads_keep_their_modules(dtype: torch.dtype, shape: HeadShape) -> None:
    one = head("mtp", dtype, shape)
    before = drafted(one)
    one.compile_step()
    assert one.step is None
    assert all(torch.equal(a, b) for a, b in zip(drafted(one), before, strict=True))


def test_without_a_cache_gradients_flow() -> None:
    one = compiled("mtp")
    logits, _ = one(torch.arange(4)[None], torch.randn(1, 4, H).bfloat16(), torch.arange(4)[None])
    logits.sum().backward()
    assert all(weight.grad is not None and weight.grad.any() for weight in one.parameters())
