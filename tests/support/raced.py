"""Races of a drafter against plain decoding, for pages that need no server; and the same with markup for its texts."""

from __future__ import annotations

import json
from typing import Any

from draftscope.decode.engine import DecodingEngine
from draftscope.decode.race import race
from draftscope.drafters.settings import Settings
from draftscope.trace import files
from draftscope.trace.events import EVENT, AnyEvent

BYTES = '</script><script>window.pwned=1</script><!--<img src=x onerror="window.pwned=2">${window.pwned=3}'
EVIL = '</script><script>window.pwned=1</script><!--\u2028\u2029<img src=x onerror="window.pwned=2">${window.pwned=3}'


def race_of(pair: DecodingEngine, prompt: str = "a", **own: Any) -> list[AnyEvent]:
    """The events of 24 tokens at temperature 1, unless `own`, the drafter's settings, say otherwise."""
    lanes: dict[str, dict[str, Any]] = {"plain": {"drafter": "plain"}, "speculative": own}
    common = {"temperature": 1.0, "seed": 5, "max_new_tokens": 24}
    common |= {name: own[name] for name in common if name in own}
    settings = {name: Settings.of(**(common | more)) for name, more in lanes.items()}
    return list(race([pair.start(prompt, one, run="r", lane=name) for name, one in settings.items()]))


def hostile(events: list[AnyEvent], emulates: bool = True) -> list[AnyEvent]:
    """The same run with markup wherever a model or a person can put text; emulated sizes only with `emulates`."""
    changed = []
    for event in events:
        raw = json.loads(files.line(event))
        if raw["kind"] == "run_start":
            raw |= {"prompt": EVIL, "prompt_last_raw": BYTES, "drafter": raw["drafter"]}
            for model in raw["models"][:1]:
                model |= {"name": EVIL} | ({"emulates": EVIL} if emulates else {})
            if raw.get("server"):
                raw["server"] |= {"version": EVIL, "model": EVIL}
        if raw["kind"] == "run_end":
            raw["text"] = EVIL * len(raw["token_ids"])
        if raw["kind"] == "burst":
            raw |= {"emitted_raw": [BYTES] * len(raw["emitted"]), "text_delta": EVIL * len(raw["emitted"])}
        if raw["kind"] == "round":
            raw |= {"emitted_raw": [BYTES] * len(raw["emitted"]), "text_delta": EVIL * len(raw["emitted"])}
            raw["last"]["raw"] = BYTES
            for node in raw["nodes"]:
                node |= {"raw": BYTES, "origin": EVIL}
            for decision in raw["decisions"]:
                for distributions in decision["distributions"]:
                    distributions["raw"] = [BYTES] * len(distributions["raw"])
        changed.append(EVENT.validate_python(raw))
    return changed
