"""Milliseconds of a forward and of a round of speculation, from bytes, operations, launches and traffic.

A forward is max(2 W rows / F, W bytes / BW) for the weights and the same for caches, plus launches and links
(the roofline of Williams and others, 2009, applied to decoding as in Pope and others, arXiv:2211.05102).
"""

from __future__ import annotations

from dataclasses import dataclass

from draftscope.forecast.architecture import Architecture
from draftscope.forecast.drafter_forwards import DraftPlan
from draftscope.forecast.hardware_tables import Card, EngineCosts

BANDWIDTH = 0.85  # of the data sheet's; H200 measured 4,300 of 4,800 GB/s in a copy
EXPERT_BANDWIDTH = 0.65  # grouped products of few rows each
EXPERT_MS = 0.05  # routing, sorting and combining in a layer: about ten more kernels of 5 us
COMPUTE = 0.7  # of the data sheet's dense rate; H200 measured 790 of 989 TFLOP/s in a large product
REDUCE_MS = 0.006  # a small all-reduce over NVLink
HOP_MS = 0.02  # activations handed to the next card of a pipeline, or an all-reduce step over PCIe
SERVER, RACK, RACK_GB_S = 8, 64, 900.0  # cards that are linked: HGX; NVL72, of which a power of two; its links
NVLINK_GB_S = 100.0  # links from here on are NVLink or Infinity Fabric


@dataclass(frozen=True)
class Hardware:
    """Cards and the engine on them. `tensor` cards share each layer, `stages` follow one another."""

    card: Card
    engine: EngineCosts
    tensor: int = 1
    stages: int = 1

    @property
    def cards(self) -> int:
        return self.tensor * self.stages


def spread_over(
    card: Card, engine: EngineCosts, model: Architecture, count: int | None = None, stages: bool | None = None
) -> Hardware:
    """`model` on `count` cards, or on a power of two that holds the weights and a fifth more. `stages`: one after the
    other, which is also how some engines do it where nothing else is said, and all of them beyond the cards that one
    server links."""
    if count is None:
        count = 1
        while count * card.memory_gb * 1e9 < 1.2 * model.parameters * model.weight_bytes and count < 64:
            count *= 2
        if engine.by_tensor and not stages:
            shared = min(count, linked(card))
            return Hardware(card, engine, shared, count // shared)
    one_by_one = not engine.by_tensor if stages is None else stages
    return Hardware(card, engine, *((1, count) if one_by_one else (count, 1)))


def linked(card: Card) -> int:
    """Cards of one server, which can share a layer: 8, 64 of a rack of 72, or 1 where there is no link."""
    return 1 if not card.link_gb_s else RACK if card.link_gb_s >= RACK_GB_S else SERVER


def cache_copies(model: Architecture, tensor: int) -> float:
    """How often the cards that share a layer keep the cache between them: each has a whole head of keys and values."""
    return 1.0 if model.latent else max(1.0, tensor / max(model.kv_heads, 1))


def forward_ms(model: Architecture, on: Hardware, sequences: int, rows: float, context: float) -> float:
    """One forward of `rows` rows in each of `sequences` sequences behind `context` tokens each."""
    read_s = on.card.gb_s * 1e9 * BANDWIDTH * on.tensor
    work_s = on.card.tflop_s * 1e12 * COMPUTE * on.tensor
    every = sequences * rows
    reading = model.every_row + model.experts_read(sequences, rows) * BANDWIDTH / EXPERT_BANDWIDTH
    weights = max(reading * model.weight_bytes / read_s, 2 * model.active * every / work_s)
    attention = 4.0 * (model.attended or model.layers) * model.heads * model.head_dim * context * every
    caches = max(
        sequences * context * model.cache_bytes() * cache_copies(model, on.tensor) / read_s, attention / work_s
    )
    launches = model.layers * on.engine.layer_ms + model.expert_layers * EXPERT_MS
    return 1e3 * (weights + caches) + launches + _links_ms(model, on, every)


def _links_ms(model: Architecture, on: Hardware, every: float) -> float:
    """Two all-reduces a layer between cards that share it; one hand-over between stages."""
    passed = 2.0 * model.d * every / (max(on.card.link_gb_s, 1) * 1e6)  # ms for the activations, two bytes each
    latency = REDUCE_MS if on.card.link_gb_s >= NVLINK_GB_S else HOP_MS
    reduced = 2 * model.layers * (latency + 2 * (on.tensor - 1) / on.tensor * passed) if on.tensor > 1 else 0.0
    return reduced + (on.stages - 1) * (HOP_MS + passed)


def plain_ms(target: Architecture, on: Hardware, sequences: int, context: float) -> float:
    """A step of plain decoding."""
    return forward_ms(target, on, sequences, 1, context) + on.engine.step_ms + sequences * on.engine.sequence_ms


def round_ms(target: Architecture, drafting: DraftPlan, on: Hardware, sequences: int, context: float) -> float:
    """A round: draft, verify, and what the engine adds."""
    host = on.engine.step_ms + on.engine.round_ms + 2 * sequences * on.engine.sequence_ms
    verify = forward_ms(target, on, sequences, drafting.rows, context)
    return drafting_ms(drafting, on, sequences, context) + verify + host


def drafting_ms(drafting: DraftPlan, on: Hardware, sequences: int, context: float) -> float:
    """The drafter's part of a round."""
    if drafting.model is None:
        return on.engine.draft_ms
    one = forward_ms(drafting.model, on, sequences, drafting.width, context)
    return drafting.steps * (one + on.engine.draft_ms)
