"""Trained heads: the networks match the papers and transformers, and published files are read and written."""

from __future__ import annotations

import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import LlamaConfig, Qwen3Config
from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding
from transformers.models.qwen3.modeling_qwen3 import Qwen3DecoderLayer

from draftscope.base.errors import DraftscopeError
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.pair import NamedHead
from draftscope.models.cache.masks import Reach, attention_mask
from draftscope.models.cache.slots import SlotCache
from draftscope.models.files import hub
from draftscope.models.files.hub import Listing
from draftscope.models.heads import (
    Block,
    BlockConfig,
    DSpark,
    DSparkConfig,
    Eagle1,
    Eagle1Config,
    Eagle3,
    Eagle3Config,
    Head,
    HeadShape,
    Medusa,
    MedusaConfig,
    Mtp,
    MtpConfig,
    OwnWeights,
    RecurrentHead,
    SharedWeights,
    default_layers,
    head_files,
    load_head,
    save_head,
)
from draftscope.models.heads.layer import DecoderLayer, Rotary
from draftscope.models.probe import probed
from draftscope.verify.tree import topology
from tests.support.models import letters, random_llama

V, H, LAYERS = 50, 32, 8
ROPE = {"rope_type": "default", "rope_theta": 10000.0}
SHAPE = HeadShape(hidden=H, heads=4, key_value_heads=2, head_width=8, mlp=48, rope=ROPE, positions=512)
QWEN = replace(SHAPE, qk_norm=True)
NETWORK = random_llama(11, V, layers=LAYERS)
LENDER = SharedWeights.of(NETWORK)
PRUNED = torch.tensor([3, 4, 9, 10, 11, 40, 49])  # the vocabulary of a head that covers only some of the target's


def shaken(head: Head, seed: int = 5) -> Head:
    """The head with random weights, including norms, so that no symmetry hides an error."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weight in head.parameters():
            weight.add_(torch.randn(weight.shape, generator=generator) * 0.3)
    return head.eval()


def eagle3(**variant: Any) -> Eagle3:
    head = Eagle3(Eagle3Config(SHAPE, default_layers(LAYERS), **variant), LENDER)
    if head.d2t is not None:
        head.d2t.copy_(PRUNED - torch.arange(len(PRUNED)))
    shaken(head)
    return head


def dspark() -> DSpark:
    own = OwnWeights(lm_head=True, vocabulary=len(PRUNED))
    head = DSpark(DSparkConfig(QWEN, 2, 5, 1, (2, 5), own, rank=6), LENDER)
    assert head.d2t is not None
    head.d2t.copy_(PRUNED - torch.arange(len(PRUNED)))
    shaken(head)
    return head


def heads() -> dict[str, Head]:
    return {
        "eagle": shaken(Eagle1(Eagle1Config(SHAPE), LENDER)),
        "eagle3": eagle3(),
        "mtp": shaken(Mtp(MtpConfig(QWEN), LENDER)),
        "medusa": shaken(Medusa(MedusaConfig(heads=3, blocks=2), LENDER)),
        "block": shaken(Block(BlockConfig(QWEN, depth=2, size=5, mask_token=1, layers=(2, 5)), LENDER)),
        "dspark": dspark(),
    }


RECURRENT = ("eagle", "eagle3", "mtp")
EAGLE3_VARIANTS: list[dict[str, Any]] = [
    {"own_weights": OwnWeights(embedding=True, lm_head=True)},
    {"own_weights": OwnWeights(lm_head=True, vocabulary=len(PRUNED))},
    {"norm_before_residual": True},
    {"norm_before_fc": True},
    {"fc_norm": True},
    {"norm_output": True},
]


def recurrent(kind: str) -> RecurrentHead:
    head = heads()[kind]
    assert isinstance(head, RecurrentHead)
    return head


def states(head: Head, text: Tensor) -> Tensor:
    """The target's hidden states [B, T, F] of texts [B, T], as the engine passes them to a drafter."""
    with torch.no_grad():
        out = NETWORK(input_ids=text, use_cache=False, output_hidden_states=True)
    return torch.cat([out.hidden_states[i] for i in head.layers], -1)


def random_text(batch: int, length: int, seed: int = 3) -> Tensor:
    return torch.randint(0, V, (batch, length), generator=torch.Generator().manual_seed(seed))


def positions(batch: int, length: int) -> Tensor:
    return torch.arange(length).expand(batch, -1)


def one_shot(head: RecurrentHead, text: Tensor) -> tuple[Tensor, Tensor]:
    """Logits and features of texts [B, T + 1] without a cache: every feature paired with its next token."""
    features = head.fuse(states(head, text[:, :-1]))
    return head(text[:, 1:], features, positions(*features.shape[:2]))


def cached(
    head: RecurrentHead, cache: SlotCache, tokens: Tensor, features: Tensor, offsets: Tensor, sees: Tensor | None
) -> tuple[Tensor, Tensor]:
    """One draft step, as a drafter does it."""
    cache.table.begin_write(offsets)
    cache.table.widen()
    mask = attention_mask(cache.table, Reach(), sees, None)
    return head(tokens, features, cache.table.length[:, None] + offsets, mask, cache)


def close(found: Tensor, expected: Tensor) -> None:
    """Equal up to rounding, which is large for random weights without norms: up to 1.5e-5 after five steps, while
    errors differ by 2e-2 or more."""
    scale = expected.abs().max()
    torch.testing.assert_close(found / scale, expected / scale, atol=1e-4, rtol=0)


# The networks.


@pytest.mark.parametrize("kind", ["llama", "qwen3"])
def test_the_layer_equals_the_one_of_transformers(kind: str) -> None:
    rope = {"rope_type": "yarn", "rope_theta": 500.0, "factor": 4.0, "original_max_position_embeddings": 64}
    shape = replace(SHAPE, rope=rope, qk_norm=kind == "qwen3")
    classes = {"llama": (LlamaConfig, LlamaDecoderLayer), "qwen3": (Qwen3Config, Qwen3DecoderLayer)}
    config = classes[kind][0](
        hidden_size=H, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=48,
        max_position_embeddings=512, rope_parameters=rope, attn_implementation="sdpa",
    )  # fmt: skip
    reference = classes[kind][1](config, 0).eval()
    layer = DecoderLayer(shape)
    layer.load_state_dict(reference.state_dict())
    rows, at = torch.randn(2, 7, H), positions(2, 7) + 100
    angles = LlamaRotaryEmbedding(config)(rows, at)
    expected = reference(rows, attention_mask=None, position_ids=at, position_embeddings=angles)
    close(layer(rows, Rotary(shape)(at, rows.dtype), None, None), expected)


def test_eagle3_equals_the_paper(tmp_path: Path) -> None:
    """Compared with a layer of transformers whose query, key and value read (embedding, feature)."""
    head = eagle3()
    config = LlamaConfig(
        hidden_size=H, num_attention_heads=4, num_key_value_heads=2, head_dim=8, intermediate_size=48,
        rope_parameters=ROPE, attn_implementation="sdpa",
    )  # fmt: skip
    attention = LlamaDecoderLayer(config, 0).self_attn
    for name in ("q_proj", "k_proj", "v_proj", "o_proj"):
        setattr(attention, name, getattr(head.midlayer.self_attn, name))
    text = random_text(2, 9)
    at = positions(2, 8)
    fused = states(head, text[:, :-1]) @ head.fc.weight.T
    layer, norm = head.midlayer, lambda x, module: F.rms_norm(x, (H,), module.weight, 1e-6)
    embeds = NETWORK.get_input_embeddings()(text[:, 1:])
    both = torch.cat([norm(embeds, layer.input_layernorm), norm(fused, layer.hidden_norm)], -1)
    rows = fused + attention(both, LlamaRotaryEmbedding(config)(both, at), None)[0]
    rows = rows + layer.mlp(norm(rows, layer.post_attention_layernorm))
    assert head.lm_head is not None
    logits, features = one_shot(head, text)
    close(features, rows)
    close(logits, norm(rows, head.norm) @ head.lm_head.weight.T)


def test_eagle1_and_mtp_put_the_embedding_first() -> None:
    text = random_text(1, 6)
    embeds = F.embedding(text[:, 1:], LENDER.embedding)
    for kind in ("eagle", "mtp"):
        head = recurrent(kind)
        feature = head.fuse(states(head, text[:, :-1]))
        angles = Rotary(head.config.shape)(positions(1, 5), feature.dtype)
        if isinstance(head, Eagle1):
            expected = head.midlayer(head.fc(torch.cat([embeds, feature], -1)), angles, None, None)
        else:
            assert isinstance(head, Mtp)
            both = torch.cat([head.enorm(embeds), head.hnorm(feature)], -1)
            expected = head.norm(head.midlayer(head.eh_proj(both), angles, None, None))
        logits, features = one_shot(head, text)
        close(features, expected)
        close(logits, expected @ LENDER.lm_head.T)  # the target's output weights, without another norm


def test_eagle3_variants_change_what_they_name() -> None:
    """With the same weights: which feature goes into the next step, and where the residual starts."""
    text = random_text(1, 6)
    plain = eagle3()
    logits, features = one_shot(plain, text)
    for variant, same_logits in (({"norm_output": True}, True), ({"norm_before_residual": True}, False)):
        other = Eagle3(replace(plain.config, **variant), LENDER)
        other.load_state_dict(plain.state_dict())
        others, fed_back = one_shot(other, text)
        assert torch.allclose(others, logits) == same_logits
        expected = plain.norm(features) if same_logits else fed_back
        close(fed_back, expected)


@pytest.mark.parametrize("kind", RECURRENT)
def test_steps_with_a_cache_equal_the_causal_forward(kind: str) -> None:
    """Two texts of different lengths, read together in unequal pieces and then step by step, as a drafter does."""
    head = recurrent(kind)
    text = random_text(2, 13)
    logits, features = one_shot(head, text)
    fused = head.fuse(states(head, text[:, :-1]))
    cache = head.cache(2, 32)
    cache.table.begin_write(positions(2, 5))
    read, _ = head(text[:, 1:6], fused[:, :5], positions(2, 5), None, cache)
    close(read, logits[:, :5])
    lengths = torch.tensor([5, 3])  # the second text keeps fewer rows, and reads them again
    cache.keep_first(lengths, 5)
    for _ in range(3):
        rows = cache.table.length[:, None] + torch.arange(2)
        pick = torch.arange(2)[:, None]
        step_logits, step_features = cached(head, cache, text[pick, rows + 1], fused[pick, rows], positions(2, 2), None)
        close(step_logits, logits[pick, rows])
        close(step_features, features[pick, rows])
        cache.keep_first(torch.tensor([2, 2]), int(cache.table.length.max()) + 2)


@pytest.mark.parametrize("kind", RECURRENT)
def test_rows_of_a_tree_equal_those_of_its_paths(kind: str) -> None:
    """The levels of a branching tree, each reading its parents' features, compared with every path read alone."""
    head = recurrent(kind)
    text, children = random_text(1, 8), random_text(1, 5, seed=9)
    form = topology([[-1, -1, 0, 0, 1]])  # two children of the root, two grandchildren, one grandchild
    cache = head.cache(1, 32)
    cache.table.begin_write(positions(1, 7))
    _, features = head(text[:, 1:], head.fuse(states(head, text[:, :-1])), positions(1, 7), None, cache)
    cache.keep_first(torch.tensor([7]), 7)
    of_slots, parents = [features[:, -1:]], [[0, 0], [1, 1, 2]]  # the feature of the root, then of each node
    of_nodes: list[Tensor] = []
    for (start, end), slots in zip(((0, 2), (2, 5)), parents, strict=True):
        parent_features = torch.cat(of_slots, 1)[:, slots]
        sees = form.ancestors[:, start + 1 : end + 1, 1 : end + 1]
        offsets = form.depth[:, start + 1 : end + 1] - 1
        logits, features = cached(head, cache, children[:, start:end], parent_features, offsets, sees)
        of_slots.append(features)
        of_nodes += list(logits[0])
    for path in ([0, 2], [0, 3], [1, 4]):
        logits, _ = _path_alone(head, text, children[0, path])
        close(torch.stack([of_nodes[node] for node in path]), logits)


def _path_alone(head: RecurrentHead, text: Tensor, path: Tensor) -> tuple[Tensor, Tensor]:
    """Logits after each token of a path that follows the text; the path's features are all the head's own."""
    features = head.fuse(states(head, text[:, :-1]))
    tokens = text[:, 1:]
    for token in path:
        _, out = head(tokens, features, positions(1, tokens.shape[1]))
        tokens = torch.cat([tokens, token.view(1, 1)], 1)
        features = torch.cat([features, out[:, -1:]], 1)
    logits, out = head(tokens, features, positions(1, tokens.shape[1]))
    return logits[0, -len(path) :], out


def test_rows_after_a_cached_text_need_a_mask() -> None:
    head = recurrent("eagle3")
    cache = head.cache(1, 16)
    cache.table.begin_write(positions(1, 2))
    head(random_text(1, 2), torch.randn(1, 2, H), positions(1, 2), None, cache)
    cache.keep_first(torch.tensor([2]), 2)
    cache.table.begin_write(positions(1, 2))
    with pytest.raises(ValueError, match="need a mask"):
        head(random_text(1, 2), torch.randn(1, 2, H), positions(1, 2) + 2, None, cache)


def test_medusa_starts_as_the_target_and_its_heads_are_independent() -> None:
    text = random_text(2, 6)
    for shared in (False, True):
        head = Medusa(MedusaConfig(heads=3, shared=shared), LENDER)
        logits = head(states(head, text))
        with torch.no_grad():
            expected = NETWORK(input_ids=text).logits
        for k in range(3):
            close(logits[:, :, k], expected)
        shaken(head)
        moved = head(states(head, text))
        assert not torch.allclose(moved[:, :, 0], moved[:, :, 1])
        block, rows = head.blocks[1][0], states(head, text)
        output = LENDER.lm_head if shared else head.lm_heads[1].weight
        close(moved[:, :, 1], (rows + F.silu(rows @ block.weight.T + block.bias)) @ output.T)
        assert head.depth == 0


def test_a_block_attends_to_the_context_and_to_itself_both_ways() -> None:
    """One layer computed by hand: every row of the block attends to all context rows and all block rows."""
    shape = replace(QWEN, key_value_heads=4)
    head = shaken(Block(BlockConfig(shape, depth=1, size=4, mask_token=1, layers=(3,)), LENDER))
    assert head.max_draft == 3  # the first of the block is the token before them
    assert isinstance(head, Block)
    text = random_text(1, 6)
    context = head.fuse(states(head, text[:, :-1]))
    tokens = head.tokens(text[:, -1], 3)
    assert tokens.tolist() == [[int(text[0, -1]), 1, 1, 1]]
    layer, cos_sin = head.stack[0], Rotary(shape)(positions(1, 9), torch.float32)
    rows = head.embed(tokens)
    normed = layer.input_layernorm(rows)
    source = torch.cat([context, normed], 1)  # the context is not normed again
    attention = layer.self_attn

    def split(x: Tensor, norm: Callable[[Tensor], Tensor] | None, turn: slice | None) -> Tensor:
        x = x.view(1, -1, 4, 8)
        x = x if norm is None else norm(x)
        if turn is None:
            return x.transpose(1, 2)
        cos, sin = (table[:, turn] for table in cos_sin)
        return (x * cos + x.roll(4, -1) * sin).transpose(1, 2)

    query = split(attention.q_proj(normed), attention.q_norm, slice(5, 9))
    key = split(attention.k_proj(source), attention.k_norm, slice(0, 9))
    value = split(attention.v_proj(source), None, None)
    mixed = torch.softmax(query @ key.transpose(-1, -2) / 8**0.5, -1) @ value
    rows = rows + attention.o_proj(mixed.transpose(1, 2).flatten(2))
    rows = rows + layer.mlp(layer.post_attention_layernorm(rows))
    close(head.project(head(tokens, context, positions(1, 9))), head.norm(rows) @ LENDER.lm_head.T)


def test_a_block_with_a_cache_equals_the_block_over_the_whole_context() -> None:
    """Sequences of different lengths: context rows arrive a few at a time and stay, the block's rows are dropped."""
    head = heads()["block"]
    assert isinstance(head, Block)
    text = random_text(2, 12)
    fused = head.fuse(states(head, text))
    cache = head.cache(2, 48)
    lengths = torch.tensor([0, 0])
    for new in (4, 2, 1):  # context rows that the cache lacks; the second text keeps one fewer the first time
        rows = lengths[:, None] + torch.arange(new)
        tokens = head.tokens(text[torch.arange(2), lengths + new], 3)
        offsets = positions(2, new + 4)
        cache.table.begin_write(offsets)
        cache.table.widen()
        mask = torch.arange(cache.table.view) < (lengths + new + 4)[:, None, None, None]
        mask = mask.expand(2, 1, 4, -1)
        pick = torch.arange(2)[:, None]
        found = head(tokens, fused[pick, rows], lengths[:, None] + offsets, mask, cache)
        for b in range(2):
            length = int(lengths[b]) + new
            alone = head(tokens[b : b + 1], fused[b : b + 1, :length], positions(1, length + 4))
            close(found[b : b + 1], alone)
        kept = torch.tensor([new, new - 1]) if new == 4 else torch.tensor([new, new])
        lengths = lengths + kept
        cache.keep_first(kept, int(lengths.max()))


def block_logits(head: Block, text: Tensor) -> Tensor:
    """Of three tokens after the text [B, 8]."""
    return head.project(head(head.tokens(text[:, -1], 3), head.fuse(states(head, text)), positions(len(text), 12)))


@pytest.mark.parametrize("kind", [*RECURRENT, "medusa", "block", "dspark"])
def test_a_head_trains_only_its_own_weights(kind: str) -> None:
    """Also after it ran in inference mode, as it does between training steps."""
    head = heads()[kind].train()
    text = random_text(2, 8)

    def run() -> Tensor:
        if isinstance(head, Medusa):
            return head(states(head, text))  # type: ignore[no-any-return]
        if isinstance(head, DSpark):
            return block_logits(head, text) + head.bias(head.read(text[:, :4]))
        if isinstance(head, Block):
            return block_logits(head, text)
        assert isinstance(head, RecurrentHead)
        return one_shot(head, text)[0]

    with torch.inference_mode():
        run()
    torch.autograd.backward(run().square().mean())
    assert all(weight.grad is not None for weight in head.parameters())
    names = head.state_dict()
    assert not any(name.startswith(("shared", "_")) for name in names)
    assert {name for name, _ in head.named_parameters()} == names.keys() - {"d2t"}


def test_the_engine_captures_the_hidden_states_that_a_head_names() -> None:
    head = recurrent("eagle3")
    model = probed(NETWORK, "target")
    text = random_text(1, 7)
    captured = model.read(model.cache(1, 32), text.tolist(), head.layers)
    close(captured, states(head, text))


def test_a_distribution_over_a_subset_keeps_its_mass_in_the_targets_vocabulary() -> None:
    head = eagle3(own_weights=OwnWeights(lm_head=True, vocabulary=len(PRUNED)))
    assert head.targets.tolist() == PRUNED.tolist()
    distributions = torch.rand(2, 3, len(PRUNED)).softmax(-1)
    whole = head.to_target(distributions)
    assert whole.shape == (2, 3, V)
    close(whole[..., PRUNED], distributions)
    close(whole.sum(-1), torch.ones(2, 3))
    everything = torch.rand(1, V)
    assert eagle3().to_target(everything) is everything


# Published files.


def written(head: Head, folder: Path) -> Path:
    save_head(head, folder, "some/target")
    return folder


def rewritten(
    folder: Path,
    config: Callable[[dict[str, Any]], object] = lambda _: None,
    tensors: Callable[[dict[str, Tensor]], object] = lambda _: None,
) -> Path:
    """The folder with its config.json and its tensors changed in place."""
    content = json.loads((folder / "config.json").read_text())
    config(content)
    (folder / "config.json").write_text(json.dumps(content))
    (file,) = folder.glob("*.safetensors")
    weights = load_file(file)
    tensors(weights)
    save_file(weights, file)
    return folder


def assert_equal(head: Head, other: Head) -> None:
    assert type(head) is type(other) and head.config == other.config and head.layers == other.layers
    assert head.state_dict().keys() == other.state_dict().keys()
    for name, tensor in head.state_dict().items():
        assert torch.equal(tensor, other.state_dict()[name]), name


@pytest.mark.parametrize("kind", [*RECURRENT, "medusa", "block", "dspark"])
def test_heads_are_equal_after_saving_and_loading(kind: str, tmp_path: Path) -> None:
    head = heads()[kind]
    assert_equal(load_head(kind, written(head, tmp_path), LENDER), head)


@pytest.mark.parametrize("variant", EAGLE3_VARIANTS)
def test_eagle3_variants_are_equal_after_saving_and_loading(variant: dict[str, Any], tmp_path: Path) -> None:
    head = eagle3(**variant)
    assert_equal(load_head("eagle3", written(head, tmp_path), LENDER), head)


@pytest.mark.parametrize(
    "head",
    [
        Medusa(MedusaConfig(heads=2, blocks=3, shared=True, bias=False), LENDER),
        Eagle1(Eagle1Config(replace(SHAPE, qkv_bias=True, out_bias=True), bias=False), LENDER),
        Mtp(MtpConfig(replace(SHAPE, rope=ROPE | {"rope_type": "linear", "factor": 2.0})), LENDER),
    ],
)
def test_other_variants_are_equal_after_saving_and_loading(head: Head, tmp_path: Path) -> None:
    kind = {Medusa: "speculators", Eagle1: "eagle", Mtp: "mtp"}[type(head)]
    assert_equal(load_head(kind, written(shaken(head), tmp_path), LENDER), head)


def test_weight_names_and_offsets_are_the_published_ones(tmp_path: Path) -> None:
    tensors = load_file(
        written(eagle3(own_weights=OwnWeights(True, True, len(PRUNED))), tmp_path / "3") / "model.safetensors"
    )
    assert tensors["d2t"].tolist() == [3, 3, 7, 7, 7, 35, 43]  # target = i + d2t[i]
    assert tensors["t2d"].dtype == torch.bool and tensors["t2d"].nonzero()[:, 0].tolist() == PRUNED.tolist()
    parts = ("self_attn.q_proj", "self_attn.o_proj", "mlp.gate_proj", "hidden_norm", "input_layernorm")
    assert {f"midlayer.{part}.weight" for part in parts} <= tensors.keys()
    assert {"fc.weight", "norm.weight", "lm_head.weight", "embed_tokens.weight"} <= tensors.keys()
    assert tensors["midlayer.self_attn.q_proj.weight"].shape == (32, 2 * H) and tensors["fc.weight"].shape == (H, 3 * H)
    first = load_file(written(heads()["eagle"], tmp_path / "1") / "model.safetensors")
    assert "layers.0.mlp.up_proj.weight" in first and "fc.bias" in first and "lm_head.weight" not in first
    assert not any("input_layernorm" in name for name in first)
    medusa = load_file(written(heads()["medusa"], tmp_path / "m") / "medusa_lm_head.safetensors")
    assert {"0.0.linear.weight", "0.1.linear.bias", "2.2.weight"} <= medusa.keys()
    block = load_file(written(heads()["block"], tmp_path / "b") / "model.safetensors")
    assert {"layers.1.self_attn.k_norm.weight", "hidden_norm.weight", "fc.weight"} <= block.keys()
    config = json.loads((tmp_path / "b" / "config.json").read_text())
    assert config["dflash_config"] == {"mask_token_id": 1, "target_layer_ids": [1, 4]}  # outputs of layers, not inputs
    markov = load_file(written(heads()["dspark"], tmp_path / "d") / "model.safetensors")
    assert markov["markov_head.markov_w1.weight"].shape == (V, 6)  # the target's tokens, and those it drafts
    assert markov["markov_head.markov_w2.weight"].shape == (len(PRUNED), 6) and "layers.0.mlp.up_proj.weight" in markov
    config = json.loads((tmp_path / "d" / "config.json").read_text())
    assert config["aux_hidden_state_layer_ids"] == [2, 5] and config["markov_rank"] == 6  # inputs of layers
    assert config["sample_from_anchor"] is False  # the given token is the block's first, and predicts nothing


def test_an_eagle3_head_as_safeailab_publishes_it(tmp_path: Path) -> None:
    """A pickle with unused buffers, no layers in its configuration and no embedding: the defaults and the target's."""
    head = eagle3()
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": H,
        "intermediate_size": 48, "max_position_embeddings": 512, "num_attention_heads": 4, "num_hidden_layers": 1,
        "num_key_value_heads": 2, "rms_norm_eps": 1e-6, "vocab_size": V, "draft_vocab_size": V, "bos_token_id": 1,
    }  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(config))
    extra = {"d2t": torch.zeros(V, dtype=torch.long), "t2d": torch.ones(V, dtype=torch.bool)}
    torch.save(head.state_dict() | extra, tmp_path / "pytorch_model.bin")
    torch.save({"step": 3}, tmp_path / "optimizer.pt")
    loaded = load_head("eagle3", tmp_path, LENDER)
    assert_equal(loaded, head)
    assert loaded.layers == (2, 4, 5) and loaded.embed_tokens is None and loaded.d2t is None


def as_speculators(head: Eagle3, folder: Path, **changes: Any) -> Path:
    """The head as speculators writes it."""
    layer = {
        "model_type": "llama", "hidden_size": H, "intermediate_size": 48, "num_attention_heads": 4,
        "num_key_value_heads": 2, "head_dim": 8, "num_hidden_layers": 1, "vocab_size": V, "rms_norm_eps": 1e-6,
        "max_position_embeddings": 512, "rope_parameters": ROPE,
    }  # fmt: skip
    config = {
        "speculators_model_type": "eagle3", "speculators_version": "0.4.0", "architectures": ["Eagle3Speculator"],
        "draft_vocab_size": head.vocabulary, "norm_before_residual": False, "target_hidden_size": None,
        "eagle_aux_hidden_state_layer_ids": None, "transformer_layer_config": layer,
        "speculators_config": {"algorithm": "eagle3", "verifier": {"name_or_path": "some/target"}},
    }  # fmt: skip
    tensors = {name.replace("midlayer.", "layers.0."): tensor for name, tensor in head.state_dict().items()}
    tensors["verifier_lm_head.weight"] = torch.zeros(head.vocabulary, H)
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config | changes))
    save_file(tensors, folder / "model.safetensors")
    return folder


def test_an_eagle3_head_as_speculators_publishes_it(tmp_path: Path) -> None:
    head = eagle3(own_weights=OwnWeights(lm_head=True, vocabulary=len(PRUNED)))
    for kind in ("eagle3", "speculators"):
        assert_equal(load_head(kind, as_speculators(head, tmp_path), LENDER), head)
    other = load_head("speculators", as_speculators(head, tmp_path, norm_before_residual=True), LENDER)
    assert isinstance(other, Eagle3) and other.config.norm_before_residual


def test_an_eagle1_head_as_speculators_publishes_it(tmp_path: Path) -> None:
    """The layer is called `transformer` there; extra norms are another variant and are refused."""
    head = heads()["eagle"]
    renames = {"layers.0.": "transformer.", "fc.": "fusion_fc."}

    def nested(config: dict[str, Any]) -> None:
        layer = {key: config.pop(key) for key in list(config)}
        config |= {"speculators_model_type": "eagle", "fusion_bias": True, "transformer_layer_config": layer}

    def named(tensors: dict[str, Tensor]) -> None:
        for name in list(tensors):
            (before,) = (start for start in renames if name.startswith(start))
            tensors[renames[before] + name.removeprefix(before)] = tensors.pop(name)

    folder = rewritten(written(head, tmp_path), nested, named)
    assert_equal(load_head("speculators", folder, LENDER), head)
    rewritten(folder, tensors=put_tensor("embedding_layernorm.weight", torch.ones(H)))
    with pytest.raises(DraftscopeError, match=r"for example 'embedding_layernorm.weight'"):
        load_head("eagle", folder, LENDER)


def test_hidden_states_are_numbered_in_two_ways(tmp_path: Path) -> None:
    """As the input of a layer or, inside `eagle_config`, as the output of the layer before it."""
    ids = "eagle_aux_hidden_state_layer_ids"
    inputs = as_speculators(eagle3(), tmp_path, **{ids: [1, 4, 6]})
    assert load_head("eagle3", inputs, LENDER).layers == (1, 4, 6)
    for outputs in ({"eagle_config": {ids: [0, 3, 5]}}, {"target_layer_ids": [0, 3, 5]}):
        assert load_head("eagle3", as_speculators(eagle3(), tmp_path, **outputs), LENDER).layers == (1, 4, 6)


@pytest.mark.parametrize("nested", [True, False])
def test_the_last_layer_s_number_is_what_it_returns_before_the_norm(nested: bool, tmp_path: Path) -> None:
    """As gpt-oss heads were published: inside `eagle_config`, where other ids are outputs, of which there is none."""
    last = {"eagle_aux_hidden_state_layer_ids": [2, 4, LAYERS]}
    folder = as_speculators(eagle3(), tmp_path, **{"eagle_config": last} if nested else last)
    head = load_head("eagle3", folder, LENDER)
    assert isinstance(head, Eagle3) and head.config.layers == (2, 4, LAYERS)
    assert_equal(load_head("eagle3", written(head, tmp_path / "again"), LENDER), head)
    text, returned = random_text(1, 7), []
    hook = NETWORK.model.layers[-1].register_forward_hook(lambda _, __, output: returned.append(output))
    expected = NETWORK(input_ids=text, output_hidden_states=True).hidden_states
    hook.remove()
    model = probed(NETWORK, "target")
    captured = model.read(model.cache(1, 32), text.tolist(), head.layers)
    close(captured, torch.cat([expected[2], expected[4], returned[0]], -1))
    assert_drafts("eagle3", head)


def assert_drafts(kind: str, head: Head) -> None:
    engine = DecodingEngine(probed(NETWORK, "target"), None, letters(V), {kind: NamedHead(head, "head")})
    plain = engine.decode("abc", "plain", max_new_tokens=16)
    for drafter in (kind, f"{kind}-tree"):
        run = engine.decode("abc", drafter, max_new_tokens=16)
        assert run.token_ids == plain.token_ids and run.metrics.num_draft_tokens > 0


@pytest.mark.parametrize("shape", ["without fc", "with fc", "with its embedding"])
def test_a_head_that_fuses_nothing_reads_the_last_hidden_state(shape: str, tmp_path: Path) -> None:
    """`use_aux_hidden_state: false`, as heads of gpt-oss were published: servers skip an `fc` that is there."""
    whole = eagle3(own_weights=OwnWeights(embedding=shape == "with its embedding", lm_head=True))

    def without(tensors: dict[str, Tensor]) -> None:
        if shape != "with fc":
            tensors.pop("fc.weight")

    config = {"use_aux_hidden_state": False, "eagle_aux_hidden_state_layer_ids": []}
    folder = rewritten(written(whole, tmp_path), put(eagle_config=config), without)
    head = load_head("eagle3", folder, LENDER)
    assert isinstance(head, Eagle3) and head.layers == (LAYERS,) and head.config.layers is None
    assert_equal(load_head("eagle3", written(head, tmp_path / "again"), LENDER), head)
    text = random_text(1, 6)
    embeds, read = head.embed(text[:, 1:]), states(head, text)[:, :-1]
    positions = torch.arange(5)[None]
    with torch.no_grad():
        out = whole.midlayer(embeds, read, Rotary(SHAPE)(positions, torch.float32), None, None)
        logits, following = head(text[:, 1:], head.fuse(read), positions)
    close(following, out)
    close(logits, F.linear(whole.norm(out), whole.output))
    assert_drafts("eagle3", head)


@pytest.mark.parametrize("kind", [*RECURRENT, "medusa", "block", "dspark"])
@pytest.mark.parametrize("value", [float("nan"), float("inf"), 1e39])
def test_weights_that_are_not_finite_are_refused(kind: str, value: float, tmp_path: Path) -> None:
    """A head with one NaN drafted nothing without a word, or kept its threads waiting for ever. Also one that is a
    number in the file and none in the target's dtype."""

    def broken(tensors: dict[str, Tensor]) -> None:
        name = sorted(name for name, tensor in tensors.items() if tensor.is_floating_point())[-1]
        tensors[name] = tensors[name].double() if value == 1e39 else tensors[name]
        tensors[name].view(-1)[-1] = value

    folder = rewritten(written(heads()[kind], tmp_path), tensors=broken)
    with pytest.raises(DraftscopeError, match=r"has NaN or infinity in its weight '[\w.]+' in float32; download or"):
        load_head(kind, folder, LENDER)


def test_a_block_head_as_speculators_publishes_it(tmp_path: Path) -> None:
    head = heads()["block"]
    folder = written(head, tmp_path)

    def nested(config: dict[str, Any]) -> None:
        layer = {key: config.pop(key) for key in list(config) if key not in ("block_size", "draft_vocab_size")}
        layer.pop("dflash_config")
        config |= {"speculators_model_type": "dflash", "transformer_layer_config": layer, "mask_token_id": 1}
        config["aux_hidden_state_layer_ids"] = [2, 5]

    assert_equal(load_head("dflash", rewritten(folder, nested), LENDER), head)


def test_dsparks_estimate_of_what_is_accepted_is_not_read(tmp_path: Path) -> None:
    head = heads()["dspark"]
    estimate = {"confidence_head.proj.weight": torch.zeros(1, H + 6), "confidence_head.proj.bias": torch.zeros(1)}
    folder = rewritten(
        written(head, tmp_path), put(enable_confidence_head=True), lambda tensors: tensors.update(estimate)
    )
    assert_equal(load_head("dspark", folder, LENDER), head)


def test_medusa_heads_are_counted_in_the_weights(tmp_path: Path) -> None:
    """The uploaded configurations name two heads, but there are five."""
    head = heads()["medusa"]
    folder = rewritten(written(head, tmp_path), lambda config: config.update(medusa_num_heads=2))
    torch.save(load_file(folder / "medusa_lm_head.safetensors"), folder / "medusa_lm_head.pt")
    (folder / "medusa_lm_head.safetensors").unlink()
    assert_equal(load_head("medusa", folder, LENDER), head)


def test_a_head_has_its_targets_device_and_dtype(tmp_path: Path) -> None:
    shared = SharedWeights(LENDER.embedding.bfloat16(), LENDER.lm_head.bfloat16(), LAYERS)
    head = load_head("eagle3", written(eagle3(own_weights=OwnWeights(lm_head=True, vocabulary=7)), tmp_path), shared)
    assert {weight.dtype for weight in head.parameters()} == {torch.bfloat16}
    assert head.d2t is not None and head.d2t.dtype == torch.long and not head.training


def drop(name: str) -> Callable[[dict[str, Tensor]], object]:
    return lambda tensors: tensors.pop(name)


def put(**values: Any) -> Callable[[dict[str, Any]], object]:
    return lambda config: config.update(values)


def put_tensor(name: str, tensor: Tensor) -> Callable[[dict[str, Tensor]], object]:
    return lambda tensors: tensors.update({name: tensor})


NONE: Callable[[Any], object] = lambda _: None  # noqa: E731


@pytest.mark.parametrize(
    ("kind", "config", "tensors", "sentence"),
    [
        ("eagle3", NONE, drop("fc.weight"), "lacks 1 weights, for example 'fc.weight'"),
        ("eagle3", NONE, put_tensor("fc.bias", torch.zeros(H)), "example 'fc.bias': a variant that is not supported"),
        ("eagle3", NONE, put_tensor("fc.weight", torch.zeros(H, H)), "'fc.weight' of 32 x 32, but .* 32 x 96"),
        ("eagle3", put(target_hidden_size=64), NONE, "target of hidden size 64, but this target's is 32"),
        (
            "eagle3",
            put(eagle_aux_hidden_state_layer_ids=[2, 16, 29]),
            NONE,
            r"hidden states \[2, 16, 29\], but .* 0 to",
        ),
        ("eagle3", put(eagle_aux_hidden_state_layer_ids="2"), NONE, "a list of layer numbers is needed"),
        ("eagle3", put(draft_vocab_size=7), NONE, "drafts 7 of the target's 50 tokens but does not contain 'd2t'"),
        ("eagle3", put(draft_vocab_size="many"), NONE, "'draft_vocab_size': \"many\" in its config.json; a positive"),
        ("eagle3", put(num_hidden_layers=2), NONE, "has 2 layers; only EAGLE-3 heads of one layer"),
        ("eagle3", put(eagle_config="none"), NONE, "has no section 'eagle_config'"),
        (
            "eagle3",
            put(eagle_config={"use_aux_hidden_state": False}),
            put_tensor("fc_norm.0.weight", torch.ones(H)),
            "example 'fc_norm.0.weight': a variant",
        ),
        ("eagle3", put(model_type="gemma3"), NONE, "layers of type 'gemma3'"),
        ("eagle3", put(hidden_act="gelu"), NONE, "the activation 'gelu'"),
        ("eagle3", put(rope_scaling={"rope_type": "dynamic", "factor": 2.0}), NONE, "rotary embedding .*dynamic"),
        ("eagle3", put(fc_norm=True), NONE, "lacks 3 weights, for example 'fc_norm.0.weight'"),
        ("eagle3", put(speculators_model_type="peagle"), NONE, "type 'peagle'; supported types are eagle3, eagle"),
        ("eagle3", put(speculators_model_type="dflash"), NONE, "a head of kind 'dflash', not 'eagle3'"),
        ("eagle", put(hidden_size=16), NONE, "target of hidden size 16"),
        ("eagle", put(bias=False), NONE, "for example 'fc.bias'"),
        ("eagle", put(num_attention_heads=None), NONE, "'num_attention_heads': null in its config.json"),
        ("medusa", NONE, lambda tensors: tensors.clear() or tensors.update(a=torch.zeros(1)), "no Medusa heads"),
        ("medusa", NONE, drop("1.2.weight"), "lacks 1 weights, for example 'lm_heads.1.weight'"),
        ("mtp", put(num_nextn_predict_layers=2), NONE, "has 2 layers; only MTP heads of one layer"),
        (
            "mtp",
            lambda config: config.pop("transformer_layer_config"),
            NONE,
            "has no section 'transformer_layer_config'",
        ),
        ("mtp", lambda config: config.pop("speculators_model_type"), NONE, "is not a speculators folder"),
        ("block", lambda config: config.pop("dflash_config"), NONE, "has no section 'dflash_config'"),
        ("block", put(dflash_config={"mask_token_id": 99, "target_layer_ids": [1, 4]}), NONE, "the mask token 99"),
        ("block", put(dflash_config={"mask_token_id": 1}), NONE, "does not list the hidden states it reads"),
        ("dspark", put(markov_head_type="gated"), NONE, "a Markov head of type 'gated'"),
        ("dspark", put(sample_from_anchor=True), NONE, "a variant of DFlash or DSpark"),
        ("dspark", put(markov_rank=None), NONE, "'markov_rank': null"),
        ("dspark", put(markov_rank=5), NONE, "'markov_head.markov_w1.weight' of 50 x 6, but .* 50 x 5"),
        ("dspark", lambda config: config.pop("speculators_model_type"), NONE, "no speculators folder of type 'dspark'"),
        ("block", put(block_size=None), NONE, "'block_size': null"),
        ("block", put(layer_types=["sliding_attention"] * 2), NONE, "a sliding window"),
        (
            "block",
            put(dflash_config={"mask_token_id": 1, "target_layer_ids": [1, 4], "final_logit_softcapping": 20.0}),
            NONE,
            "'final_logit_softcapping' = 20.0",
        ),
    ],
)
def test_a_head_that_does_not_fit_is_refused_in_one_sentence(
    kind: str,
    config: Callable[[dict[str, Any]], object],
    tensors: Callable[[dict[str, Tensor]], object],
    sentence: str,
    tmp_path: Path,
) -> None:
    folder = rewritten(written(heads()[kind], tmp_path), config, tensors)
    with pytest.raises(DraftscopeError, match=sentence) as error:
        load_head(kind, folder, LENDER)
    assert "\n" not in str(error.value) and str(error.value).endswith(".")


@pytest.mark.parametrize(
    ("d2t", "t2d"),
    [
        ([3, 3, 7, 7, 7, 35, 44], None),  # beyond the target's last token
        ([3, 2, 7, 7, 7, 35, 43], None),  # two of the head's tokens are the same
        ([3, 3, 7, 7, 7, 35], None),  # one too few
        ([3, 3, 7, 7, 7, 35, 43], [0, 1, 2, 3, 4, 5, 6]),  # the two disagree
    ],
)
def test_an_invalid_vocabulary_subset_is_refused(d2t: list[int], t2d: list[int] | None, tmp_path: Path) -> None:
    folder = written(eagle3(own_weights=OwnWeights(lm_head=True, vocabulary=len(PRUNED))), tmp_path)

    def change(tensors: dict[str, Tensor]) -> None:
        tensors["d2t"] = torch.tensor(d2t)
        if t2d is not None:
            tensors["t2d"] = torch.zeros(V, dtype=torch.bool).index_fill_(0, torch.tensor(t2d), True)

    with pytest.raises(DraftscopeError, match="has an invalid 'd2t' or 't2d' for 7 of the target's 50 tokens"):
        load_head("eagle3", rewritten(folder, tensors=change), LENDER)


def deflate(path: Path) -> None:
    """torch reads such files, and writes none: a megabyte can hold a gigabyte of zeros."""
    with zipfile.ZipFile(path) as archive:
        entries = {entry.filename: archive.read(entry) for entry in archive.infolist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in entries.items():
            archive.writestr(name, data)


def test_broken_folders_are_refused_in_one_sentence(tmp_path: Path) -> None:
    def refused(kind: str = "eagle3", source: str | Path = tmp_path) -> str:
        with pytest.raises(DraftscopeError) as error:
            load_head(kind, source, LENDER)
        return str(error.value)

    assert "There is no kind of head 'hydra'; choose from eagle3," in refused("hydra")
    assert re.match("There is no folder '.*none' to load a head from", refused(source=tmp_path / "none"))
    assert "has no config.json" in refused()
    (tmp_path / "config.json").write_text("{")
    assert "is not valid JSON" in refused()
    (tmp_path / "config.json").write_text("{}")
    assert "has no weights" in refused()
    (tmp_path / "pytorch_model.bin").write_bytes(b"no pickle at all")
    assert "are damaged or contain more than tensors" in refused()
    torch.save({"fc.weight": Path("code")}, tmp_path / "pytorch_model.bin")
    assert "are damaged or contain more than tensors" in refused()
    torch.save([torch.zeros(1)], tmp_path / "pytorch_model.bin")
    assert "is not a dictionary of tensors" in refused()
    torch.save({"fc.weight": torch.zeros(1).expand(2**33, 4)}, tmp_path / "pytorch_model.bin")
    assert "claims 137,438,953,472 bytes in 'fc.weight' and has 1," in refused()
    torch.save({"fc.weight": torch.zeros(2**22)}, tmp_path / "pytorch_model.bin")
    deflate(tmp_path / "pytorch_model.bin")
    assert "claims 16,77" in refused() and " bytes unpacked and has " in refused()
    save_file({"fc.weight": torch.zeros(1)}, tmp_path / "model.safetensors")
    assert "'hidden_size': null" in refused()
    assert "say which kind of head it is" in refused("speculators")


def test_speculators_must_define_where_the_residual_starts(tmp_path: Path) -> None:
    folder = rewritten(as_speculators(eagle3(), tmp_path), lambda config: config.pop("norm_before_residual"))
    with pytest.raises(DraftscopeError, match="has no 'norm_before_residual'"):
        load_head("eagle3", folder, LENDER)


def test_only_files_that_are_read_are_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = written(eagle3(), tmp_path)
    requested: list[list[str]] = []

    def fetch(source: str, allow_patterns: list[str], tqdm_class: type) -> str:
        requested.append(allow_patterns)
        if source == "some/broken":
            raise OSError("Connection reset\nby peer")
        return str(folder)

    monkeypatch.setattr(head_files, "snapshot_download", fetch)
    monkeypatch.setattr(hub, "listing", lambda *_: Listing(("config.json", "model.safetensors", "pytorch_model.bin")))
    assert isinstance(load_head("eagle3", "some/head", LENDER), Eagle3)
    assert "model*.safetensors" in requested[0] and not any(pattern.endswith(".bin") for pattern in requested[0])
    with pytest.raises(DraftscopeError, match=r"could not be downloaded \(Connection reset\)"):
        load_head("eagle3", "some/broken", LENDER)
    monkeypatch.setattr(hub, "listing", lambda *_: None)
    monkeypatch.setattr(hub, "cached", lambda *_: None)
    with pytest.raises(DraftscopeError, match="co does not answer"):
        load_head("eagle3", "some/head", LENDER)
