"""The model cards: what a model is, what made it, how good it is, whom to credit."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from draftscope.train import distill, pretrain
from draftscope.train.corpus import Domain
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


def target_card(model: LlamaForCausalLM, record: Record, sources: list[Source], specimens: list[str]) -> str:
    """The README.md of the target's folder."""
    method = _recipe(TARGET_METHOD, pretrain.RATES, record)
    return _card(TARGET, method, TARGET_LIMITS, model.config, record, sources, specimens)


def draft_card(model: LlamaForCausalLM, record: Record, sources: list[Source], specimens: list[str]) -> str:
    """The README.md of the draft's folder."""
    method = _recipe(DRAFT_METHOD, distill.RATES, record)
    return _card(DRAFT, method, DRAFT_LIMITS, model.config, record, sources, specimens)


@torch.inference_mode()
def specimens(model: LlamaForCausalLM, texts: pretrain.Texts, seed: int) -> list[str]:
    """One unpicked continuation for each domain, at temperature 0.8, as Markdown."""
    torch.manual_seed(seed)
    return [_specimen(model, domain, texts) for domain in texts.val]


def _specimen(model: LlamaForCausalLM, domain: Domain, texts: pretrain.Texts) -> str:
    start = int(domain.starts[0])
    opening = torch.from_numpy(domain.tokens[start : start + OPENING].astype("int64"))[None]  # [1, OPENING]
    row = model.generate(
        input_ids=opening, attention_mask=torch.ones_like(opening), do_sample=True, temperature=0.8, top_k=0,
        max_new_tokens=CONTINUED, eos_token_id=END, pad_token_id=PAD,
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
    parts = [
        _front_matter(sources),
        f"# {record.name}",
        *(["**Built with Llama.**"] if any(source.by_llama for source in sources) else []),
        purpose,
        _shape(config, record),
        "## How it was made",
        method,
        "## How good it is",
        _figures(record),
        "## What it is bad at",
        limits,
        "## Samples",
        "The first held-out document of each kind, its opening continued at temperature 0.8, one draw, unpicked. "
        "`[...]` marks where the model takes over.",
        *specimens,
        *_credits(sources),
    ]
    return "\n\n".join(parts) + "\n"


def _front_matter(sources: list[Source]) -> str:
    lines = ["license: other", "license_name: terms-of-the-sources", "license_link: README.md#sources-and-credits"]
    tags = ["tags:", "- speculative-decoding", "- draftscope", *(["- llama"] if sources else [])]
    return "\n".join(
        ["---", "language: en", *lines, "library_name: transformers", "pipeline_tag: text-generation", *tags, "---"]
    )


def _shape(config: LlamaConfig, record: Record) -> str:
    return (
        f"A plain `LlamaForCausalLM` of {record.parameters / 1e6:.1f} million parameters in bf16: "
        f"{config.num_hidden_layers} layer{'s' * (config.num_hidden_layers > 1)} x {config.hidden_size}, "
        f"{config.num_attention_heads} heads ({config.num_key_value_heads} for keys and values), "
        f"MLP {config.intermediate_size:,}, {config.vocab_size:,} byte-level BPE entries with tied embeddings, "
        f"{config.max_position_embeddings:,} positions. Every document starts with `<|endoftext|>` and ends before the next one."
    )


def _recipe(method: str, rates: Rates, record: Record) -> str:
    return (
        f"{method}\n\n"
        f"{record.tokens_seen / 1e6:.1f} million tokens; {record.minutes:.0f} minutes on {record.threads} processor cores, "
        f"{record.steps:,} steps of {record.tokens_per_step:,} tokens, seed {record.seed}. "
        f"Muon for the matrices (rate {rates.matrices:g}), AdamW for the rest ({rates.rest:g}), bf16 autocast, "
        f"warm-up over the first {WARM_UP:.0%} of the time, linear decay to zero over the last {DECAY:.0%}. "
        "The recipe is `draftscope train`."
    )


def _figures(record: Record) -> str:
    tokens = {domain: score.tokens for domain, score in record.held_out.items()}
    head = ["text", "held-out tokens", "nats per token", "bits per byte"]
    rows = [
        [name, f"{tokens[name]:,}", f"{score.nats_per_token:.2f}", f"{score.bits_per_byte:.2f}"]
        for name, score in record.held_out.items()
    ]
    note = "Measured with the bf16 weights, on documents that were kept out of training, in rows of 512 tokens."
    if record.agreement:
        head += ["alpha", "greedy agreement"]
        rows = [[*row, f"{found.alpha:.2f}", f"{found.greedy:.2f}"]
                for row, found in zip(rows, record.agreement.values(), strict=True)]
        note += (" alpha is the mean over positions of the sum over the vocabulary of min(p, q) at temperature 1: the chance"
                 " that one drafted token is accepted. Greedy agreement is the share of positions where target and draft"
                 " have the same most likely token.")
    return f"{_table(head, rows)}\n\n{note}"


def _credits(sources: list[Source]) -> list[str]:
    if not sources:
        return []
    rows = [
        [source.domain, source.part, f"{source.size / 1e6:.1f}", source.origin, source.licence, source.credit]
        for source in sources
    ]
    llama = (
        "Parts of the text were generated with Llama 3.1. Llama 3.1 is licensed under the Llama 3.1 Community License, "
        "Copyright (c) Meta Platforms, Inc. All Rights Reserved. That licence asks for a name that begins with Llama and for "
        "the words Built with Llama; this card has both."
    )
    return [
        "## Sources and credits",
        "The text is not part of this folder; each source keeps its own terms.",
        _table(["kind", "part", "MB", "source", "licence", "credit"], rows),
        *([llama] if any(source.by_llama for source in sources) else []),
    ]


def _table(head: list[str], rows: list[list[str]]) -> str:
    return "\n".join("| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows])
