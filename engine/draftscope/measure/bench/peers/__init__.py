"""Other programs that decode the same weights, each with its own defaults. One that cannot run here says why.

Their packages are never dependencies: `pip install 'draftscope[peers]'` brings them.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial

from draftscope.decode.lab import Lab
from draftscope.measure.bench.peers import flashspec, llamacpp, transformers
from draftscope.measure.bench.peers.missing import MissingPeerError
from draftscope.measure.bench.systems import System


def opened(lab: Lab, longest: int, open_until: ExitStack) -> tuple[list[System], list[str]]:
    """The peers that run here, and a note for each that does not. `longest`: tokens of the longest text, all in all.

    What they hold (a converted model in a temporary folder) is let go when `open_until` is closed.
    """
    systems: list[System] = transformers.systems(lab)
    notes = []
    for others in (partial(flashspec.systems, lab), partial(llamacpp.systems, lab, longest, open_until)):
        try:
            systems += others()
        except MissingPeerError as why:
            notes.append(str(why))
    return systems, notes
