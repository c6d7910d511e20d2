"""Measures a pair's costs on this machine once, and saves them with what they depend on (`base/costs.py`).

Widths and contexts are timed on the target's forward in turn; drafting and overhead are timed in real rounds of the
loop. The cache is full of zeros, which take as long as other numbers. Of every time a low quantile counts, since other
work only adds to it. Passes in which other processes took a core that was needed are measured again; what is still
disturbed, or cannot be, is said in `Calibration.doubts`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from time import perf_counter

import numpy as np
import torch
import transformers

from draftscope import drafters
from draftscope.base import costs
from draftscope.base.cores import Company, OtherCores
from draftscope.base.costs import PLAIN, Calibration, Drafting, Machine, MeasuredFor, Verify, VerifyCurve
from draftscope.base.machine import own_version
from draftscope.base.presumed_costs import ROWS_AS_LONG
from draftscope.base.progress import Pace, Watcher, unseen
from draftscope.base.steps import Steps, mapped
from draftscope.decode.availability import availabilities
from draftscope.decode.lane import Lane
from draftscope.decode.open_session import NOTHING_MEASURED, open_session
from draftscope.decode.pair import LoadedPair
from draftscope.decode.prompt import read_prompt
from draftscope.decode.row_rounding import compare_rows, forwards_of
from draftscope.decode.session import Step
from draftscope.decode.start import device_name
from draftscope.drafters.settings import Settings
from draftscope.models.cache.slots import SlotCache
from draftscope.models.forward.stored import stored_weights
from draftscope.models.loading.chat import Chat
from draftscope.models.model import Model
from draftscope.verify.uniforms import Streams

WIDTHS = (1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 65)
BATCHES = (1, 2, 4, 8, 16, 32, 64)
MAX_ROWS = 320  # in one forward, of all sequences of a batch
CONTEXTS = (64, 256, 512, 1024, 4096, 16384)
CONTEXT = 256
GAMMAS = (1, 3, 5, 8)
REPEATS = 9
LOW, BESIDE = 0.2, 0.15  # the quantile that counts, and how far from it the spread is taken for its error
STEPS_AS_LONG = 6  # draft steps that take as long as a forward of one row: to foresee
QUICK = 17  # the widest forward of a curve that is measured while somebody waits
TOGETHER = {1: 24, 16: 8}  # batch size -> rounds in which drafting is measured
LONGEST = 1.0  # seconds after which no more rounds are measured
TURN = 8  # rounds, after which others may take theirs
WARM, WARM_SHARE = 2, 0.25  # rounds of warm-up, and how long they take, over the measured ones
STAGES = ("accept", "commit", "host")
COPIED = {"cpu": 1 << 29, "cuda": 1 << 31}  # bytes, to measure the rate of a copy

StageTimes = dict[tuple[str, int, int], list[dict[str, float]]]  # stage times by drafter, batch and gamma


def calibration_of(
    pair: LoadedPair, watch: Watcher = unseen, names: Sequence[str] = (), again: bool = False, one_text: bool = False
) -> Steps[None, Calibration]:
    """The pair's saved calibration, or else (or `again`) a new one, which takes seconds for small models.

    It has the costs of the drafters `names`, or of all of this pair; drafters that the saved one lacks, such as a head
    loaded later, are added to it. It is saved unless there are doubts about it. With `one_text` that of batches of one
    is enough, which takes a fraction of the time.
    """
    calibration = None if again else _saved(pair, one_text)
    missing = _missing(pair, calibration, names)
    if calibration is None:
        calibration = yield from measure(pair, watch, missing, one_text)
    elif missing:
        rounds = _Rounds(pair, Pace(watch), missing, calibration.measured_for.one_text)
        drafting = calibration.drafting | (yield from rounds.measured(0.0))
        calibration = calibration.model_copy(update={"drafting": drafting, "doubts": rounds.doubts})
    else:
        return calibration
    costs.save(calibration)
    return calibration


def known_costs(pair: LoadedPair, names: Sequence[str] = (), one_text: bool = False) -> Calibration | None:
    """The saved calibration, if it has the costs of the drafters `names`, or of all of this pair."""
    calibration = _saved(pair, one_text)
    return None if _missing(pair, calibration, names) else calibration


def _saved(pair: LoadedPair, one_text: bool) -> Calibration | None:
    saved = costs.load_saved(measured_for(pair))
    return costs.load_saved(measured_for(pair, one_text)) if saved is None and one_text else saved


def _missing(pair: LoadedPair, calibration: Calibration | None, names: Sequence[str]) -> list[str]:
    """The drafters, of `names` or of all of this pair, whose costs it lacks."""
    return [name for name in drafting_of(pair, names) if calibration is None or name not in calibration.drafting]


def foreseen_s(pair: LoadedPair, forward_s: float, names: Sequence[str] = ()) -> float:
    """About how many seconds a calibration takes, from those of a forward of one row."""
    pace = Pace(unseen)
    forwards = _Forwards(pair.target, pace, False).work + forwards_of(pair.target.trees)
    return forwards * forward_s + _Rounds(pair, pace, drafting_of(pair, names), False).seconds(forward_s)


def measured_for(pair: LoadedPair, one_text: bool = False) -> MeasuredFor:
    """What measurements of this pair depend on."""
    device = pair.target.device
    return MeasuredFor(
        target=pair.target.name,
        target_hash=pair.target.digest,
        draft=pair.draft.name if pair.draft else "",
        draft_hash=pair.draft.digest if pair.draft else "",
        emulates=" + ".join(m.emulated.shape.name for m in (pair.target, pair.draft) if m and m.emulated),
        forward=pair.target.forward_mode.value,
        device=device_name(device),
        dtype=str(pair.target.dtype).removeprefix("torch."),
        threads=torch.get_num_threads(),
        torch=torch.__version__,
        transformers=transformers.__version__,
        draftscope=own_version(),
        one_text=one_text,
    )


def measure(
    pair: LoadedPair, watch: Watcher = unseen, names: Sequence[str] | None = None, one_text: bool = False
) -> Steps[None, Calibration]:
    """Measures everything, in steps of a forward or a few rounds; of the drafters, `names` or all of this pair."""
    pace = Pace(watch)
    forwards = _Forwards(pair.target, pace, one_text)
    rounds = _Rounds(pair, pace, drafting_of(pair) if names is None else names, one_text)
    singles = forwards_of(pair.target.trees)
    verify = yield from forwards.measured(lambda unit: rounds.seconds(unit) + singles * unit)
    drafting = yield from rounds.measured(singles * verify[0].ms / 1e3)
    pace.begin(singles)
    bits = yield from mapped(compare_rows(pair.target), lambda _: pace.advance(1, "rows together and alone"))
    calibration = Calibration(
        measured_for=measured_for(pair, one_text),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        context=forwards.context,
        verify=verify,
        drafting=drafting,
        machine=(yield from machine(pair.target)),
        target_bytes=weight_bytes(pair.target.network),
        row_rounding=bits,
    )
    said = [*forwards.doubts, *rounds.doubts, *costs.impossible(calibration, _draft_bytes(pair))]
    return calibration.model_copy(update={"doubts": said})


def quick_curve(pair: LoadedPair) -> Steps[None, VerifyCurve]:
    """v by rows: the saved calibration's, or one measured now with few repeats."""
    saved = costs.load_saved(measured_for(pair))
    if saved is not None:
        return saved.curve
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


class _Forwards:
    """Times of the target's forwards. Batch sizes in order: a large batch evicts from the CPU's caches what a small one
    would find there."""

    def __init__(self, model: Model, pace: Pace, one_text: bool) -> None:
        self.model, self.context = model, min(CONTEXT, model.context // 2)
        self.doubts: list[str] = []
        # without trees, a model decodes one sequence at a time
        self._batches = BATCHES if model.trees and not one_text else (1,)
        self._pace = pace
        self._laps: list[float] = []

    def measured(self, later: Callable[[float], float]) -> Steps[None, list[Verify]]:
        """`later`: the seconds of all that follows, from those of a forward of one row."""
        results: list[Verify] = []
        self._pace.begin(self.work, later)
        for batch in self._batches:
            points = yield from self._batch(batch)
            if costs.falling(points):  # once more: of each forward the shorter time counts
                again = yield from self._batch(batch)
                points = [min(pair, key=lambda entry: entry.ms) for pair in zip(points, again, strict=True)]
            results += points
        company = Company.of(self._laps, _threads(self.model.device))
        self.doubts = [f"While forwards were timed, {company}."] if company.disturbs else []
        return results

    @property
    def work(self) -> float:
        """Of all, in forwards of one row."""
        return sum(self._work(batch) for batch in self._batches)

    def _batch(self, batch: int) -> Steps[None, list[Verify]]:
        cases, model = self._cases(batch), self.model
        cache = model.cache(batch, max(width + tokens for width, tokens in cases))
        repeats = REPEATS if batch == 1 else REPEATS // 2 + 1  # large batches take longer and vary less
        timed = Interleaved([forward_of(model, cache, width, tokens) for width, tokens in cases], model.device)
        words = f"forwards of {batch} sequence{'s' if batch > 1 else ''}"
        each_pass = self._work(batch) / (WARM + repeats)
        times = yield from timed.measured(repeats, lambda: self._pace.advance(each_pass, words))
        self._laps += timed.laps
        return [
            Verify(width=width, batch=batch, context=tokens, ms=ms, noise=noise)
            for (width, tokens), (ms, noise) in zip(cases, times, strict=True)
        ]

    def _cases(self, batch: int) -> list[tuple[int, int]]:
        """Widths and contexts."""
        cases = [(width, self.context) for width in WIDTHS if batch * width <= MAX_ROWS or width == 1]
        others = CONTEXTS if batch == 1 else CONTEXTS[:1]
        return cases + [(1, tokens) for tokens in others if tokens + 1 <= self.model.context and tokens != self.context]

    def _work(self, batch: int) -> float:
        """In forwards of one row."""
        passes = WARM + (REPEATS if batch == 1 else REPEATS // 2 + 1)
        return passes * sum(1 + batch * width / ROWS_AS_LONG for width, _ in self._cases(batch))


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


class Interleaved:
    """Pieces of work on `device` that are timed in turn, so that what disturbs one disturbs all."""

    def __init__(self, works: Sequence[Callable[[], object]], device: torch.device) -> None:
        self._works, self._device = works, device
        self.laps: list[float] = []  # cores that other processes used during the passes that count

    def measured(
        self, repeats: int, done: Callable[[], object] = lambda: None
    ) -> Steps[None, list[tuple[float, float]]]:
        """Milliseconds of each, and their standard error. Each runs in a step of its own; `done` is called after each
        pass. Passes in which a core was lacking are measured again, at most half as many times."""
        for _ in range(WARM):
            yield from self._pass()
            done()
        passes: list[tuple[float, list[float]]] = []
        meter, threads = OtherCores(), _threads(self._device)
        while len(passes) < repeats + (repeats + 1) // 2:
            taken = yield from self._pass()
            passes.append((meter.lap(), taken))
            done() if len(passes) <= repeats else None
            if sum(not Company.of([lap], threads).disturbs for lap, _ in passes) >= repeats:
                break
        passes = sorted(passes, key=lambda entry: entry[0])[:repeats]
        self.laps = [lap for lap, _ in passes]
        return [low(times) for times in zip(*(taken for _, taken in passes), strict=True)]

    def _pass(self) -> Steps[None, list[float]]:
        taken = []
        for work in self._works:
            yield None
            taken.append(_timed(work, self._device))
        return taken


def interleaved(
    works: Sequence[Callable[[], object]], device: torch.device, repeats: int
) -> Steps[None, list[tuple[float, float]]]:
    """Milliseconds of each piece of work, and their standard error: see `Interleaved`."""
    return Interleaved(works, device).measured(repeats)


def low(values: Sequence[float]) -> tuple[float, float]:
    """The quantile `LOW` and its standard error, from the density of values beside it."""
    below, middle, above = np.quantile(values, [LOW - BESIDE, LOW, LOW + BESIDE])
    return float(middle), float((above - below) / (2 * BESIDE) * np.sqrt(LOW * (1 - LOW) / len(values)))


def _timed(work: Callable[[], object], device: torch.device) -> float:
    began = perf_counter()
    work()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return (perf_counter() - began) * 1e3


def _threads(device: torch.device) -> int:
    """Cores that a forward needs."""
    return torch.get_num_threads() if device.type == "cpu" else 1


def drafting_of(pair: LoadedPair, names: Sequence[str] = ()) -> list[str]:
    """The available drafters whose cost depends on gamma, or those of them that the drafters `names` cost like.

    Synthetic drafters have no real cost, drafters through text do not choose by cost, one from elsewhere must not make
    a saved calibration incomplete, and one of several sources chooses by the costs of those.
    """
    known = drafters.known()
    able = [known[info.name] for info in availabilities(pair) if info.available and "gamma" in info.uses]
    elsewhere = [info for info in able if info.synthetic or info.needs_text_draft or info.source or info.chooses_by]
    calibrated = [info.name for info in able if info not in elsewhere]
    if not names:
        return calibrated
    infos = [drafters.find(name) for name in names]
    wanted = {like for info in infos for like in (info.name, info.costs_like, *info.chooses_by)}
    return [name for name in calibrated if name in wanted]


def weight_bytes(network: torch.nn.Module) -> int:
    """Of all weights of a network."""
    floats = sum(weight.nbytes for weight in network.parameters())
    return floats + sum(weight.nbytes for weight in stored_weights(network))


def _draft_bytes(pair: LoadedPair) -> dict[str, int]:
    """By drafter: the weights that a draft step reads."""
    results = {kind: weight_bytes(head.network) for kind, head in pair.heads.items()}
    return results | ({"draft": weight_bytes(pair.draft.network)} if pair.draft else {})


class _Rounds:
    """Costs of plain and the drafters `names`, from real rounds at temperature 1 by batch and gamma, in turn."""

    def __init__(self, pair: LoadedPair, pace: Pace, names: Sequence[str], one_text: bool) -> None:
        self._pair, self._names = pair, (PLAIN, *names)
        self._together = TOGETHER if pair.batches and not one_text else {1: TOGETHER[1]}
        self._cells = [
            (name, batch, gamma)
            for batch in self._together
            for name in self._names
            for gamma in ((0,) if name == PLAIN else GAMMAS if batch == 1 else GAMMAS[:: len(GAMMAS) - 1])
        ]
        self._pace = pace
        self._laps: list[float] = []
        self.doubts: list[str] = []

    def seconds(self, forward: float) -> float:
        """About how long this takes, from the seconds of a forward of one row."""
        rounds = (
            (WARM + self._together[batch]) * (1 + batch * (gamma + 1) / ROWS_AS_LONG + gamma / STEPS_AS_LONG)
            for _, batch, gamma in self._cells
        )
        return sum(min(entry * forward, LONGEST) for entry in rounds)

    def measured(self, later: float) -> Steps[None, dict[str, list[Drafting]]]:
        """`later`: the seconds of all that follows."""
        results: StageTimes = {}
        self._pace.begin(len(self._cells) * (1 + WARM_SHARE), lambda _: later)
        for cell in self._cells:
            yield from self._run(cell, WARM)
            self._pace.advance(WARM_SHARE, "warm-up of rounds")
        for cell in self._cells:
            results[cell], lap = yield from self._quiet(cell)
            self._laps.append(lap)
            self._pace.advance(1, f"rounds of {cell[0]}")
        company = Company.of(self._laps, _threads(self._pair.target.device))
        self.doubts = [f"While rounds were timed, {company}."] if company.disturbs else []
        return {name: [_fit(results, name, batch) for batch in self._together] for name in self._names}

    def _quiet(self, cell: tuple[str, int, int]) -> Steps[None, tuple[list[dict[str, float]], float]]:
        """Stage times of each round, and the cores that others used; once more if one was lacking."""
        tries: list[tuple[list[dict[str, float]], float]] = []
        while len(tries) < 2:
            meter = OtherCores()
            stages = yield from self._run(cell, self._together[cell[1]])
            tries.append((stages, meter.lap()))
            if not Company.of([tries[-1][1]], _threads(self._pair.target.device)).disturbs:
                break
        return min(tries, key=lambda entry: entry[1])

    def _run(self, cell: tuple[str, int, int], most: int) -> Steps[None, list[dict[str, float]]]:
        name, batch, gamma = cell
        yield None
        stages = []
        for count, step in enumerate(_first(_steps(self._pair, name, batch, gamma, most), most), 1):
            stages += [step.stages] if step.tree.topology.height == gamma else []
            if count % TURN == 0:
                yield None
        return stages


def _steps(pair: LoadedPair, name: str, batch: int, gamma: int, rounds: int) -> Iterator[Step]:
    """Rounds of texts that are long enough for `rounds` rounds, or as long as the models' context."""
    _, ids = read_prompt(pair, "The", 1, Chat())
    room = min(model.context for model in pair.models) - len(ids)
    tokens = min(rounds * (gamma + 1) + 1, room)
    settings = Settings.of(drafter=name, gamma=max(gamma, 1), temperature=1.0, max_new_tokens=tokens)
    streams = Streams(settings.seed, tuple(range(batch)))
    return open_session(pair, Lane.of(pair, settings), [ids] * batch, streams, False, NOTHING_MEASURED).steps()


def _first(steps: Iterator[Step], most: int) -> Iterator[Step]:
    """The first `most` rounds, or fewer if they take long."""
    began = perf_counter()
    for count, step in enumerate(steps, 1):
        yield step
        if count == most or (count > WARM and perf_counter() - began > LONGEST):
            return


def _fit(rounds: StageTimes, name: str, batch: int) -> Drafting:
    """Lines fitted to the times at each gamma. A drafter that drafted nothing costs what plain decoding does."""
    points = [(gamma, stages) for gamma in (0, *GAMMAS) if (stages := rounds.get((name, batch, gamma)))]
    points = points or [(0, rounds[PLAIN, batch, 0])]
    propose = _line((gamma, low([s["propose"] for s in stages])[0]) for gamma, stages in points)
    other = _line((gamma, low([sum(s[k] for k in STAGES) for s in stages])[0]) for gamma, stages in points)
    return Drafting(batch=batch, step=propose[0], overhead=max(0.0, propose[1]) + other[1], accept_step=other[0])


def _line(points: Iterable[tuple[int, float]]) -> tuple[float, float]:
    """Slope and intercept by least squares, neither below 0: no cost is."""
    pairs = list(points)
    if len(pairs) < 2:
        return 0.0, pairs[0][1] if pairs else 0.0
    x, y = np.array(pairs).T
    slope = max(0.0, float(np.polyfit(x, y, 1)[0]))
    return slope, max(0.0, float(np.mean(y - slope * x)))


def machine(model: Model) -> Steps[None, Machine]:
    """The rates of a copy much larger than every cache and of a compute-bound matrix product."""
    size = COPIED["cuda" if model.device.type == "cuda" else "cpu"]
    source = torch.ones(size // 4, dtype=torch.float32, device=model.device)
    into = torch.empty_like(source)
    side = 4096 if model.device.type == "cuda" else 1024
    square = torch.ones((side, side), dtype=model.dtype, device=model.device)
    works = [lambda: into.copy_(source), lambda: square @ square]
    (copy, _), (product, _) = yield from interleaved(works, model.device, 5)
    return Machine(copy_gb_s=2 * size / 1e6 / copy, matmul_gflop_s=2 * side**3 / 1e6 / product)
