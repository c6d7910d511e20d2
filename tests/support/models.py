"""Small random models, made here: no test needs a network, a corpus or the embedded weights. And what every test runs
under. `tests/conftest.py` makes these fixtures known.
"""

from __future__ import annotations

import ssl
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast

from draftscope.base import costs
from draftscope.base.costs import Calibration, Drafting, Machine, MeasuredFor, Verify
from draftscope.decode import calibration, load, rank_acceptance
from draftscope.decode.engine import DecodingEngine
from draftscope.decode.load import choose_threads
from draftscope.decode.pair import NamedHead
from draftscope.drafters import TextDraftModel, adopt, registry
from draftscope.measure.bench import limit
from draftscope.models import head_kinds
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
    SharedWeights,
)
from draftscope.models.model import Model
from draftscope.models.probe import probed
from draftscope.verify import drawing
from tests.support import made_up_heads

torch.set_num_threads(1)

HEADS = ("eagle", "eagle3", "mtp", "medusa", "block", "dspark")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """A command sets the number of threads of its process, here that of all later tests: it is one again after each."""
    yield
    if torch.get_num_threads() != 1:
        torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def own_drafters() -> Iterator[None]:
    """A drafter or head that a test gives to this process is unknown to the next test."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (registry, head_kinds):
            patch.setattr(module, "_registered", dict(module._registered))
        yield


@pytest.fixture
def glimpsed(own_drafters: None) -> None:
    """Two drafters with a made-up kind of head are known."""
    adopt(made_up_heads.INFO)
    adopt(made_up_heads.WIDE)


class NobodyElse:
    """A stopwatch of other processes that has seen none: whatever else runs beside the tests changes no result."""

    def lap(self) -> float:
        return 0.0


@pytest.fixture(scope="session", autouse=True)
def quick_and_undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        # What a dashboard of this user has measured is not read, and what is measured here is not left to it.
        patch.setenv("DRAFTSCOPE_CACHE", str(tmp_path_factory.mktemp("cache")))
        # Half a gigabyte would be copied again and again to measure how fast this machine does that.
        patch.setattr(limit, "SMALLEST_COPY", 1 << 22)
        patch.setitem(calibration.COPIED, "cpu", 1 << 22)
        patch.setattr(rank_acceptance, "TOKENS", 8)  # Sequoia's tree is chosen by long texts
        # Costs that are measured here are believed.
        patch.setattr(calibration, "OtherCores", NobodyElse)
        patch.setattr(costs, "impossible", lambda *_: [])
        # Two threads of a small model wait for each other where other tests run beside them, for six times as long.
        patch.setattr(load, "choose_threads", lambda target, _: choose_threads(target, 1))
        # Each client of httpx would read all certificates, which takes longer than most of what it asks for.
        patch.setattr(ssl, "create_default_context", cache(ssl.create_default_context))
        yield


@pytest.fixture
def little_calibrated(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A calibration of few forwards and rounds, in a cache of its own."""
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path))
    known = {"BATCHES": (1, 2), "WIDTHS": (1, 2, 5), "GAMMAS": (1, 3), "REPEATS": 1, "WARM": 1}
    for name, value in {**known, "TOGETHER": {1: 6, 2: 3}}.items():
        monkeypatch.setattr(calibration, name, value)


def random_llama(seed: int, vocabulary: int, layers: int = 2, hidden: int = 32, sharp: float = 4.0) -> LlamaForCausalLM:
    """A random Llama whose distributions are far from flat: `sharp` scales its output."""
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=vocabulary,
        hidden_size=hidden,
        intermediate_size=2 * hidden,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=512,
        initializer_range=0.3,
        bos_token_id=0,
        eos_token_id=0,
        pad_token_id=1,
    )
    model = LlamaForCausalLM(config)
    model.lm_head.weight.data *= sharp / 4
    return model


def letters(count: int) -> PreTrainedTokenizerFast:
    """A tokenizer of `count` one-letter words, for distributions small enough to enumerate."""
    vocabulary = {chr(ord("a") + i): i for i in range(count)}
    tokenizer = Tokenizer(models.WordLevel(vocabulary, unk_token="a"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split("", "isolated")
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="a")


def byte_tokenizer() -> PreTrainedTokenizerFast:
    """Every byte is a token (byte-level BPE without merges), plus an end of text with id 0."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {"<|endoftext|>": 0, "<|pad|>": 1} | {char: i + 2 for i, char in enumerate(alphabet)}
    tokenizer = Tokenizer(models.BPE(vocabulary, []))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<|endoftext|>", eos_token="<|endoftext|>", pad_token="<|pad|>"
    )


def made_calibration(**changes: object) -> Calibration:
    """Costs made up for tests, so that none depends on a clock.

    Verify takes 4 ms and 0.5 for each row more, 4 more at a batch of 4, 0.01 for each token beyond 100; a draft step
    0.5, the rest of a drafting round 1 and 0.25 for each token. A plain round takes 5.
    """
    verify = [
        Verify(width=w, batch=b, context=100, ms=4 + 0.5 * (w - 1) + more)
        for b, more in ((1, 0), (4, 4))
        for w in (1, 3, 9)
    ]
    verify += [Verify(width=1, batch=1, context=s, ms=4 + 0.01 * (s - 100)) for s in (50, 300)]
    measured_for = MeasuredFor(
        target="t", target_hash="1", draft="d", draft_hash="2", emulates="", forward="", device="CPU", dtype="float32",
        threads=1, torch="2", transformers="5", draftscope="0",
    )  # fmt: skip
    plain = [Drafting(batch=1, step=0.0, overhead=1.0, accept_step=0.0)]
    own = [Drafting(batch=1, step=0.5, overhead=1.0, accept_step=0.25)]
    values: dict[str, object] = {
        "measured_for": measured_for, "created": "", "context": 100, "verify": verify, "target_bytes": 1,
        "drafting": dict.fromkeys(("draft", "ngram", *HEADS, "early-exit", "ssd"), own) | {"plain": plain},
        "machine": Machine(copy_gb_s=1, matmul_gflop_s=1),
    }  # fmt: skip
    return Calibration.model_validate(values | changes)


ROPE = {"rope_type": "default", "rope_theta": 10000.0}


def head_shape(target: Model) -> HeadShape:
    """Of a head on a target of `random_llama`."""
    return HeadShape(target.hidden, heads=4, key_value_heads=2, head_width=8, mlp=48, rope=ROPE, positions=512)


def first_head(kind: str, target: Model) -> Head:
    """A head of any known kind as it is before training, which drafts the first two tokens only if it drafts some."""
    shared = SharedWeights.of(target.network)
    head: Head = head_kinds.find(kind).network().first(head_shape(target), shared, torch.arange(2))
    return head.requires_grad_(False).eval()


def random_heads(target: Model, selection: tuple[int, ...]) -> dict[str, NamedHead]:
    """A random head of every kind on a target of `random_llama`; EAGLE-3's knows the tokens of `selection` only."""
    shared, shape = SharedWeights.of(target.network), head_shape(target)
    layers, own = (0, 1, target.layers), OwnWeights(lm_head=True, vocabulary=len(selection))
    eagle3 = Eagle3(Eagle3Config(shape, layers, own), shared)
    eagle3.layers = layers  # the last one after the final norm: its drafts are then accepted now and then
    assert eagle3.d2t is not None
    eagle3.d2t.copy_(torch.tensor(selection) - torch.arange(len(selection)))
    made: dict[str, Head] = {
        "eagle": Eagle1(Eagle1Config(shape), shared),
        "eagle3": eagle3,
        "mtp": Mtp(MtpConfig(shape), shared),
        "medusa": Medusa(MedusaConfig(heads=3), shared),
        "block": Block(BlockConfig(shape, depth=2, size=5, mask_token=1, layers=(0, 2)), shared),
        "dspark": DSpark(DSparkConfig(shape, 1, 5, 1, (0, 2), own, rank=4), shared),
    }
    made["dspark"].d2t = eagle3.d2t.clone()
    dice = torch.Generator().manual_seed(5)
    for head in made.values():
        with torch.no_grad():
            for weight in head.parameters():
                weight.add_(torch.randn(weight.shape, generator=dice) * 0.2)
        head.eval()
    return {kind: NamedHead(head, f"random {kind}") for kind, head in made.items()}


@pytest.fixture(scope="session")
def tiny() -> DecodingEngine:
    """A pair over five tokens whose joint distributions can be enumerated. No token ends a text."""
    target = probed(random_llama(1, 5), "tiny-target")
    draft = probed(random_llama(2, 5, layers=1, hidden=16), "tiny-draft")
    engine = DecodingEngine(target, draft, letters(5), random_heads(target, (0, 1, 3, 4)))
    engine.eos = frozenset()
    engine.calibration = made_calibration()
    return engine


@pytest.fixture(scope="session")
def pair() -> DecodingEngine:
    """A random pair over bytes: tokens are bytes, so texts are often not UTF-8."""
    target = probed(random_llama(3, 258), "byte-target")
    draft = probed(random_llama(4, 258, layers=1, hidden=16), "byte-draft")
    engine = DecodingEngine(target, draft, byte_tokenizer(), random_heads(target, tuple(range(0, 258, 2))))
    engine.calibration = made_calibration()
    drawing.loops()  # no test's first round waits for them
    return engine


@pytest.fixture(scope="session")
def through_text(pair: DecodingEngine) -> DecodingEngine:
    """The byte pair whose draft has a tokenizer of its own."""
    assert pair.draft is not None
    return DecodingEngine(pair.target, None, pair.tokenizer, foreign=TextDraftModel(pair.draft, byte_tokenizer()))


@pytest.fixture(scope="session")
def pair_folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The byte pair as two checkpoint folders: target, draft."""
    root = tmp_path_factory.mktemp("pair")
    folders = root / "target", root / "draft"
    for folder, model in zip(folders, (random_llama(3, 258), random_llama(4, 258, 1, 16)), strict=True):
        model.save_pretrained(folder)
        byte_tokenizer().save_pretrained(folder)
    return folders
