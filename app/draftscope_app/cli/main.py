"""The command line: `draftscope serve | decode | bench | check | train | replay | export | drafters | space |
pairs`.

Exit codes: 0 all is well; 1 a check found a difference, or the run failed; 2 bad input, with one sentence on stderr;
130 interrupted. Only the command that was asked for is imported, so help is quick and `replay` runs without torch.
"""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Sequence
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import NoReturn

from draftscope.base.errors import DraftscopeError

OK, FAILED, BAD_INPUT, INTERRUPTED = 0, 1, 2, 130

COMMANDS = {  # name -> what `draftscope --help` says, and the module that takes it from there
    "serve": ("open the dashboard in a browser", "draftscope_app.cli.commands.serve"),
    "decode": ("decode a prompt and stream the text", "draftscope_app.cli.commands.decode"),
    "bench": ("measure drafters, and other programs on the same weights", "draftscope_app.cli.commands.bench"),
    "regret": ("hold policies against the best fixed setting, by kind of text", "draftscope_app.cli.commands.regret"),
    "check": ("hold a drafter's output against plain decoding", "draftscope_app.cli.commands.check"),
    "calibrate": ("measure what rounds cost on this machine", "draftscope_app.cli.commands.calibrate"),
    "train": ("train the embedded models, all or some", "draftscope.train.command"),
    "adapt": ("fine-tune a drafter on your own text", "draftscope_app.cli.commands.adapt"),
    "replay": ("print a recorded run; loads no model", "draftscope_app.cli.commands.replay"),
    "export": ("write a recorded run as a table or a page; loads no model", "draftscope_app.cli.commands.export"),
    "drafters": ("list the drafters and which of them can run here", "draftscope_app.cli.commands.drafters"),
    "space": ("render the dashboard as a Hugging Face Space, or upload it", "draftscope_app.cli.commands.space"),
    "pairs": ("list known pairs of models and what they need", "draftscope_app.cli.commands.pairs"),
}


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command and returns its exit code."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    _print_anything()
    try:
        code = _run(arguments)
        sys.stdout.flush()
        return code
    except DraftscopeError as error:
        return _stop(BAD_INPUT, str(error))
    except KeyboardInterrupt:
        return _stop(INTERRUPTED, "interrupted.")
    except BrokenPipeError:  # the reader has gone, as with `| head`; Python would complain once more at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:
        if os.environ.get("DRAFTSCOPE_DEBUG"):
            traceback.print_exc()
        reason = " ".join(str(error).split())[:300]
        return _stop(FAILED, f"the run failed ({type(error).__name__}: {reason}); DRAFTSCOPE_DEBUG=1 shows where.")


class Parser(argparse.ArgumentParser):
    """Says what is wrong in one sentence; argparse would print the usage first."""

    def error(self, message: str) -> NoReturn:
        self.exit(BAD_INPUT, f"{self.prog}: {message}; see '{self.prog} --help'.\n")


def _run(arguments: Sequence[str]) -> int:
    parser = Parser(prog="draftscope", description="See, measure and decide on speculative decoding.")
    parser.add_argument("--version", action="version", version=_version())
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    asked = next((word for word in arguments if not word.startswith("-")), "")
    for name, (summary, module) in COMMANDS.items():
        about = f"{summary[0].upper()}{summary[1:]}."
        command = commands.add_parser(name, help=summary, description=about, allow_abbrev=False)
        if name == asked:
            import_module(module).add_arguments(command)
    args = parser.parse_args(arguments)
    code: int = import_module(COMMANDS[args.command][1]).run(args)
    return code


def _stop(code: int, sentence: str) -> int:
    print(f"draftscope: {sentence}", file=sys.stderr)
    return code


def _print_anything() -> None:
    """A model may write what the terminal's encoding lacks: that shows as '?', rather than ending the run."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _version() -> str:
    try:
        return version("draftscope")
    except PackageNotFoundError:
        return "0+source"


if __name__ == "__main__":
    sys.exit(main())
