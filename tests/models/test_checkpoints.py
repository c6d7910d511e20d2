"""Loading: errors are one sentence, and are raised before anything is downloaded or run."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from huggingface_hub.errors import GatedRepoError, HfHubHTTPError, RepositoryNotFoundError, RevisionNotFoundError
from safetensors.torch import load_file, save_file
from transformers import BertConfig, GenerationConfig, T5Config

import draftscope
from draftscope import DraftscopeError
from draftscope.decode import load
from draftscope.models.files import hub, memory_needed
from draftscope.models.files.finite import not_finite
from draftscope.models.heads.head_files import read as read_head
from draftscope.models.loading import adapters
from draftscope.models.loading.checkpoints import (
    CheckpointOptions,
    end_of_text,
    find,
    load_model,
    refuse_other_vocabulary,
)
from draftscope.models.loading.converted import weights_of
from draftscope.models.loading.devices import pick_device_map
from draftscope.models.probe import probed
from tests.support.architectures import CASES, network
from tests.support.models import byte_tokenizer, letters, random_llama

HTTP = sys.modules[HfHubHTTPError.__bases__[0].__module__]  # the HTTP client of the hub's own client
HOW = CheckpointOptions(torch.float32, torch.device("cpu"))


def refused(*args: Any, **kwargs: Any) -> str:
    with pytest.raises(DraftscopeError) as error:
        draftscope.load(*args, **kwargs)
    return str(error.value)


# Architectures from files.


@pytest.mark.parametrize("name", ["Gemma 2", "Gemma 3", "GPT-2", "Mixtral", "Phi-3"])
def test_a_saved_model_loads_with_the_attention_it_supports(name: str, tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == name)
    network(case).save_pretrained(tmp_path)
    model = load_model(find(tmp_path, HOW), HOW)
    assert model.trees and model.digest
    assert model.network.config._attn_implementation == ("eager" if name == "Gemma 2" else "sdpa")


def test_a_pair_with_different_padding_loads_and_drafts(tmp_path: Path) -> None:
    for name, rows in (("target", 272), ("draft", 264)):
        random_llama(5, rows).save_pretrained(tmp_path / name)
        byte_tokenizer().save_pretrained(tmp_path / name)
    pair = draftscope.load(tmp_path / "target", tmp_path / "draft", dtype="float32")
    for drafter in ("draft", "topk-tree"):
        assert pair.decode("ab", drafter, max_new_tokens=12).metrics.num_draft_tokens > 0


def test_encoders_are_refused(tmp_path: Path) -> None:
    for kind, config in (("bert", BertConfig()), ("t5", T5Config())):  # refused before its weights are read
        config.save_pretrained(tmp_path / kind)
        save_file({"weight": torch.ones(1)}, tmp_path / kind / "model.safetensors")
        sentence = f"is a '{kind}', not a decoder-only language model; choose another model."
        assert sentence in refused(tmp_path / kind)


def test_a_checkpoint_that_lacks_weights_is_refused(tmp_path: Path) -> None:
    """transformers would initialise them randomly and only log it."""
    random_llama(1, 258).model.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    assert "lacks 1 weights, for example 'lm_head.weight', which would be random" in refused(tmp_path)


@pytest.mark.parametrize("part", ["target", "draft"])
@pytest.mark.parametrize("value", [float("nan"), float("-inf"), 1e39])
def test_a_checkpoint_with_weights_that_are_no_numbers_is_refused(part: str, value: float, tmp_path: Path) -> None:
    """Also one that has a number in the file and none in the dtype in which it is loaded."""
    for name in ("target", "draft"):
        random_llama(1, 258).save_pretrained(tmp_path / name)
        byte_tokenizer().save_pretrained(tmp_path / name)
    file, name = tmp_path / part / "model.safetensors", "model.layers.1.mlp.down_proj.weight"
    tensors = load_file(file)
    tensors[name] = tensors[name].double() if value == 1e39 else tensors[name]
    tensors[name][3, 7] = value
    save_file(tensors, file, metadata={"format": "pt"})
    said = refused(tmp_path / "target", tmp_path / "draft", dtype="float32")
    assert (
        f"'{tmp_path / part}' has NaN or infinity in its weight '{name}' in float32; download or write it again."
        in said
    )


def test_large_weights_are_numbers(tmp_path: Path) -> None:
    """Their sum is none in float16."""
    large = torch.full((300, 300), 60000.0, dtype=torch.float16)
    assert not not_finite([("large", large), ("levels", torch.ones(2, dtype=torch.int8))])
    large[7, 7] = torch.inf
    said = not_finite([("small", torch.ones(3)), ("large", large)])
    assert said.startswith("has NaN or infinity in its weight 'large' in float16; ") and said.endswith(
        "dtype 'float32'."
    )


def test_a_recurrent_checkpoint_is_refused_by_its_configuration(tmp_path: Path) -> None:
    next(network(case) for case in CASES if case.name == "Mamba").save_pretrained(tmp_path)
    assert "cannot roll back after a rejection" in refused(tmp_path)


def test_a_model_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    random_llama(1, 258).save_pretrained(tmp_path)
    assert "has no readable tokenizer; put its tokenizer.json beside the model." in refused(tmp_path)


# Code and pickles.


def test_remote_code_is_not_run_by_default(tmp_path: Path) -> None:
    config = {"model_type": "odd", "auto_map": {"AutoConfig": "odd.Odd", "AutoModelForCausalLM": "odd.OddLM"}}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "odd.py").write_text("raise SystemExit('it ran')\n")
    random_llama(1, 8, layers=1, hidden=16).save_pretrained(tmp_path / "weights")
    (tmp_path / "weights" / "model.safetensors").rename(tmp_path / "model.safetensors")
    assert "runs its own code from the hub; read it, and use --trust-remote-code" in refused(tmp_path)


def test_pickles_are_read_only_when_allowed(tmp_path: Path) -> None:
    model = random_llama(1, 258)
    model.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    torch.save(model.state_dict(), tmp_path / "pytorch_model.bin")
    assert "'pytorch_model.bin' would be read from a pickle, which can run code" in refused(tmp_path)
    alone = draftscope.load(tmp_path, dtype="float32", allow_pickle=True)
    torch.testing.assert_close(alone.target.network.lm_head.weight, model.lm_head.weight)


def test_a_package_that_quantisation_needs_is_named(tmp_path: Path) -> None:
    random_llama(1, 258, layers=1, hidden=16).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    path = tmp_path / "config.json"
    quantized = {"quant_method": "bitsandbytes", "load_in_4bit": True}
    path.write_text(json.dumps(json.loads(path.read_text()) | {"quantization_config": quantized}))
    message = refused(tmp_path)
    assert "needs a package that is not installed" in message and "\n" not in message


@pytest.mark.parametrize(
    ("name", "device", "sentence"),
    [
        ("everywhere", "auto", "device_map = 'everywhere': choose from auto, balanced"),
        ("auto", "cpu", "exclude each other"),
    ],
)
def test_a_wrong_device_map_is_refused_in_one_sentence(name: str, device: str, sentence: str) -> None:
    with pytest.raises(DraftscopeError, match=sentence):
        pick_device_map(name, device)


# The hub.


class Hub:
    """Answers as the hub would, or raises `error`."""

    def __init__(
        self, error: Exception | None = None, files: tuple[str, ...] = (), stored: int = 0, size: int | None = None
    ) -> None:
        self.error, self.files, self.stored, self.size = error, files, stored, size

    def model_info(self, *_: object, **__: object) -> object:
        if self.error is not None:
            raise self.error
        siblings = [type("File", (), {"rfilename": name, "size": self.size}) for name in self.files]
        return type(
            "Info", (), {"siblings": siblings, "safetensors": type("T", (), {"parameters": {"BF16": self.stored}})}
        )


def answer(kind: type[Exception]) -> Exception:
    return kind("a message", response=httpx.Response(404, request=httpx.Request("GET", "https://huggingface.co")))


@pytest.mark.parametrize(
    ("found", "sentence"),
    [
        (Hub(answer(GatedRepoError)), "is gated: accept its licence at https://huggingface.co/some/one, then log in"),
        (Hub(answer(RepositoryNotFoundError)), "There is no model 'some/one' on the hub, or it is private"),
        (Hub(answer(RevisionNotFoundError)), "'some/one' has no revision 'v9'"),
        (Hub(TimeoutError("slow")), "not in the hub's cache, and huggingface.co does not answer"),
        (Hub(files=("config.json", "pytorch_model.bin")), "has no safetensors"),
        (Hub(files=("config.json",), size=10**9), "'some/one/config.json' has 954 MiB, and at most 16 MiB are read"),
    ],
)
def test_the_hubs_errors_become_one_sentence(monkeypatch: pytest.MonkeyPatch, found: Hub, sentence: str) -> None:
    monkeypatch.setattr(hub, "HfApi", lambda: found)
    assert sentence in refused("some/one", revision="v9")


@pytest.mark.parametrize(
    ("files", "sentence"),
    [
        (("adapter_config.json", "adapter_model.safetensors"), "is an adapter (LoRA) of 'some/base', not a model"),
        (("adapter_config.json", "config.json", "adapter_model.bin"), "is an adapter (LoRA) of 'some/base'"),
        (("config.json", "small-q4.gguf"), "has no safetensors, but GGUF files; name one of them as a file"),
        (("config.json", "README.md"), "has no *.safetensors weights"),
        (("config.json", "model-00001-of-00002.safetensors"), "no 'model.safetensors.index.json'"),
    ],
)
def test_what_the_hub_has_instead_of_weights_is_named_before_it_is_downloaded(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, files: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "adapter_config.json").write_text('{"base_model_name_or_path": "some/base"}')
    monkeypatch.setattr(hub, "HfApi", lambda: Hub(files=files))
    monkeypatch.setattr(hub, "file", lambda _, name, *__: tmp_path / name)
    assert sentence in refused("some/one")


@pytest.mark.parametrize("written", ["[]", "{", '{"base_model_name_or_path": 5}', "[" * 100_000])
def test_an_adapter_that_names_no_model_is_still_one(tmp_path: Path, written: str) -> None:
    (tmp_path / "adapter_config.json").write_text(written)
    assert f"'{tmp_path}' is an adapter (LoRA), not a model" in refused(tmp_path)


def test_an_adapter_beside_weights_is_refused_where_peft_would_apply_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    random_llama(1, 258).save_pretrained(tmp_path)
    (tmp_path / "adapter_config.json").write_text("{}")
    monkeypatch.setattr(adapters, "is_peft_available", lambda: True)
    assert "or move adapter_config.json elsewhere to load the weights without it." in refused(tmp_path)


@pytest.mark.parametrize(
    "error",
    [
        HTTP.ConnectError("no route"),
        HTTP.ReadTimeout("slow"),
        OSError("no name"),
        json.JSONDecodeError("<html>", "", 0),
    ],
    ids=lambda error: type(error).__name__,
)
def test_a_hub_that_does_not_answer_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    monkeypatch.setattr(hub, "HfApi", lambda: Hub(error))
    with caplog.at_level(logging.INFO, "draftscope"):
        assert hub.listing("some/one", None) is None
    assert caplog.records[0].message == "The hub did not answer for 'some/one'."
    assert caplog.records[0].exc_info is not None


def test_a_bug_is_not_an_unreachable_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    """Any exception at all used to send the loader to the cache."""
    monkeypatch.setattr(hub, "HfApi", lambda: Hub(TypeError("wrong argument")))
    with pytest.raises(TypeError, match="wrong argument"):
        draftscope.load("some/one")


def test_an_unreachable_hub_is_reported_at_once(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The hub's own client would retry for half a minute."""
    asked: list[Hub] = []

    def api() -> Hub:
        asked.append(Hub(OSError("Name or service not known")))
        return asked[-1]

    monkeypatch.setattr(hub, "HfApi", api)
    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("waited before another try"))
    assert "\n" not in refused("nobody/no-such-model")
    assert len(asked) == 1
    assert capfd.readouterr() == ("", "")


def test_each_model_is_loaded_at_its_own_revision(monkeypatch: pytest.MonkeyPatch) -> None:
    requested: dict[str, str | None] = {}
    monkeypatch.setattr(load, "load_tokenizer", lambda _: letters(5))
    monkeypatch.setattr(load, "load_model", lambda *_: probed(random_llama(1, 5), "any"))
    monkeypatch.setattr(load, "find", lambda name, _, revision=None: requested.update({name: revision}))
    draftscope.load("some/one", "some/draft", revision="v1", draft_revision="v2")
    assert requested == {"some/one": "v1", "some/draft": "v2"}


def test_a_revision_of_a_folder_or_of_no_draft_is_refused(tmp_path: Path) -> None:
    message = refused(tmp_path, revision="v1")
    assert f"revision = 'v1': '{tmp_path}' is a folder without revisions; leave it out." in message
    assert "draft_revision = 'v2', but no draft is named" in refused(tmp_path, draft_revision="v2")


@pytest.mark.parametrize("name", ["two words", "a/b/c"])
def test_an_invalid_hub_id_is_refused(name: str) -> None:
    assert f"'{name}' is neither a folder nor a hub id" in refused(name)


# Memory.


def test_a_model_that_does_not_fit_in_memory_is_refused_before_loading(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    network_ = random_llama(1, 258)
    network_.save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    stored = memory_needed.stored_in([tmp_path / "model.safetensors"])
    assert stored == Counter({"F32": sum(p.numel() for p in network_.parameters())})
    assert memory_needed.weight_bytes(stored, torch.bfloat16, quantized=False) == 2 * stored["F32"]
    monkeypatch.setattr(memory_needed, "free_bytes", lambda _: 1000)
    message = refused(tmp_path, dtype="float32")
    assert "GB for its weights (in float32) and 0.0 GB for a cache of 2,048 tokens" in message
    assert "but this machine has 0.0 GB" in message


def test_memory_is_checked_before_a_model_is_downloaded(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from draftscope.models.loading import checkpoints

    random_llama(1, 8).save_pretrained(tmp_path)
    downloaded: list[object] = []
    config = checkpoints.loaded(checkpoints.AutoConfig, tmp_path)
    monkeypatch.setattr(hub, "HfApi", lambda: Hub(files=("config.json", "model.safetensors"), stored=8_030_261_248))
    monkeypatch.setattr(hub, "file", lambda *_: None)
    monkeypatch.setattr(checkpoints, "loaded", lambda kind, *_, **__: downloaded.append(kind) or config)
    monkeypatch.setattr(memory_needed, "free_bytes", lambda _: 8 * 10**9)
    assert "'meta/big' needs 16.1 GB for its weights (in bfloat16)" in refused("meta/big", dtype="bfloat16")
    assert downloaded == [checkpoints.AutoConfig, checkpoints.AutoTokenizer]


def test_a_cache_that_does_not_fit_is_refused_before_it_is_allocated(monkeypatch: pytest.MonkeyPatch) -> None:
    model = probed(random_llama(1, 8), "small")
    assert model._slot_bytes == 2 * 2 * 2 * 8 * 4  # keys and values, layers, KV heads, width, bytes
    monkeypatch.setattr(memory_needed, "free_bytes", lambda _: 10**9)
    model.cache(1, 1_000_000)
    with pytest.raises(DraftscopeError, match="for a cache of 1 x 10,000,000 tokens"):
        model.cache(1, 10_000_000)


def test_free_memory_is_plausible() -> None:
    assert memory_needed.free_bytes(torch.device("cpu")) == pytest.approx(10**10, rel=100)


# Tokens.


def test_eos_ids_of_config_and_tokenizer_are_joined() -> None:
    model = probed(random_llama(1, 258), "m")
    model.network.generation_config = GenerationConfig(eos_token_id=[5, 9])
    assert end_of_text(model, byte_tokenizer()) == {0, 5, 9}
    model.network.generation_config = None
    assert end_of_text(model, byte_tokenizer()) == {0}


def test_vocabularies_must_agree_on_common_tokens() -> None:
    refuse_other_vocabulary(letters(5), letters(5))
    refuse_other_vocabulary(letters(7), letters(5))  # the longer one adds tokens at ids that the other does not use
    refuse_other_vocabulary(letters(5), letters(7))
    other = letters(5)
    other.get_vocab = lambda: {"b": 0, "a": 1}  # type: ignore[method-assign]
    with pytest.raises(DraftscopeError, match="2 tokens differ, for example 'a'"):
        refuse_other_vocabulary(letters(2), other)


def test_checkpoint_options_are_frozen() -> None:
    with pytest.raises(AttributeError):
        HOW.dtype = torch.float16  # type: ignore[misc]
    assert replace(HOW, progress=True).progress


# Files that lead elsewhere, or never end.


def test_an_index_may_not_name_a_pickle_or_a_file_elsewhere(tmp_path: Path) -> None:
    """A pickle outside the folder was loaded, without --allow-pickle."""
    folder = tmp_path / "model"
    random_llama(5, 258).save_pretrained(folder)
    byte_tokenizer().save_pretrained(folder)
    whole = dict.fromkeys(random_llama(5, 258).state_dict(), "model.safetensors")
    torch.save(random_llama(6, 258).state_dict(), tmp_path / "evil.bin")
    index = folder / "model.safetensors.index.json"
    for name in ("../evil.bin", "pytorch_model.bin", "/elsewhere/evil.bin", "../model/model.safetensors", "x/y"):
        index.write_text(json.dumps({"metadata": {}, "weight_map": {**whole, "lm_head.weight": name}}))
        assert f"names '{name}', which is no safetensors file in its folder" in refused(folder)
    for content in ("[]", "{}", "hello", '{"weight_map": [1]}', "[" * 100_000):
        index.write_text(content)
        assert "is no index of weights" in refused(folder)
    index.write_text(json.dumps({"metadata": {}, "weight_map": whole}))
    find(folder, HOW)


@pytest.mark.parametrize("name", ["model.safetensors", "tokenizer.json", "generation_config.json", "converted.json"])
def test_a_pipe_in_a_folder_is_refused_before_it_is_read(tmp_path: Path, name: str) -> None:
    """It hung the engine process, and everybody's runs with it."""
    random_llama(5, 258).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    (tmp_path / name).unlink(missing_ok=True)
    os.mkfifo(tmp_path / name)
    assert f"'{name}' in '{tmp_path}' is a pipe or a device" in refused(tmp_path)
    with pytest.raises(DraftscopeError, match="is a pipe or a device"):
        read_head(str(tmp_path))


def test_a_pipe_that_is_called_a_gguf_file_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "model.gguf")
    assert "is a pipe or a device" in refused(tmp_path / "model.gguf")


def test_an_index_on_the_hub_is_looked_at_before_its_weights_are_downloaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    index = tmp_path / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"a": "model.bin"}}))
    files = ("config.json", "model-1.safetensors", "model.bin", index.name)
    monkeypatch.setattr(hub, "listing", lambda repo, revision: hub.Listing(files))
    monkeypatch.setattr(hub, "hf_hub_download", lambda repo, name, revision: str(tmp_path / name))
    with pytest.raises(DraftscopeError, match=r"names 'model\.bin', which is no safetensors file"):
        find("owner/name", HOW)


# Claims.


@pytest.mark.parametrize("name", ["config.json", "tokenizer_config.json", "tokenizer.json", "chat_template.jinja"])
def test_a_file_that_is_larger_than_any_real_one_is_refused_before_it_is_read(tmp_path: Path, name: str) -> None:
    random_llama(5, 258).save_pretrained(tmp_path)
    byte_tokenizer().save_pretrained(tmp_path)
    with (tmp_path / name).open("wb") as file:
        file.truncate(65 * 2**20)
    most = 64 if name == "tokenizer.json" else 16
    assert f"{name}' has 65 MiB, and at most {most} MiB are read of such a file" in refused(tmp_path)


@pytest.mark.parametrize("place", ["", "text_config"])
@pytest.mark.parametrize("key", ["num_hidden_layers", "n_layer", "num_local_experts"])
def test_more_layers_than_any_model_has_are_refused_before_they_are_built(tmp_path: Path, key: str, place: str) -> None:
    random_llama(5, 258).save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {place: {key: 10**9}} if place else {key: 10**9}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert f"claims 1,000,000,000 in '{key}', and at most 2,048 are built" in refused(tmp_path)


def of_header(header: object, data: int = 8) -> bytes:
    text = json.dumps(header).encode()
    return len(text).to_bytes(8, "little") + text + bytes(data)


@pytest.mark.parametrize(
    "written",
    [
        (2**60).to_bytes(8, "little") + b"{}",
        (10**8 + 1).to_bytes(8, "little") + b"{}",
        of_header({"a": {"dtype": "F32", "shape": [2**40], "data_offsets": [0, 2**42]}}),
        of_header({"a": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 8]}}),
        of_header({"a": {"dtype": "F32", "shape": ["b"], "data_offsets": [0, 8]}}),
        of_header([]),
        b"",
    ],
)  # fmt: skip
def test_safetensors_are_believed_no_further_than_their_size(tmp_path: Path, written: bytes) -> None:
    random_llama(5, 258).save_pretrained(tmp_path)
    (tmp_path / "model.safetensors").write_bytes(written)
    assert f"The weights in '{tmp_path}' are damaged (Error while deserializing header: " in refused(tmp_path)


@pytest.mark.parametrize("record", ["[]", "5", "[" * 100_000, '{"weights": "4-bit"}', "{}"])
def test_a_record_of_a_conversion_that_none_wrote_is_no_error(tmp_path: Path, record: str) -> None:
    (tmp_path / "converted.json").write_text(record)
    assert weights_of(tmp_path) == ("4-bit" if "weights" in record else "")
