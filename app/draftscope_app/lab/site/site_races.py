"""Records the races that the site plays: plain decoding beside each drafter, greedy and sampled."""

from __future__ import annotations

import lzma
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from draftscope.base.errors import DraftscopeError
from draftscope.base.steps import last, said
from draftscope.decode.race import race, solo_runs, verify_costs
from draftscope.drafters.settings import Settings
from draftscope.trace.events import AnyEvent
from draftscope.trace.files import line
from draftscope_app.lab.site.texts import NOT_RECORDED, SUFFIX, TEMPERATURES, RecordedText
from draftscope_app.lab.site.thin import thinned
from draftscope_app.page.controls import LANE
from draftscope_app.page.opening_settings import RULE

if TYPE_CHECKING:
    from draftscope.decode.engine import DecodingEngine


@dataclass(frozen=True)
class Length:
    """Of what is recorded: tokens of a run, and whole runs of each lane by itself, which its speed is taken from."""

    tokens: int = 40
    repeats: int = 3


QUICK = Length(tokens=24, repeats=0)


def record(engine: DecodingEngine, text: RecordedText, length: Length, folder: Path) -> Iterator[str]:
    """Writes the text's file once all of its races were run; yields the name of each before it begins.

    Raises `DraftscopeError` where the file cannot be written, or a drafter fails.
    """
    available = [drafter.name for drafter in engine.drafters() if drafter.available]
    wanted = [name for name in text.drafters or available if name in available and name not in NOT_RECORDED]
    lines: list[str] = []
    for temperature in TEMPERATURES:
        for drafter in wanted:
            yield f"{text.name}, {drafter}, T {temperature:g}"
            lines += map(line, map(thinned, recorded(engine, text, drafter, temperature, length)))
    write(folder / f"{text.name}{SUFFIX}", lines)


def recorded(
    engine: DecodingEngine, text: RecordedText, drafter: str, temperature: float, length: Length
) -> list[AnyEvent]:
    """One race, and what its headline and its calculator rest on."""
    from draftscope.decode.lane import Lane

    run = f"{text.name}-{drafter}-{temperature:g}"
    common = {"temperature": temperature, "max_new_tokens": length.tokens, "seed": 1, **RULE}
    lanes = {"plain": Settings.of(drafter="plain", **common), LANE: Settings.of(drafter=drafter, **common)}
    chosen = {name: Lane.of(engine, settings) for name, settings in lanes.items()}
    events = list(race([last(engine.opening(text.prompt, lane, run, name)) for name, lane in chosen.items()]))
    if length.repeats:
        events += said(solo_runs(engine, text.prompt, chosen, run, length.repeats))
    events += said(verify_costs(engine, chosen, run))
    return events


def machine_of(engine: DecodingEngine) -> str:
    """The device, and of a processor its vector instructions."""
    import torch

    device = engine.target.device
    if device.type != "cpu":
        return str(device)
    return f"this processor, {torch.backends.cpu.get_cpu_capability()}, {torch.get_num_threads()} threads"


def write(path: Path, lines: list[str]) -> None:
    """All runs of a text in one file. Raises `DraftscopeError` where it cannot be written."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        packed = lzma.compress("".join(f"{text}\n" for text in lines).encode(), preset=9 | lzma.PRESET_EXTREME)
        path.write_bytes(packed)
    except OSError as error:
        raise DraftscopeError(f"'{path}' cannot be written ({error.strerror}); name another folder.") from None
