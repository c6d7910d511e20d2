"""The model cards: what a model is, what made it, how good it is, whom to credit."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from draftscope.train import distill, pretrain
from draftscope.train.corpus import Domain, Texts
from draftscope.train.credits import Source
from draftscope.train.optimizers import DECAY, WARM_UP, Rates
from draftscope.train.record import Record
from draftscope.train.tokenizer import END, PAD

OPENING, CONTINUED = 24, 72  # tokens of a held-out document, and by the model after it

TARGET = """The target of Draftscope's embedded pair: small enough that a laptop's processor decodes it while
you watch, large enough that verifying several tokens there costs about what one does."""
DRAFT = """The draft of Draftscope's embedded pair: one layer that proposes tokens for Llama-Draftscope-15M to
verify. It is no use on its own."""

TARGET_METHOD = """Next-token training on packed rows of 512 tokens, of 1,024 in every eighth step. The kinds of
text are drawn by the square root of their size."""
DRAFT_METHOD = """Forward KL from the target's full next-token law at temperature 1, on the target's training
text and, every eighth step, on text the target wrote at temperature 0.8."""

TARGET_LIMITS = """It has the form of each kind of text, not its sense. Stories lose their thread within sentences
and people change names; arithmetic looks right and is wrong; code resembles a standard
library and does not run; verse is verse by its line breaks. At temperature 0 it tends to loop. It knows no
facts, follows no instructions and had no safety training. English only. The rule-generated part of the
structured text is so regular that n-gram drafters look better on it than they are elsewhere."""
DRAFT_LIMITS = """Everything its target is bad at, and more: with one layer it follows phrases, not sentences.
Its agreement with the target is measured on text of the kinds it was trained on; expect less elsewhere."""


FRONT_MATTER = """---
language: en
license: other
license_name: terms-of-the-sources
license_link: README.md#sources-and-credits
library_name: transformers
pipeline_tag: text-generation
tags:
- llama
- speculative-decoding
---"""

HELD_OUT_NOTE = """Measured with the bf16 weights on documents kept out of training, in rows of 512 tokens."""
AGREEMENT_NOTE = """alpha is the mean over positions of the sum over the vocabulary of min(p, q) at temperature 1: the
chance that one drafted token is accepted. Greedy agreement is the share of positions where target
and draft have the same most likely token."""
SAMPLES_NOTE = """The opening of the first held-out document of each kind, continued at temperature 0.8: one draw,
unpicked. `[...]` marks where the model takes over."""
CREDITS_NOTE = """None of the text is in this folder. Each source keeps its own terms, and whoever passes these
weights on should pass these credits on with them. ATTRIBUTION-storybooks.tsv.xz lies in the target's folder."""
LLAMA_NOTE = """The parts marked so were generated with Llama 3.1. Llama 3.1 is licensed under the Llama 3.1 Community
License, Copyright (c) Meta Platforms, Inc. All Rights Reserved. Its terms ask that a model trained on such text
has a name that begins with Llama and that its card says Built with Llama."""


def target_card(model: LlamaForCausalLM, record: Record, sources: list[Source], specimens: list[str]) -> str:
    """The README.md of the target's folder."""
    method = _recipe(TARGET_METHOD, pretrain.RATES, record)
    return _card(TARGET, method, TARGET_LIMITS, model.config, record, sources, specimens)


def draft_card(model: LlamaForCausalLM, record: Record, sources: list[Source], specimens: list[str]) -> str:
    """The README.md of the draft's folder."""
    method = _recipe(DRAFT_METHOD, distill.RATES, record)
    return _card(DRAFT, method, DRAFT_LIMITS, model.config, record, sources, specimens)


@torch.inference_mode()
def specimens(model: LlamaForCausalLM, texts: Texts, seed: int) -> list[str]:
    """One unpicked continuation for each domain, at temperature 0.8, as Markdown."""
    torch.manual_seed(seed)
    return [_specimen(model, domain, texts) for domain in texts.val]


def _specimen(model: LlamaForCausalLM, domain: Domain, texts: Texts) -> str:
    start = int(domain.starts[0])
    opening = torch.from_numpy(domain.tokens[start : start + OPENING].astype("int64"))[None]  # [1, OPENING]
    row = model.generate(
        input_ids=opening,
        attention_mask=torch.ones_like(opening),
        do_sample=True,
        temperature=0.8,
        top_k=0,
        max_new_tokens=CONTINUED,
        eos_token_id=END,
        pad_token_id=PAD,
    )[0]
    given, written = (texts.tokenizer.decode(part.tolist()) for part in (row[:OPENING], row[OPENING:]))
    return f"{domain.name.capitalize()}:\n\n````text\n{given} [...] {written}\n````"


def _card(
    purpose: str,
    method: str,
    limits: str,
    config: LlamaConfig,
    record: Record,
    sources: list[Source],
    specimens: list[str],
) -> str:
    built_with = ["**Built with Llama.**"] if _by_llama(sources) else []
    parts = [
        FRONT_MATTER,
        f"# {record.name}",
        *built_with,
        purpose,
        _shape(config, record),
        "## How it was made",
        method,
        "## How good it is",
        _figures(record),
        "## What it is bad at",
        limits,
        "## Samples",
        SAMPLES_NOTE,
        *specimens,
        *_credits(sources),
    ]
    return "\n\n".join(parts) + "\n"


def _shape(config: LlamaConfig, record: Record) -> str:
    layers = "one layer" if config.num_hidden_layers == 1 else f"{config.num_hidden_layers} layers"
    return f"""A plain `LlamaForCausalLM` of {record.parameters / 1e6:.1f} million parameters in bf16: {layers} of width
{config.hidden_size}, {config.num_attention_heads} heads ({config.num_key_value_heads} for keys and values), MLP
{config.intermediate_size:,}, {config.vocab_size:,} byte-level BPE entries with tied embeddings,
{config.max_position_embeddings:,} positions. `<|endoftext|>` begins every document and ends what the model writes."""


def _recipe(method: str, rates: Rates, record: Record) -> str:
    return f"""{method}

{record.tokens_seen / 1e6:.1f} million tokens seen. The last run: {record.minutes:.0f} minutes on {record.threads}
processor cores, {record.steps:,} steps of {record.tokens_per_step:,} tokens, seed {record.seed}. Muon for the matrices
(rate {rates.matrices:g}), AdamW for the rest ({rates.rest:g}), bf16 autocast, warm-up over the first {WARM_UP:.0%} of
the time, linear decay to zero over the last {DECAY:.0%}. The recipe is `draftscope train`."""


def _figures(record: Record) -> str:
    head = ["text", "held-out tokens", "nats per token", "bits per byte"]
    rows = [
        [name, f"{score.tokens:,}", f"{score.nats_per_token:.2f}", f"{score.bits_per_byte:.2f}"]
        for name, score in record.held_out.items()
    ]
    if not record.agreement:
        return f"{_table(head, rows)}\n\n{HELD_OUT_NOTE}"
    wider = [[*row, f"{record.agreement[row[0]].alpha:.2f}", f"{record.agreement[row[0]].greedy:.2f}"] for row in rows]
    return f"{_table([*head, 'alpha', 'greedy agreement'], wider)}\n\n{HELD_OUT_NOTE}\n{AGREEMENT_NOTE}"


def _credits(sources: list[Source]) -> list[str]:
    if not sources:
        return []
    rows = [
        [source.domain, source.part, f"{source.size / 1e6:.1f}", source.origin, source.licence, source.credit]
        for source in sources
    ]
    head = ["kind", "part", "MB", "source", "licence", "credit"]
    llama = [LLAMA_NOTE] if _by_llama(sources) else []
    return ["## Sources and credits", CREDITS_NOTE, _table(head, rows), *llama]


def _by_llama(sources: list[Source]) -> bool:
    return any(source.by_llama for source in sources)


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])
