"""A benchmark: whole solo runs, interleaved, of every drafter and of transformers' own decoding on the same weights.

    python -m draftscope.bench --out bench

Every run writes exactly `--tokens` tokens (ends of text are not heeded), so that all systems do the same work. Within
one repeat the systems follow each other, A B C A B C, so that a machine that slows down slows all of them; a ratio is
taken within a repeat, and the median over repeats is printed. One warm-up run of each, not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from time import perf_counter

import torch
import transformers
from tqdm import tqdm
from transformers import GenerationConfig
from transformers.utils import logging

from draftscope.assets import assets
from draftscope.lab import Lab, load
from draftscope.settings import Settings

CHAINS: dict[str, dict[str, object]] = {
    f"draft, gamma {gamma}": {"drafter": "draft", "gamma": gamma} for gamma in (2, 3, 4, 6)
}
TREES: dict[str, dict[str, object]] = {
    "sampled tree 2,1,1": {"drafter": "sampled-tree", "shape": (2, 1, 1)},
    "top-k tree 2,2,1": {"drafter": "topk-tree", "shape": (2, 2, 1)},
}
SYSTEMS: dict[str, dict[str, object]] = {
    "plain": {"drafter": "plain"},
    **CHAINS,
    **TREES,
    "n-gram": {"drafter": "ngram"},
}
STAGES = ("propose", "verify", "judge", "commit", "host")


@dataclass(frozen=True)
class Row:
    """One system on one kind of text at one temperature; times are of whole runs, prefill included."""

    system: str
    kind: str
    temperature: float
    tokens: int
    seconds: list[float]
    ratio_to_plain: dict[str, float]  # median, low, high over repeats; tokens/s divided by plain's in the same repeat
    tokens_per_s: float  # median
    mean_acceptance_length: float | None = None  # tokens a round, the target's own included
    repeated_4grams: float = 0.0  # share of 4-grams seen before in the same continuation: loops flatter drafters
    stage_ms: dict[str, float] = field(default_factory=dict)  # per round, median over repeats


@dataclass(frozen=True)
class Timed:
    """One run."""

    seconds: float
    ids: list[int]
    rounds: int = 0
    stages: dict[str, float] = field(default_factory=dict)


Runner = Callable[[int], Timed]


def bench(lab: Lab, prompts: dict[str, str], temperatures: Sequence[float], tokens: int, repeats: int) -> list[Row]:
    """All systems on all kinds of text; prints a progress bar."""
    rows: list[Row] = []
    cases = [(kind, prompt, t) for kind, prompt in prompts.items() for t in temperatures]
    for kind, prompt, temperature in tqdm(cases, desc="bench", unit="text"):
        runners = {**_ours(lab, prompt, temperature, tokens), **_peers(lab, prompt, temperature, tokens)}
        timed: dict[str, list[Timed]] = {name: [] for name in runners}
        for repeat in range(-1, repeats):
            for name, runner in runners.items():
                result = runner(max(repeat, 0))
                if repeat >= 0:
                    timed[name].append(result)
        rows += [_row(name, kind, temperature, tokens, runs, timed["plain"]) for name, runs in timed.items()]
    return rows


def _ours(lab: Lab, prompt: str, temperature: float, tokens: int) -> dict[str, Runner]:
    ids = lab.encode(prompt, tokens)

    def runner(values: dict[str, object]) -> Runner:
        def run(seed: int) -> Timed:
            settings = Settings.of(**values, temperature=temperature, max_new_tokens=tokens, seed=seed)
            session = lab.session_of([ids], settings, (0,), ends=False)
            steps = list(session.steps())
            stages = {stage: statistics.fmean(step.stages[stage] for step in steps) for stage in STAGES}
            return Timed(session.watch.now / 1e3, session.transcripts[0].tokens, len(steps), stages)

        return run

    usable = {info.name for info in lab.drafters() if info.available}
    return {name: runner(values) for name, values in SYSTEMS.items() if values["drafter"] in usable}


def _peers(lab: Lab, prompt: str, temperature: float, tokens: int) -> dict[str, Runner]:
    """transformers on the same weights, dtype and threads: plain and assisted generation."""
    ids = torch.tensor([lab.encode(prompt, tokens)], device=lab.target.device)
    sample = {"do_sample": True, "temperature": temperature, "top_k": 0} if temperature else {"do_sample": False}

    def runner(assistant: object | None) -> Runner:
        config = GenerationConfig(max_new_tokens=tokens, eos_token_id=-1, pad_token_id=0, **sample)  # no end of text

        def run(seed: int) -> Timed:
            torch.manual_seed(seed)
            began = perf_counter()
            out = lab.target.network.generate(
                ids, attention_mask=torch.ones_like(ids), generation_config=config, assistant_model=assistant
            )
            if lab.target.device.type == "cuda":
                torch.cuda.synchronize()
            return Timed(perf_counter() - began, out[0, ids.shape[1] :].tolist())

        return run

    peers = {"transformers-generate": runner(None)}
    if lab.draft is not None:
        peers["transformers-assisted"] = runner(lab.draft.network)
    return peers


def _row(name: str, kind: str, temperature: float, tokens: int, runs: list[Timed], plain: list[Timed]) -> Row:
    ratios = [
        (len(run.ids) / run.seconds) / (len(base.ids) / base.seconds) for run, base in zip(runs, plain, strict=True)
    ]
    rounds = sum(run.rounds for run in runs)
    return Row(
        system=name,
        kind=kind,
        temperature=temperature,
        tokens=tokens,
        seconds=[run.seconds for run in runs],
        ratio_to_plain={"median": statistics.median(ratios), "low": min(ratios), "high": max(ratios)},
        tokens_per_s=statistics.median(len(run.ids) / run.seconds for run in runs),
        mean_acceptance_length=sum(len(run.ids) for run in runs) / rounds if rounds else None,
        repeated_4grams=statistics.fmean(_repeated(run.ids) for run in runs),
        stage_ms={s: statistics.median(run.stages[s] for run in runs) for s in STAGES} if rounds else {},
    )


def _repeated(ids: Sequence[int]) -> float:
    """The share of 4-grams that occurred before in the same text."""
    grams = [tuple(ids[i : i + 4]) for i in range(len(ids) - 3)]
    return 1 - len(set(grams)) / len(grams) if grams else 0.0


def table(rows: Iterable[Row]) -> str:
    """A Markdown table for each temperature: ratio to plain by kind of text, and its median over the kinds."""
    rows = list(rows)
    kinds = list(dict.fromkeys(row.kind for row in rows))
    parts = []
    for temperature in dict.fromkeys(row.temperature for row in rows):
        lines = [
            f"Tokens/s divided by plain's in the same repeat, T = {temperature:g}, median (tokens a round):\n",
            "| system | " + " | ".join(kinds) + " | median of kinds |",
            "|---|" + "---:|" * (len(kinds) + 1),
        ]
        for system in dict.fromkeys(row.system for row in rows):
            cells = [row for row in rows if row.system == system and row.temperature == temperature]
            middle = statistics.median(row.ratio_to_plain["median"] for row in cells)
            lines.append(f"| {system} | " + " | ".join(_cell(row) for row in cells) + f" | **{middle:.2f}** |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _cell(row: Row) -> str:
    length = "" if row.mean_acceptance_length is None else f" ({row.mean_acceptance_length:.2f})"
    return f"{row.ratio_to_plain['median']:.2f}{length}"


def waterfall(rows: Iterable[Row]) -> str:
    """Where a round's time goes, medians over everything that was run."""
    lines = ["Milliseconds a round, median over texts and temperatures:\n", "| system | " + " | ".join(STAGES) + " |"]
    lines.append("|---|" + "---:|" * len(STAGES))
    rows = [row for row in rows if row.stage_ms]
    for system in dict.fromkeys(row.system for row in rows):
        own = [row for row in rows if row.system == system]
        cells = (f"{statistics.median(row.stage_ms[stage] for row in own):.2f}" for stage in STAGES)
        lines.append(f"| {system} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def machine(lab: Lab) -> dict[str, str | int]:
    """What the numbers belong to."""
    device = lab.target.device
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU",
        "dtype": str(lab.target.dtype).removeprefix("torch."),
        "threads": torch.get_num_threads(),
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "target": lab.target.name,
        "draft": lab.draft.name if lab.draft else "",
    }


def save(folder: Path, lab: Lab, rows: Sequence[Row], name: str = "bench") -> str:
    """Writes `<name>.json` and `<name>.md`; returns the Markdown."""
    facts = machine(lab)
    text = ", ".join(f"{key} {value}" for key, value in facts.items()) + "\n\n" + table(rows) + "\n" + waterfall(rows)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}.json").write_text(
        json.dumps({"machine": facts, "rows": [asdict(row) for row in rows]}, indent=1)
    )
    (folder / f"{name}.md").write_text(text)
    return text


def first_prompts() -> dict[str, str]:
    """The first shipped prompt of each kind of text."""
    texts: dict[str, list[str]] = json.loads((assets() / "prompts.json").read_text())
    return {kind: prompts[0] for kind, prompts in texts.items()}


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m draftscope.bench", description=__doc__.split("\n")[0])
    parser.add_argument("--out", type=Path, default=Path("bench"), help="folder for bench.json and bench.md")
    parser.add_argument("--target", help="hub id or folder; default: the embedded pair")
    parser.add_argument("--draft", help="hub id or folder")
    parser.add_argument("--dtype", default="auto")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--threads", type=int)
    parser.add_argument("--tokens", type=int, default=96)
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    logging.set_verbosity_error()  # assisted generation warns about its own inner calls
    lab = load(args.target, args.draft, args.dtype, args.device, args.threads)
    print(save(args.out, lab, bench(lab, first_prompts(), (0.0, 1.0), args.tokens, args.repeats)))


if __name__ == "__main__":
    main()
