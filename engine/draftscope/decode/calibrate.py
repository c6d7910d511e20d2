"""Measures a pair's costs on this machine once, and saves them with what they depend on (`base/costs.py`).

Widths and contexts are timed on the target's forward in turn, and the medians count; drafting and overhead are timed in
real rounds of the loop. The cache is full of zeros, which take as long as other numbers.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import product
from time import perf_counter

import numpy as np
import torch
import transformers

from draftscope import drafters
from draftscope.base import costs
from draftscope.base.costs import PLAIN, Calibration, Drafting, Machine, MeasuredFor, Verify, VerifyCurve
from draftscope.base.machine import own_version
from draftscope.base.steps import Steps, last
from draftscope.decode.availability import availabilities
from draftscope.decode.pair import LoadedPair
from draftscope.decode.prompt import read_prompt
from draftscope.decode.row_bits import row_bits
from draftscope.decode.session import Step
from draftscope.decode.sessions import NOTHING_MEASURED, open_session
from draftscope.decode.start import device_name
from draftscope.drafters.settings import Settings
from draftscope.models.cache.slots import SlotCache
from draftscope.models.loading.chat import Chat
from draftscope.models.model import Model
from draftscope.verify.uniforms import Streams

WIDTHS = (1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 65)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
MOST_ROWS = 320  # in one forward, of all sequences of a batch
CONTEXTS = (64, 256, 512, 1024, 4096, 16384)
CONTEXT = 256
GAMMAS = (1, 3, 5, 8)
REPEATS = 9
ERROR_OF_MEDIAN = 1.2533 / 1.349  # its standard error, in interquartile ranges / sqrt(n), for normal errors
QUICK = 17  # the widest forward of a curve that is measured while somebody waits
TOGETHER = {1: 24, 16: 8}  # batch size -> rounds in which drafting is measured
LONGEST = 1.0  # seconds after which no more rounds are measured
TURN = 8  # rounds, after which others may take theirs
WARM = 2  # rounds of warm-up
STAGES = ("accept", "commit", "host")
COPIED = {"cpu": 1 << 29, "cuda": 1 << 31}  # bytes, to measure the rate of a copy

StageTimes = dict[tuple[str, int, int], list[dict[str, float]]]  # stage times by drafter, batch and gamma


def calibration_of(pair: LoadedPair, say: Callable[[str], None] = lambda _: None) -> Steps[None, Calibration]:
    """The pair's saved calibration, or else a new one, which takes seconds for small models and is saved.

    A saved one that lacks a drafter of this pair, such as a head loaded later, is measured again.
    """
    found = costs.load_saved(measured_for(pair))
    if found is None or not found.drafting.keys() >= set(_drafting(pair)):
        found = yield from measure(pair, say)
        costs.save(found)
    return found


def measured_for(pair: LoadedPair) -> MeasuredFor:
    """What measurements of this pair depend on."""
    device = pair.target.device
    return MeasuredFor(
        target=pair.target.name,
        target_hash=pair.target.digest,
        draft=pair.draft.name if pair.draft else "",
        draft_hash=pair.draft.digest if pair.draft else "",
        ballast=" + ".join(model.ballast.shape.name for model in (pair.target, pair.draft) if model and model.ballast),
        forward=pair.target.forward_mode.value,
        device=device_name(device),
        dtype=str(pair.target.dtype).removeprefix("torch."),
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        transformers=transformers.__version__,
        draftscope=own_version(),
    )


def measure(pair: LoadedPair, say: Callable[[str], None] = lambda _: None) -> Steps[None, Calibration]:
    """Measures everything, in steps of a forward or a few rounds. `say` is called with what is measured next."""
    context = min(CONTEXT, pair.target.context // 2)
    say("verify cost over widths, batches and contexts")
    verify = yield from _verify(pair.target, context)
    say("rounds of every drafter")
    rounds = yield from _rounds(pair)
    say("bits of rows")
    bits = yield from row_bits(pair.target)
    say("copy and product")
    return Calibration(
        measured_for=measured_for(pair),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        context=context,
        verify=verify,
        drafting={name: [_fit(rounds, name, batch) for batch in _together(pair)] for name in (PLAIN, *_drafting(pair))},
        machine=machine(pair.target),
        target_bytes=sum(p.numel() * p.element_size() for p in pair.target.network.parameters()),
        differing_widths=[each.width for each in bits if each.differing and not each.branches],
        row_bits=bits,
    )


def quick_curve(pair: LoadedPair) -> Steps[None, VerifyCurve]:
    """v by rows: the saved calibration's, or one measured now with few repeats."""
    found = costs.load_saved(measured_for(pair))
    if found is not None:
        return found.curve
    model, context = pair.target, min(CONTEXT, pair.target.context // 2)
    widths = [width for width in WIDTHS if width <= QUICK]
    cache = model.cache(1, context + widths[-1])
    works = [forward_of(model, cache, width, context) for width in widths]
    times = yield from interleaved(works, model.device, REPEATS // 2 + 1)
    points = [
        Verify(width=width, batch=1, context=context, ms=ms, noise=noise)
        for width, (ms, noise) in zip(widths, times, strict=True)
    ]
    return costs.verify_curve(points)


def _verify(model: Model, context: int) -> Steps[None, list[Verify]]:
    """Batch sizes in order: a large batch evicts from the CPU's caches what a small one would find there."""
    found = []
    for batch in BATCHES if model.trees else (1,):  # without trees, a model decodes one sequence at a time
        cases = [(width, context) for width in WIDTHS if batch * width <= MOST_ROWS or width == 1]
        others = CONTEXTS if batch == 1 else CONTEXTS[:1]
        cases += [(1, each) for each in others if each + 1 <= model.context and each != context]
        cache = model.cache(batch, max(width + each for width, each in cases))
        repeats = REPEATS if batch == 1 else REPEATS // 2 + 1  # large batches take longer and vary less
        works = [forward_of(model, cache, width, each) for width, each in cases]
        times = yield from interleaved(works, model.device, repeats)
        found += [
            Verify(width=width, batch=batch, context=tokens, ms=ms, noise=noise)
            for (width, tokens), (ms, noise) in zip(cases, times, strict=True)
        ]
    return found


def forward_of(model: Model, cache: SlotCache, width: int, context: int) -> Callable[[], object]:
    """A forward of `width` rows for each sequence of the cache, each with `context` tokens."""
    batch = len(cache.table.length)
    tokens = torch.ones((batch, width), dtype=torch.long, device=model.device)
    offsets = torch.arange(width, device=model.device).expand(batch, -1)
    length = torch.full((batch,), context, device=model.device)

    def run() -> object:
        cache.table.commit(length, context, even=True, least=context)
        return model.forward(cache, tokens, offsets)

    return run


def interleaved(
    works: Sequence[Callable[[], object]], device: torch.device, repeats: int
) -> Steps[None, list[tuple[float, float]]]:
    """Median milliseconds of each piece of work on `device` and the standard error of that median; they run in turn,
    each in a step of its own."""
    times: list[list[float]] = [[] for _ in works]
    for repeat in range(WARM + repeats):
        for work, taken in zip(works, times, strict=True):
            yield None
            ms = _timed(work, device)
            if repeat >= WARM:
                taken.append(ms)
    return [(statistics.median(taken), _error_of_median(taken)) for taken in times]


def _error_of_median(values: Sequence[float]) -> float:
    low, high = np.quantile(values, [0.25, 0.75])
    return float(ERROR_OF_MEDIAN * (high - low) / np.sqrt(len(values)))


def _timed(work: Callable[[], object], device: torch.device) -> float:
    began = perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (perf_counter() - began) * 1e3


def _drafting(pair: LoadedPair) -> list[str]:
    """The available drafters whose cost depends on gamma. Synthetic drafters have no real cost, drafters through text
    do not choose by cost, and one from elsewhere must not make a saved calibration incomplete."""
    known = drafters.known()
    able = [known[info.name] for info in availabilities(pair) if info.available and "gamma" in info.uses]
    return [info.name for info in able if not (info.synthetic or info.needs_text_draft or info.source)]


def _together(pair: LoadedPair) -> dict[int, int]:
    return TOGETHER if pair.batches else {1: TOGETHER[1]}


def _rounds(pair: LoadedPair) -> Steps[None, StageTimes]:
    """Stage times of real rounds by drafter, batch and gamma, at temperature 1, in interleaved runs."""
    found: StageTimes = {}
    for (batch, most), repeat in product(_together(pair).items(), range(2)):
        for name in (PLAIN, *_drafting(pair)):
            for gamma in (0,) if name == PLAIN else GAMMAS if batch == 1 else GAMMAS[:: len(GAMMAS) - 1]:
                yield None
                stages = []
                steps = _first(_steps(pair, name, batch, gamma, most), most if repeat else WARM)
                for count, step in enumerate(steps, 1):
                    stages += [step.stages] if step.tree.topology.height == gamma else []
                    if count % TURN == 0:
                        yield None
                if repeat:  # the first pass warms up
                    found[name, batch, gamma] = stages
    return found


def _steps(pair: LoadedPair, name: str, batch: int, gamma: int, rounds: int) -> Iterator[Step]:
    """Rounds of texts that are long enough for `rounds` rounds, or as long as the models' context."""
    _, ids = read_prompt(pair, "The", 1, Chat())
    room = min(model.context for model in pair.models) - len(ids)
    tokens = min(rounds * (gamma + 1) + 1, room)
    settings = Settings.of(drafter=name, gamma=max(gamma, 1), temperature=1.0, max_new_tokens=tokens)
    streams = Streams(settings.seed, tuple(range(batch)))
    return open_session(pair, [ids] * batch, settings, streams, False, NOTHING_MEASURED).steps()


def _first(steps: Iterator[Step], most: int) -> Iterator[Step]:
    """The first `most` rounds, or fewer if they take long."""
    began = perf_counter()
    for count, step in enumerate(steps, 1):
        yield step
        if count == most or (count > WARM and perf_counter() - began > LONGEST):
            return


def _fit(rounds: StageTimes, name: str, batch: int) -> Drafting:
    """Lines fitted to the medians at each gamma. A drafter that drafted nothing costs what plain decoding does."""
    points = [(gamma, stages) for gamma in (0, *GAMMAS) if (stages := rounds.get((name, batch, gamma)))]
    points = points or [(0, rounds[PLAIN, batch, 0])]
    propose = _line((gamma, statistics.median(s["propose"] for s in stages)) for gamma, stages in points)
    other = _line((gamma, statistics.median(sum(s[k] for k in STAGES) for s in stages)) for gamma, stages in points)
    return Drafting(batch=batch, step=propose[0], overhead=max(0.0, propose[1]) + other[1], accept_step=other[0])


def _line(points: Iterable[tuple[int, float]]) -> tuple[float, float]:
    """Slope and intercept by least squares, neither below 0: no cost is."""
    found = list(points)
    if len(found) < 2:
        return 0.0, found[0][1] if found else 0.0
    x, y = np.array(found).T
    slope = max(0.0, float(np.polyfit(x, y, 1)[0]))
    return slope, max(0.0, float(np.mean(y - slope * x)))


def machine(model: Model) -> Machine:
    """The rates of a copy much larger than every cache and of a compute-bound matrix product."""
    size = COPIED["cuda" if model.device.type == "cuda" else "cpu"]
    source = torch.ones(size // 4, dtype=torch.float32, device=model.device)
    into = torch.empty_like(source)
    side = 4096 if model.device.type == "cuda" else 1024
    square = torch.ones((side, side), dtype=model.dtype, device=model.device)
    works = [lambda: into.copy_(source), lambda: square @ square]
    (copy, _), (product, _) = last(interleaved(works, model.device, 5))
    return Machine(copy_gb_s=2 * size / 1e6 / copy, matmul_gflop_s=2 * side**3 / 1e6 / product)
