"""How vLLM for CPUs is started here: with embedded models, and plugins that record it and mend it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from draftscope.base.assets import assets
from draftscope.servers.programs.program import Command, ServedPair
from draftscope.servers.programs.program_list import find_start

MENDED, INTERPRETED = (Path(__file__).with_name(name) for name in ("mended", "interpreted"))
RECORDED, MENDED_TOO = "draftscope", "draftscope,vllm_55005"  # plugins
PORT = 8160
TARGET, DRAFT = PAIR = ("llama-draftscope-15m", "llama-draftscope-draft-1m")
DRAFTERS = {"draft": DRAFT, "eagle3": "llama-draftscope-eagle3", "ngram": None, "none": None}
DRAWN = '"draft_sample_method": "probabilistic", '  # else drafts are the drafter's best tokens, and there is no q


def command(
    plugins: str, port: int, requests: int = 8, models: Path | None = None, method: str = "draft", drawn: bool = True
) -> Command:
    """Starts vLLM with an embedded drafter of four tokens, or with copies of the models in the folder `models`. Drafts
    of a model are `drawn` from its q. Method `none` starts a plain server."""
    home, name = models or assets() / "models", DRAFTERS[method]
    drafter = None if name is None else str(home / name)
    speculative = method != "none"
    pair = ServedPair(str(home / TARGET), method if speculative else "ngram", drafter, context=512, requests=requests)
    start = find_start("vllm-cpu").commands(pair, port)[speculative]
    more = DRAWN if drawn and drafter else ""
    return replace(
        start,
        arguments=tuple(argument.replace('{"method"', f'{{{more}"method"') for argument in start.arguments),
        environment=(*start.environment, ("VLLM_PLUGINS", plugins), ("PYTHONPATH", str(MENDED))),
    )


def second(start: Command) -> Command:
    """The same with vLLM's V2 runner. Its kernels are Triton's, which its interpreter runs on a CPU: slowly."""
    own = {"VLLM_PLUGINS": "draftscope,vllm_interpreted", "PYTHONPATH": str(INTERPRETED)}
    environment = dict(start.environment) | own | {"TRITON_INTERPRET": "1", "VLLM_USE_V2_MODEL_RUNNER": "1"}
    return replace(start, environment=tuple(environment.items()))
