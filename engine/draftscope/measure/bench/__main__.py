"""`python -m draftscope.measure.bench`: JSON and Markdown, in an environment with nothing of the app."""

from __future__ import annotations

import argparse
import sys

import draftscope
from draftscope.base.errors import DraftscopeError
from draftscope.measure.bench import command

BAD_INPUT = 2


def main() -> int:
    """Exit code 2 and one sentence on stderr for bad input."""
    parser = argparse.ArgumentParser(
        prog="python -m draftscope.measure.bench", description="Measure drafters and peers."
    )
    command.add_arguments(parser)
    parser.add_argument("--target", metavar="MODEL", help="hub id or folder (default: the embedded pair)")
    parser.add_argument("--draft", metavar="MODEL", help="hub id or folder of the draft model")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16 (default: auto)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda (default: auto)")
    parser.add_argument("--threads", type=int, metavar="N", help="threads on the CPU (default: torch's)")
    args = parser.parse_args()
    try:
        command.run(args, lambda target, draft: draftscope.load(target, draft, args.dtype, args.device, args.threads))
    except DraftscopeError as error:
        print(f"draftscope: {error}", file=sys.stderr)
        return BAD_INPUT
    return 0


if __name__ == "__main__":
    sys.exit(main())
