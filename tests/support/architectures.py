"""Which architectures support draft trees and which only chains, found by probing a small random model of each.

    python -m tests.support.architectures

prints the table as Markdown. The tests decode with the same cases, so the table claims only what is tested.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from transformers import CONFIG_MAPPING, AutoModelForCausalLM
from transformers.utils import logging

from draftscope.base import markdown
from draftscope.base.errors import DraftscopeError
from draftscope.models.probe import probed

Takes = Literal["trees", "chains", "nothing"]

WINDOW = 6  # shorter than the tests' prompts
SMALL = {
    "vocab_size": 48,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    "initializer_range": 0.3,
    "bos_token_id": 0,
    "eos_token_id": 0,
    "pad_token_id": 1,
}
HEADS = {"head_dim": 8}
MIXED = {"sliding_window": WINDOW, "layer_types": ["sliding_attention", "full_attention"]}
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16}
JAMBA = {"attn_layer_period": 2, "attn_layer_offset": 1, "expert_layer_period": 2, "num_experts": 4}
LATENT = {
    "num_key_value_heads": 4,
    "kv_lora_rank": 8,
    "q_lora_rank": 8,
    "qk_rope_head_dim": 4,
    "qk_nope_head_dim": 4,
    "v_head_dim": 8,
}
ROUTED = {
    "n_routed_experts": 4,
    "n_group": 1,
    "topk_group": 1,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 16,
    "first_k_dense_replace": 1,
}
LOCAL = {"num_local_experts": 4, "num_experts_per_tok": 2}
ALTERNATING = ["sliding_attention", "full_attention"]
GEMMA3 = HEADS | {"sliding_window": WINDOW, "query_pre_attn_scalar": 8}
GEMMA3N = HEADS | {
    "sliding_window": WINDOW,
    "num_hidden_layers": 4,
    "layer_types": ALTERNATING * 2,
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 48,
    "laurel_rank": 4,
    "altup_num_inputs": 2,
    "activation_sparsity_pattern": [0.0] * 4,
}
GEMMA4 = HEADS | {
    "global_head_dim": 16,
    "sliding_window": WINDOW,
    "num_hidden_layers": 4,
    "layer_types": ALTERNATING * 2,
    "num_kv_shared_layers": 2,
    "hidden_size_per_layer_input": 8,
    "vocab_size_per_layer_input": 48,
}
SEES = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "image_size": 28,
    "patch_size": 14,
}
SEES4 = SEES | {"num_key_value_heads": 2, "head_dim": 8, "pooling_kernel_size": 1, "position_embedding_size": 64}
SEES35 = {
    "hidden_size": 16,
    "intermediate_size": 16,
    "depth": 1,
    "num_heads": 2,
    "out_hidden_size": 32,
    "num_position_embeddings": 16,
}
LINEAR = {
    "linear_num_value_heads": 2,
    "linear_num_key_heads": 2,
    "linear_key_head_dim": 8,
    "linear_value_head_dim": 8,
}


@dataclass(frozen=True)
class Case:
    """One architecture: its `model_type`, what it must support, and the configuration of a small model's text part."""

    name: str
    kind: str
    takes: Takes = "trees"
    note: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    vision: dict[str, Any] = field(default_factory=dict)  # of a model that also sees


CASES = (
    Case("Llama, SmolLM2", "llama"),
    Case("Qwen2, Qwen2.5", "qwen2"),
    Case(
        "Qwen2 with windows",
        "qwen2",
        note="sliding window in some layers",
        config={"use_sliding_window": True, "sliding_window": WINDOW, "max_window_layers": 1},
    ),
    Case("Qwen3", "qwen3", config=HEADS),
    Case("Gemma", "gemma", config=HEADS),
    Case(
        "Gemma 2",
        "gemma2",
        note="sliding window in some layers; soft-capped, so eager attention",
        config=HEADS | {"sliding_window": WINDOW, "query_pre_attn_scalar": 8},
    ),
    Case(
        "Gemma 3",
        "gemma3_text",
        note="sliding window in some layers, two rotary bases",
        config=GEMMA3 | {"sliding_window_pattern": 2},
    ),
    Case(
        "Gemma 3 with vision",
        "gemma3",
        note="only text is read",
        config=GEMMA3 | {"layer_types": ALTERNATING},
        vision=SEES,
    ),
    Case("Gemma 3n", "gemma3n_text", note="sliding window in some layers; the last ones share keys", config=GEMMA3N),
    Case(
        "Gemma 4",
        "gemma4_text",
        note="sliding window in some layers, wider heads in the others; the last ones share keys",
        config=GEMMA4,
    ),
    Case("Gemma 4 with vision", "gemma4", note="only text is read", config=GEMMA4, vision=SEES4),
    Case(
        "Gemma 4 with experts",
        "gemma4_text",
        note="experts; wider heads in some layers, with the same keys and values",
        config=HEADS
        | MIXED
        | {
            "global_head_dim": 16,
            "num_global_key_value_heads": 1,
            "attention_k_eq_v": True,
            "hidden_size_per_layer_input": 0,
            "enable_moe_block": True,
            "num_experts": 4,
            "top_k_experts": 2,
            "moe_intermediate_size": 16,
        },
    ),
    Case("Mistral", "mistral", note="sliding window in all layers", config=HEADS | {"sliding_window": WINDOW}),
    Case("Ministral", "ministral", note="sliding window in some layers", config=HEADS | MIXED),
    Case("Ministral 3", "ministral3", config=HEADS),
    Case("Phi", "phi", note="partial rotary", config={"partial_rotary_factor": 0.5}),
    Case("Phi-3", "phi3", note="sliding window in all layers", config={"sliding_window": WINDOW}),
    Case("GPT-2", "gpt2", note="learned positions"),
    Case("GPT-NeoX, Pythia", "gpt_neox", note="partial rotary", config={"rotary_pct": 0.5}),
    Case("GPT-BigCode, StarCoder", "gpt_bigcode", note="learned positions"),
    Case("GPT-J", "gptj", note="eager attention", config={"rotary_dim": 4}),
    Case("OPT", "opt", note="learned positions", config={"ffn_dim": 48, "word_embed_proj_dim": 32}),
    Case("Falcon, rotary", "falcon", config={"alibi": False}),
    Case("StableLM", "stablelm"),
    Case("StarCoder2", "starcoder2", note="sliding window in all layers", config={"sliding_window": WINDOW}),
    Case("Granite", "granite"),
    Case("Nemotron", "nemotron", note="partial rotary", config={"partial_rotary_factor": 0.5}),
    Case("Apertus", "apertus", config=HEADS),
    Case("Seed-OSS", "seed_oss", config=HEADS),
    Case("ERNIE 4.5", "ernie4_5", config=HEADS),
    Case("Hunyuan", "hunyuan_v1_dense", config=HEADS),
    Case("BitNet", "bitnet"),
    Case("OLMo 2", "olmo2"),
    Case("OLMo 3", "olmo3", note="sliding window in some layers", config=MIXED),
    Case("EXAONE 4", "exaone4", note="sliding window in some layers", config=HEADS | MIXED),
    Case("Cohere", "cohere"),
    Case("Cohere 2", "cohere2", note="sliding window in some layers, no positions in the others", config=MIXED),
    Case("SmolLM3", "smollm3", note="no positions in some layers"),
    Case("GLM-4", "glm4", config=HEADS),
    Case("Mixtral", "mixtral", note="experts", config=LOCAL),
    Case(
        "Phi-3.5-MoE", "phimoe", note="experts; sliding window in all layers", config=LOCAL | {"sliding_window": WINDOW}
    ),
    Case("Granite-MoE", "granitemoe", note="experts", config=LOCAL),
    Case("MiniMax-M2", "minimax_m2", note="experts", config=HEADS | LOCAL),
    Case("OLMoE", "olmoe", note="experts", config={"num_experts": 4, "num_experts_per_tok": 2}),
    Case("GLM-4-MoE", "glm4_moe", note="experts", config=HEADS | ROUTED),
    Case("Qwen2-MoE", "qwen2_moe", note="experts", config=EXPERTS | {"shared_expert_intermediate_size": 16}),
    Case("Qwen3-MoE", "qwen3_moe", note="experts", config=EXPERTS | HEADS),
    Case(
        "Llama 4, text",
        "llama4_text",
        note="experts; chunked attention in some layers",
        config=HEADS
        | {
            "attention_chunk_size": WINDOW,
            "layer_types": ["chunked_attention", "full_attention"],
            "num_local_experts": 2,
            "intermediate_size_mlp": 48,
            "moe_layers": [0],
        },
    ),
    Case(
        "GPT-OSS",
        "gpt_oss",
        note="experts; sliding window in some layers; attention sinks, so eager attention",
        config=HEADS
        | MIXED
        | {
            "num_local_experts": 4,
            "num_experts_per_tok": 2,
            "rope_parameters": {"rope_type": "default", "rope_theta": 1e4},
        },
    ),
    Case(
        "DeepSeek-V2",
        "deepseek_v2",
        note="experts; latent attention",
        config=LATENT | ROUTED | {"topk_method": "greedy"},
    ),
    Case("DeepSeek-V3", "deepseek_v3", note="experts; latent attention", config=LATENT | ROUTED),
    Case("MiniCPM3", "minicpm3", note="latent attention", config=LATENT),
    Case("Bloom", "bloom", "chains", "ALiBi from slots, which differ for siblings"),
    Case("MPT", "mpt", "chains", "ALiBi from slots", {"d_model": 32, "n_heads": 4, "n_layers": 2}),
    Case("Falcon, ALiBi", "falcon", "chains", "ALiBi from slots", {"alibi": True}),
    Case(
        "GPT-Neo",
        "gpt_neo",
        "chains",
        "local windows from slots",
        {"num_layers": 2, "attention_types": [[["global", "local"], 1]], "num_heads": 4, "window_size": WINDOW},
    ),
    Case("Mamba", "mamba", "nothing", "recurrent state", {"state_size": 8}),
    Case(
        "Mamba-2",
        "mamba2",
        note="recurrent state; trees with Draftscope's own forward",
        config={"state_size": 8, "num_heads": 8, "head_dim": 8, "n_groups": 2},
    ),
    Case("Jamba", "jamba", "chains", "some layers are recurrent, row by row; experts", JAMBA),
    Case(
        "Qwen3-Next",
        "qwen3_next",
        "chains",
        "some layers are recurrent; experts",
        HEADS | LINEAR | EXPERTS | {"layer_types": ["linear_attention", "full_attention"]},
    ),
    Case(
        "Qwen3.5",
        "qwen3_5_text",
        "chains",
        "some layers are recurrent",
        HEADS | LINEAR | {"layer_types": ["linear_attention", "full_attention"]},
    ),
    Case(
        "Qwen3.5 with vision",
        "qwen3_5",
        "chains",
        "some layers are recurrent; only text is read",
        HEADS | LINEAR | {"layer_types": ["linear_attention", "full_attention"]},
        SEES35,
    ),
    Case("LFM2", "lfm2", "chains", "some layers are convolutions", {"layer_types": ["conv", "full_attention"]}),
    Case("MiniMax", "minimax", "nothing", "some layers are recurrent, with a cache of their own", HEADS | LOCAL),
    Case("RWKV", "rwkv", "nothing", "recurrent state", {"attention_hidden_size": 32}),
)


def network(case: Case, seed: int = 0, **config: Any) -> Any:
    """A random model of the architecture with a few thousand parameters, in evaluation mode. `config` overrides."""
    torch.manual_seed(seed)
    return AutoModelForCausalLM.from_config(configuration(case, **config)).eval()


def configuration(case: Case, **config: Any) -> Any:
    """The configuration of that model."""
    text = {**SMALL, **case.config, **config}
    return CONFIG_MAPPING[case.kind](**({"text_config": text, "vision_config": case.vision} if case.vision else text))


def takes(case: Case, dtype: torch.dtype = torch.float32) -> Takes:
    """What a small model of the architecture supports, according to the probe."""
    try:
        return "trees" if probed(network(case).to(dtype), case.name).trees else "chains"
    except DraftscopeError:
        return "nothing"


def table(found: Sequence[Takes]) -> str:
    """A Markdown table: one row for each of `CASES`, with what it was found to support."""
    rows = [
        (f"{case.name} (`{case.kind}`)", _mark(taken == "trees"), _mark(taken != "nothing"), case.note)
        for case, taken in zip(CASES, found, strict=True)
    ]
    return markdown.table(("architecture", "trees", "chains", "note"), rows)


def _mark(yes: bool) -> str:
    return "yes" if yes else "no"


if __name__ == "__main__":
    logging.set_verbosity_error()
    print(table([takes(case) for case in CASES]))
