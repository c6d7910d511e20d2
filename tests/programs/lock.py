"""The lock: every package that is tested, for every system, by version and hash. `make lock` and `make sbom`.

What was installed when the tests passed is in tests/constraints.txt. uv adds what other systems and Pythons need, and
the hashes, from the public index: no address of this machine's settings comes in.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
CONSTRAINTS = ROOT / "tests/constraints.txt"
LOCK = ROOT / "tests/pylock.toml"
INDEX = "https://pypi.org/simple"
USED = ("--extra", "app", "--extra", "export")


def tested() -> list[str]:
    """What `pip freeze` wrote down, a requirement each."""
    return [line for line in CONSTRAINTS.read_text(encoding="utf-8").split() if "==" in line]


def locked() -> list[str]:
    """The lock's packages, a requirement each."""
    packages = tomllib.loads(LOCK.read_text(encoding="utf-8"))["packages"]
    return [f"{package['name']}=={package['version']}" for package in packages]


def uv(folder: Path, *words: str | Path) -> None:
    """Runs uv in that project, on the public index alone."""
    program = shutil.which("uv", path=os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"])))
    if program is None:
        raise SystemExit("uv is not installed, which writes the lock: python -m pip install uv")
    settings = {name: value for name, value in os.environ.items() if not name.startswith(("UV_", "PIP_"))}
    command = (
        program,
        "--quiet",
        "--project",
        folder,
        *words,
        "--default-index",
        INDEX,
        "--no-config",
        "--python",
        sys.executable,
    )
    subprocess.run(command, check=True, env=settings)


def resolve(folder: Path, constraints: list[str]) -> None:
    """Writes uv.lock into an empty folder: this project, with those versions and no others."""
    listed = "".join(f"    {json.dumps(each)},\n" for each in constraints)
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    (folder / "pyproject.toml").write_text(
        f"{project}\n[tool.uv]\nconstraint-dependencies = [\n{listed}]\n", encoding="utf-8"
    )
    uv(folder, "lock")


def write_lock(folder: Path) -> None:
    """From the constraints; the groups and extras that tests need are in it."""
    resolve(folder, tested())
    shape = ("--format", "pylock.toml", "--no-header", "--no-emit-project")
    uv(folder, "export", "--frozen", *USED, "--group", "dev", *shape, "--output-file", LOCK)


def write_sbom(folder: Path, path: Path) -> None:
    """What a user of the page installs, as CycloneDX; refused where it would name what is not locked."""
    resolve(folder, locked())
    path.parent.mkdir(parents=True, exist_ok=True)
    uv(folder, "export", "--frozen", *USED, "--no-dev", "--format", "cyclonedx1.5", "--output-file", path)
    components = json.loads(path.read_text(encoding="utf-8"))["components"]
    strange = {f"{each['name']}=={each['version']}" for each in components} - set(locked())
    if strange:
        path.unlink()
        raise SystemExit(f"{LOCK.name} lacks {', '.join(sorted(strange))}: `make lock` writes it again.")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--sbom", type=Path, metavar="FILE", help="write the bill of materials there instead of the lock"
    )
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        if given.sbom is None:
            write_lock(Path(folder))
        else:
            write_sbom(Path(folder), given.sbom.absolute())


if __name__ == "__main__":
    main()
