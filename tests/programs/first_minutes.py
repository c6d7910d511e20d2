"""The first minutes with this program, on a quiet machine: `python -m tests.programs.first_minutes --save FILE.json`.

A clean clone of the working tree's commit is set up and served as `make run` does it, without a browser and on a port
of its own, with caches of its own: what it compiles, converts, measures and downloads is nowhere yet (the model is
downloaded too, unless `--model FILE.gguf` puts it into its cache; packages come from uv's own cache where they are in
it). Then it is started again in the same clone. Seconds by step, each counted from the step before it.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from statistics import median

import httpx

from draftscope.base import markdown
from draftscope.models.loading.converted import home_of
from draftscope.models.loading.known import KNOWN
from draftscope.models.native.instructions import has

ROOT = Path(__file__).resolve().parents[2]
POLL_S, PATIENCE_S = 0.05, 1800.0
AGAIN = ("page", "model", "first token")
INSTRUCTIONS = ("avx2", "avx512vl", "avx512vnni", "avx512bf16", "amx-tile")

Seconds = dict[str, float]  # by step


def first_minutes(folder: Path, target: str, model: Path | None) -> dict[str, Seconds]:
    """Of a clean clone in `folder`, and of the second start there."""
    environment, repository = _environment(folder, model), folder / "repo"
    began = time.monotonic()
    _run("git", "clone", "--quiet", "--depth", "1", f"file://{ROOT}", str(repository), environment=environment)
    cloned = time.monotonic()
    _run("make", "--directory", str(repository), ".venv/.ready", environment=environment)
    first = {"clone": cloned - began, "set-up": time.monotonic() - cloned}
    command = [str(repository / ".venv/bin/draftscope"), "serve", "--no-browser", "--target", target]
    return {
        "first start": first | served_seconds(command, environment),
        "second start": served_seconds(command, environment),
    }


def served_seconds(command: list[str], environment: Mapping[str, str]) -> Seconds:
    """From the start of a server to the page, from there to its models, from there to the first token of a call."""
    with _server(command, environment) as (url, alive), httpx.Client(base_url=url, timeout=PATIENCE_S) as client:
        times = [time.monotonic()]
        for route in ("/", "/readyz"):
            _until(lambda route=route: _answers(client, route), alive)  # type: ignore[misc]
            times.append(time.monotonic())
        _decode_one(client)
        times.append(time.monotonic())
    return {
        step: after - before for step, before, after in zip(AGAIN, *zip(*pairwise(times), strict=True), strict=True)
    }


def _decode_one(client: httpx.Client) -> None:
    """A call that writes one token; it answers when that is there."""
    settings = client.get("/gradio_api/info").json()["named_endpoints"]["/decode"]["parameters"]
    given = [one.get("parameter_default") for one in settings]
    names = [one["parameter_name"] for one in settings]
    wanted = {"prompt": "Why is the sky blue?", "drafter": "plain", "max_new_tokens": 1}
    data = [wanted.get(name, value) for name, value in zip(names, given, strict=True)]
    event = client.post("/gradio_api/call/decode", json={"data": data}).json()["event_id"]
    answer = client.get(f"/gradio_api/call/decode/{event}").text
    if "event: complete" not in answer:
        raise SystemExit(f"The call failed: {answer[:300]}")


@contextmanager
def _server(command: list[str], environment: Mapping[str, str]) -> Iterator[tuple[str, Callable[[], bool]]]:
    """A server on a free port: its address, and whether it is still there."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen([*command, "--port", port], env=environment, stdout=log, stderr=log)
        try:
            yield f"http://127.0.0.1:{port}", lambda: process.poll() is None
        finally:
            process.terminate()
            process.wait(60)


def _answers(client: httpx.Client, route: str) -> bool:
    try:
        return client.get(route).status_code == 200
    except httpx.TransportError:
        return False


def _until(true: Callable[[], bool], alive: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        if not alive() or time.monotonic() > deadline:
            raise SystemExit("The server has ended, or does not answer; start it by hand to see why.")
        time.sleep(POLL_S)


def _environment(folder: Path, model: Path | None) -> dict[str, str]:
    """With caches of its own; byte code is kept, as `make run` keeps it."""
    kept = {name: value for name, value in os.environ.items() if name not in ("NUMBA_CACHE_DIR", "PYTHONPATH")}
    kept |= {"PYTHONDONTWRITEBYTECODE": "", "DRAFTSCOPE_CACHE": str(folder / "cache")}
    if model is not None:
        place = folder / "cache/draftscope/models" / home_of(KNOWN[0].wheel.sha256).with_suffix(".gguf").name
        place.parent.mkdir(parents=True)
        shutil.copy(model, place)
    return kept


def _run(*command: str, environment: Mapping[str, str]) -> None:
    subprocess.run(command, env=environment, check=True, stdout=sys.stderr)


def table(runs: list[dict[str, Seconds]]) -> str:
    """The median and the range of each step, in seconds."""
    rows = []
    for start, steps in runs[0].items():
        for step in steps:
            each = [run[start][step] for run in runs]
            rows.append((start, step, f"{median(each):.1f}", f"{min(each):.1f} to {max(each):.1f}"))
    return markdown.table(("start", "step", "seconds", "range"), rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--target", default=KNOWN[0].name, help="what is served; another GGUF file, for example")
    parser.add_argument("--model", type=Path, help="SmolLM2's file, so that it is not downloaded")
    parser.add_argument("--save", type=Path, help="every run, and where it ran, as JSON")
    arguments = parser.parse_args()
    runs: list[dict[str, Seconds]] = []
    for _ in range(arguments.repeats):
        with tempfile.TemporaryDirectory(prefix="draftscope-first-") as folder:
            runs.append(first_minutes(Path(folder), arguments.target, arguments.model))
        where = {
            "date": datetime.now(UTC).date().isoformat(),
            "cores": os.cpu_count(),
            "instructions": [name for name in INSTRUCTIONS if has(name)],
            "target": arguments.target,
            "downloaded": arguments.model is None,
        }
        if arguments.save is not None:
            arguments.save.write_text(json.dumps({"where": where, "runs": runs}, indent=1), encoding="utf-8")
    print(f"{where}\n\n{table(runs)}")


if __name__ == "__main__":
    main()
