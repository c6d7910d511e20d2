"""Whatever measures in the engine process does so in steps; who takes all at once keeps nobody waiting there."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import draftscope
import draftscope_app

# Who takes all steps at once, and why nobody waits for it in the engine process.
DRAINS = {
    "draftscope/advise/advise.py advise": "a library call",
    "draftscope/api.py calibrate": "a library call",
    "draftscope/api.py race": "a library call",
    "draftscope/decode/engine.py _batches": "a library call",
    "draftscope/decode/measuring.py calibration": "a library call",
    "draftscope/decode/engine.py decode": "a library call",
    "draftscope/decode/engine.py rounds": "a library call",
    "draftscope/decode/engine.py start": "a library call",
    "draftscope/decode/engine.py start_batch": "a library call, or one after `measuring`",
    "draftscope/measure/bench/limit.py memory_limit": "the command bench, a process of its own",
    "draftscope/measure/greedy_checks.py plain": "a library call, or one after `writing`",
    "draftscope/measure/joint.py sampled_joint": "a library call",
    "draftscope/measure/paired_runs.py drafter_runs": "a library call",
    "draftscope/models/model.py read": "reads a prompt",
    "draftscope/servers/background.py at_once": "waits for a server in a thread",
    "draftscope/servers/background.py run": "waits for a server in a thread",
    "draftscope/servers/museum/tour.py tour": "the command museum, a process of its own",
    "draftscope_app/doors/servers/audit/audited.py audited": "a command",
    "draftscope_app/doors/decide/advise/command.py _planned": "a command",
    "draftscope_app/cli/commands/calibrate.py calibrate": "a command",
    "draftscope_app/doors/decide/claims/command.py run_commands": "a command",
    "draftscope_app/cli/commands/decode.py decode": "a command",
    "draftscope_app/lab/site/site_races.py recorded": "the command site, a process of its own",
}


def callers_of_last() -> Iterator[str]:
    for package in (draftscope, draftscope_app):
        folder = Path(str(package.__file__)).parent
        for file in folder.rglob("*.py"):
            for made in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(made, ast.FunctionDef) and any(map(calls_last, ast.walk(made))):
                    yield f"{folder.name}/{file.relative_to(folder)} {made.name}"


def calls_last(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "last"


def test_who_takes_all_steps_at_once_is_known() -> None:
    """A new caller is named here with its reason, or takes its steps one by one."""
    assert sorted(set(callers_of_last())) == sorted(DRAINS)
