"""What is measured of a trained model beside its losses: repetition, samples, and a drafter's speed when it drafts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from statistics import fmean
from typing import Any

import torch
from torch import Tensor

from draftscope.base.prompts import Prompt, select
from draftscope.decode.engine import DecodingEngine
from draftscope.measure.bench.bench_plan import BenchPlan
from draftscope.measure.bench.cases import cases
from draftscope.measure.bench.round_arrays import predict
from draftscope.measure.bench.rows import Paired, counted, paired, part_times
from draftscope.measure.bench.runner import Bench
from draftscope.measure.bench.statistics import Interval, bootstrap, repeated_4grams
from draftscope.measure.bench.systems import OWN, PLAIN, DrafterSystem, Label
from draftscope.train.data.corpus import END, PAD, Domain, Texts

DOCUMENTS, GIVEN, WRITTEN = 8, 24, 96  # held-out documents of each kind, tokens given of each, tokens generated
CONTINUED = 72  # tokens the model writes after the opening of a held-out document
TRIALS = BenchPlan(gammas=(2, 4, 6), repeats=1, peers=False)  # of a drafter for any target


@dataclass(frozen=True)
class Repeats:
    """Share of a continuation's 4-grams that occurred in it before, averaged over documents."""

    greedy: float
    sampled: float  # at temperature 1


@torch.inference_mode()
def repeats(model: Any, domains: list[Domain], seed: int) -> dict[str, Repeats]:
    """The repeats of `model`, for each domain."""
    torch.manual_seed(seed)
    return {domain.name: _repeats(model, openings(domain).to(model.device)) for domain in domains}


def openings(domain: Domain) -> Tensor:
    """[documents, GIVEN]: the first tokens of the first held-out documents."""
    starts = [start for start in domain.starts if start + GIVEN <= len(domain.tokens)][:DOCUMENTS]
    return torch.stack([torch.from_numpy(domain.tokens[start : start + GIVEN].astype("int64")) for start in starts])


def _repeats(model: Any, given: Tensor) -> Repeats:
    texts = [continue_rows(model, given, WRITTEN, temperature) for temperature in (0.0, 1.0)]
    return Repeats(*(fmean(map(repeated_4grams, continuations)) for continuations in texts))


@torch.inference_mode()
def specimens(model: Any, texts: Texts, seed: int) -> list[dict[str, str]]:
    """One continuation for each domain at temperature 0.8, not selected: `kind`, `given` and `generated` text."""
    torch.manual_seed(seed)
    return [_specimen(model, domain, texts) for domain in texts.val]


def _specimen(model: Any, domain: Domain, texts: Texts) -> dict[str, str]:
    opening = openings(domain)[:1].to(model.device)  # [1, GIVEN]
    (continuation,) = continue_rows(model, opening, CONTINUED, 0.8)
    given, generated = (texts.tokenizer.decode(ids) for ids in (opening[0].tolist(), continuation))
    return {"kind": domain.name.capitalize(), "given": given, "generated": generated}


def continue_rows(model: Any, given: Tensor, count: int, temperature: float) -> list[list[int]]:
    """Up to `count` tokens that `model` generates after each row of `given` [rows, length], until the text ends."""
    sampled: dict[str, Any] = {"do_sample": True, "temperature": temperature, "top_k": 0}
    rows = model.generate(
        input_ids=given,
        attention_mask=torch.ones_like(given),
        max_new_tokens=count,
        eos_token_id=END,
        pad_token_id=PAD,
        **(sampled if temperature > 0 else {"do_sample": False}),
    )
    continuations = rows[:, given.shape[1] :].tolist()
    return [row[: row.index(END)] if END in row else row for row in continuations]


@dataclass(frozen=True)
class Trial:
    """Chains of `gamma` tokens at one temperature, benchmarked. tau: tokens of a round; ratio: tokens/s divided by
    plain decoding's on the same prompts, prefill included; c: a draft step's cost, in rounds of plain decoding. Texts
    that loop do not count, unless all do."""

    gamma: int
    temperature: float
    tau: float
    ratio: Interval
    c: float
    prompts: int  # that count


def trials(engine: DecodingEngine, drafter: str, prompts: Sequence[Prompt], plan: BenchPlan = TRIALS) -> list[Trial]:
    """The drafter beside plain decoding, for every temperature and gamma of the plan."""
    todo, _ = cases(engine, plan, select(prompts))
    labels = {gamma: Label(OWN, drafter, gamma) for gamma in plan.gammas}
    runs = Bench(plan, [DrafterSystem(engine, label) for label in (PLAIN, *labels.values())], todo).runs()
    pairs, results = paired(runs), []
    for temperature, (gamma, label) in product(plan.temperatures, labels.items()):
        chosen = [pair for pair in pairs if pair.run.label == label and pair.run.case.temperature == temperature]
        results.append(_trial(gamma, temperature, counted(chosen), plan.tokens))
    return results


def _trial(gamma: int, temperature: float, pairs: Sequence[Paired], tokens: int) -> Trial:
    drafted, plain = (part_times(runs) for runs in zip(*pairs, strict=True))
    assert drafted is not None and plain is not None
    terms = predict(drafted, plain, tokens)
    ratio = bootstrap([[theirs.seconds / run.seconds for run, theirs in pairs]])
    return Trial(gamma, temperature, terms.tau, ratio, terms.gamma_c / gamma, len({run.case for run, _ in pairs}))
