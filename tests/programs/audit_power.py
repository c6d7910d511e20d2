"""How many tokens an audit needs: servers on a table of probabilities with a seeded fault of a given size.

A server writes the fault's distribution now and then, so often that a token's distribution lies a chosen total
variation from the right one. Printed: tokens until the audit is sure, the median of `RUNS`, for `coverage.NEEDED`.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from draftscope.servers.adapter import Chunk, Request
from draftscope.servers.audit.coverage import VARIATIONS
from draftscope.servers.audit.plan import Allowance, Plan
from draftscope.servers.audit.warp import Floats, warped
from draftscope.servers.audit.waves import sampled
from draftscope.servers.programs.program_list import find
from draftscope.verify.sampling import Sampling
from tests.doors.servers.audit.tabular import VOCABULARY, Table, draw

RUNS = 5
ORDER = find("vllm").sampling_order
PROMPTS = ((1, 2), (3, 4), (5, 6), (7, 8))
TEXTS = 4000
REPEATED = "fresh random numbers"  # a text's distribution is then off by the share of repeated texts


def law(sampling: Sampling) -> Floats:
    """[context, token] the target's distribution."""
    rows: Floats = np.exp(warped(np.stack([Table().row([row]) for row in range(VOCABULARY)]), sampling, ORDER)[0])
    return rows


def argmax_drafts() -> Floats:
    """The best draft verified as a sample of q."""
    p = law(Sampling())
    noise = np.stack([np.random.default_rng(row).standard_normal(VOCABULARY) for row in range(VOCABULARY)])
    q = np.exp(warped(np.log(p) + noise, Sampling(), ORDER)[0])
    rows, best = np.arange(VOCABULARY), q.argmax(-1)
    accepted = np.minimum(p[rows, best] / q[rows, best], 1)
    rest = np.maximum(p - q, 0)
    wrong: Floats = (1 - accepted)[:, None] * rest / rest.sum(-1, keepdims=True)
    wrong[rows, best] += accepted
    return wrong


FAULTS: dict[str, tuple[Sampling, Callable[[], Floats]]] = {
    "temperature": (Sampling(), lambda: law(Sampling(0.3))),
    "drafted tokens": (Sampling(), argmax_drafts),
    "top-k": (Sampling(1.0, 3), lambda: law(Sampling())),
    "top-p": (Sampling(1.0, 0, 0.6), lambda: law(Sampling())),
    "min-p": (Sampling(1.0, 0, 1.0, 0.4), lambda: law(Sampling())),
}


@dataclass
class FaultyServer:
    """Draws each token from its context's row; `repeated`: the share of texts that use the first one's numbers."""

    rows: Floats
    repeated: float = 0.0

    def stream(self, request: Request) -> Iterator[Chunk]:
        again = np.random.default_rng((4, request.seed)).random() < self.repeated
        dice, tokens = np.random.default_rng((3, 0 if again else request.seed)), list(request.ids)
        for _ in range(request.max_tokens):
            tokens.append(draw(self.rows[tokens[-1]], dice))
        yield Chunk(tuple(tokens[len(request.ids) :]), "text", 0.0, "length")


def faulty_server(fault: str, variation: float) -> FaultyServer | None:
    """None where the fault cannot be so large."""
    if fault == REPEATED:
        return FaultyServer(law(Sampling()), repeated=variation)
    sampling, wrong = FAULTS[fault]
    right, faulty = law(sampling), wrong()
    share = variation / float(np.abs(faulty - right).sum(-1).mean() / 2)
    return None if share > 1 else FaultyServer((1 - share) * right + share * faulty)


def tokens_needed(fault: str, variation: float, runs: int = RUNS) -> int | None:
    """Tokens until an audit is sure; None where the fault cannot be so large, or is not found."""
    sampling = FAULTS[fault][0] if fault in FAULTS else Sampling()
    server = faulty_server(fault, variation)
    if server is None:
        return None
    needed = []
    for run in range(runs):
        plan = Plan(sampling, samples=TEXTS, seconds=1e9, seed=10**6 * run)
        for state in sampled(server, Table(), PROMPTS, plan, Allowance(), ORDER):
            last = state
        if not last.different:
            return None
        needed.append(last.texts * plan.tokens)
    return round(statistics.median(needed))


if __name__ == "__main__":
    for each in (*FAULTS, REPEATED):
        print(f'    "{each}": {{', end="")
        print(*(f"{v}: {n}" for v in VARIATIONS if (n := tokens_needed(each, v))), sep=", ", end="},\n", flush=True)
