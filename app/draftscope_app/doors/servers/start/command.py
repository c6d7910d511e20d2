"""`draftscope servers`: the commands for a plain and a speculative server of a pair, explained; with --start, run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

import typer
from pydantic import BaseModel

from draftscope.base.errors import DraftscopeError
from draftscope.servers.programs import program_list
from draftscope.servers.programs.program import Command, ServedPair, Start
from draftscope_app.cli import terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import Given, option, options_of, read_options, takes

SERVERS, MACHINES = "Servers", "Machines"


class Options(BaseModel):
    """What `servers` takes beside the target."""

    program: str | None = option(
        f"{', '.join(program_list.started_names())}; "
        f"default: {program_list.usual_start('.gguf').name} for a GGUF file, "
        f"else {program_list.usual_start('').name}",
        None,
        SERVERS,
        "NAME",
    )
    method: str = option(", ".join(program_list.methods()), "ngram", SERVERS, "NAME")
    drafter: str | None = option("draft model or trained head", None, SERVERS, "MODEL")
    gamma: int = option("drafted tokens", 4, SERVERS, ge=1)
    context: int = option("tokens of prompt and answer", 2048, SERVERS, ge=1)
    requests: int = option("requests at once, on both sides", 8, SERVERS, ge=1)
    port: int = option("of the plain server; the speculative one has the next", 8100, SERVERS, ge=1, le=65534)
    gpus: int = option("GPUs of a node", 1, MACHINES, ge=1)
    nodes: int = option("nodes", 1, MACHINES, ge=1)
    start: bool = option("run both until Ctrl-C; they must be installed", False)


@takes(given=options_of(Options.model_fields))
def servers(
    target: Annotated[str, typer.Argument(metavar="MODEL", help="hub id or folder; for llama.cpp a GGUF file")],
    given: Given,
) -> int:
    """Print the commands for a plain and a speculative server of a pair, and the flags that matter.

    The two differ only in their speculation, so that a race between them measures nothing else.
    """
    chosen = read_options(Options, given)
    if not target:
        raise DraftscopeError("MODEL is empty; name a hub id, a folder or a GGUF file.")
    how = program_list.find_start(chosen.program) if chosen.program else program_list.usual_start(target)
    if chosen.method not in (methods := program_list.methods(how.name)):
        raise DraftscopeError(f"--method {chosen.method}: for {how.name} choose {', '.join(methods)}.")
    pair = ServedPair(target, **chosen.model_dump(exclude={"program", "port", "start"}))
    both = how.commands(pair, chosen.port)
    if chosen.start:
        return _run(both, chosen.nodes)
    _print(how, pair, both)
    return ExitCode.OK


def _print(start: Start, pair: ServedPair, both: Sequence[Command]) -> None:
    print("# Once:")
    for line in start.setup(pair):
        print(line)
    for command in both:
        print(f"\n# {command.name}:\n{command.shell()}")
    lanes = " ".join(f"--server {command.name}=http://127.0.0.1:{command.port}" for command in both)
    print(f'\n# When both are up:\ndraftscope race {lanes} "Explain gravity."\n')
    terminal.show(terminal.Table(("flag", "why it matters"), [(flag.flag, flag.why) for flag in start.flags]))


def _run(both: Sequence[Command], nodes: int) -> int:
    """Runs both until one ends or Ctrl-C, and ends the other."""
    if nodes > 1:
        raise DraftscopeError("--start runs on this machine only; for several nodes run the printed commands there.")
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command in both:
            terminal.print_note(command.shell())
            environment = {**os.environ, **dict(command.environment)}
            try:
                processes.append(subprocess.Popen(command.arguments, env=environment, stdout=sys.stderr))
            except OSError:
                program = command.arguments[0]
                raise DraftscopeError(f"'{program}' is not installed here; 'draftscope servers' prints how.") from None
        while all(process.poll() is None for process in processes):
            try:
                processes[0].wait(0.5)
            except subprocess.TimeoutExpired:
                continue
        terminal.print_note("a server has ended; so does the other.")
        return ExitCode.FAILED
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
