"""The model cards: what a member is, how it was trained, how good it is, and credits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from draftscope.base.markdown import table
from draftscope.models.heads import Head
from draftscope.models.loading.embedded import Member
from draftscope.train.data.corpus import Domain, Texts
from draftscope.train.data.credits import Source
from draftscope.train.loop.optimizers import DECAY, WARM_UP
from draftscope.train.loop.pretrain import Recipe
from draftscope.train.publish.about import ABOUT
from draftscope.train.publish.repeats import DOCUMENTS, GIVEN, WRITTEN, openings, written
from draftscope.train.publish.training_record import Record

CONTINUED = 72  # tokens the model writes after the opening of a held-out document

FRONT_MATTER = """---
language: en
license: other
license_name: terms-of-the-sources
license_link: README.md#sources-and-credits
pipeline_tag: text-generation
tags:
- {kind}
- speculative-decoding
---"""

HELD_OUT_NOTE = """Measured with the bf16 weights on documents that were not trained on, in rows of 512 tokens."""
AGREEMENT_NOTE = """alpha k is the sum of min(p, q) over the vocabulary at temperature 1, averaged over the text. p is
the target's distribution and q the drafter's for the same token, k places after the last token that the target has
read. It is the probability that the k-th drafted token is accepted, given that the earlier drafted tokens are the
text's own. Greedy is the share of first tokens for which both have the same most probable token."""
REPEATS_NOTE = f"""Repeated is the share of 4-grams that occurred earlier in the model's own continuation, averaged over
at most {DOCUMENTS} held-out documents of each kind: {GIVEN} tokens given, {WRITTEN} generated, greedy and at T = 1."""
ONE_DEPTH_NOTE = """A draft model reads the text itself, so alpha is the same at every depth."""
SAMPLES_NOTE = """The opening of the first held-out document of each kind, continued at temperature 0.8: one sample
each, not selected. `[...]` marks where the model takes over."""
CREDITS_NOTE = """The text itself is not in this folder. Each source keeps its own terms. If you redistribute these
weights, redistribute these credits with them. ATTRIBUTION-storybooks.tsv.xz is in {where} folder."""
LLAMA_NOTE = """The marked parts were generated with Llama 3.1. Llama 3.1 is licensed under the Llama 3.1 Community
License, Copyright (c) Meta Platforms, Inc. All Rights Reserved. Its terms ask that a model trained on such text
has a name that begins with Llama and that its card says Built with Llama."""


def card(
    member: Member, network: Any, record: Record, recipe: Recipe, sources: list[Source], specimens: list[str]
) -> str:
    """The README.md of a member's folder. `network` is the member as saved."""
    about = ABOUT[member.name]
    built_with = ["**Built with Llama.**"] if by_llama(sources) else []
    parts = [
        FRONT_MATTER.format(kind=member.kind),
        f"# {record.name}",
        *built_with,
        about.purpose,
        _shape(network, record),
        "## How it was made",
        _recipe(about.method, recipe, record),
        "## How good it is",
        _figures(record),
        "## Limits",
        about.limits,
        *(["## Samples", SAMPLES_NOTE, *specimens] if specimens else []),
        *_credits(sources),
    ]
    return "\n\n".join(parts) + "\n"


@torch.inference_mode()
def specimens(model: Any, texts: Texts, seed: int) -> list[str]:
    """One continuation for each domain at temperature 0.8, not selected, as Markdown."""
    torch.manual_seed(seed)
    return [_specimen(model, domain, texts) for domain in texts.val]


def _specimen(model: Any, domain: Domain, texts: Texts) -> str:
    opening = openings(domain)[:1].to(model.device)  # [1, GIVEN]
    (continuation,) = written(model, opening, CONTINUED, 0.8)
    given, generated = texts.tokenizer.decode(opening[0].tolist()), texts.tokenizer.decode(continuation)
    return f"{domain.name.capitalize()}:\n\n````text\n{given} [...] {generated}\n````"


def _shape(network: Any, record: Record) -> str:
    size = f"{record.parameters / 1e6:.1f} million parameters in bf16"
    if isinstance(network, Head):
        layers = ", ".join(str(layer) for layer in network.layers)
        return f"""A head of {size}. It reads the target's hidden states {layers} (i is the input of decoder layer i,
counted from 0; the number of layers is the output of the final norm) and drafts {network.vocabulary:,} of the
target's {network.shared.vocabulary:,} tokens. It uses the target's weights for what it has none of its own."""
    config = network.config
    layers = "one layer" if config.num_hidden_layers == 1 else f"{config.num_hidden_layers} layers"
    return f"""A standard `{type(network).__name__}` of {size}: {layers} of width {config.hidden_size},
{config.vocab_size:,} byte-level BPE entries with tied embeddings. `<|endoftext|>` starts every document and ends
generated text."""


def _recipe(method: str, recipe: Recipe, record: Record) -> str:
    return f"""{method}

{record.tokens_seen / 1e6:.1f} million tokens in all. The last run: {record.minutes:.1f} minutes on {record.hardware},
matmuls in {record.precision}, {record.steps:,} steps of {record.tokens_per_step:,} tokens, seed {record.seed}. Muon
for the matrices (learning rate {recipe.rates.matrices:g}), AdamW for the rest ({recipe.rates.rest:g}), warm-up over the
first {WARM_UP:.0%} of the time, linear decay to zero over the last {DECAY:.0%} of all tokens. Reproduce it with
`draftscope train`."""


def _figures(record: Record) -> str:
    depths = max((len(found.alpha) for found in record.agreement.values()), default=0)
    head = ["text"]
    head += ["nats per token", "bits per byte"] if record.held_out else []
    head += [f"alpha {k + 1}" for k in range(depths)] + (["greedy"] if depths else [])
    head += ["repeated, T = 0", "repeated, T = 1"] if record.repeats else []
    rows = [[name, *_row(record, name)] for name in record.held_out or record.agreement]
    notes = [HELD_OUT_NOTE] + ([AGREEMENT_NOTE] if depths else []) + ([ONE_DEPTH_NOTE] if depths == 1 else [])
    notes += [REPEATS_NOTE] if record.repeats else []
    return f"{table(head, rows)}\n\n" + "\n".join(notes)


def _row(record: Record, name: str) -> list[str]:
    score, agreement, repeats = record.held_out.get(name), record.agreement.get(name), record.repeats.get(name)
    losses = (score.nats_per_token, score.bits_per_byte) if score else ()
    agreements = (*agreement.alpha, agreement.greedy[0]) if agreement else ()
    repeated = (repeats.greedy, repeats.sampled) if repeats else ()
    return [f"{value:.2f}" for value in (*losses, *agreements, *repeated)]


def _credits(sources: list[Source]) -> list[str]:
    if not sources:
        return []
    llama = [LLAMA_NOTE] if by_llama(sources) else []
    return ["## Sources and credits", CREDITS_NOTE.format(where="the target's"), credit_table(sources), *llama]


def credit_table(sources: Sequence[Source]) -> str:
    """The sources, with licence and credit."""
    rows = [
        [source.domain, source.part, f"{source.size / 1e6:.1f}", source.origin, source.licence, source.credit]
        for source in sources
    ]
    return table(["kind", "part", "MB", "source", "licence", "credit"], rows)


def by_llama(sources: Sequence[Source]) -> bool:
    """Whether a part of the text was generated with Llama 3.1."""
    return any(source.by_llama for source in sources)
