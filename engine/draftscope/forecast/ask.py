"""A question to the forecast from names, each checked: a model, a drafter's kind, a card."""

from __future__ import annotations

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.forecast.acceptance import TEXTS
from draftscope.forecast.architecture import find_architecture
from draftscope.forecast.card import find_card
from draftscope.forecast.cost import spread_over
from draftscope.forecast.drafting import find_kind, plan_drafting
from draftscope.forecast.engine_costs import find_engine
from draftscope.forecast.forecast import Scenario


def ask(
    model: str, drafter: str = "eagle3", card: str = "H100", *, form: str = "", draft: str = "", quant: str = "",
    engine: str = "vllm", tp: int | None = None, concurrency: int = 1, context: float = 1024, answer: int = 0,
    tau: float | None = None, text: str = "chat",
) -> Scenario:  # fmt: skip
    """The scenario of these names, or a DraftscopeError that names the one that is not known.

    `form` is 'k=3' or 'steps=7,topk=4,draft_tokens=8'; `draft` the draft model; `quant` the format of the weights;
    `tp` the cards that share each layer, by default as many as the weights need.
    """
    if text not in (known := [name for name, _ in TEXTS]):
        raise DraftscopeError(f"the kind of text '{quoted(text)}' is not known; give one of: {', '.join(known)}")
    target, costs = find_architecture(model).quantised(quant), find_engine(engine)
    smaller = find_architecture(draft) if draft else None
    drafting = plan_drafting(find_kind(drafter), target, form, smaller, costs.trees)
    if tau is not None and not 1 <= tau <= drafting.depth + 1:
        raise DraftscopeError(
            f"tau {tau:g} is not from 1 to {drafting.depth + 1}, which a round can emit; change the form"
        )
    machine = spread_over(find_card(card), costs, target, tp, None if tp is None else False)
    return Scenario(target, drafting, machine, concurrency, context, answer, tau, text)
