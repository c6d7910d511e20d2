"""What a student's process may not do: limits that the system keeps, and on Linux a filter of system calls.

The filter (seccomp, of a BPF program) refuses other processes, signals, networks, and every way to write, rename or
remove a file. It is written for x86-64; elsewhere only the limits hold, and `held_words` says what then does not.
"""

from __future__ import annotations

import platform
import struct
import sys
from collections.abc import Collection

MIB = 1 << 20
CPU_S = 60
LIMITS = {
    "RLIMIT_CPU": CPU_S,
    "RLIMIT_AS": 2048 * MIB,
    "RLIMIT_FSIZE": 0,
    "RLIMIT_NOFILE": 64,
    "RLIMIT_CORE": 0,
} | ({} if sys.platform == "linux" else {"RLIMIT_NPROC": 0})  # on Linux it counts threads too

ARCHITECTURE = 0xC000003E  # x86-64
REFUSED = {  # x86-64 numbers of calls that end with EPERM
    "socket": 41, "connect": 42, "sendto": 44, "sendmsg": 46, "bind": 49, "socketpair": 53, "fork": 57, "vfork": 58,
    "execve": 59, "kill": 62, "truncate": 76, "ftruncate": 77, "rename": 82, "mkdir": 83, "rmdir": 84, "creat": 85,
    "link": 86, "unlink": 87, "symlink": 88, "chmod": 90, "fchmod": 91, "chown": 92, "fchown": 93, "lchown": 94,
    "ptrace": 101, "utime": 132, "mknod": 133, "setpriority": 141, "sched_setparam": 142, "sched_setscheduler": 144,
    "mount": 165, "umount2": 166, "setxattr": 188, "lsetxattr": 189, "fsetxattr": 190, "tkill": 200,
    "sched_setaffinity": 203, "tgkill": 234, "utimes": 235, "keyctl": 250, "ioprio_set": 251, "mkdirat": 258,
    "mknodat": 259, "fchownat": 260, "futimesat": 261, "unlinkat": 263, "renameat": 264, "linkat": 265,
    "symlinkat": 266, "fchmodat": 268, "unshare": 272, "utimensat": 280, "fallocate": 285, "perf_event_open": 298,
    "setns": 308, "process_vm_readv": 310, "process_vm_writev": 311, "sched_setattr": 314, "renameat2": 316, "bpf": 321,
    "execveat": 322, "pidfd_send_signal": 424, "pidfd_open": 434, "pidfd_getfd": 438, "fchmodat2": 452,
}  # fmt: skip
ABSENT = {"io_uring_setup": 425, "clone3": 435, "openat2": 437}  # ENOSYS: programs then take the older call
OPEN, OPENAT, CLONE, PRLIMIT = 2, 257, 56, 302
WRITING = 0o3 | 0o100 | 0o1000 | 0o2000  # flags of opening: write, create, truncate, append
THREAD = 0x10000  # flag of clone
LOAD, EQUAL, LEAST, BITS, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06  # of BPF
ALLOWED, EPERM, ENOSYS, KILLED = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
NUMBER, MACHINE, ARGUMENTS = 0, 4, 16  # offsets in what the filter sees
FOREIGN = 0x40000000  # of this number on, calls are another interface's


def filter_program() -> bytes:
    """The filter for this machine; empty where there is none for it."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return b""
    return b"".join([
        _one(LOAD, MACHINE), _one(EQUAL, ARCHITECTURE, 1, 0), _one(RETURN, KILLED),
        _one(LOAD, NUMBER), _one(LEAST, FOREIGN, 0, 1), _one(RETURN, EPERM),
        *(_returned(number, EPERM) for number in REFUSED.values()),
        *(_returned(number, ENOSYS) for number in ABSENT.values()),
        _looked_at(OPEN, 1, WRITING, refused_if_set=True),
        _looked_at(OPENAT, 2, WRITING, refused_if_set=True),
        _looked_at(CLONE, 0, THREAD, refused_if_set=False),
        _looked_at(PRLIMIT, 0, 0xFFFFFFFF, refused_if_set=True),  # of another process
        _one(RETURN, ALLOWED),
    ])  # fmt: skip


def _one(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("HBBI", code, true, false, value)


def _returned(number: int, result: int) -> bytes:
    return _one(EQUAL, number, 0, 1) + _one(RETURN, result)


def _looked_at(number: int, argument: int, bits: int, refused_if_set: bool) -> bytes:
    """Refuses a call by some bits of one of its arguments."""
    when_set, when_not = (EPERM, ALLOWED) if refused_if_set else (ALLOWED, EPERM)
    argument_at = _one(LOAD, ARGUMENTS + 8 * argument)
    verdict = _one(BITS, bits, 0, 1) + _one(RETURN, when_set) + _one(RETURN, when_not)
    return _one(EQUAL, number, 0, 4) + argument_at + verdict


def held_words(held: Collection[str]) -> str:
    """A sentence about what is held back on this machine, and what is not."""
    if "filter" in held:
        return "Held back: time, memory, other processes, signals, networks, and writing, renaming or removing files."
    return (
        "Held back: time, memory and writing into files. Not held back on this machine: networks, signals to other "
        "processes, and removing files; grade strangers' work in a container."
    )
