"""Multi-token prediction as speculators publishes it: `mtp_layers.0.*`, a dense layer in its own checkpoint.

MTP layers inside a target's checkpoint are not supported. They are not Llama layers: DeepSeek-V3's has latent attention
and experts, Qwen's has gated attention.
"""

from __future__ import annotations

from torch import Tensor

from draftscope.models.heads.formats.head_files import Checkpoint, Published
from draftscope.models.heads.formats.published import (
    built,
    layer_config,
    renamed,
    same_hidden,
    shape_of,
    speculators_config,
)
from draftscope.models.heads.head import SharedWeights
from draftscope.models.heads.mtp import Mtp, MtpConfig

NAMES = (
    ("mtp_layers.0.token_layernorm.", "enorm."),
    ("mtp_layers.0.hidden_layernorm.", "hnorm."),
    ("mtp_layers.0.input_proj.", "eh_proj."),
    ("mtp_layers.0.final_layernorm.", "norm."),
    ("mtp_layers.0.", "midlayer."),
)
TOKENS = 3  # the draft length that the file recommends; the layer can be applied any number of times


def read_mtp(saved: Checkpoint, shared: SharedWeights) -> tuple[Mtp, dict[str, Tensor]]:
    if "speculators_model_type" not in saved.config:
        raise saved.wrong(
            "is not a speculators folder; MTP layers inside a target's checkpoint are not supported, choose another "
            "head."
        )
    if saved.config.get("num_nextn_predict_layers", 1) != 1:
        raise saved.wrong(
            f"has {saved.config['num_nextn_predict_layers']} layers; only MTP heads of one layer are supported."
        )
    tensors = renamed(saved.tensors, *NAMES)
    shape = shape_of(saved, saved.section("transformer_layer_config"), "midlayer.self_attn.", tensors)
    same_hidden(saved, shape.hidden, shared)
    return built(Mtp, MtpConfig(shape), shared), tensors


def write_mtp(head: Mtp, target: str) -> Published:
    config = speculators_config("mtp", TOKENS, target) | {
        "architectures": ["MTPDraftModel"],
        "num_nextn_predict_layers": 1,
        "transformer_layer_config": layer_config(head.config.shape, head.shared.vocabulary),
    }
    return Published(config, renamed(head.state_dict(), *((ours, theirs) for theirs, ours in NAMES)))
