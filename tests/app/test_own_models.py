"""Models that a visitor brings: loaded in the engine process, refused in a sentence, absent where not allowed."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope_app.engine.config import Environment, Limits
from draftscope_app.engine.jobs import EngineStatus
from draftscope_app.engine.process import EngineProcess
from draftscope_app.engine.site import Site
from draftscope_app.engine.visitors import Visitors
from draftscope_app.page import page
from draftscope_app.page.runs import own_models
from tests.support.models import byte_tokenizer, random_llama
from tests.support.runs import PATIENCE_S, Seen, held, job, wait_loaded


@pytest.fixture(scope="module")
def others(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a visitor might name: a target, a draft, one in pickles, one damaged, one with code of its own."""
    root = tmp_path_factory.mktemp("others")
    for name, seed, layers in (
        ("big", 11, 3),
        ("small", 12, 1),
        ("pickled", 13, 2),
        ("broken", 14, 1),
        ("coded", 15, 1),
    ):
        random_llama(seed, 258, layers=layers).save_pretrained(root / name)
        byte_tokenizer().save_pretrained(root / name)
    pickled = root / "pickled"
    torch.save(random_llama(13, 258).state_dict(), pickled / "pytorch_model.bin")
    (pickled / "model.safetensors").unlink()
    weights = root / "broken" / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])
    config = (root / "coded" / "config.json").read_text()
    code = '"auto_map": {"AutoConfig": "own.Own", "AutoModelForCausalLM": "own.Own"}, "model_type": "own", '
    (root / "coded" / "config.json").write_text(
        config.replace("{", "{" + code, 1).replace('"model_type": "llama"', '"x": 1')
    )
    (root / "coded" / "own.py").write_text(f"open({str(root / 'ran')!r}, 'w')\n")
    return root


@pytest.fixture
def engine(engine: EngineProcess, pair_folders: tuple[Path, Path]) -> Iterator[EngineProcess]:
    """With the pair, before and after a test that loads other models."""
    status = wait_loaded(engine)
    assert status.phase == "ready" and status.sentence.startswith("target ")
    yield engine
    target, draft = map(str, pair_folders)
    if (engine.load.target, engine.load.draft) != (target, draft):
        wait_loaded(engine)
        engine.change(own_models.wanted(engine.load, target, draft, ""))
        assert wait_loaded(engine).phase == "ready"


def changed(engine: EngineProcess, folder: Path, target: str, draft: str = "") -> EngineStatus:
    named = [str(folder / name) if name else "" for name in (target, draft)]
    engine.change(own_models.wanted(engine.load, *named, ""))
    return wait_loaded(engine)


def decoding(engine: EngineProcess) -> set[str]:
    """Whose names the next run bears."""
    seen = Seen(engine.run(job())).done()
    assert not seen.sentences
    return {model["name"] for event in seen.events if event["kind"] == "run_start" for model in event["models"]}


# Where it is offered.


@pytest.mark.parametrize(
    ("variables", "host", "space", "lets"),
    [
        ({}, "127.0.0.1", "", True),
        ({}, "localhost", "", True),
        ({}, "0.0.0.0", "", False),
        ({}, "127.0.0.1", "me/space", False),
        ({"GRADIO_ROOT_PATH": "/behind/a/proxy"}, "127.0.0.1", "", False),
        ({"DRAFTSCOPE_LOAD_MODELS": "1"}, "0.0.0.0", "me/space", True),
        ({"DRAFTSCOPE_LOAD_MODELS": "0"}, "127.0.0.1", "", False),
    ],
)
def test_only_ones_own_machine_lets_load(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], host: str, space: str, lets: bool
) -> None:
    monkeypatch.setenv("SPACE_ID", space)
    assert Environment.read(variables).lets_load(host) is lets


@pytest.mark.parametrize("lets", [True, False])
def test_the_form_is_absent_where_it_is_not_allowed(lets: bool) -> None:
    admission: Any = SimpleNamespace(engine=SimpleNamespace(status=EngineStatus()), limits=Limits())

    site = Site(Environment.read({"DRAFTSCOPE_LOAD_MODELS": str(int(lets))}))

    async def built() -> dict[str, Any]:
        config: dict[str, Any] = page.build(admission, Visitors(), site).get_config_file()
        return config

    config = asyncio.run(built())  # without a running loop Gradio makes some and never closes them
    shown = {component["props"].get("elem_id") for component in config["components"]}
    own = {"ds-other-models", "ds-target", "ds-draft", "ds-revision", "ds-load-models"}
    assert shown & own == (own if lets else set())


# What is asked for.


def test_how_models_are_loaded_stays_the_servers() -> None:
    base = LoadSettings(
        "a", "b", "float32", "cpu", 2, heads=("eagle3:x",), trust_remote_code=True, allow_pickle=True, spare_cores=1
    )
    load = own_models.wanted(base, " me/big ", "", "v2")
    assert (load.target, load.draft, load.revision, load.heads) == ("me/big", None, "v2", ())
    assert not load.trust_remote_code and not load.allow_pickle
    assert (load.dtype, load.device, load.threads, load.spare_cores) == ("float32", "cpu", 2, 1)
    assert own_models.wanted(base, "", "", "").target == "embedded"  # whatever the server opens on
    with pytest.raises(DraftscopeError, match="revision = 'v2', but no target is named"):
        own_models.wanted(base, "", "me/small", "v2")


# What comes of it.


@pytest.mark.slow
def test_another_pair_takes_the_place_of_the_first(engine: EngineProcess, others: Path) -> None:
    assert decoding(engine) == {"target", "draft"}
    status = changed(engine, others, "big", "small")
    assert (status.phase, status.refused) == ("ready", "")
    assert status.sentence.startswith("big (3 × 32) + small (1 × 32), loaded in ")
    assert decoding(engine) == {"big", "small"}
    os.kill(engine._process.pid or 0, 9)  # a process that takes its place loads what was there last
    deadline = time.monotonic() + PATIENCE_S
    while "ended unexpectedly" not in engine.status.sentence and time.monotonic() < deadline:
        time.sleep(0.01)
    assert wait_loaded(engine).sentence.startswith("big ")


def test_a_target_alone_has_no_draft_model(engine: EngineProcess, others: Path) -> None:
    status = changed(engine, others, "big")
    able = {drafter.name for drafter in status.drafters if drafter.available}
    assert "ngram" in able and "draft" not in able


@pytest.mark.parametrize(
    ("target", "draft", "words"),
    [
        ("nowhere", "", "nowhere"),
        ("broken", "", "broken"),
        ("pickled", "", "pickled"),
        ("coded", "", "coded"),
        ("big", "broken", "broken"),
    ],
)
def test_what_cannot_be_loaded_is_one_sentence_and_the_pair_stays(
    engine: EngineProcess, others: Path, target: str, draft: str, words: str
) -> None:
    before = engine.status
    status = changed(engine, others, target, draft)
    assert (status.phase, status.sentence, status.drafters) == ("ready", before.sentence, before.drafters)
    assert words in status.refused and status.refused.endswith(".") and "\n" not in status.refused
    assert decoding(engine) == {"target", "draft"}
    assert not (others / "ran").exists()


def test_no_page_loads_a_pickle_even_where_the_server_was_started_with_one(engine: EngineProcess, others: Path) -> None:
    """The engine has models of the command line, which may name pickles; then a page asks for some."""
    started = replace(engine.load, target=str(others / "pickled"), draft=str(others / "small"), allow_pickle=True)
    engine.change(started)
    assert wait_loaded(engine).phase == "ready" and engine.load == started
    assert "pickled" in changed(engine, others, "pickled").refused
    assert decoding(engine) == {"pickled", "small"}


def test_nothing_is_loaded_while_somebody_decodes(engine: EngineProcess, others: Path) -> None:
    seen = Seen(engine.run(job(steps=1))).until(lambda s: s.states == ["running", "stepping"])
    with pytest.raises(DraftscopeError, match="Runs are being decoded or wait here"):
        changed(engine, others, "big")
    seen.answer.stop()
    seen.done()
    with held(engine):
        engine.change(own_models.wanted(engine.load, str(others / "big"), "", ""))
        with pytest.raises(DraftscopeError, match="being loaded already"):
            changed(engine, others, "small")
    assert wait_loaded(engine).sentence.startswith("big ")


def test_a_run_of_other_models_is_no_live_run_any_more() -> None:
    visitors = Visitors()
    visitors.of("a").shown.run = "r1"
    visitors.models_changed()
    assert visitors.of("a").shown.run == ""
