"""The model card and the record of a drafter that was trained for any target."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from draftscope.base.markdown import table
from draftscope.models.loading.embedded import RECORD
from draftscope.models.loading.known import KNOWN
from draftscope.train.data.credits import Source
from draftscope.train.loop.evaluate import Agreement
from draftscope.train.publish.card import CREDITS_NOTE, LLAMA_NOTE, by_llama, credit_table
from draftscope.train.publish.trial import TOKENS, Trial

METHODS = {
    "eagle3": """An EAGLE-3 head (2503.01840): one layer that reads low, middle and high hidden states of the target,
each normalised before they are fused (EAGLE 3.1), and then its own features. Trained on its own features for {depths}
steps (training-time test).""",
    "mtp": """A multi-token prediction head as in DeepSeek-V3 (2412.19437), trained after the target; applied repeatedly
to draft a chain. Trained on its own features for {depths} steps.""",
    "medusa": """{depths} Medusa heads (2401.10774): each is a residual block before the target's own output
weights.""",
    "block": """A block drafter in the style of DFlash (2602.06036): {depths} tokens in one forward of one layer.""",
    "dspark": """A block drafter with a table of the token before, in the style of DSpark (2607.05147): {depths} tokens
in one forward of one layer, then drawn one after the other. It has no estimate of what will be accepted.""",
    "draft": """A small Llama with the target's tokenizer, for any engine that drafts with a second model. Its embedding
started as the main components of the target's.""",
}
ALPHA_NOTE = """alpha k is the sum of min(p, q) over the vocabulary at temperature 1: the probability that the k-th
drafted token is accepted if those before it are the text's own. Greedy is the share of first tokens for which target
and drafter have the same most probable token. Both on answers to prompts that were not trained on."""
TRIAL_NOTE = """tau is the number of tokens of a round, in chains of gamma tokens that this drafter drafts and the
target verifies; speed is tokens/s divided by plain decoding's on the same prompts, without prefill; c is the cost of a
draft step in rounds of plain decoding. {prompts} held-out prompts, at most {tokens} tokens each, without those that
loop, on {hardware}."""


@dataclass(frozen=True)
class DrafterRecord:
    """How a drafter was trained and how good it is."""

    name: str
    kind: str
    target: str
    target_digest: str
    parameters: int
    vocabulary: int  # of the target's tokens, those that it drafts
    covered: float  # the share of held-out answers' tokens that it can draft
    seed: int
    answers: dict[str, int]  # to train on, by kind of text
    answer_tokens: int  # of these answers
    temperatures: tuple[float, ...]
    held_out_tokens: int
    steps: int
    tokens_per_step: int
    epochs: float
    minutes: float
    hardware: str
    precision: str
    agreement: dict[str, Agreement]  # by kind of text, and over all
    trials: list[Trial]


def write(record: DrafterRecord, sources: Sequence[Source], folder: Path) -> None:
    """Writes `training.json` and `README.md` beside the weights."""
    (folder / RECORD).write_text(json.dumps(asdict(record), indent=2) + "\n", encoding="utf-8")
    (folder / "README.md").write_text(card(record, sources), encoding="utf-8")


def card(record: DrafterRecord, sources: Sequence[Source]) -> str:
    llama = by_llama(sources)
    parts = [
        f"---\nbase_model: {_repository(record.target)}\ntags:\n- {record.kind}\n- speculative-decoding\n---",
        f"# {record.name}",
        *(["**Built with Llama.**"] if llama else []),
        f"A drafter for {record.target}. {METHODS[record.kind].format(depths=_depths(record))}",
        f"{record.parameters / 1e6:.1f} million parameters in bf16. It drafts {record.vocabulary:,} of the target's "
        f"tokens, which are {record.covered:.1%} of the tokens of held-out answers.",
        "## How it was made",
        _made(record),
        "## How good it is",
        f"{_alphas(record.agreement)}\n\n{ALPHA_NOTE}",
        *_trials(record),
        *_credits(sources, llama),
    ]
    return "\n\n".join(parts) + "\n"


def _repository(target: str) -> str:
    """The hub's name of a target, if it is a known model."""
    return next((model.repository for model in KNOWN if model.title == target), target)


def _depths(record: DrafterRecord) -> int:
    return max(len(found.alpha) for found in record.agreement.values())


def _made(record: DrafterRecord) -> str:
    kinds = ", ".join(f"{kind} {count:,}" for kind, count in sorted(record.answers.items()))
    temperatures = ", ".join(f"{value:g}" for value in record.temperatures)
    return f"""The target wrote its own training text: answers to {sum(record.answers.values()):,} prompts in its chat
template ({kinds}), {record.answer_tokens / 1e6:.2f} million tokens at temperatures {temperatures}; answers that loop
were cut before the loop. The loss is the forward KL from the target's distribution at every token of an answer.
{record.steps:,} steps of at most {record.tokens_per_step:,} tokens, {record.epochs:.1f} passes over the answers,
{record.minutes:.0f} minutes on {record.hardware}, matmuls in {record.precision}, seed {record.seed}. Made with
`draftscope train-drafter`."""


def _alphas(agreement: Mapping[str, Agreement]) -> str:
    depths = max(len(found.alpha) for found in agreement.values())
    rows = [
        [kind, str(found.tokens), *(f"{value:.2f}" for value in (*found.alpha, found.greedy[0]))]
        for kind, found in agreement.items()
    ]
    return table(["text", "tokens", *(f"alpha {k + 1}" for k in range(depths)), "greedy"], rows)


def _trials(record: DrafterRecord) -> list[str]:
    measured = [trial for trial in record.trials if trial.prompts]
    if not measured:
        return []
    rows = [[f"{t.temperature:g}", str(t.gamma), f"{t.tau:.2f}", f"{t.ratio:.2f}", f"{t.c:.3f}"] for t in measured]
    note = TRIAL_NOTE.format(prompts=max(trial.prompts for trial in measured), tokens=TOKENS, hardware=record.hardware)
    return [f"{table(['T', 'gamma', 'tau', 'speed', 'c'], rows)}\n\n{note}"]


def _credits(sources: Sequence[Source], llama: bool) -> list[str]:
    if not sources:
        return []
    return [
        "## Sources of the prompts",
        CREDITS_NOTE.format(where="this"),
        credit_table(sources),
        *([LLAMA_NOTE] if llama else []),
    ]
