"""Which presumed costs hold for a pair: by the processor's instructions and the weights of its models."""

from __future__ import annotations

from draftscope.base.presumed_costs import RULE, STEP, STORED, WIDENED, Kind, PresumedCosts
from draftscope.decode.calibration import weight_bytes
from draftscope.decode.pair import LoadedPair
from draftscope.models.forward.stored import stored_weights
from draftscope.models.model import Model
from draftscope.models.native.instructions import has


def kind_of(model: Model) -> Kind:
    """Whose costs this model's are taken to be; a rule where none of that kind were measured."""
    if model.device.type != "cpu":
        return RULE
    if stored_weights(model.network):
        return STORED if has("avx512vnni") else RULE
    return WIDENED if has("avx512bf16") else RULE


def presumed(pair: LoadedPair) -> PresumedCosts:
    """The pair's: a draft step reads its weights as fast as the target's forward reads its own."""
    whole = weight_bytes(pair.target.network)
    networks = {kind: head.network for kind, head in pair.heads.items()}
    networks |= {"draft": pair.draft.network} if pair.draft else {}
    return PresumedCosts(
        kind_of(pair.target), {name: STEP + weight_bytes(network) / whole for name, network in networks.items()}
    )
