"""The command line: `draftscope COMMAND`. `exit_codes` says how a command may end.

Only the command that was asked for is imported, so help is quick and `replay` runs without torch.
"""

from __future__ import annotations

import errno
import io
import os
import re
import sys
import traceback
import warnings
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from inspect import cleandoc
from itertools import pairwise
from keyword import iskeyword
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from draftscope.base.errors import (
    DisturbedError,
    DraftscopeError,
    GenerationWarning,
    PluginWarning,
    cut,
    memory_ran_out,
)
from draftscope_app.cli import terminal
from draftscope_app.cli.exit_codes import ExitCode
from draftscope_app.doors.door import Command, commands

PROGRAM = "draftscope"
SHOW_WARNING = warnings.showwarning
DRAFTER_FLAGS = ("--drafter", "--drafters")
LINE_END = re.compile(r"(?<!\n)\n(?!\n)")  # within a paragraph
GIVEN = re.compile(r"\.py:\w+(,|$)")  # a drafter in a file
NO_MEMORY = (
    "the memory ran out; shorten the prompt, lower --max-new-tokens or the size of the draft, or choose smaller models."
)
COMPLETING = "_DRAFTSCOPE_COMPLETE"  # set by the shell when it asks what could come next

PANELS = ("Decode", "Dashboard", "How fast?", "Is it exact?", "Servers of other programs", "Models")  # in this order
CORE = (  # the core's commands, whose modules in `commands` have their names; the others are those of tasks
    Command("decode", "Decode", "Decode a prompt and print the text as it is written."),
    Command("replay", "Decode", "Print a recorded run; loads no model."),
    Command("export", "Decode", "Write a recorded run as a table or a page; loads no model."),
    Command("serve", "Dashboard", "Open the dashboard in a browser."),
    Command("calibrate", "How fast?", "Measure what a round costs on this machine."),
    Command("bench", "How fast?", "Measure drafters, and other programs on the same weights."),
    Command("drafters", "Models", "List the drafters and which of them can run here."),
    Command("pairs", "Models", "List known pairs of models and what they need."),
)
COMMANDS = {
    **{command.name: (command, f"draftscope_app.cli.commands.{command.name}") for command in CORE},
    **{name: (command, f"{folder.package}.command") for name, (command, folder) in commands().items()},
}


class Lazy(TyperGroup):
    """Imports a command when it is run or completed; until then only its summary is known."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        if args and args[0] in COMMANDS:
            self.add_command(_readable(imported(args[0]), ctx), args[0])
        return super().resolve_command(ctx, args)

    def get_params(self, ctx: Any) -> list[Any]:
        return _without_types(super().get_params(ctx))


def imported(command: str) -> Any:
    """That command, of its module: the function of the same name (`class_`: a keyword), or an app with several."""
    name = command.replace("-", "_") + ("_" if iskeyword(command) else "")
    module = import_module(COMMANDS[command][1])
    made = getattr(module, "app", None)
    if made is None:
        made = typer.Typer(add_completion=False)
        made.command()(getattr(module, name))
    return get_command(made)


def _readable(command: Any, context: Any) -> Any:
    """The command, with help that breaks its lines where the terminal ends, not where the code did."""
    for part in (command, *getattr(command, "commands", {}).values()):
        part.help = LINE_END.sub(" ", cleandoc(part.help or ""))
        _without_types(part.get_params(context))
    return command


def _without_types(parameters: list[Any]) -> list[Any]:
    """The parameters, without Typer's '<bool>' behind switches, which take no value, and '<str>' behind arguments."""
    for parameter in parameters:
        if getattr(parameter, "is_flag", False):
            parameter.metavar = ""
        elif parameter.param_type_name == "argument":
            parameter.display_type_rich = lambda ctx: None  # noqa: ARG005 - by this name
    return parameters


def _version(wanted: bool) -> None:
    if wanted:
        try:
            print(version("draftscope"))
        except PackageNotFoundError:
            print("0+source")
        raise typer.Exit


app = typer.Typer(
    cls=Lazy,
    help="See, measure and decide on speculative decoding.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
)


@app.callback()
def _root(
    version: Annotated[bool, typer.Option("--version", help="Print the version.", callback=_version, is_eager=True)] = (
        False
    ),
) -> None:
    del version


def _unknown_yet() -> None:
    """Stands for a command whose module is not imported."""


for _command, _ in sorted(COMMANDS.values(), key=lambda listed: PANELS.index(listed[0].panel)):
    app.command(_command.name, help=_command.summary, rich_help_panel=_command.panel)(_unknown_yet)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    _print_anything()
    if COMPLETING in os.environ:
        app(prog_name=PROGRAM)  # answers the shell and ends the process
    try:
        with warnings.catch_warnings():
            for shown in (PluginWarning, GenerationWarning):
                warnings.simplefilter("default", shown)
            warnings.showwarning = _warn
            code = _run(_with_given_drafters(list(sys.argv[1:] if argv is None else argv)))
        sys.stdout.flush()
        return code
    except typer.TyperException as error:
        return _stop(ExitCode.NOT_DONE, _usage(error))
    except DraftscopeError as error:
        return _stop(ExitCode.UNDECIDED if isinstance(error, DisturbedError) else ExitCode.NOT_DONE, str(error))
    except KeyboardInterrupt:
        return _stop(ExitCode.INTERRUPTED, "interrupted.")
    except BrokenPipeError:  # Python would complain once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.READER_GONE
    except Exception as error:
        if os.environ.get("DRAFTSCOPE_DEBUG"):
            traceback.print_exc()
        if isinstance(error, OSError) and error.errno == errno.ENOSPC:
            return _stop(ExitCode.NOT_DONE, "no space is left for what is written; free some and run it again.")
        if memory_ran_out(error):
            return _stop(ExitCode.NOT_DONE, NO_MEMORY)
        reason = " ".join(str(error).split())[:300]
        sentence = f"the run failed ({type(error).__name__}: {reason}); DRAFTSCOPE_DEBUG=1 shows where."
        return _stop(ExitCode.NOT_DONE, sentence)


def _warn(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
    """Those about drafters and models are a sentence; other warnings are shown as Python shows them."""
    if issubclass(category, PluginWarning | GenerationWarning):
        terminal.print_note(cut(str(message)))
    else:
        SHOW_WARNING(message, category, *where, **more)


def _with_given_drafters(arguments: list[str]) -> list[str]:
    """The arguments, with names in place of drafters that are given as 'file.py:NAME'; their options are known then."""
    named = list(arguments)
    for place, (before, word) in enumerate(pairwise(["", *arguments])):
        option, equals, value = word.partition("=")
        flag, value = (option, value) if equals else (before, word)
        if flag in DRAFTER_FLAGS and GIVEN.search(value):
            if arguments[0] == "serve":
                raise DraftscopeError(f"The page takes no drafter from a file; install that of '{value}' as a package.")
            from draftscope import drafters

            named[place] = (f"{option}=" if equals else "") + ",".join(map(drafters.adopt, value.split(",")))
    return named


def _run(arguments: list[str]) -> int:
    """Runs the command without Typer's own `main`, which handles Ctrl-C and broken pipes in its own way."""
    command = get_command(app)
    try:
        with command.make_context(PROGRAM, arguments) as context:
            code: int = command.invoke(context)
            return code
    except typer.Exit as ended:  # after help, --version and the completion script
        return ended.exit_code


def _usage(error: typer.TyperException) -> str:
    """Typer's message as one sentence that says where help is."""
    written = error.message if hasattr(error, "possibilities") else error.format_message()
    message = " ".join(written.replace("Value error, ", "").split())
    if similar := _similar(error):  # of an option; of a command Typer asks by itself
        return f"{error.message}; did you mean {similar}?"
    if message.endswith("?"):
        return message.replace(". Did you mean", "; did you mean")
    context = getattr(error, "ctx", None)
    path = context.command_path if context else PROGRAM
    return f"{message.rstrip('.')}; see '{path} --help'."


def _similar(error: typer.TyperException) -> str:
    """The option that was meant, if it is like the given one apart from the dashes, which count for Typer."""
    possible = {name.strip("-"): name for name in getattr(error, "possibilities", None) or ()}
    close = get_close_matches(getattr(error, "option_name", "").strip("-"), possible, 1)
    return possible[close[0]] if close else ""


def _stop(code: ExitCode, sentence: str) -> int:
    terminal.print_note(cut(sentence))
    return code


def _print_anything() -> None:
    """A model may write what the terminal's encoding lacks: that shows as '?', rather than ending the run. A stream is
    None where it was closed before this began (`>&-`): then nothing is shown."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: SIM115 - until the process ends
        elif isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
