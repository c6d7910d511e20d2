"""What `draftscope` tells the shell."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The only list of exit codes; the table in app/README.md says the same."""

    OK = 0
    FAILED = 1  # a check found a difference, or the run failed
    BAD_INPUT = 2  # one sentence on stderr says what is wrong and what to do
    UNDECIDED = 3  # a check drafted too little to find a difference, or other work disturbed a measurement
    INTERRUPTED = 130  # by Ctrl-C, as shells report it; also training that stopped early and can continue
