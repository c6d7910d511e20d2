"""Attention that reads keys and values once: its three ways give the same, on a CPU that is treated as a card.

The CPU's own kernels with log-sum-exps stand in for CUDA's; which way is chosen, what it reads and how its parts are
merged is the same code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from copy import deepcopy
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import GenerationConfig

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.target_pass import TargetPass
from draftscope.drafters.settings import Settings
from draftscope.models.cache import masks
from draftscope.models.cache.masks import Reach, attention_mask, common_of, with_common
from draftscope.models.cache.slots import SlotCache, SlotTable
from draftscope.models.forward import attention, graphs
from draftscope.models.forward.emulated_size import EmulatedShape, EmulatedSize
from draftscope.models.heads.layer import Attention, HeadShape
from draftscope.models.model import Model
from draftscope.models.probe import probed
from draftscope.verify import drawing
from draftscope.verify.tree import Topology, chain, topology
from tests.decode.test_loop import DRAFTERS
from tests.support.architectures import CASES, Case, network
from tests.support.models import byte_tokenizer, made_calibration, random_heads, random_llama
from tests.support.tape import Recorder

TREES = {"one row": chain(0, 2), "chain": chain(4, 2), "tree": topology([[-1, 0, -1, 2, 3], [-1, -1, -1, 0, 0]])}
TEXTS = {case.name: case for case in CASES if case.takes == "trees" and case.kind != "mamba2"}
EAGER = ("Gemma 2", "GPT-OSS", "GPT-J")  # soft caps, sinks, no sdpa
ON_ITS_OWN = ("Falcon, rotary", "StableLM", "GPT-J")  # calls torch without transformers' registry
LONG = [61, 44]  # tokens of the two texts
TEXT = "The quick brown fox jumps over the lazy dog, and then it does so again. "


@pytest.fixture(autouse=True)
def tensors_alone_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a card: a tape records no loops."""
    monkeypatch.setattr(drawing, "loops", lambda: None)


@pytest.fixture
def card(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """The CPU is treated as a card, every text as a long one; counts the ways that layers attended."""
    monkeypatch.setattr(attention, "DEVICES", {"cpu"})
    monkeypatch.setattr(attention, "SPLIT_FROM", 1)
    monkeypatch.setattr(attention, "STEP", 1)
    found: Counter[str] = Counter()
    for name in ("plain", "_attend", "_unmasked", "sdpa_attention_forward"):
        monkeypatch.setattr(attention, name, _counted(getattr(attention, name), found))
    return found


def _counted(function: Any, found: Counter[str]) -> Any:
    def counted(*args: Any, **named: Any) -> Any:
        found[function.__name__] += 1
        return function(*args, **named)

    return counted


def layer(heads: int, key_heads: int, form: Topology, lengths: list[int], dtype: torch.dtype) -> tuple[Tensor, ...]:
    """Query, keys, values and mask of a round after texts of `lengths`."""
    torch.manual_seed(0)
    table = SlotTable(len(lengths), 128, torch.device("cpu"))
    table.commit(torch.tensor(lengths), max(lengths), least=min(lengths))
    table.begin_write(form.depth)
    table.widen()
    mask = attention_mask(table, Reach(), None if form.is_chain else form.ancestors, None)
    assert isinstance(mask, Tensor)
    query = torch.randn(len(lengths), form.nodes + 1, heads, 16).transpose(1, 2)
    keys, values = torch.randn(2, len(lengths), key_heads, 128, 16)[..., : table.view, :]
    return query.to(dtype), keys.to(dtype), values.to(dtype), mask


def exact(query: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """In double precision, written out."""
    share = query.shape[1] // keys.shape[1]
    keys, values = (each.double().repeat_interleave(share, 1) for each in (keys, values))
    scores = query.double() @ keys.transpose(2, 3) / query.shape[3] ** 0.5
    return scores.masked_fill(~mask, -torch.inf).softmax(-1) @ values


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("heads", [(4, 4), (6, 2), (8, 1)])
@pytest.mark.parametrize("form", TREES)
def test_every_way_rounds_alike(card: Counter[str], form: str, heads: tuple[int, int], dtype: torch.dtype) -> None:
    """No way is further from the exact result than the plain one, but for a rounding of the result."""
    given = layer(*heads, TREES[form], LONG, dtype)
    right = exact(*given)
    error = {"plain": (attention.plain(*given) - right).abs().max()}
    error["split"] = (attention.attend(*given) - right).abs().max()
    assert card["_unmasked"] == 1 and attention.way_of(*given) == "split"
    packed = with_common(given[3], 0)
    error["packed"] = (attention.attend(*given[:3], packed) - right).abs().max()
    assert card["_unmasked"] == 1 and attention.way_of(*given[:3], packed) == "packed"
    rounding = torch.finfo(dtype).eps * right.abs().max()
    for way in ("split", "packed"):
        assert error[way] <= error["plain"] + 2 * rounding


@pytest.mark.parametrize("broken", ["share", "sums", "columns"])
def test_a_wrong_merge_would_be_noticed(card: Counter[str], broken: str, monkeypatch: pytest.MonkeyPatch) -> None:
    given = layer(6, 2, TREES["tree"], LONG, torch.float32)
    right = exact(*given)
    torch.testing.assert_close(attention.attend(*given).double(), right, atol=1e-5, rtol=1e-5)
    mask = given[3]
    if broken == "share":
        monkeypatch.setattr(torch, "sigmoid", lambda x: torch.full_like(x, 0.5))
    elif broken == "sums":
        monkeypatch.setattr(attention, "_masked", lambda *args: (args[2].mean(2, keepdim=True), torch.zeros(1)))
    else:  # more than all sequences have
        mask = with_common(mask, 48)
    with pytest.raises(AssertionError):
        torch.testing.assert_close(attention.attend(*given[:3], mask).double(), right, atol=1e-5, rtol=1e-5)


def test_what_all_rows_see_is_rounded_down_to_whole_vectors() -> None:
    """For every text length with the same view the same number, so that one graph serves them all."""
    for rows in (1, 5):
        found: dict[int, set[int]] = {}
        for length in range(1, 200):
            table = SlotTable(1, 512, torch.device("cpu"))
            table.commit(torch.tensor([length]), length, least=length)
            table.begin_write(torch.zeros(1, rows, dtype=torch.long))
            table.widen()
            mask = attention_mask(table, Reach(), None, None)
            known = common_of(mask)
            assert isinstance(mask, Tensor) and known is not None
            assert mask[..., : known.columns].all() and known.columns > length - 32 - rows
            found.setdefault(table.view, set()).add(known.columns)
        assert all(len(columns) == 1 for columns in found.values())


def test_a_cut_mask_or_one_of_another_maker_is_not_trusted() -> None:
    """An operation on a mask loses what was known of it."""
    mask = layer(4, 2, TREES["chain"], LONG, torch.float32)[3]
    assert common_of(mask) is not None
    for other in (mask[..., :-16], mask.clone(), mask & mask, ~mask, None, torch.ones(1)):
        assert common_of(other) is None


def by_modules(case: Case, **config: Any) -> Model:
    """A model that runs as on a card: transformers' modules."""
    model = probed(network(case, 1, **config), case.name)
    if model.trees:
        model.run = model.network
    return model


def logits(model: Model, dtype: torch.dtype) -> Tensor:
    """Of two texts: after a tree, after a kept path, and after a tree whose root is on that path."""
    model.network.to(dtype)
    cache = model.cache(2, 128)
    torch.manual_seed(2)
    texts = [torch.randint(2, 48, (length,)).tolist() for length in LONG]
    model.read(cache, texts)
    form, found = TREES["tree"], []
    for _ in range(2):
        tokens = torch.randint(2, 48, (2, form.nodes + 1))
        found.append(model.forward(cache, tokens, form.depth, form.ancestors))
        cache.keep(torch.tensor([[0, 3, 4], [0, 2, -1]]), torch.tensor([3, 2]), max(LONG) + 6)
    return torch.cat(found, 1).float()


@pytest.mark.parametrize("name", [name for name in TEXTS if name not in (*EAGER, *ON_ITS_OWN)])
def test_an_architecture_has_the_same_logits(name: str, card: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """fp32 to rounding; in bfloat16 as close to fp32 as the plain way."""
    once = by_modules(TEXTS[name])
    assert once.network.config._attn_implementation == attention.NAME
    card.clear()
    right = {dtype: logits(once, dtype) for dtype in (torch.float32, torch.bfloat16)}
    reach = once._reach if isinstance(once._reach, dict) else {"": once._reach}
    kinds = getattr(once.network.config.get_text_config(), "layer_types", None) or [""] * once.layers
    if TEXTS[name].kind.startswith("gemma4"):  # cuts the masks of layers that share keys, so nothing is known of them
        kinds = kinds[: once._shapes.index(None)] if None in once._shapes else kinds
    assert card["_attend"] == 4 * len(kinds)
    assert card["_unmasked"] == 4 * [reach.get(kind, once._reach) for kind in kinds].count(Reach())
    monkeypatch.setattr(attention, "DEVICES", set())
    plain = by_modules(TEXTS[name])
    card.clear()
    expected = {dtype: logits(plain, dtype) for dtype in right}
    assert not card
    torch.testing.assert_close(right[torch.float32], expected[torch.float32], atol=2e-5, rtol=1e-4)
    error, least = ((each[torch.bfloat16] - expected[torch.float32]).abs() for each in (right, expected))
    assert error.mean() <= 1.25 * least.mean() and error.max() <= 2 * least.max()


@pytest.mark.parametrize("name", [*EAGER, *ON_ITS_OWN])
def test_what_has_something_special_stays_plain(name: str, card: Counter[str]) -> None:
    model = by_modules(TEXTS[name])
    logits(model, torch.float32)
    assert card["_attend"] == card["plain"] == 0


@pytest.mark.parametrize("special", [{"softcap": 30.0}, {"position_bias": torch.zeros(1)}, {"dropout": 0.1}])
def test_a_layer_with_something_special_is_transformers_own(
    special: dict[str, Any], card: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    given = layer(4, 2, TREES["chain"], LONG, torch.float32)
    seen: list[dict[str, Any]] = []
    monkeypatch.setattr(attention, "sdpa_attention_forward", lambda *_, **more: seen.append(more) or (given[0], None))
    attention._layer(torch.nn.Module(), *given, **special)
    assert seen == [special] and not card
    attention._layer(torch.nn.Module(), *given, softcap=None, dropout=0.0, scaling=0.25)
    assert len(seen) == 1 and card["_attend"] == 1


def test_generate_attends_as_transformers_does(card: Counter[str]) -> None:
    """The baseline of the benchmark must not become ours."""
    model = by_modules(TEXTS["Llama, SmolLM2"])
    prompt = torch.arange(2, 40)[None]
    config = GenerationConfig(max_new_tokens=6, do_sample=False, eos_token_id=None, pad_token_id=1)
    card.clear()
    model.network.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=config)
    assert set(card) == {"sdpa_attention_forward"}


# Which kernels a card has.


@pytest.mark.parametrize(
    ("dtype", "capability", "flash"),
    [(torch.bfloat16, (9, 0), True), (torch.float16, (7, 5), False), (torch.float32, (9, 0), False)],
)
def test_a_long_text_is_split_where_the_card_has_flash_attention(
    dtype: torch.dtype, capability: tuple[int, int], flash: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: capability)
    attention.has_flash.cache_clear()
    assert attention.has_flash(torch.device("cuda", 0), dtype) == flash
    attention.has_flash.cache_clear()


def test_prompts_odd_heads_and_other_devices_are_plain(card: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    query, keys, values, mask = layer(4, 2, TREES["chain"], LONG, torch.float32)
    assert attention.way_of(query, keys, values, mask) == "split"
    assert attention.way_of(query, keys, values, None) == "plain"
    assert attention.way_of(query.repeat(1, 1, 60, 1), keys, values, mask) == "plain"
    assert attention.way_of(query, keys, values[..., :8], mask) == "packed"
    monkeypatch.setattr(attention, "STEP", 32)
    assert attention.way_of(query, keys, values, mask) == "plain"
    monkeypatch.setattr(attention, "STEP", 8)
    monkeypatch.setattr(attention, "SPLIT_FROM", 1024)
    assert attention.way_of(query, keys, values, mask) == "packed"
    monkeypatch.setattr(attention, "DEVICES", {"cuda"})
    assert attention.way_of(query, keys, values, mask) == "plain"


# Bytes.


class Reads(TorchDispatchMode):
    """Counts the bytes of keys and values that operations read, of the cache's memory or of copies of it."""

    def __init__(self, *memory: Tensor) -> None:
        super().__init__()
        self.bytes = 0
        self._memory = set(map(_memory, memory))
        self._kept: list[Tensor] = []  # memory that is freed would be given to other tensors

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        given = [each for each in tree_leaves((args, kwargs)) if isinstance(each, Tensor)]
        places = set(map(_memory, given))
        made = [each for each in tree_leaves(result) if isinstance(each, Tensor) and _memory(each) not in places]
        read = [each for each in given if _memory(each) in self._memory]
        if not made or not read:
            return result  # a view, or a write in place
        self.bytes += sum(_distinct(each) * each.element_size() for each in read)
        for each in made:
            if each.numel() >= max(map(_distinct, read)):  # a copy
                self._memory.add(_memory(each))
                self._kept.append(each)
        return result


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()


def _distinct(tensor: Tensor) -> int:
    """Values in memory: an expanded dimension is the same memory again."""
    sizes = zip(tensor.shape, tensor.stride(), strict=True)
    return int(torch.tensor([size for size, stride in sizes if stride or size == 1]).prod())


def counted(model: Model, rows: int) -> float:
    """Bytes of keys and values that a forward of `rows` rows reads for each row, over those that the text has."""
    cache = model.cache(1, 256)
    model.read(cache, [list(range(2, 42)) * 5])
    (memory,) = cache._stores[0].blocks.values()
    assert memory is not None
    with Reads(memory) as reads:
        model.forward(cache, torch.full((1, rows), 5), torch.arange(rows)[None])
    return reads.bytes / (memory[..., : cache.table.view, :].numel() * memory.element_size()) / rows


@pytest.mark.parametrize("rows", [1, 5])
def test_keys_and_values_are_read_once_for_all_rows_and_heads(
    rows: int, card: Counter[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """transformers reads them to copy them to the 4 heads, and then the 4 copies of 2 heads' keys: 3 times in all."""
    case = TEXTS["Llama, SmolLM2"]
    once = by_modules(case)
    assert counted(once, rows) == 1 / rows and card["_unmasked"] == once.layers
    monkeypatch.setattr(attention, "SPLIT_FROM", 1024)
    assert counted(once, rows) == 1 / rows and card["_unmasked"] == once.layers
    monkeypatch.setattr(attention, "DEVICES", set())
    assert counted(by_modules(case), rows) == (1 if rows == 1 else 3 / 5)  # which packs one row's heads too


def test_heads_and_emulated_sizes_read_keys_and_values_once(card: Counter[str]) -> None:
    shape = HeadShape(32, 4, 2, 8, 64, {"rope_type": "default", "rope_theta": 1e4}, 256)
    head = Attention(shape, 32, causal=True).eval()
    side = EmulatedSize(EmulatedShape("small", 1, 32, 4, 2, 8, 24, 30), 32, torch.float32, torch.device("cpu"))
    form, at = chain(4), (torch.ones(1, 5, 1, 8), torch.zeros(1, 5, 1, 8))
    for name in ("head", "emulated size"):
        cache = SlotCache(1, 1, 256, torch.device("cpu"), 1)
        for each in (*cache.layers, *cache.side):
            each.lazy_initialization(torch.empty(1, 2, 1, 8), torch.empty(1, 2, 1, 8))
        cache.table.commit(torch.tensor([200]), 200, least=200)
        cache.table.begin_write(form.depth)
        cache.table.widen()
        mask = attention_mask(cache.table, Reach(), None, None)
        side.begin_write(cache, mask)
        (memory,) = cache._stores[name == "emulated size"].blocks.values()
        assert isinstance(mask, Tensor) and memory is not None
        card.clear()
        with torch.inference_mode(), Reads(memory) as reads:
            head(torch.randn(1, 5, 32), at, mask, cache.layers[0]) if name == "head" else side(torch.randn(1, 5, 32))
        assert card["_unmasked"] == 1
        assert reads.bytes == memory[..., : cache.table.view, :].numel() * 4


# Decoding.


@pytest.fixture
def labs(card: Counter[str], monkeypatch: pytest.MonkeyPatch) -> tuple[DecodingEngine, DecodingEngine]:
    """The same random pair with its heads: as on a CPU, and as on a card."""
    networks = random_llama(3, 258), random_llama(4, 258, layers=1, hidden=16)
    found = []
    for devices in (set[str](), {"cpu"}):
        monkeypatch.setattr(attention, "DEVICES", devices)
        target, draft = (probed(deepcopy(each), "m") for each in networks)
        torch.manual_seed(0)
        engine = DecodingEngine(target, draft, byte_tokenizer(), random_heads(target, tuple(range(0, 258, 2))))
        engine.calibration = made_calibration()
        for model in (target, draft):
            model.run = model.network if devices else model.run
        found.append(engine)
    return found[0], found[1]


def batch(engine: DecodingEngine, texts: list[str], drafter: str, **options: Any) -> list[list[int]]:
    """The tokens that are written after each of several texts, decoded together."""
    prompts, settings = [engine.encode(text, 40) for text in texts], Settings.of(drafter=drafter, **options)
    session = engine.start_batch(prompts, settings, tuple(range(len(texts))))
    for _ in session.steps():
        pass
    return [transcript.tokens for transcript in session.transcripts]


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Checks every mask that is made: all rows of all sequences see the columns that all are said to see."""
    found: list[int] = []

    def check(mask: Tensor, columns: int) -> Tensor:
        assert mask[..., :columns].all()
        found.append(columns)
        return with_common(mask, columns)

    monkeypatch.setattr(masks, "with_common", check)
    yield found
    assert max(found) > 0


QUICK = ("plain", "ngram", "draft", "sampled-tree", "eagle3", "medusa", "eagle3-tree", "lookahead")


@pytest.mark.parametrize(
    "drafter", [name if name in QUICK else pytest.param(name, marks=pytest.mark.slow) for name in DRAFTERS]
)
def test_every_drafter_writes_the_same_text(
    labs: tuple[DecodingEngine, DecodingEngine],
    card: Counter[str],
    checked: list[int],
    drafter: str,
) -> None:
    """Three texts of different lengths; their numbers of accepted tokens differ too."""
    options = {**DRAFTERS[drafter], "max_new_tokens": 12, "temperature": 1.0, "seed": 5}
    texts = [TEXT, TEXT[:50], TEXT + TEXT[:9]]
    if drafter == "typed":
        texts = texts[:1]
    one, other = (batch(engine, texts, drafter, **options) for engine in labs)
    assert one == other
    assert card["_unmasked"] > 0


@pytest.mark.parametrize("drafter", ["plain", "draft", "sampled-tree", "eagle3", "block", "early-exit"])
def test_graphs_give_the_same_text(
    labs: tuple[DecodingEngine, DecodingEngine], card: Counter[str], drafter: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One graph serves all lengths of a view, because they have the same columns without a mask."""
    monkeypatch.setattr(graphs, "WIDE", 32)
    recorder = Recorder()
    eager, engine = labs
    for each in (*engine.models, *(each.network for each in engine.heads.values())):
        each.record_graphs(recorder)
    options = {**DRAFTERS[drafter], "max_new_tokens": 40, "temperature": 1.0, "seed": 5}
    assert engine.decode(TEXT, drafter, **options).token_ids == eager.decode(TEXT, drafter, **options).token_ids
    assert engine.target.graph_state == "on" and card["_unmasked"] > 0
    assert recorder.replayed > 2 * recorder.recorded


@pytest.mark.parametrize("looped", [False, True])
def test_a_graph_of_long_texts_is_not_replayed_for_a_shorter_one(
    card: Counter[str], looped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both batches have the same view; in the second one fewer columns are common."""
    monkeypatch.setattr(graphs, "WIDE", 32)
    once = by_modules(TEXTS["Llama, SmolLM2"])
    once.record_graphs(Recorder())
    model, tokens = by_modules(TEXTS["Llama, SmolLM2"]), torch.tensor([[7, 8], [9, 10]])

    def found(model: Model, lengths: list[int]) -> Tensor:
        cache, logits = model.cache(2, 160), []
        model.read(cache, [[5, 6, 7] * 40, [6, 5, 8] * 40])
        for turn in range(3):  # a graph may be recorded at the first or the second use
            cache.truncate(torch.tensor(lengths), max(lengths))
            cache.table.know_least(min(lengths))

            def call(tokens: Tensor) -> tuple[Tensor]:
                return (model.forward(cache, tokens, torch.arange(2).expand(2, -1)),)

            given = tokens + turn
            logits.append(model.loop(cache, call, "two", (given,), [2])[0] if looped else call(given)[0])
        return torch.cat(logits)

    for lengths in ([119, 118], [119, 40]):
        torch.testing.assert_close(found(once, lengths), found(model, lengths), atol=1e-5, rtol=1e-5)
    assert once.graph_state == "on" and card["_unmasked"] > 0


def test_a_session_knows_how_long_its_shortest_text_is(
    labs: tuple[DecodingEngine, DecodingEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """To within a round's rows, all through a batch; otherwise long texts would be read under the mask."""
    behind: list[int] = []
    original = TargetPass._forward

    def watched(self: TargetPass, *args: Any) -> Any:
        table = self._cache.table
        behind.append(int(table.length.min()) - table.least)
        return original(self, *args)

    monkeypatch.setattr(TargetPass, "_forward", watched)
    batch(labs[1], [TEXT, TEXT[:50]], "draft", gamma=4, max_new_tokens=24, temperature=1.0, seed=5)
    assert len(behind) > 5 and min(behind) >= 0 and max(behind) <= 1
