"""What a public server must withstand: `make attack`, or `python -m tests.programs.attacks`, prints a table.

Every attack is bounded, stays on the loopback and goes against a server that this program starts, with the embedded
pair. After each the server must take runs again; where it does not, the attack has not held, and the next one gets
another server. `--only gguf,tabs` chooses some, `--minutes 10` is how long the soak lasts.
"""

from __future__ import annotations

import argparse
import functools
import signal
import sys
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tabulate import tabulate

from tests.programs.attacks import (
    bodies,
    connections,
    fairness,
    files,
    models,
    processes,
    requests,
    rooms,
    routes,
    soak,
    storage,
    surroundings,
    tabs,
    uploads,
)
from tests.programs.attacks.outcome import Outcome
from tests.programs.attacks.server import Server, Watch

AGAIN_S, QUIET_S = 120.0, 3.0
HEADERS = ("attack", "tried", "held", "found", "worst /healthz, s", "page, MB: before, most, after", "engine, MB")

ATTACKS: dict[str, Callable[[Server], Outcome]] = {
    "bodies": bodies.attack,
    "uploads": uploads.attack,
    "routes": routes.attack,
    "halves": routes.halves,
    "connections": connections.attack,
    "few-inputs": requests.few_inputs,
    "origins": requests.origins,
    "slow": requests.slow,
    "tabs": tabs.attack,
    "fairness": fairness.attack,
    "presses": rooms.presses,
    "qr": rooms.qr,
    "places": rooms.places,
    "codes": rooms.codes,
    "stopped": processes.stopped,
    "killed": processes.killed,
    "gguf": models.gguf,
    "tokenizer": models.tokenizer,
    "templates": models.templates,
    "storage": storage.attack,
    "exports": files.exports,
    "state": files.state,
    "museum": files.museum,
    "plugin": files.plugin,
    "disk": surroundings.disk,
    "clock": surroundings.clock,
}


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split(":")[0])
    parser.add_argument("--only", default="", help="names of attacks, separated by commas; empty: all")
    parser.add_argument("--minutes", type=float, default=2.0, help="of the soak; 0: none")
    asked = parser.parse_args(arguments)
    attacks = ATTACKS | ({"soak": functools.partial(soak.attack, minutes=asked.minutes)} if asked.minutes > 0 else {})
    names = [name for name in asked.only.split(",") if name] or list(attacks)
    if unknown := set(names) - set(attacks):
        parser.error(f"--only {','.join(sorted(unknown))}: choose from {', '.join(attacks)}")
    rows = rows_of({name: attacks[name] for name in names})
    print(tabulate(rows, HEADERS, tablefmt="github"))
    return 0 if all(row[2] == "yes" for row in rows) else 1


def rows_of(attacks: dict[str, Callable[[Server], Outcome]]) -> list[list[str]]:
    """One row an attack, in order, on one server for as long as it lives."""
    rows = []
    server: Server | None = None
    with tempfile.TemporaryDirectory(prefix="draftscope-attacks-", ignore_cleanup_errors=True) as folder:
        try:
            for name, attack in attacks.items():
                if server is None:
                    server = Server(Path(tempfile.mkdtemp(dir=folder)))
                    server.wait_ready()
                row, alive = _row(server, name, attack)
                rows.append(row)
                print(" | ".join(row), flush=True)
                if not alive:
                    server.end()
                    server = None
        finally:
            if server is not None:
                server.end()
    return rows


def _row(server: Server, name: str, attack: Callable[[Server], Outcome]) -> tuple[list[str], bool]:
    """The row, and whether the server takes runs afterwards."""
    before = server.memory_mb()[0]
    with Watch(server) as watch:
        try:
            outcome = attack(server)
        except Exception as error:  # whatever an attack meets, the others are tried
            outcome = Outcome(name, False, f"{type(error).__name__}: {str(error)[:200]}")
        alive = server.ready(AGAIN_S)
        watch.rest(QUIET_S)
    if not alive:
        outcome = replace(outcome, held=False, found=f"{outcome.found}; the server took no runs any more")
    memory = f"{before:.0f}, {watch.page:.0f}, {server.memory_mb()[0]:.0f}"
    held = "yes" if outcome.held else "NO"
    return [name, outcome.tried, held, outcome.found, f"{watch.late:.2f}", memory, f"{watch.engine:.0f}"], alive


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))  # the server ends with this program
    sys.exit(main())
