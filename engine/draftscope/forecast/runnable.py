"""What cannot be run is refused in a sentence: cards that a layer cannot be shared by, models that memory cannot hold,
drafts that are no smaller than their target."""

from __future__ import annotations

from draftscope.base.errors import DraftscopeError
from draftscope.forecast.architecture import Architecture
from draftscope.forecast.cost import Hardware, cache_copies, linked
from draftscope.forecast.drafter_forwards import DraftPlan


def refuse_sharing(target: Architecture, on: Hardware) -> None:
    """Raises a DraftscopeError where `on.tensor` cards cannot share a layer of the target."""
    count, most = on.tensor, linked(on.card)
    if on.cards > 1 == most:
        raise DraftscopeError(
            f"{target.name} on {on.cards} x {on.card.name}: they have no link to one another; give one of another kind."
        )
    if count > most:
        raise DraftscopeError(
            f"{count} x {on.card.name} cannot share a layer: up to {most} of them are linked in a server; give fewer."
        )
    if not _divides(target, count):
        fit = [str(n) for n in range(1, most + 1) if _divides(target, n)]
        raise DraftscopeError(
            f"{count} cards cannot share a layer of {target.name} ({target.heads} heads, {target.kv_heads} of keys and "
            f"values); give {', '.join(fit)} cards."
        )


def _divides(target: Architecture, count: int) -> bool:
    """Whether each card gets whole heads; of a shape that is a guess, whether their number is usual."""
    if target.guessed:
        return count & (count - 1) == 0
    kept = target.kv_heads
    caches = bool(target.latent) or kept % count == 0 or count % kept == 0
    return caches and (bool(target.attended) or target.heads % count == 0)  # a mixed one's heads stand for more


def refuse_draft(target: Architecture, drafting: DraftPlan) -> None:
    """Raises a DraftscopeError for a draft model that is no smaller than the target: its step costs a round."""
    draft = drafting.model
    if drafting.kind.shape in ("model", "parallel") and draft is not None and draft.active >= target.active:
        raise DraftscopeError(
            f"The draft {draft.name} ({draft.active / 1e9:.1f} billion weights a token) is not smaller than "
            f"{target.name} ({target.active / 1e9:.1f}): a step of it costs as much as the token that it saves; give a "
            "smaller draft."
        )


def weights_gb(target: Architecture, drafting: DraftPlan) -> float:
    """Of the target, and of the draft where it is a model of its own."""
    draft = drafting.model if drafting.kind.shape in ("model", "parallel") else None
    return sum(model.parameters * model.weight_bytes for model in (target, draft) if model is not None) / 1e9


def sequence_gb(target: Architecture, on: Hardware, context: float) -> float:
    """The cache of one request, on all cards together."""
    return context * target.cache_bytes() * cache_copies(target, on.tensor) / 1e9


def fitting(target: Architecture, drafting: DraftPlan, on: Hardware, context: float) -> int:
    """Requests whose caches the memory holds beside the weights; 0 or less where it holds none."""
    left = on.cards * on.card.memory_gb - weights_gb(target, drafting)
    return int(left // sequence_gb(target, on, context))


def refuse_size(target: Architecture, drafting: DraftPlan, on: Hardware, sequences: int, context: float) -> None:
    """Raises a DraftscopeError where the memory of the cards is too small for weights and caches."""
    fits = fitting(target, drafting, on, context)
    if fits >= sequences:
        return
    weights = weights_gb(target, drafting)
    caches, room = sequences * sequence_gb(target, on, context), on.cards * on.card.memory_gb
    remedy = f"give more cards, or at most {fits:,} requests" if fits > 0 else "give more cards, or a smaller format"
    raise DraftscopeError(
        f"{target.name} cannot run there: weights take {weights:,.0f} GB and caches {caches:,.0f}, and {on.cards} x "
        f"{on.card.name} have {room:,.0f}; {remedy}."
    )
