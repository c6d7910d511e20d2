"""`python -m draftscope.train`: the same as `draftscope train`, without the rest."""

from __future__ import annotations

import argparse
import sys

from draftscope.base.errors import DraftscopeError
from draftscope.train.command import add_arguments, run


def main() -> int:
    parser = argparse.ArgumentParser(prog="draftscope train", description="Make the embedded models.")
    add_arguments(parser)
    try:
        return run(parser.parse_args())
    except DraftscopeError as error:
        print(error, file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
