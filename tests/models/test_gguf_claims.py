"""A GGUF file is believed no further than its size: one sentence, whatever it claims and however it is damaged."""

from __future__ import annotations

import struct
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, LlamaConfig

from draftscope.base.errors import DraftscopeError
from draftscope.models.files.gguf_file import inspected
from draftscope.models.loading.converted import converted
from tests.support import gguf_files

MAX_MEMORY = 64 * 2**20  # bytes of Python's for a small file
TOKENIZER = gguf_files.tokenizer_with_merges()
STRING, ARRAY, UINT8, UINT32, UINT64 = 8, 9, 0, 4, 10
HEADER_BYTES = 12_000  # of the small file, whose tensors begin behind it


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = LlamaConfig(
        vocab_size=len(TOKENIZER), hidden_size=32, intermediate_size=32, num_hidden_layers=1, num_attention_heads=2,
        num_key_value_heads=1, max_position_embeddings=64, bos_token_id=0, eos_token_id=0,
    )  # fmt: skip
    network = AutoModelForCausalLM.from_config(config)
    return gguf_files.write(tmp_path_factory.mktemp("gguf") / "small.gguf", network, TOKENIZER)


@pytest.fixture(autouse=True)
def within_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No test here may take much memory, whatever a file claims."""
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    tracemalloc.start()
    yield
    _, most = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert most < MAX_MEMORY


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def header(tensors: int = 0, keys: int = 1, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, keys)


def array(kind: int, count: int) -> bytes:
    return text("a.list") + struct.pack("<IIQ", ARRAY, kind, count)


def tensor(dimensions: list[int], kind: int = 0, offset: int = 0) -> bytes:
    shape = struct.pack(f"<I{len(dimensions)}Q", len(dimensions), *dimensions)
    return text("a.weight") + shape + struct.pack("<IQ", kind, offset)


CLAIMS: dict[str, tuple[bytes, str]] = {
    "empty": (b"GGUF", "the version claims 4 bytes, and 0 are left"),
    "version": (header(version=1), "it has version 1 of the format; 2 and 3 can be read"),
    "keys": (header(keys=2**60), "the number of keys claims 1,152,921,504,606,846,976 entries, and 0 bytes are left"),
    "tensors": (header(tensors=10**8, keys=0), "the number of tensors claims 100,000,000 entries, and 8 bytes are"),
    "name": (header() + struct.pack("<Q", 2**60) + bytes(9), "a key claims 1,152,921,504,606,846,976 bytes, and 9 are"),
    "text": (
        header() + text("a.text") + struct.pack("<IQ", STRING, 10**8) + bytes(16),
        "'a.text' claims 100,000,000 bytes, and 16 are left",
    ),
    "array": (
        header() + array(UINT8, 2**60) + bytes(14),
        "'a.list', an array, claims 1,152,921,504,606,846,976 entries, and 14 bytes are left for them",
    ),
    "long array": (header() + array(UINT64, 10**8) + bytes(14), "'a.list', an array, claims 100,000,000 entries"),
    "array of texts": (header() + array(STRING, 10**8) + bytes(64), "'a.list', an array, claims 100,000,000 entries"),
    "its text": (
        header() + array(STRING, 2) + text("ab") + struct.pack("<Q", 2**40) + bytes(3),
        "entry 1 of 'a.list' claims 1,099,511,627,776 bytes, and 3 are left",
    ),
    "array of arrays": (header() + array(ARRAY, 3) + bytes(64), "'a.list' has type 9, which is not read here"),
    "type": (header() + text("a.value") + struct.pack("<I", 77) + bytes(9), "'a.value' has type 77, which is not read"),
    "alignment": (
        header() + text("general.alignment") + struct.pack("<II", UINT32, 48),
        "'general.alignment' is 48, which is no power of two",
    ),
    "dimensions": (
        header(1, 0) + text("a.weight") + struct.pack("<I", 2**31) + bytes(64),
        "tensor 'a.weight' has 2147483648 dimensions, more than 4",
    ),
    "shape": (
        header(1, 0) + tensor([2**40, 2**40]) + bytes(64),
        "tensor 'a.weight' claims bytes 0 to 4,835,703,278,458,516,698,824,704, and 40 are there",
    ),
    "type of tensor": (header(1, 0) + tensor([2], kind=99) + bytes(64), "tensor 'a.weight' has type 99, which is not"),
    "offset": (
        header(1, 0) + tensor([2], offset=2**50) + bytes(64),
        "tensor 'a.weight' claims bytes 1,125,899,906,842,624 to 1,125,899,906,842,632, and 64 are there",
    ),
    "odd offset": (
        header(1, 0) + tensor([2], offset=5) + bytes(64),
        "tensor 'a.weight' begins at 5, no multiple of 32",
    ),
    "shared bytes": (
        header(3, 0) + 3 * tensor([16]) + bytes(96),
        "its tensors claim 192 bytes together, and 80 are there",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_is_compared_with_what_is_there(name: str, tmp_path: Path) -> None:
    written, sentence = CLAIMS[name]
    path = tmp_path / "a.gguf"
    path.write_bytes(written)
    with pytest.raises(DraftscopeError) as error:
        inspected(path)
    assert str(error.value).startswith(f"'{path}' is damaged or incomplete ({sentence}")
    assert str(error.value).endswith("); download it again.")


def test_more_entries_than_any_model_has_are_refused_though_they_are_there(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    with path.open("wb") as file:
        file.write(header() + array(UINT8, 10**8))
        file.truncate(file.tell() + 10**8)
    with pytest.raises(DraftscopeError, match="claims 100,000,000 entries, and at most 2,000,000 are read"):
        inspected(path)


def test_a_file_in_the_other_order_of_bytes_is_measured_too(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(b"GGUF" + struct.pack(">IQQ", 3, 0, 2**60))
    with pytest.raises(DraftscopeError, match="the number of keys claims 1,152,921,504,606,846,976 entries"):
        inspected(path)


def test_a_whole_file_passes_and_says_as_much_as_it_holds(small: Path) -> None:
    assert inspected(small).stored.total() == sum(
        parameter.numel() for parameter in AutoModelForCausalLM.from_pretrained(converted(small)).parameters()
    )


damages = st.one_of(
    st.tuples(st.just("cut"), st.integers(0, HEADER_BYTES), st.just(0)),
    st.tuples(st.just("flip"), st.integers(4, HEADER_BYTES), st.integers(0, 7)),
    st.tuples(st.just("claim"), st.integers(4, HEADER_BYTES), st.sampled_from([2**60, 10**8, 2**64 - 1, 2**31])),
)


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(damages, min_size=1, max_size=3))
def test_a_damaged_file_gets_one_sentence_or_is_read(
    small: Path, tmp_path: Path, damage: list[tuple[str, int, int]]
) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(damaged(small.read_bytes(), damage))
    sentence = sentence_of(inspected, path)
    assert not sentence or sentence.startswith(f"'{path}' ")


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.tuples(st.just("flip"), st.integers(4, HEADER_BYTES), st.integers(0, 7)))
def test_what_is_read_is_converted_or_refused(small: Path, tmp_path: Path, damage: tuple[str, int, int]) -> None:
    path = tmp_path / "damaged.gguf"
    path.write_bytes(damaged(small.read_bytes(), [damage]))
    sentence_of(converted, path)


def sentence_of(act: Callable[[Path], object], path: Path) -> str:
    """Why it was refused, in one line; empty if it was not. Any other error is the test's."""
    try:
        act(path)
    except DraftscopeError as error:
        return one_line(str(error))
    return ""


def one_line(sentence: str) -> str:
    assert "\n" not in sentence and sentence.endswith(".")
    return sentence


def damaged(data: bytes, damage: list[tuple[str, int, int]]) -> bytes:
    changed = bytearray(data)
    for kind, place, value in damage:
        if kind == "cut":
            del changed[place:]
        elif kind == "flip" and place < len(changed):
            changed[place] ^= 1 << value
        elif kind == "claim":
            changed[place : place + 8] = struct.pack("<Q", value)
    return bytes(changed)
