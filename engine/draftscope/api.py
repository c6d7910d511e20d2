"""The front door for Python: `draftscope.load()` gives an `Engine`, which decodes and measures.

Each method calls the room that does the work. Rooms above this one have functions that take an `Engine`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

from tqdm.auto import tqdm

from draftscope import drafters as registry
from draftscope.base import prompts as prompt_files
from draftscope.base.admit import admit
from draftscope.base.common_settings import refuse_unknown_arguments
from draftscope.base.costs import NOT_KEPT
from draftscope.base.errors import DraftscopeError, quoted
from draftscope.base.prompts import Prompt
from draftscope.base.steps import last, said
from draftscope.decode.availability import default_drafter
from draftscope.decode.engine import DecodingEngine, show_measuring
from draftscope.decode.lane import Lane
from draftscope.decode.load import LoadCall, loaded, taking
from draftscope.decode.prompt import AnyPrompt, listed_prompts
from draftscope.drafters import AnyDrafter
from draftscope.drafters.registry import warn_unread
from draftscope.drafters.settings import Settings, SettingValues, takes_settings
from draftscope.trace.result import Trace

if TYPE_CHECKING:
    import pandas as pd
    from plotly.graph_objects import Figure

PLAIN = "plain"
SomeDrafters = AnyDrafter | Sequence[AnyDrafter]
Texts = str | Path | Iterable[str] | Mapping[str, Iterable[str]]  # a JSONL file, a list, or lists by kind of text


@dataclass(frozen=True, repr=False)
class Report:
    """What was measured: a `summary` in sentences, a `table`, and the whole `value` that both come from."""

    summary: str
    table: pd.DataFrame
    value: Any

    def __repr__(self) -> str:
        return f"{self.summary}\n\n{self.table.to_string(index=False, max_rows=20, max_colwidth=60)}"

    def _repr_html_(self) -> str:
        table: str = self.table.to_html(index=False, max_rows=40)
        return f"<p style='white-space: pre-wrap'>{escape(self.summary)}</p>{table}"


class Benchmark(Report):
    """What `Engine.bench` measured; `value` is the `BenchReport`."""

    def plots(self) -> dict[str, Figure]:
        """Its plots by title, as Plotly figures, which a notebook shows. Raises `DraftscopeError` without plotly."""
        try:
            from draftscope.measure.bench.bench_plots import plots
        except ModuleNotFoundError as error:
            if not str(error.name).startswith("plotly"):
                raise
            raise DraftscopeError("Plots need plotly; install it with: pip install 'draftscope[app]'.") from None
        return {plot.title: plot.figure for plot in plots(asdict(self.value))}


class Engine(DecodingEngine):
    """Loaded models that decode, and measure what they do. Made by `draftscope.load`; `close` it, or use it in a `with`
    statement, to give back the number of threads that `load` changed.

    A drafter is a name, a class, a `DrafterInfo` or 'file.py:NAME' (`draftscope.drafters.registry.adopt`). Everything
    that a user can mend is a `DraftscopeError`.
    """

    @takes_settings
    def race(
        self,
        prompt: AnyPrompt,
        drafters: SomeDrafters = (),
        *,
        repeats: int = 3,
        progress: bool = True,
        **settings: Unpack[SettingValues],
    ) -> Trace:
        """Plain decoding and drafters on one prompt, by default the usual one: lanes that take turns round by round.

        Each lane's clock counts only its own work. `repeats` whole runs of each lane by itself are timed as well.
        Returns a `Trace` with a run for each lane; `show` plays them side by side.
        """
        from draftscope.decode.race import race, solo_runs

        if not isinstance(repeats, int) or repeats < 0:
            raise DraftscopeError(f"repeats = {repeats!r}: choose a whole number, 0 or more.")
        every = self._lanes([PLAIN, *(drafter_names(drafters) or [default_drafter(self)])], settings)
        warn_unread([*every], settings)
        lanes = {name: Lane.of(self, chosen) for name, chosen in every.items()}
        with show_measuring(progress) as watch:
            runs = [last(self.opening(prompt, chosen, lane=name), watch) for name, chosen in lanes.items()]
            return Trace((*race(runs), *said(solo_runs(self, prompt, lanes, repeats=repeats))))

    @takes_settings
    def compare(
        self,
        prompts: AnyPrompt | Iterable[AnyPrompt],
        drafters: SomeDrafters,
        seeds: Sequence[int] = (0,),
        *,
        baseline: AnyDrafter = PLAIN,
        progress: bool = True,
        **settings: Unpack[SettingValues],
    ) -> pd.DataFrame:
        """Whole runs of every drafter on every prompt with every seed, in turn, beside a baseline's.

        A row for each drafter: tokens/s, its ratio to the baseline and the tokens of a round (tau), with 95% bootstrap
        intervals that are paired by prompt (`measure.paired_runs.paired_table`).
        """
        from draftscope.measure.paired_runs import drafter_runs, paired_table

        every = listed_prompts(prompts)
        inputs: list[Any] = [prompts] if every is None else every
        if "seed" in settings or not isinstance(seeds, Sequence) or not seeds:
            raise DraftscopeError("seeds names the seeds of all runs in a list; give at least one there, and no seed.")
        for seed in seeds:
            Settings.of(seed=seed)
        lanes = self._lanes([baseline, *drafter_names(drafters)], settings)
        warn_unread([*lanes], settings)
        total = len(inputs) * len(seeds) * len(lanes)
        with show_measuring(progress) as watch:
            runs = drafter_runs(self, inputs, lanes, seeds, watch)
            done = list(tqdm(runs, total=total, desc="compare", unit="run", leave=False, disable=not progress))
        return paired_table(done, next(iter(lanes)))

    @refuse_unknown_arguments
    def check(
        self,
        drafter: AnyDrafter | None = None,
        *,
        samples: int = 2048,
        seed: int = 0,
        rule: str | None = None,
        prompts: str | Sequence[str] = (),
        progress: bool = True,
    ) -> Report:
        """Is the drafter's output still the target's? Compares it with plain decoding, and `samples` runs above
        temperature 0 with the target's distribution (`measure.check`).

        The table has a row for each test; `value` holds its findings. A drafter from elsewhere that passes every test
        is no longer "unchecked" on this target.
        """
        import pandas as pd

        from draftscope.measure import check as checks
        from draftscope.measure.findings import Finding, refuse_few, verdict
        from draftscope.measure.greedy_checks import PROMPTS

        refuse_few(samples)
        name = registry.adopt(default_drafter(self) if drafter is None else drafter)
        chosen = Settings.of(drafter=name, temperature=1.0, seed=seed, **({} if rule is None else {"rule": rule}))
        lane = Lane.of(self, chosen)
        texts = tuple(_several(prompts)) or PROMPTS
        findings: list[Finding] = []
        with tqdm(total=1.0, desc="check", leave=False, disable=not progress, bar_format="{l_bar}{bar}|") as bar:
            for step in checks.steps(self, name, samples, seed, rule, chosen, texts):
                if isinstance(step, Finding):
                    findings.append(step)
                    continue
                bar.set_description(step.doing)
                bar.update(step.share - bar.n)
        sentence = verdict(findings, lane.exact, proved=not lane.info.source)
        return Report(sentence, pd.DataFrame([asdict(finding) for finding in findings]), findings)

    @refuse_unknown_arguments
    def calibrate(self, again: bool = False, progress: bool = True) -> Report:
        """Measures once what rounds cost here, and keeps it; `again` measures anew.

        The table has the milliseconds of a target forward by rows, batch and context; `value` is the `Calibration`,
        with the costs of every drafter.
        """
        import pandas as pd

        from draftscope.decode.calibration import calibration_of

        with tqdm(total=0, desc="calibrate", leave=False, disable=not progress, bar_format="{desc}") as bar:
            costs = last(calibration_of(self, lambda now: bar.set_description(now.words), again=again))
        self.calibration = costs
        sentence = f"One round of plain decoding takes {costs.plain_ms:.2f} ms after {costs.context} tokens."
        sentence = "\n".join([sentence, *costs.doubts, *[NOT_KEPT][: len(costs.doubts)]])
        return Report(sentence, pd.DataFrame([point.model_dump() for point in costs.verify]), costs)

    @refuse_unknown_arguments
    def bench(
        self,
        prompts: Texts | None = None,
        drafters: SomeDrafters = (),
        *,
        gammas: Sequence[int] = (4,),
        temperatures: Sequence[float] = (0.0,),
        batches: Sequence[int] = (1,),
        rules: Sequence[str] = ("block",),
        tokens: int = 96,
        repeats: int = 3,
        seconds: float | None = None,
        peers: bool = False,
    ) -> Benchmark:
        """Measures drafters on a dataset: a list of texts, lists by kind of text, or the path of a JSONL file.

        Every drafter (by default all that can run) continues every text by `tokens` tokens, `repeats` times in turn,
        ends of text ignored, with a progress bar on a terminal. The table has a row for each drafter, gamma, kind of
        text, temperature and batch; `plots` draws it. Prompts are the shipped ones if none are given.
        """
        import pandas as pd

        from draftscope.measure.bench.bench_plan import BenchPlan
        from draftscope.measure.bench.benchmark import benchmark
        from draftscope.measure.bench.systems import refuse_unknown

        plan = BenchPlan(
            drafters=tuple(drafter_names(drafters)), gammas=tuple(gammas), rules=tuple(rules),
            temperatures=tuple(temperatures), batches=tuple(batches), tokens=tokens, repeats=repeats, seconds=seconds,
            peers=peers,
        )  # fmt: skip
        refuse_unknown(plan.drafters)
        texts, notes = texts_by_kind(prompts, self)
        result = benchmark(self, plan, texts, notes)
        heads = [
            f"{head.name} at T = {head.temperature:g}, batch {head.batch}: {head.ratio_to_plain} times plain's speed"
            for head in result.headlines
            if head.ratio_to_plain is not None and head.drafter != PLAIN
        ]
        table = pd.json_normalize([asdict(row) for row in result.rows], sep="_")
        return Benchmark("\n".join([*heads, *result.notes]), table, result)

    def _lanes(self, drafters: Iterable[AnyDrafter], settings: SettingValues) -> dict[str, Settings]:
        """The settings of each drafter by its name, a drafter that is named twice once."""
        if "drafter" in settings:
            raise DraftscopeError("drafters names the drafters of all lanes; give no drafter.")
        names = dict.fromkeys(map(registry.adopt, drafters))
        return {name: Settings.of(drafter=name, **settings) for name in names}


def _several(given: Any) -> list[Any]:
    """The members of a list; a single text or drafter needs none."""
    return list(given) if isinstance(given, Iterable) and not isinstance(given, str | type) else [given]


def drafter_names(drafters: SomeDrafters | None) -> list[str]:
    """Their names, once those that are classes or files are known."""
    return [] if drafters is None else [registry.adopt(drafter) for drafter in _several(drafters)]


def texts_by_kind(prompts: Texts | None, engine: DecodingEngine) -> tuple[dict[str, list[Prompt]], list[str]]:
    """The texts of a dataset, by default the shipped ones for this engine's model, and a note about lines that were
    skipped. Raises `DraftscopeError` for a file that cannot be read, and for prompts that are no texts."""
    if prompts is None:
        chat = bool(getattr(engine.tokenizer, "chat_template", None))
        return prompt_files.select(prompt_files.shipped(chat)), []
    if isinstance(prompts, Path) or (isinstance(prompts, str) and Path(prompts).suffix == ".jsonl"):
        read, notes = prompt_files.read(Path(prompts))
        return prompt_files.select(read), notes
    kinds = prompts if isinstance(prompts, Mapping) else {"prompts": prompts}
    by_kind = {kind: [Prompt(kind, text) for text in _several(texts)] for kind, texts in kinds.items()}
    every = [prompt.text for several in by_kind.values() for prompt in several]
    if not every:
        raise DraftscopeError("The list of prompts is empty; give at least one.")
    for text in every:
        if not isinstance(text, str):
            raise DraftscopeError(f"prompt = {quoted(repr(text))}: a dataset holds texts; give a list of them.")
        admit({"prompt": text.strip()})
    return by_kind, []


@taking(LoadCall)
def load(settings: LoadCall) -> Engine:
    """Loads a target and what drafts for it; without arguments, the embedded pair and the heads trained for it.

    A target alone has no draft model; a known one ('smollm2') brings the heads trained for it. Embedded models also go
    by their names ('draft-2l'), and the pair by 'embedded'. `draft` may name several models with commas between them:
    the first is the draft model, and in a cascade each drafts for the one before it. A draft with another tokenizer
    than the target's drafts through text (see `Engine.limits`). `heads` are drafters that read the target's features,
    each as 'kind:folder or hub id' (kinds: `draftscope.models.head_kinds.KINDS`). `dtype` is auto, float32, bfloat16,
    float16 or stored (quantised weights as they are, which auto means where that is fastest), `device` auto, cpu or
    cuda.

    `device_map` spreads the target over all devices ('auto'); the draft lies where the target's inputs go. `revision`
    and `draft_revision` (of the first draft) are branches, tags or commits on the hub. `progress` shows bars. `emulate`
    names a pair of real shapes whose cost target and drafts get (`draftscope.models.forward.emulated_size.PAIRS`);
    the tokens stay the same.

    On a CPU this sets torch's number of threads, which is the whole process's: to `threads`, or if that is None to the
    number with which this target's forward is fastest, leaving `spare_cores`. `Engine.close`, or leaving a `with` block
    of the engine, gives the old number back; so does a failure to load. On CUDA forwards are replayed from graphs
    (`draftscope.models.forward.graphs`) unless `graphs` is False. `Engine.compiled` says why a forward is
    not compiled on a CPU, `Engine.left_out` what of the models' files was not loaded.

    Raises `DraftscopeError` for a missing or damaged checkpoint, unequal vocabularies in a cascade, too little memory,
    or an unknown device.
    """
    return loaded(settings, Engine)
