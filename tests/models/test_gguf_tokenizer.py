"""The tokenizer of a GGUF file: the ids, the text and the ends of a turn that its original has."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tokenizers import Regex, pre_tokenizers
from transformers import LlamaConfig, LlamaTokenizer, Qwen2Config

from draftscope.models.files.gguf_tokenizer import LLAMA3, QWEN2
from draftscope.models.loading.checkpoints import end_of_text, find, load_tokenizer
from tests.support import gguf_files
from tests.support.gguf_models import HOW, SHAPE, TOKENIZER, loaded, made, refused

LLAMA = LlamaConfig(**SHAPE)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))


def read(path: Path) -> Any:
    return load_tokenizer(find(path, HOW))


@pytest.mark.parametrize("digits", [False, True])
def test_a_file_splits_text_as_its_tokenizer_does(digits: bool, tmp_path: Path) -> None:
    """SmolLM's files: transformers ignores that they split digits, so '\\n\\n1' would become other tokens."""
    theirs = gguf_files.tokenizer_with_merges()
    if digits:
        theirs.backend_tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
        )
    path = gguf_files.write(tmp_path / "a.gguf", made(LLAMA), theirs, pre="smollm" if digits else "gpt-2")
    ours = read(path)
    for text in ("the cat,\n\n1. the hat  22\n\n3", "<user>the others<e>", " naïve 😀"):
        assert ours(text).input_ids == theirs(text).input_ids
        assert ours.decode(ours(text).input_ids) == text
    message = [{"role": "user", "content": "the cat"}]
    assert ours.apply_chat_template(message, tokenize=False, add_generation_prompt=True) == "<user>the cat<assistant>"


def test_every_token_that_ends_a_turn_is_an_end(tmp_path: Path) -> None:
    more = {"tokenizer.ggml.eot_token_id": 2}
    path = gguf_files.write(tmp_path / "a.gguf", made(LLAMA), TOKENIZER, more=more)
    assert end_of_text(loaded(path), TOKENIZER) == {0, 2}


def test_ways_to_split_text_that_transformers_knows_are_read(tmp_path: Path) -> None:
    """Llama 3's: up to three digits are a word, and a word that is a token needs no merges."""
    network = made(LLAMA)
    ours = read(gguf_files.write(tmp_path / "a.gguf", network, TOKENIZER, pre="llama-bpe"))
    pieces = [piece for piece, _ in ours.backend_tokenizer.pre_tokenizer.pre_tokenize_str("in 12345")]
    assert pieces == ["in", "Ġ", "123", "45"]
    assert ours.backend_tokenizer.model.ignore_merges


def pieces(tokenizer: Any, text: str) -> list[str]:
    return [piece for piece, _ in tokenizer.backend_tokenizer.pre_tokenizer.pre_tokenize_str(text)]


def of_another_time(path: Path, config: Any, pre: str, begin: str = "") -> Any:
    """A file of before ways to split text had names; `begin` is the text of one of its tokens."""
    theirs = gguf_files.tokenizer_with_merges()
    if begin:
        theirs.add_special_tokens({"additional_special_tokens": [begin]})
    shape = SHAPE | {"vocab_size": len(theirs)}
    return read(gguf_files.write(path, made(type(config)(**shape)), theirs, pre=pre))


@pytest.mark.parametrize("pre", ["", "default"])
def test_a_file_that_does_not_say_how_it_splits_text_is_split_as_llama_cpp_does(pre: str, tmp_path: Path) -> None:
    ours = of_another_time(tmp_path / "a.gguf", LLAMA, pre)
    assert pieces(ours, "in 12345 (a), it's") == ["in", "Ġ", "123", "45", "Ġ", "(", "a", "),", "Ġit", "'", "s"]
    assert ours.decode(ours("the cat, 12345 é").input_ids) == "the cat, 12345 é"


@pytest.mark.parametrize("pre", ["", "default"])
@pytest.mark.parametrize(
    ("config", "begin", "pattern"),
    [
        pytest.param(LLAMA, "<|begin_of_text|>", LLAMA3, id="Llama 3"),
        pytest.param(Qwen2Config(), "", QWEN2, id="Qwen2"),
    ],
)
def test_a_known_vocabulary_is_split_as_its_original(
    config: Any, begin: str, pattern: str, pre: str, tmp_path: Path
) -> None:
    ours = of_another_time(tmp_path / "a.gguf", config, pre, begin)
    original = pre_tokenizers.Sequence(
        [pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    )
    for text in ("in 12345 (a), IT'S", "\n\n  the\r\n", "naïve\t1 😀"):
        assert pieces(ours, text) == [piece for piece, _ in original.pre_tokenize_str(text)]


def test_an_accent_is_composed_as_the_original_of_qwen_does(tmp_path: Path) -> None:
    ours = read(gguf_files.write(tmp_path / "a.gguf", made(Qwen2Config(**SHAPE)), TOKENIZER, pre="qwen2"))
    assert ours("e\u0301").input_ids == ours("é").input_ids


# SentencePiece.


def sentencepiece(path: Path, more: dict[str, Any] | None = None) -> Any:
    merges = [("▁", "t"), ("h", "e"), ("▁t", "he"), ("a", "t"), ("▁", "c"), ("▁c", "at")]
    tokens = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    tokens += [*("".join(pair) for pair in merges), "▁", *"abcdefghijklmnopqrstuvwxyz,.0123456789"]
    theirs = LlamaTokenizer(vocab={token: index for index, token in enumerate(tokens)}, merges=merges)
    config = LlamaConfig(**SHAPE | {"vocab_size": len(tokens), "bos_token_id": 1, "eos_token_id": 2})
    return read(gguf_files.write(path, made(config), theirs, more=more))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the cat", ["▁the", "▁cat"]),
        ("  the\n cat</s>", ["▁", "▁", "▁the", "<0x0A>", "▁cat", "</s>"]),  # a space before, and those that are there
        ("é 😀", ["▁", "<0xC3>", "<0xA9>", "▁", "<0xF0>", "<0x9F>", "<0x98>", "<0x80>"]),
        ("", []),
    ],
)
def test_a_sentencepiece_file_has_the_pieces_and_bytes_of_sentencepiece(
    text: str, expected: list[str], tmp_path: Path
) -> None:
    ours = sentencepiece(tmp_path / "a.gguf")
    ids = ours(text).input_ids
    assert ours.convert_ids_to_tokens(ids) == ["<s>", *expected]
    assert ours.decode(ids[1:]) == text


@pytest.mark.parametrize(
    ("key", "first"),
    [("add_space_prefix", ["<s>", "t", "he"]), ("add_bos_token", ["▁the"])],
)
def test_a_sentencepiece_file_says_what_comes_before_a_text(key: str, first: list[str], tmp_path: Path) -> None:
    ours = sentencepiece(tmp_path / "a.gguf", {f"tokenizer.ggml.{key}": False})
    assert ours.convert_ids_to_tokens(ours("the").input_ids) == first


def test_another_kind_of_tokenizer_is_refused(tmp_path: Path) -> None:
    path = gguf_files.write(tmp_path / "a.gguf", made(LLAMA), TOKENIZER, more={"tokenizer.ggml.model": "bert"})
    assert "has a tokenizer of the kind 'bert', and those of gpt2 and llama are read" in refused(path)


# Ends.


@pytest.mark.parametrize("end", ["<|eot_id|>", "<|im_end|>", "<end_of_turn>", "<|end|>", "<|endoftext|>"])
def test_a_turn_ends_at_a_token_that_is_known_by_its_text_only(end: str, tmp_path: Path) -> None:
    theirs = gguf_files.tokenizer_with_merges()
    theirs.add_tokens([end])  # no control token: files leave that out too
    path = gguf_files.write(tmp_path / "a.gguf", made(LlamaConfig(**SHAPE | {"vocab_size": len(theirs)})), theirs)
    ours, ends = read(path), end_of_text(loaded(path), theirs)
    assert ends == {0, len(theirs) - 1}
    assert ours(f"the cat{end}").input_ids[-1] == len(theirs) - 1
    assert ours.decode(ours(f"the cat{end}").input_ids, skip_special_tokens=True) == "the cat"
