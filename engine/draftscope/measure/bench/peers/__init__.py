"""Other programs that decode the same weights, with their own defaults. One that cannot run here says why.

Their packages are optional: `pip install 'draftscope[peers]'`.
"""

from __future__ import annotations

from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec

from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.peers import flashspec, llama_server, llamacpp, openvino, transformers
from draftscope.measure.bench.systems import MissingPeerError, System


def opened(engine: DecodingEngine, longest: int, open_until: ExitStack) -> tuple[list[System], list[str]]:
    """The programs that run here, and a note for each that does not. `longest`: tokens of the longest text and prompt.

    Their resources, such as a converted model in a temporary folder, are released when `open_until` is closed.
    """
    systems: list[System] = transformers.systems(engine)
    notes = []
    llama = llamacpp if find_spec("llama_cpp") else llama_server
    for others in (
        partial(flashspec.systems, engine),
        partial(llama.systems, engine, longest, open_until),
        partial(llama_server.speculating, engine, longest, open_until),
        partial(openvino.systems, engine, longest, open_until),
    ):
        try:
            systems += others()
        except MissingPeerError as why:
            notes.append(str(why))
    return systems, notes
