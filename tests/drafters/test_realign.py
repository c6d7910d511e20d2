"""A draft with another tokenizer: text between the two, exactness through the real loop, caches, and what breaks it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors
from torch import Tensor
from transformers import PreTrainedTokenizerFast

import draftscope
from draftscope import DraftscopeError
from draftscope.base import text
from draftscope.base.steps import last
from draftscope.decode import target_pass
from draftscope.decode.engine import DecodingEngine
from draftscope.drafters import TextDraftModel
from draftscope.drafters.model import levels
from draftscope.drafters.settings import Settings
from draftscope.drafters.text import realigned, tli
from draftscope.drafters.text.retokenize import DraftText, Realigner
from draftscope.models.probe import probed
from draftscope.trace import events
from draftscope.verify.tree import DraftTree
from draftscope_app.cli.main import main
from draftscope_app.engine.opening_models import introduced
from tests.decode.test_distribution import WARPED, caught, distribution
from tests.support.models import byte_tokenizer, letters, random_llama

CLOSE = {"atol": 2e-5, "rtol": 1e-3}
SLEM = {"drafter": "slem", "gamma": 3}
TLI = {"drafter": "tli", "gamma": 3}


def alphabet(count: int) -> PreTrainedTokenizerFast:
    """One-letter words, none of them special."""
    return PreTrainedTokenizerFast(tokenizer_object=letters(count).backend_tokenizer)


def syllables() -> PreTrainedTokenizerFast:
    """Letters and what they merge to: 'abc' is one token, and a letter more may change the last token of a text."""
    merges = [("a", "b"), ("ab", "c"), ("b", "c"), ("c", "a"), ("d", "a")]
    pieces = [*"dcba", *(first + second for first, second in merges), "x"]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges, unk_token="x"))
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="x")


def merged_bytes() -> PreTrainedTokenizerFast:
    """Byte-level BPE that merges what lies inside characters, begins with a token of its own, and has other ids."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet(), reverse=True)
    merges = [("Ã", "©"), ("c", "a"), ("ca", "f"), ("Ġ", "b"), ("â", "Ĥ"), ("âĤ", "¬")]  # é; caf; " b"; euro
    pieces = ["<s>", "<|endoftext|>", *alphabet, *(first + second for first, second in merges)]
    tokenizer = Tokenizer(models.BPE({piece: i for i, piece in enumerate(pieces)}, merges))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, bos_token="<s>", eos_token="<|endoftext|>")


def spaced_words() -> PreTrainedTokenizerFast:
    """SentencePiece's way: a space in front of words, and of a text."""
    pieces = {piece: i for i, piece in enumerate(["<unk>", "▁", "▁a", "▁b", "a", "b", "▁ab"])}
    tokenizer = Tokenizer(models.BPE(pieces, [("▁", "a"), ("▁", "b"), ("▁a", "b")], unk_token="<unk>"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    return PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="<unk>")


@pytest.fixture(scope="module")
def parted(tiny: DecodingEngine) -> DecodingEngine:
    """The five letters, drafted by a model over syllables."""
    tokenizer = syllables()
    other = TextDraftModel(probed(random_llama(9, len(tokenizer), layers=1, hidden=16), "syllables"), tokenizer)
    engine = DecodingEngine(tiny.target, None, alphabet(5), foreign=other)
    engine.eos = frozenset()
    return engine


@pytest.fixture(scope="module")
def bytes_parted(pair: DecodingEngine) -> DecodingEngine:
    """Random bytes, seldom valid UTF-8, drafted by a model over merged ones."""
    tokenizer = merged_bytes()
    other = TextDraftModel(probed(random_llama(6, len(tokenizer), layers=1, hidden=16), "merged"), tokenizer)
    return DecodingEngine(pair.target, None, pair.tokenizer, foreign=other)


# Text between two tokenizers.


BYTES = {byte: char for char, byte in text._BYTES.items()}


def ids(tokenizer: Any, raw: bytes) -> list[int]:
    """A byte tokenizer's tokens of any bytes."""
    return [tokenizer.convert_tokens_to_ids(BYTES[byte]) for byte in raw]


def test_an_incomplete_character_waits_until_it_is_complete() -> None:
    """The text ends inside an é: the draft reads the text before it, and only the missing byte of its é is proposed."""
    ours, theirs = byte_tokenizer(), merged_bytes()
    between = Realigner(ours, theirs)
    seen = between.read(ids(ours, b"caf\xc3"))
    assert (seen.text, seen.incomplete) == ("caf", b"\xc3")
    assert theirs.convert_ids_to_tokens(seen.ids) == ["caf"]
    assert between.write(theirs.convert_tokens_to_ids(["Ã©", "Ġb"]), seen) == ids(ours, b"\xa9 b")
    assert between.write(theirs.convert_tokens_to_ids(["caf"]), seen) == []  # another character was begun
    euro = between.read(ids(ours, b"x\xe2\x82"))
    assert (euro.text, euro.incomplete) == ("x", b"\xe2\x82")
    assert between.write(theirs.convert_tokens_to_ids(["âĤ¬", "caf"]), euro) == ids(ours, b"\xaccaf")


def test_a_draft_that_ends_inside_a_character_is_shortened() -> None:
    ours, theirs = byte_tokenizer(), merged_bytes()
    between = Realigner(ours, theirs)
    assert between.write(theirs.convert_tokens_to_ids(["Ġb", "âĤ"]), between.read(ids(ours, b"a"))) == ids(ours, b" b")


def test_invalid_bytes_are_replaced() -> None:
    ours, theirs = byte_tokenizer(), merged_bytes()
    seen = Realigner(ours, theirs).read(ids(ours, b"a\xff\xc3b"))
    assert (seen.text, seen.incomplete) == ("a\ufffd\ufffdb", b"")


def test_special_tokens_that_both_have_are_kept() -> None:
    ours, theirs = byte_tokenizer(), merged_bytes()
    ours.add_special_tokens({"additional_special_tokens": [AddedToken("<|only|>", special=True)]})
    between = Realigner(ours, theirs)
    only, end = ours.convert_tokens_to_ids(["<|only|>", "<|endoftext|>"])
    seen = between.read([only, *ids(ours, b"a"), end])
    assert theirs.convert_ids_to_tokens(seen.ids) == ["a", "<|endoftext|>"]
    drafted = theirs.convert_tokens_to_ids(["caf", "<|endoftext|>", "caf"])
    assert between.write(drafted, between.read(ids(ours, b"a"))) == [*ids(ours, b"caf"), end]
    begins = theirs.convert_tokens_to_ids(["caf", "<s>", "caf"])  # the target has no such token
    assert between.write(begins, between.read(ids(ours, b"a"))) == ids(ours, b"caf")


def test_a_draft_that_begins_its_texts_begins_them_once() -> None:
    ours, theirs = byte_tokenizer(), merged_bytes()
    template = processors.TemplateProcessing(single="<s> $A", special_tokens=[("<s>", 0)])
    theirs.backend_tokenizer.post_processor = template
    assert theirs.convert_ids_to_tokens(Realigner(ours, theirs).read(ids(ours, b"caf")).ids) == ["<s>", "caf"]
    ours.add_special_tokens({"bos_token": "<s>"})
    begun = [ours.bos_token_id, *ids(ours, b"caf")]
    assert theirs.convert_ids_to_tokens(Realigner(ours, theirs).read(begun).ids) == ["<s>", "caf"]


def test_a_tokenizer_that_puts_a_space_before_a_text_puts_none_inside() -> None:
    spaced, plain = spaced_words(), alphabet(2)
    between = Realigner(spaced, plain)
    seen = between.read(spaced("ab")["input_ids"])
    assert spaced.convert_ids_to_tokens(between.write(plain("ba")["input_ids"], seen)) == ["b", "a"]


def test_shared_tokens_have_the_same_bytes() -> None:
    theirs, ours = Realigner(alphabet(5), syllables()).shared()
    assert syllables().convert_ids_to_tokens(theirs) == alphabet(5).convert_ids_to_tokens(ours) == list("abcd")
    theirs, ours = Realigner(byte_tokenizer(), merged_bytes()).shared()
    assert len(theirs) == 256 + 1  # every byte, and the end of text
    pairs = zip(merged_bytes().convert_ids_to_tokens(theirs), byte_tokenizer().convert_ids_to_tokens(ours), strict=True)
    assert all(one == other for one, other in pairs)


# The loop.


@pytest.mark.parametrize(
    "settings",
    [SLEM, SLEM | WARPED, TLI, TLI | {"rule": "token"}, TLI | WARPED],
    ids=["SLEM", "SLEM, warped", "TLI", "TLI, token", "TLI, warped"],
)
def test_the_joint_distribution_is_the_targets(parted: DecodingEngine, settings: dict[str, Any]) -> None:
    finding = distribution(parted, **settings)
    assert finding.passed, finding.detail


@pytest.mark.parametrize("drafter", ["slem", "tli"])
def test_greedy_tokens_are_plains(parted: DecodingEngine, bytes_parted: DecodingEngine, drafter: str) -> None:
    """Whatever bytes come, in a batch of unequal texts too."""
    accepted = 0
    for engine in (parted, bytes_parted):
        for prompt in ("abcab", "ca"):
            run = engine.decode(prompt, drafter, gamma=4, max_new_tokens=60)
            assert run.token_ids == engine.decode(prompt, "plain", max_new_tokens=60).token_ids
            accepted += run.metrics.num_accepted_tokens
    assert accepted > 5
    prompts = [parted.encode(prompt) for prompt in ("abcabcab", "d")]
    session = parted.start_batch(prompts, Settings.of(drafter=drafter, max_new_tokens=30), (0, 1), ends=False)
    last(session.steps())
    alone = [parted.decode(prompt, "plain", max_new_tokens=30).token_ids for prompt in ("abcabcab", "d")]
    assert [transcript.tokens for transcript in session.transcripts] == alone


def test_a_draft_of_the_same_tokenizer_may_draft_through_text_too(tiny: DecodingEngine, pair: DecodingEngine) -> None:
    twin = DecodingEngine(tiny.target, tiny.target, alphabet(5))
    twin.eos = frozenset()
    assert twin.decode("abcab", "slem", max_new_tokens=41).metrics.draft_acceptance_rate == 1
    run = pair.decode("abcab", "slem", max_new_tokens=40)
    assert run.token_ids == pair.decode("abcab", "plain", max_new_tokens=40).token_ids
    assert [model.name for model in run.events[0].models] == ["byte-target", "byte-draft"]


def test_the_trace_records_how_a_chain_was_made(parted: DecodingEngine) -> None:
    """The point mass has no q; the round records how its chain was made."""
    run = parted.decode("abcab", "slem", gamma=3, temperature=1.0, max_new_tokens=40, seed=1)
    assert run.events[0].exact and run.events[0].models[1].name == "syllables"
    decisions = [decision for event in run.round_events for decision in event.decisions]
    assert decisions and all(c.rule == "deterministic" and c.distributions[0].q is None for c in decisions)
    for event in run.round_events:
        for note in event.annotations:
            assert isinstance(note, events.Realignment)
            assert (note.drafted, note.proposed) == (3, len(event.nodes))
    assert any(note.read_again for event in run.round_events for note in event.annotations)
    drawn = parted.decode("abcab", "tli", temperature=1.0, max_new_tokens=40, seed=1)
    distributions = [
        distributions
        for event in drawn.round_events
        for decision in event.decisions
        for distributions in decision.distributions
    ]
    assert distributions and all(
        distributions.q is not None and distributions.q[distributions.ids.index(4)] == 0
        for distributions in distributions
    )  # no 'e' in both


# Caches.


@torch.inference_mode()
def check_reading(engine: DecodingEngine, drafter: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """The draft's logits are those of its own tokens of the text, read from scratch, whatever was read before."""
    right, held = realigned.RealignedDraft.read, 0

    def read(self: realigned.RealignedDraft, seen: Sequence[DraftText]) -> Tensor:
        nonlocal held
        logits = right(self, seen)
        for b, each in enumerate(seen):
            fresh = engine.foreign.model.network(torch.tensor([each.ids]), use_cache=False).logits[0, -1]
            torch.testing.assert_close(logits[b, 0], fresh, **CLOSE)
            held += 1
        return logits

    with monkeypatch.context() as watching:
        watching.setattr(realigned.RealignedDraft, "read", read)
        prompts = [engine.encode(prompt) for prompt in ("abcabcabcab", "a")]
        settings = Settings.of(drafter=drafter, gamma=4, temperature=1.0, max_new_tokens=40, seed=2)
        last(engine.start_batch(prompts, settings, (0, 1), ends=False).steps())
    return held


@pytest.mark.parametrize("drafter", ["slem", "tli"])
def test_it_reads_all_tokens_that_differ(
    parted: DecodingEngine, bytes_parted: DecodingEngine, monkeypatch: pytest.MonkeyPatch, drafter: str
) -> None:
    assert check_reading(parted, drafter, monkeypatch) > 40
    assert check_reading(bytes_parted, drafter, monkeypatch) > 40
    right = realigned.same_start
    monkeypatch.setattr(realigned, "same_start", lambda own, held: min(len(own), len(held), right(own, held) + 1))
    with pytest.raises(AssertionError, match="not close"):
        check_reading(parted, drafter, monkeypatch)


@torch.inference_mode()
def test_the_claimed_distributions_are_the_drafts_own_over_the_shared_tokens(parted: DecodingEngine) -> None:
    """From scratch, over its own tokens of the text and of what was drafted: 'e' has no mass, the rest adds up to 1."""
    settings = Settings.of(drafter="tli", gamma=3, temperature=0.8, max_new_tokens=30, seed=4)
    prompt = parted.encode("abcab")
    session_, held = parted.start_batch([prompt], settings, (0,), ends=False), 0
    between = Realigner(parted.tokenizer, parted.foreign.tokenizer)
    theirs, ours = between.shared()
    before = list(prompt)
    for step in session_.steps():
        if step.tree.distributions is not None:
            drafted = [theirs[ours.index(token)] for token in step.tree.tokens[0].tolist()]
            own = between.read(before).ids
            logits = parted.foreign.model.network(torch.tensor([own + drafted[:-1]]), use_cache=False).logits[0]
            want = torch.zeros(len(drafted), 5)
            want[:, ours] = (logits[len(own) - 1 :, theirs] / 0.8).softmax(-1)
            torch.testing.assert_close(step.tree.distributions[0], want, **CLOSE)
            held += 1
        before = prompt + session_.transcripts[0].tokens
    assert held > 5


def test_a_text_with_more_tokens_than_the_targets_gets_a_larger_cache(
    pair: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The target's words are the draft's letters: its cache is made for the target's tokens, and grows."""
    target = probed(random_llama(6, 264, layers=1, hidden=16), "merged")
    engine = DecodingEngine(target, None, merged_bytes(), foreign=TextDraftModel(pair.draft, byte_tokenizer()))
    prompt = "café b €caf" * 8
    run = engine.decode(prompt, "slem", max_new_tokens=20)
    assert run.token_ids == engine.decode(prompt, "plain", max_new_tokens=20).token_ids
    assert len(byte_tokenizer()(prompt)["input_ids"]) > 2 * run.events[0].prompt_tokens
    assert check_reading(engine, "slem", monkeypatch) > 20


@pytest.mark.parametrize("drafter", ["slem", "tli"])
def test_beyond_the_drafts_own_context_nothing_is_drafted(parted: DecodingEngine, drafter: str) -> None:
    """Its context counts its own tokens and is shorter than the target's: the text continues without it."""
    short = probed(random_llama(9, len(syllables()), layers=1, hidden=16), "short")
    short.context = 12
    engine = DecodingEngine(parted.target, None, parted.tokenizer, foreign=TextDraftModel(short, syllables()))
    engine.eos = frozenset()
    run = engine.decode("abcab", drafter, gamma=3, max_new_tokens=40)
    assert run.token_ids == parted.decode("abcab", "plain", max_new_tokens=40).token_ids
    drafted = [bool(event.nodes) for event in run.round_events]
    assert any(drafted) and not any(drafted[-10:])
    between, read = Realigner(parted.tokenizer, syllables()), parted.encode("abcab")
    for event in run.round_events[:-1]:  # the last one has nothing left to draft
        assert len(between.read(read).ids) <= 12 - 3 or not event.nodes
        read = read + event.emitted


# Mutations.


def test_argmax_drafts_verified_by_the_shared_distribution_are_caught(
    parted: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(levels, "draw", lambda distribution, _: distribution.argmax(-1))
    assert caught(distribution(parted, 2500, **TLI))


def test_a_distribution_that_was_not_renormalised_is_caught(
    parted: DecodingEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """q lacks the probability of tokens that only the draft has."""
    right = levels.Levels._tree

    def lacking(self: levels.Levels, *parts: object) -> DraftTree:
        tree = right(self, *parts)  # type: ignore[arg-type]
        assert tree.distributions is not None
        return replace(tree, distributions=tree.distributions * 0.6)

    monkeypatch.setattr(tli.Tli, "_tree", lacking)
    assert caught(distribution(parted, 2500, rule="token", **TLI))


def test_a_continuation_treated_as_drawn_is_caught(parted: DecodingEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tokens through text have no known distribution: accepting them without verification writes the draft's text."""
    right = target_pass.verify_tree

    def trusting(p: Any, tree: DraftTree, uniforms: Any) -> Any:
        count = (~tree.never_accepted).sum(-1)
        nodes = torch.arange(tree.nodes)
        return replace(right(p, tree, uniforms), accepted=count, path=torch.where(nodes < count[:, None], nodes, -1))

    monkeypatch.setattr(target_pass, "verify_tree", trusting)
    assert caught(distribution(parted, **SLEM))


# Loading.


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Target and draft as two checkpoints of different tokenizers."""
    root = tmp_path_factory.mktemp("tokenizers")
    made = (("target", byte_tokenizer(), 3), ("merged", merged_bytes(), 4))
    for name, tokenizer, seed in made:
        random_llama(seed, len(tokenizer), layers=1, hidden=16).save_pretrained(root / name)
        tokenizer.save_pretrained(root / name)
    return root / "target", root / "merged"


def test_another_tokenizer_drafts_through_text_and_is_not_refused(folders: tuple[Path, Path]) -> None:
    target, draft = folders
    engine = draftscope.load(target, draft, dtype="float32")
    (sentence,) = engine.limits
    assert sentence.startswith("'merged' has another tokenizer than 'target' (258 tokens differ, for example '<|endof")
    assert "The output has exactly the target's distribution" in sentence
    run = engine.decode("ab", max_new_tokens=20)
    assert run.events[0].drafter == "slem"
    assert run.token_ids == engine.decode("ab", "plain", max_new_tokens=20).token_ids
    offered = {drafter.name: drafter.why_not for drafter in engine.drafters()}
    assert offered["slem"] == offered["tli"] == offered["ngram"] == ""
    assert offered["draft"] == offered["cascade"] == "the draft has another tokenizer"
    with pytest.raises(DraftscopeError, match="'sampled-tree' needs a draft with the target's tokenizer, and 'merged'"):
        engine.decode("ab", "sampled-tree")


def test_the_models_of_a_cascade_share_a_tokenizer(folders: tuple[Path, Path]) -> None:
    target, draft = folders
    with pytest.raises(DraftscopeError, match="258 tokens differ"):
        draftscope.load(target, f"{target},{draft}", dtype="float32")
    engine = draftscope.load(target, f"{target},{target}", dtype="float32")
    assert engine.draft is not None and len(engine.smaller) == 1 and not engine.limits
    run = engine.decode("ab", "cascade", inner="none", max_new_tokens=16)
    assert run.token_ids == engine.decode("ab", "plain", max_new_tokens=16).token_ids


def test_without_a_draft_the_remedy_is_named(pair: DecodingEngine) -> None:
    with pytest.raises(DraftscopeError, match="'tli' needs a draft model; name one with --draft"):
        DecodingEngine(pair.target, None, pair.tokenizer).decode("ab", "tli")


def test_the_page_says_so_too(folders: tuple[Path, Path]) -> None:
    said = introduced(draftscope.load(*folders, dtype="float32"), 1.0, "a shelf")
    assert said == ("target (1 × 16) + merged (1 × 16), drafting through text, loaded in 1.0 s on a shelf")


def test_the_command_line_says_so_and_decodes(folders: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    named = ("--target", str(folders[0]), "--draft", str(folders[1]), "--dtype", "float32")
    assert main(["decode", "ab", *named, "--max-new-tokens", "8", "--temperature", "1"]) == 0
    said = capsys.readouterr().err
    assert "draftscope: 'merged' has another tokenizer than 'target'" in said
    assert "8 tokens" in said
