"""The Space's description, its folder and its upload; what a server reads from its environment; who may run."""

from __future__ import annotations

import gzip
import inspect
import json
import re
import shutil
import threading
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import SpaceCardData, SpaceHardware
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from draftscope.base.errors import DraftscopeError
from draftscope.base.load_settings import LoadSettings
from draftscope.models.loading.known import known
from draftscope.trace import files as tracefile
from draftscope_app.cli.main import main
from draftscope_app.engine import config as environment
from draftscope_app.engine.admission import Admission
from draftscope_app.engine.answers import Answer
from draftscope_app.engine.config import Environment, Limits, rows
from draftscope_app.engine.jobs import Asker, Command, EngineStatus, Job
from draftscope_app.engine.run_job import RunJob
from draftscope_app.engine.visitors import Visitors
from draftscope_app.lab.space import entry
from draftscope_app.lab.space import folder as space_folder
from draftscope_app.lab.space.folder import build, read

ROOT = Path(__file__).resolve().parents[3]
TOKEN = "hf_not_to_be_seen"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A small checkout: the real description over a few bytes of everything that travels."""
    folder = tmp_path / "checkout"
    for name in ("space.yaml", "app/space/README.md", "app/space/static.md", "app/space/requirements.txt"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(ROOT / name, folder / name)
    for name in read(ROOT).files:
        path = folder / name if (ROOT / name).is_file() else folder / name / "file.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            path.write_text("content\n")
    return folder


def changed(checkout: Path, **values: Any) -> Path:
    """The same checkout, whose description says something else."""
    path = checkout / "space.yaml"
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | values))
    return checkout


def front_matter(folder: Path) -> dict[str, Any]:
    _, front, _ = (folder / "README.md").read_text().split("---\n", 2)
    found: dict[str, Any] = yaml.safe_load(front)
    return found


# The folder.


def test_the_folder_is_a_space(tmp_path: Path) -> None:
    folder = tmp_path / "space"
    build(folder, ROOT, "paid")
    front = front_matter(folder)
    assert front["suggested_hardware"] == "cpu-basic"
    assert (front["sdk"], front["app_file"], front["python_version"]) == ("gradio", "app/start_server.py", "3.12")
    assert (folder / front["app_file"]).is_file()
    assert sum(path.stat().st_size for path in folder.rglob("*")) < 150 * 10**6
    assert {path.name for path in (folder / "assets" / "models").iterdir()} >= {"llama-draftscope-15m"}
    assert not list(folder.rglob("__pycache__"))


def test_without_a_target_it_is_static_and_free(tmp_path: Path) -> None:
    assert build(tmp_path / "space", ROOT).hardware is None
    front = front_matter(tmp_path / "space")
    assert (front["sdk"], front["app_file"]) == ("static", "index.html")
    assert "suggested_hardware" not in front
    assert (tmp_path / "space" / "index.html").is_file()
    assert sum(path.stat().st_size for path in (tmp_path / "space").rglob("*")) < 8 * 10**6  # with all that is shipped
    assert not (tmp_path / "space" / "requirements.txt").exists()


@pytest.mark.parametrize(
    ("on", "hardware", "wanted"),
    [("zerogpu", None, "torch==2.11.*"), ("paid", "t4-small", "torch>=2.11,<2.14"), ("paid", "cpu-upgrade", None)],
)
def test_a_gpu_gets_its_own_torch(
    checkout: Path, tmp_path: Path, on: str, hardware: str | None, wanted: str | None
) -> None:
    """Without the index of builds for CPUs. Nothing else differs."""
    target = build(tmp_path / "space", checkout, on, hardware)
    lines = (tmp_path / "space" / "requirements.txt").read_text().splitlines()
    given = (ROOT / "app/space/requirements.txt").read_text().splitlines()
    left = set(given) - set(lines)
    assert left == ({"--extra-index-url https://download.pytorch.org/whl/cpu"} if wanted else set()) | (
        {"torch>=2.11,<2.14"} if on == "zerogpu" else set()
    )
    assert wanted is None or wanted in lines
    assert front_matter(tmp_path / "space")["suggested_hardware"] == target.hardware == (hardware or "zero-a10g")


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--on", "moon"], "'moon' is no target; choose static, zerogpu, paid."),
        (["--hardware", "t4-small"], "--hardware goes with --on paid; 'static' has its own."),
        (["--on", "paid", "--hardware", "abacus"], "'abacus' is no hardware of the hub; choose cpu-basic, "),
    ],
)
def test_a_target_that_is_none_is_one_sentence(
    checkout: Path, tmp_path: Path, words: list[str], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["space", "build", str(tmp_path / "space"), *words, "--checkout", str(checkout)]) == 2
    assert sentence in capsys.readouterr().err


def test_targets_say_what_they_cost_and_can_do(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["space", "targets"]) == 0
    said = " ".join(capsys.readouterr().out.split())
    for name, target in read(ROOT).targets.items():
        assert name in said
        assert target.costs.split()[0] in said


@pytest.mark.parametrize("on", list(read(ROOT).targets))
def test_the_front_matter_has_what_the_platform_reads(
    on: str, checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A preloaded model has the files that loading looks for. The pages of a static one are built above."""
    monkeypatch.setattr(space_folder, "_build_site", lambda _: None)
    target = build(tmp_path / "space", checkout, on)
    front = front_matter(tmp_path / "space")
    others = {"emoji", "colorFrom", "colorTo", "short_description", "suggested_hardware", "preload_from_hub"}
    assert set(front) <= {*inspect.signature(SpaceCardData).parameters} | others
    assert len(front["short_description"]) <= 60  # the platform's limit
    assert set(read(ROOT).environment) <= {name for name, _, _ in rows()}
    if target.hardware is None:
        return
    assert front["suggested_hardware"] in [hardware.value for hardware in SpaceHardware]
    model = known("smollm2")
    assert model is not None
    assert front["preload_from_hub"] == [f"{model.repository} {','.join(model.files)}"]


def test_requirements_are_the_projects_in_tested_versions() -> None:
    lines = (ROOT / "app/space/requirements.txt").read_text().splitlines()
    found = {need.name: need for need in map(Requirement, (line for line in lines if line[0] not in "#-"))}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    texts = (*project["dependencies"], *project["optional-dependencies"]["app"], "spaces>=0.40")
    needed = {need.name: need for need in map(Requirement, texts)}
    assert set(found) == set(needed)
    tested = dict(line.split("==") for line in (ROOT / "tests/constraints.txt").read_text().split() if "==" in line)
    tested = {canonicalize_name(name): version for name, version in tested.items()}
    for name, need in found.items():
        assert tested[name] in need.specifier, name
        assert need.specifier == needed[name].specifier or name in {"torch", "transformers", "gradio"}, name
    assert found["gradio"].extras == {"mcp"}
    assert str(found["gradio"].specifier) == f"=={read(ROOT).targets['paid'].front['sdk_version']}"


def test_every_asset_travels_or_is_known_to_stay() -> None:
    stay = {"assets/screenshot.png", "assets/training_prompts.json"}
    assert {f"assets/{path.name}" for path in (ROOT / "assets").iterdir()} == {*assets()} | stay


def test_a_wheel_has_the_assets_that_code_reads_and_no_others() -> None:
    wheel = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]["targets"]["wheel"]
    names = {"assets/training_prompts.json", *assets()} - {"assets/models"}  # of which the hook packs some
    assert wheel["force-include"] == {name: f"draftscope/{name}" for name in names}


def assets() -> list[str]:
    """Those that travel with a Space."""
    return [name for name in read(ROOT).files if name.startswith("assets/")]


def test_the_image_is_sent_what_a_space_is_built_from() -> None:
    lines = (ROOT / "app" / "Dockerfile.dockerignore").read_text().split()
    sent = [line[1:] for line in lines if line.startswith("!")]
    assert lines[0] == "*"
    for name in (*read(ROOT).files, "app/space/requirements.txt"):
        assert any(name == each or name.startswith(f"{each}/") for each in sent), name
        assert not any(name == line or name.startswith(f"{line}/") for line in lines), name


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"files": ["assets/nothing"]}, "assets/nothing'); restore that file"),
        ({"files": 5}, "files: Input should be a valid tuple"),
        ({"targets": 5}, "targets: Input should be a valid dictionary"),
    ],
)
def test_a_description_that_cannot_be_is_one_sentence(
    checkout: Path, tmp_path: Path, change: dict[str, Any], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(
        ["space", "build", str(tmp_path / "space"), "--on", "paid", "--checkout", str(changed(checkout, **change))]
    )
    said = capsys.readouterr().err
    assert (code, said.count("\n")) == (2, 1)
    assert sentence in said


def test_folders_that_cannot_be_used_are_one_sentence(
    checkout: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine.txt").write_text("precious")
    (tmp_path / "file").write_text("")
    for words, sentence in (
        (["build", str(tmp_path / "full"), "--checkout", str(checkout)], "is not empty; name a new folder"),
        (["build", str(tmp_path / "file"), "--checkout", str(checkout)], "name another folder"),
        (["build", str(tmp_path / "new"), "--checkout", str(tmp_path)], "name a checkout of Draftscope"),
    ):
        assert main(["space", *words]) == 2
        assert sentence in capsys.readouterr().err
    assert [path.name for path in (tmp_path / "full").iterdir()] == ["mine.txt"]


# The hub, played by a small server on the loopback.


@dataclass
class Hub:
    """What it answers at `url`, and what it was asked. `taken` names exist."""

    url: str = ""
    token: str = TOKEN
    writes: bool = True
    taken: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)
    files: dict[str, bytes] = field(default_factory=dict)

    def answer(self, path: str, token: str, body: bytes) -> tuple[int, Any]:
        self.asked.append(path)
        if token != f"Bearer {self.token}":
            return 401, {"error": "Invalid credentials in Authorization header"}
        if path.endswith("/whoami-v2"):
            return 200, {"name": "owner"}
        if path.endswith("/repos/create"):
            return self.create(json.loads(body))
        if path.endswith("/validate-yaml"):
            return 200, {"warnings": [], "errors": []}
        if "/preupload/" in path:
            asked = json.loads(body)["files"]
            return 200, {"files": [{"path": f["path"], "uploadMode": "regular", "shouldIgnore": False} for f in asked]}
        if "/commit/" in path:
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[line["value"]["path"]] = line["value"]["content"]
            return 200, {
                "commitUrl": f"{self.url}/spaces/owner/demo/commit/1",
                "commitOid": "1",
                "pullRequestUrl": None,
            }
        return 404, {"error": "not found"}

    def create(self, wish: dict[str, Any]) -> tuple[int, Any]:
        name = f"{wish.get('organization') or 'owner'}/{wish['name']}"
        if not self.writes:
            return 403, {"error": "Forbidden"}
        if name in self.taken:
            return 409, {"error": "You already created this space repo", "url": f"{self.url}/spaces/{name}"}
        return 200, {"url": f"{self.url}/spaces/{name}", "name": name}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    played = Hub()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            status, answer = played.answer(self.path, self.headers.get("authorization", ""), body)
            text = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(text)))
            self.end_headers()
            self.wfile.write(text)

        do_GET = do_POST  # noqa: N815

        def log_message(self, *_: object) -> None: ...

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    played.url = f"http://127.0.0.1:{server.server_port}"
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", played.url)
    yield played
    server.shutdown()
    server.server_close()
    thread.join()


def push(checkout: Path, *words: str) -> int:
    return main(["space", "push", "--on", "paid", "--checkout", str(checkout), *words])


def test_without_yes_nothing_leaves(
    hub: Hub, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert push(checkout, "owner/demo") == 0
    assert re.match(
        r"Dry run: a Space for cpu-basic would go to 'owner/demo'; it costs a paid plan.*--yes", capsys.readouterr().out
    )
    assert hub.asked == []


def test_a_push_uploads_what_was_rendered(
    hub: Hub, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert push(checkout, "owner/demo", "--yes") == 0, (capsys.readouterr().err, hub.asked)
    said = capsys.readouterr()
    assert "is at http" in said.out
    assert {"README.md", "requirements.txt", "app/start_server.py", "space.yaml"} <= set(hub.files)
    assert TOKEN not in said.out + said.err


def test_what_the_hub_refuses_is_one_sentence(
    hub: Hub, checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refused(*words: str) -> str:
        assert push(checkout, "owner/demo", "--yes", *words) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert TOKEN not in said
        return said

    monkeypatch.delenv("HF_TOKEN", raising=False)
    assert "HF_TOKEN is not set" in refused()
    monkeypatch.setenv("HF_TOKEN", "hf_wrong")
    assert "does not know the token" in refused()
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    hub.taken.add("owner/demo")
    assert "'owner/demo' exists already; choose another name, or upload into it with --update" in refused()
    hub.taken.clear()
    hub.writes = False
    assert "has no write access to Spaces of 'owner'" in refused()
    assert hub.files == {}


@pytest.mark.parametrize("name", ["demo", "a//b", "own er/demo", "owner/-demo", "owner/demo.git"])
def test_a_name_that_cannot_be_is_one_sentence(
    name: str, hub: Hub, checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert push(checkout, name) == 2
    assert name in capsys.readouterr().err
    assert hub.asked == []


def test_a_hub_out_of_reach_is_one_sentence(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    monkeypatch.setattr("huggingface_hub.constants.ENDPOINT", "http://127.0.0.1:9")
    assert push(checkout, "owner/demo", "--yes") == 2
    assert "The hub cannot be reached" in capsys.readouterr().err


# The environment.


def test_the_environment_is_read_and_the_models_with_it() -> None:
    read_ = Environment.read(
        {"GRADIO_SERVER_PORT": "81", "DRAFTSCOPE_HEADS": "mtp:a, medusa:b", "DRAFTSCOPE_THREADS": "", "HOME": "x"}
    )
    assert (read_.port, read_.host, read_.load) == (81, "0.0.0.0", LoadSettings(heads=("mtp:a", "medusa:b")))
    assert read_.limits == Limits()


@pytest.mark.parametrize(
    ("name", "value", "remedy"),
    [
        ("GRADIO_SERVER_PORT", "eighty", "should be a valid integer"),
        ("DRAFTSCOPE_MAX_RUNS", "0", "should be greater than or equal to 1"),
        ("DRAFTSCOPE_LOG", "loud", "should be 'json' or 'off'"),
    ],
)
def test_a_variable_out_of_range_is_one_sentence(name: str, value: str, remedy: str) -> None:
    with pytest.raises(DraftscopeError, match=re.escape(f"{name} = '{value}': {remedy}")):
        Environment.read({name: value})


def test_every_variable_of_the_sources_is_in_the_table() -> None:
    told = {name for name, _, _ in environment.rows()}
    sources = [path for folder in ("engine/draftscope", "app") for path in (ROOT / folder).rglob("*.py")]
    used = {name for path in sources for name in re.findall(r"\"(DRAFTSCOPE_[A-Z_]+)\"", path.read_text())}
    assert used <= told


# Who may run.


class NoEngine:
    """An engine that only counts."""

    def __init__(self) -> None:
        self.status, self.jobs = EngineStatus("ready", "stand-in"), list[Job]()

    def __len__(self) -> int:
        return len(self.jobs)

    silent = ""

    def run(self, job: Job, log: Any, asker: Asker) -> Answer:
        self.jobs.append(job)
        return Answer(self, job, log, asker)  # type: ignore[arg-type]

    def send(self, command: Command) -> None:
        """Nobody obeys."""


def admitted(admission: Admission, job: RunJob, *others: Any, **more: Any) -> Answer:
    return admission.admit({}, lambda _: job, *others, **more)


class Older:
    stopped = False

    def stop(self) -> None:
        self.stopped = True


def test_one_run_more_than_the_cap_is_refused_but_not_ones_own() -> None:
    admission = Admission(NoEngine(), Limits(max_runs=2))  # type: ignore[arg-type]
    older = Older()
    for name in ("r1", "r2"):
        admitted(admission, RunJob(id=name, prompt="a"))
    with pytest.raises(DraftscopeError, match="2 runs are decoded or waiting here"):
        admitted(admission, RunJob(id="r3", prompt="a"))
    assert not older.stopped
    admitted(admission, RunJob(id="r4", prompt="a"), older)  # type: ignore[arg-type]
    assert older.stopped


def test_a_visitor_and_an_address_have_a_share_of_the_queue() -> None:
    """One client filled it, and everybody else was refused."""
    admission = Admission(NoEngine(), Limits(max_runs_visitor=2, max_runs_address=3))  # type: ignore[arg-type]
    page, another, caller = Asker("10.0.0.1", "page"), Asker("10.0.0.1", "another"), Asker("10.0.0.1")
    first = admitted(admission, RunJob(id="r1", prompt="a"), asker=page)
    second = admitted(admission, RunJob(id="r2", prompt="a"), asker=page)
    with pytest.raises(DraftscopeError, match=r"2 runs of yours .* at most 2 of one visitor"):
        admitted(admission, RunJob(id="r3", prompt="a"), asker=page)
    admitted(admission, RunJob(id="r4", prompt="a"), first, page)  # in place of their older one
    admitted(admission, RunJob(id="r5", prompt="a"), asker=caller)
    with pytest.raises(DraftscopeError, match=r"3 runs of your address .* at most 3 of one address"):
        admitted(admission, RunJob(id="r6", prompt="a"), asker=another)
    admitted(admission, RunJob(id="r7", prompt="a"), asker=Asker("10.0.0.2", "page"))
    second.state = "done"
    assert admitted(admission, RunJob(id="r8", prompt="a"), asker=another).asker == another


def test_a_server_that_is_ending_takes_none() -> None:
    admission = Admission(NoEngine(), Limits())  # type: ignore[arg-type]
    assert admission.ready
    admission.end()
    assert not admission.ready
    with pytest.raises(DraftscopeError, match="The server is ending"):
        admitted(admission, RunJob(id="r1", prompt="a"))


def test_visitors_who_never_say_that_they_left_are_forgotten_unless_they_wait() -> None:
    visitors = Visitors(most=3)
    waiting = visitors.of("waits")
    for number in range(10):
        with waiting.call(object()):  # type: ignore[arg-type]
            visitors.of(f"passes {number}").shown.add(["kept"])
    assert len(visitors) == 3
    assert visitors.of("waits") is waiting
    assert visitors.of("passes 9").shown.lines == ["kept"]
    assert visitors.of("passes 0").shown.lines == []


# What `python app/start_server.py` says.


def test_the_entry_says_bad_settings_in_one_sentence(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("GRADIO_SERVER_PORT", "70000")
    assert entry.main(checkout) == 2
    said = capsys.readouterr().err
    assert said == "draftscope: GRADIO_SERVER_PORT = '70000': should be less than or equal to 65535.\n"


def test_the_environment_goes_before_the_description(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Environment] = []
    monkeypatch.setattr("draftscope_app.serve.server.serve", lambda *_, environment: seen.append(environment))
    changed(checkout, environment={"DRAFTSCOPE_MAX_TOKENS": "64", "DRAFTSCOPE_MAX_RUNS": "5"})
    monkeypatch.setenv("DRAFTSCOPE_MAX_RUNS", "7")
    assert entry.main(checkout) == 0
    assert seen[0].limits == Limits(max_tokens=64, max_runs=7)


def test_a_space_leaves_the_drafter_of_a_known_target_to_its_page(monkeypatch: pytest.MonkeyPatch) -> None:
    served: list[Any] = []
    monkeypatch.setattr("draftscope_app.serve.server.serve", lambda *args, **_: served.append(args[2:]))
    monkeypatch.setenv("DRAFTSCOPE_TARGET", "smollm2")
    assert entry.main(ROOT) == 0
    assert [(load.target, drafter) for load, drafter in served] == [("smollm2", None)]  # the page chooses


# Uploads.


def test_a_trace_too_large_for_the_server_is_refused_before_it_fills_the_memory(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.jsonl.gz"
    with gzip.open(bomb, "wb") as file:
        for _ in range(64):
            file.write(b" " * 2**20)  # one endless line
    with pytest.raises(DraftscopeError, match=r"'bomb.jsonl.gz' is larger than 1 MiB unpacked"):
        tracefile.read(bomb, max_bytes=2**20)
