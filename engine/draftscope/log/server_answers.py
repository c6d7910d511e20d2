"""JSON in which a server or a benchmark says what speculation did for one request or for all.

- vLLM's answers with `--per-request-spec-decode-metrics`: `metrics.speculative_decoding`; `detailed` has every round
- SGLang's answers: `meta_info.spec_verify_ct` and what stands beside it
- llama.cpp's answers: `timings.draft_n` and `draft_n_accepted`
- AIPerf: its acceptance record, which is `spec_decode_acceptance` in a line of `profile_export.jsonl`, and the pooled
  histogram of `profile_export_aiperf.json`
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import accumulate
from typing import Any

from draftscope.log.entries import MAX_COUNT, MAX_DRAFT, LoggedRound, Tally

Answer = Mapping[str, Any]
DEPTH = 6  # of objects within objects, in which an answer is looked for
WIDTH = 1000  # objects of one list that are looked into


def found_in(value: Any, request: str, depth: int = DEPTH) -> Iterator[tuple[str, list[LoggedRound], Tally | None]]:
    """What wrote it, its rounds, and the tally where it has none, for every answer in a JSON value."""
    if isinstance(value, list):
        for place, item in enumerate(value[:WIDTH] if depth else ()):
            yield from found_in(item, f"{request}.{place + 1}" if depth == DEPTH else request, depth - 1)
    elif isinstance(value, dict):
        for name, read in SHAPES.items():
            part = value.get(name)
            if (said := read(part, value, request)) is not None:
                yield said
                return
        for item in value.values() if depth else ():
            if isinstance(item, dict | list):
                yield from found_in(item, request, depth - 1)


Said = tuple[str, list[LoggedRound], Tally | None]


def _record(part: Any, _: Answer, request: str) -> Said | None:
    """vLLM's own object, whose histogram is a list, and AIPerf's record of it, whose histogram is by number."""
    if not isinstance(part, dict):
        return None
    steps, drafted = count(part.get("num_spec_steps")), count(part.get("num_draft_tokens"))
    accepted = count(part.get("num_accepted_draft_tokens"))
    if steps is None or drafted is None or accepted is None:
        return None
    source = "AIPerf's record" if "engine" in part else "vLLM's answer"
    rounds = _rounds(part.get("per_step_accepted"), part.get("per_step_drafted"), request)
    if rounds:
        return source, rounds, None
    kept = survivors(_histogram(part.get("acceptance_histogram")), count(part.get("num_spec_tokens")))
    written = count(part.get("completion_tokens"))
    return source, [], Tally(request, steps, drafted, accepted, written, kept)


def _rounds(accepted: Any, drafted: Any, request: str) -> list[LoggedRound]:
    """Rounds of which both numbers are listed. None are made up where one list is missing."""
    if not isinstance(accepted, list) or not isinstance(drafted, list) or len(accepted) != len(drafted):
        return []
    pairs = [(count(kept, MAX_DRAFT), count(of, MAX_DRAFT)) for kept, of in zip(accepted, drafted, strict=True)]
    if any(kept is None or of is None or kept > of for kept, of in pairs):
        return []
    return [
        LoggedRound(request=request, round=number, drafted=of or 0, accepted=kept or 0)
        for number, (kept, of) in enumerate(pairs)
    ]


def _sglang(part: Any, _: Answer, request: str) -> Said | None:
    if not isinstance(part, dict) or (steps := count(part.get("spec_verify_ct"))) is None:
        return None
    drafted, accepted = count(part.get("spec_num_proposed_drafts")), count(part.get("spec_num_correct_drafts"))
    kept = survivors(_histogram(part.get("spec_correct_drafts_histogram")), None)
    written = count(part.get("completion_tokens"))
    return "SGLang's answer", [], Tally(request, steps, drafted, accepted, written, kept)


def _llama_cpp(part: Any, _: Answer, request: str) -> Said | None:
    if not isinstance(part, dict) or (drafted := count(part.get("draft_n"))) is None:
        return None
    accepted, written, time = (
        count(part.get("draft_n_accepted")),
        count(part.get("predicted_n")),
        part.get("predicted_ms"),
    )
    ms = float(time) if isinstance(time, int | float) and 0 <= time < MAX_COUNT else None
    return "llama.cpp's answer", [], Tally(request, None, drafted, accepted, written, ms=ms)


def _pooled(part: Any, _: Answer, __: str) -> Said | None:
    histogram = _histogram(part)
    if not histogram:
        return None
    accepted = sum(length * rounds for length, rounds in enumerate(histogram))
    tally = Tally("all requests", sum(histogram), None, accepted, None, survivors(histogram, None))
    return "AIPerf's summary", [], tally


SHAPES: Mapping[str, Callable[[Any, Answer, str], Said | None]] = {  # the field that an answer has
    "speculative_decoding": _record,
    "spec_decode_acceptance": _record,
    "meta_info": _sglang,
    "timings": _llama_cpp,
    "pooled_spec_decode_acceptance_histogram": _pooled,
}


def _histogram(part: Any) -> list[int]:
    """Rounds by how many tokens they kept, from 0: of a list, or of an object with numbers as names."""
    if isinstance(part, dict):
        named = {int(name): value for name, value in part.items() if str(name).isdecimal() and len(str(name)) < 5}
        part = [named.get(length, 0) for length in range(max(named, default=-1) + 1)] if len(named) == len(part) else []
    counts = [count(value) for value in part[: MAX_DRAFT + 1]] if isinstance(part, list) else []
    return [] if None in counts else [value for value in counts if value is not None]


def survivors(histogram: list[int], most: int | None) -> tuple[float, ...] | None:
    """How many rounds kept at least 1, 2, ... tokens. `most`: how many a round drafts at most, where that is known."""
    if not histogram:
        return None
    kept = list(accumulate(reversed(histogram)))[::-1][1:]
    return tuple(kept + [0] * (min(most or 0, MAX_DRAFT) - len(kept)))


def count(value: Any, most: int = MAX_COUNT) -> int | None:
    """A number that a count can be, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= most else None
