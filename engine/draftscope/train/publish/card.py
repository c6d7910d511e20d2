"""The model card of a trained model: what it is, how it was made, how good it is, and credits.

The words are in `templates/`: `card.md.jinja`, and what is said of each model in `about.toml`. A card is Markdown, in
which `<` is no markup that could do harm: the text is not escaped.
"""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined

from draftscope.base.markdown import table
from draftscope.models import head_kinds
from draftscope.models.heads import Head
from draftscope.models.loading.known import KNOWN
from draftscope.train.data.corpus import Credit
from draftscope.train.fit.numerics import DECAY, WARM_UP
from draftscope.train.publish import figures
from draftscope.train.publish.publish import TrainingRecord

SMALL_MODEL = """
A small Llama with the target's tokenizer, for any engine that drafts with a second model. Its embedding
started as the main components of the target's."""
TEMPLATES = Environment(
    loader=PackageLoader(__package__),
    autoescape=False,
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)


def about() -> dict[str, Any]:
    """What is said of each embedded model: purpose, method, limits."""
    return tomllib.loads((files(__package__) / "templates" / "about.toml").read_text(encoding="utf-8"))


def card(
    record: TrainingRecord,
    network: Any,
    sources: Sequence[Credit],
    member: str | None = None,
    specimens: Sequence[dict[str, str]] = (),
) -> str:
    """The README.md beside the weights of `network`. `member` is the name of an embedded model; None for a drafter that
    was trained for any other target."""
    said, head = about(), network if isinstance(network, Head) else None
    return TEMPLATES.get_template("card.md.jinja").render(
        record=record,
        embedded=member is not None,
        about=said[member] if member is not None else {"method": _method(record.kind)},
        target_limits=said["target"]["limits"],
        head=head,
        config=None if head else network.config,
        model_class=type(network).__name__,
        base_model=next((known.repository for known in KNOWN if known.title == record.target_name), record.target_name),
        depths=_depths(record),
        figures=_figures(record),
        trials=_trials(record),
        specimens=specimens,
        sources=sources,
        credits=_credits(sources),
        built_with_llama=any(source.by_llama for source in sources),
        warm_up=WARM_UP,
        decay=DECAY,
        documents=figures.DOCUMENTS,
        given=figures.GIVEN,
        written=figures.WRITTEN,
        trial_tokens=figures.TRIALS.tokens,
    )


def _method(kind: str) -> str:
    """What a drafter for any target is."""
    return SMALL_MODEL if kind == head_kinds.SMALL_MODEL else head_kinds.find(kind).method


def _depths(record: TrainingRecord) -> int:
    return max((len(value.alpha) for value in record.agreement.values()), default=0)


def _figures(record: TrainingRecord) -> str:
    depths = _depths(record)
    head = ["text"]
    head += ["nats per token", "bits per byte"] if record.held_out else []
    head += [f"alpha {k + 1}" for k in range(depths)] + (["greedy"] if depths else [])
    head += ["repeated, T = 0", "repeated, T = 1"] if record.repeats else []
    return table(head, [[name, *_row(record, name)] for name in record.held_out or record.agreement])


def _row(record: TrainingRecord, name: str) -> list[str]:
    score, agreement, repeats = record.held_out.get(name), record.agreement.get(name), record.repeats.get(name)
    losses = (score.nats_per_token, score.bits_per_byte) if score else ()
    agreements = (*agreement.alpha, agreement.greedy[0]) if agreement else ()
    repeated = (repeats.greedy, repeats.sampled) if repeats else ()
    return [f"{value:.2f}" for value in (*losses, *agreements, *repeated)]


def _trials(record: TrainingRecord) -> str:
    rows = [
        [
            f"{trial.temperature:g}",
            str(trial.gamma),
            f"{trial.tau:.2f}",
            f"{trial.ratio.median:.2f} [{trial.ratio.low:.2f}, {trial.ratio.high:.2f}]",
            f"{trial.c:.3f}",
        ]
        for trial in record.trials
    ]
    return table(["T", "gamma", "tau", "speed", "c"], rows)


def _credits(sources: Sequence[Credit]) -> str:
    rows = [
        [source.domain, source.part, f"{source.size / 1e6:.1f}", source.origin, source.licence, source.credit]
        for source in sources
    ]
    return table(["kind", "part", "MB", "source", "licence", "credit"], rows)
