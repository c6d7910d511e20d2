"""The wheel as a user gets it: `make wheel-test`, or `python -m tests.programs.try_wheel --help`.

Installed into an environment of its own and run outside of the checkout: its help, a decode on the embedded pair, whose
text must be plain decoding's, and a page that answers. Needs uv and the standard library: any Python can run it.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
DECODE = ("decode", "Once upon a time", "--temperature", "0", "--max-new-tokens", "24", "--threads", "1")
COMMANDS = ("decode", "serve", "bench", "advise", "audit")
PATIENCE_S = 600  # until a page answers that loads and compiles


@dataclass(frozen=True)
class Installed:
    """The wheel in an environment of its own."""

    place: Path

    @property
    def environment(self) -> dict[str, str]:
        """Nothing of the checkout's, and a cache of its own."""
        kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG") if name in os.environ}
        return {**kept, "DRAFTSCOPE_CACHE": str(self.place / "cache"), "PYTHONNOUSERSITE": "1"}

    def command(self, *words: str) -> list[str]:
        return [str(self.place / "bin/draftscope"), *words]

    def output(self, *words: str) -> str:
        ran = subprocess.run(self.command(*words), cwd=self.place, env=self.environment, capture_output=True, text=True)
        if ran.returncode:
            raise SystemExit(f"draftscope {' '.join(words)} ended with {ran.returncode}:\n{ran.stdout}{ran.stderr}")
        return ran.stdout


def install(wheel: Path, python: str, place: Path) -> Installed:
    """With the tested versions of what the wheel depends on."""
    uv = shutil.which("uv")
    if uv is None:
        raise SystemExit("uv is not installed, which makes the environments: python -m pip install uv")
    subprocess.run([uv, "venv", "--quiet", "--python", python, place], check=True)
    needed = ("--constraint", ROOT / "tests/constraints.txt", f"draftscope[app] @ {wheel.absolute().as_uri()}")
    subprocess.run([uv, "pip", "install", "--quiet", "--python", place / "bin/python", *needed], check=True)
    return Installed(place)


def check_help(installed: Installed) -> str:
    shown = installed.output("--help")
    missing = [name for name in COMMANDS if name not in shown]
    if missing:
        raise SystemExit(f"draftscope --help does not name {', '.join(missing)}:\n{shown}")
    return f"help names {len(COMMANDS)} commands"


def check_decode(installed: Installed) -> str:
    plain, drafted = (installed.output(*DECODE, "--drafter", drafter) for drafter in ("plain", "draft"))
    if not plain.strip() or plain != drafted:
        raise SystemExit(f"The texts differ at temperature 0:\nplain: {plain!r}\ndraft: {drafted!r}")
    return f"wrote {len(drafted.split())} words as plain decoding does"


def check_page(installed: Installed) -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = installed.command("serve", "--target", "embedded", "--no-browser", "--port", str(port))
    with (installed.place / "page.log").open("w+") as log:
        page = subprocess.Popen(words, cwd=installed.place, env=installed.environment, stdout=log, stderr=log)
        try:
            await_answer(page, f"http://127.0.0.1:{port}/readyz", log.name)
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=60) as answer:
                shown = answer.read().decode()
        finally:
            page.send_signal(signal.SIGINT)
            page.wait(120)
    if "Draftscope" not in shown:
        raise SystemExit(f"The page does not name itself: {shown[:300]!r}")
    return f"page of {len(shown) // 1024} KiB answered, and ended with {page.returncode}"


def await_answer(page: subprocess.Popen[bytes], url: str, log: str) -> None:
    """Until the models are loaded; what the page said where it does not come."""
    until = time.monotonic() + PATIENCE_S
    while time.monotonic() < until and page.poll() is None:
        try:
            urllib.request.urlopen(url, timeout=10).close()
            return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise SystemExit(f"{url} did not answer; the page said:\n{Path(log).read_text()}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--wheel", type=Path, required=True, help="the file")
    parser.add_argument("--python", nargs="+", default=[sys.executable], help="versions or programs, as uv takes them")
    given = parser.parse_args()
    for python in given.python:
        with tempfile.TemporaryDirectory() as folder:
            installed = install(given.wheel, python, Path(folder) / "installed")
            version = subprocess.check_output([installed.place / "bin/python", "--version"], text=True).strip()
            for check in (check_help, check_decode, check_page):
                print(f"{version}: {check(installed)}", flush=True)


if __name__ == "__main__":
    main()
