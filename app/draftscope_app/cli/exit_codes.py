"""What `draftscope` tells the shell."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The only list of exit codes; the table in app/README.md says the same."""

    OK = 0
    FAILED = 1  # check, audit, museum, inspect, grade: a difference or a defect; race, servers: a server failed
    NOT_DONE = 2  # wrong input, a server that does not answer, a crash: a sentence on stderr says what and why
    UNDECIDED = 3  # check, audit: too little was seen to find a difference; calibrate, advise: other work disturbed it
    INTERRUPTED = 130  # by Ctrl-C, as shells report it; also training that stopped early and can continue
    READER_GONE = 141  # the reader of stdout ended first, as with `| head`; the number by which shells report it
