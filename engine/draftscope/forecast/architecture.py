"""What a forward of a model reads and multiplies: from its config.json, from the table of models, or from its size."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

from draftscope.base.errors import DraftscopeError, quoted, read_bytes, reason
from draftscope.forecast.hardware_tables import FORMATS, exact_row, names_like

USUAL = "a usual shape of its size"
MAX_SIZE = 10_000_000  # of a number in a configuration
ROPE = 64  # dimensions of a latent cache that are not compressed (DeepSeek-V2, arXiv:2405.04434)
SEQUENCE_POWER = 0.73  # see `awake`
SIZE = re.compile(r"(?<![a-z0-9.])(\d+(?:\.\d+)?)([bm])(?![a-z])", re.IGNORECASE)
ACTIVE = re.compile(r"-a(\d+(?:\.\d+)?)b", re.IGNORECASE)
# Bits a weight of quantised files: llama.cpp's k-quants with their scales (its quantize README), FP8, and 4-bit
# formats with a scale for 16 to 32 weights (OCP microscaling formats).
BITS = (
    (r"bf16|fp16|f16", 16.0), (r"fp8|w8|int8|8-bit|^q8$", 8.0), (r"q8_0", 8.5), (r"q6|6-bit", 6.6),
    (r"q5", 5.7), (r"iq4|q4|awq|4-bit|int4|gptq|xyz", 4.85), (r"fp4", 4.25), (r"q3|3-bit", 3.5), (r"iq2|q2|2-bit", 2.6),
)  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    """Sizes of a decoder. `attended` layers have a cache that grows (0: all); `latent` is the width of an MLA cache."""

    name: str
    layers: int
    d: int
    heads: int
    kv_heads: int
    head_dim: int
    d_ff: int
    vocab: int
    experts: int = 0
    chosen: int = 0
    shared: int = 0
    d_expert: int = 0
    dense_layers: int = 0  # of a mixture, layers without experts
    latent: int = 0
    q_rank: int = 0
    attended: int = 0
    tied: bool = False
    weight_bytes: float = 2.0
    source: str = ""

    @property
    def guessed(self) -> bool:
        """Only its size is known."""
        return self.source == USUAL

    @property
    def attention(self) -> float:
        """Weights of a layer's attention."""
        wide = self.heads * self.head_dim
        if not self.latent:
            query = self.q_rank * (self.d + wide) if self.q_rank else self.d * wide
            return query + 2 * self.d * self.kv_heads * self.head_dim + wide * self.d
        up = self.heads * (self.head_dim + ROPE)
        query = self.q_rank * (self.d + up) if self.q_rank else self.d * up
        return query + self.d * self.latent + 2 * (self.latent - ROPE) * wide + wide * self.d

    @property
    def expert(self) -> float:
        """Weights of one expert: three matrices, as in all gated layers."""
        return 3.0 * self.d * self.d_expert

    @property
    def expert_layers(self) -> int:
        return self.layers - self.dense_layers if self.experts else 0

    @property
    def head(self) -> float:
        """Weights of the matrix that gives logits."""
        return float(self.d * self.vocab)

    @property
    def every_row(self) -> float:
        """Weights that every forward reads whatever its rows: all but the experts that are chosen and the embedding."""
        dense = (self.layers - self.expert_layers) * 3.0 * self.d * self.d_ff
        return self.layers * self.attention + dense + self.expert_layers * self.shared * self.expert + self.head

    @property
    def parameters(self) -> float:
        embedding = 0.0 if self.tied else self.head
        return self.every_row + embedding + self.expert_layers * self.experts * self.expert

    @property
    def active(self) -> float:
        """Weights that multiply one row."""
        return self.every_row + self.expert_layers * self.chosen * self.expert

    def experts_read(self, sequences: int, rows: float) -> float:
        """Weights of experts that a forward of `rows` rows in each of `sequences` sequences reads."""
        return self.expert_layers * self.awake(sequences, rows) * self.expert

    def awake(self, sequences: int, rows: float) -> float:
        """Distinct experts of a layer. Uniform routing gives E (1 - (1 - k/E)^n); rows of one sequence share experts,
        so n rows of it count as n^0.73: Qwen3.6-35B wakes 13, 22, 35, 55 for 2, 4, 8, 16, and this 13, 21, 35, 55.
        """
        if not self.experts:
            return 0.0
        free = sequences * rows**SEQUENCE_POWER
        share: float = (1 - self.chosen / self.experts) ** free
        return self.experts * (1 - share)

    def cache_bytes(self) -> float:
        """Bytes of cache that a token keeps, at two bytes a number."""
        width = self.latent or 2 * self.kv_heads * self.head_dim
        return 2.0 * width * (self.attended or self.layers)

    def quantised(self, words: str) -> Architecture:
        """The same weights in the format that `words` name, or as they are."""
        bits = bits_of(words)
        return self if bits is None else replace(self, weight_bytes=bits / 8)


def bits_of(words: str) -> float | None:
    """The bits of a weight in the format that `words` name; None if they name none."""
    return next((bits for pattern, bits in BITS if re.search(pattern, words.lower())), None)


def format_in(name: str) -> str:
    """The format of the weights that the last words of a model's name say, such as FP8; empty if they say none."""
    result = re.search(rf"[-_]({FORMATS})(?:-gguf)?$", name.lower())
    return result[1] if result else ""


def find_architecture(name: str, billions: float | None = None) -> Architecture:
    """By the path of a folder or a config.json, a name of the table, or a size in the name ('Tess-4-27B')."""
    path = Path(name)
    if os.path.isdir(name):  # False too for what no file can be called
        return read_config(path / "config.json")
    if path.suffix == ".json":
        return read_config(path)
    if row := exact_row("models", name):
        return _of_row(row)
    result = SIZE.search(name)
    size = billions or (float(result[1]) / (1000 if result[2] in "mM" else 1) if result else None)
    if size is None or size <= 0:
        raise DraftscopeError(
            f"The model '{quoted(name)}' is not in the table and its name has no size; give its config.json, "
            f"or a name such as {names_like('models', name)}."
        )
    active = ACTIVE.search(name)
    return of_size(size * 1e9, float(active[1]) * 1e9 if active else None, name)


def of_size(parameters: float, active: float | None = None, name: str = "") -> Architecture:
    """A usual shape of this size: about 110 times as wide as deep, between Llama-3-8B (128) and Llama-3-70B (102).

    A mixture has 128 experts of which 8 are chosen, as Qwen3's.
    """
    core = active or parameters
    small = core < 1e9
    width, vocab = 128 * max(1, round((core * 110 / 14) ** (1 / 3) / 128)), 32_000 if small else 128_256
    matrices = 1 if small or active else 2  # of the vocabulary: a small model's two are tied
    layers = max(1, round((core - matrices * width * vocab) / (14.0 * width**2)))
    heads, d_ff = max(1, width // 128), int(3.8 * width)
    base = Architecture(name, layers, width, heads, max(1, heads // 4), 128, d_ff, vocab, tied=small, source=USUAL)
    if active is None:
        return base
    expert = (parameters - active) / (120.0 * layers)
    return replace(base, experts=128, chosen=8, d_expert=max(1, round(expert / (3 * width))), d_ff=0)


def read_config(path: Path) -> Architecture:
    """The architecture that a config.json describes, the text model's of one that also sees."""
    try:
        config = json.loads(read_bytes(path))
        return of_config({**config, **config.get("text_config", {})}, path.resolve().parent.name)
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise DraftscopeError(f"'{path}' cannot be read as a config.json ({reason(error)}); give another.") from None


def of_config(config: Mapping[str, Any], name: str) -> Architecture:
    """From the keys that Transformers writes; a DraftscopeError names the one that is missing."""

    def get(*keys: str, default: int = 0, least: int = 0) -> int:
        key = next((key for key in keys if config.get(key) is not None), keys[0])
        value = default if config.get(key) is None else config[key]
        if key not in config and value < least:
            raise DraftscopeError(f"The configuration of '{quoted(name)}' has no '{key}'; give a decoder's.")
        if not isinstance(value, int | float) or not least <= value <= MAX_SIZE:
            raise DraftscopeError(
                f"The configuration of '{quoted(name)}' has {quoted(value)} in '{key}', and it can be {least} to "
                f"{MAX_SIZE:,}; give a decoder's."
            )
        return int(value)

    d, heads = get("hidden_size", "n_embd", least=1), get("num_attention_heads", "n_head", least=1)
    layers = get("num_hidden_layers", "n_layer", least=1)
    experts = get("n_routed_experts", "num_experts", "num_local_experts")
    d_expert = get("moe_intermediate_size", "intermediate_size") if experts else 0
    kinds = config.get("layer_types") or []
    gated = "ffn_dim" not in config and "n_embd" not in config  # OPT and GPT-2 have two matrices instead of three
    d_ff = get("intermediate_size", "ffn_dim", "n_inner", default=4 * d)
    shared = get("n_shared_experts") or get("shared_expert_intermediate_size") // max(d_expert, 1)
    return Architecture(
        name, layers, d, heads, get("num_key_value_heads", default=heads, least=1),
        get("head_dim", default=d // heads, least=1),
        d_ff if gated else round(d_ff * 2 / 3), get("vocab_size", least=1), experts,
        get("num_experts_per_tok", "top_k", "num_experts_per_token"), shared if experts else 0, d_expert,
        get("first_k_dense_replace") if experts else 0,
        get("kv_lora_rank") + get("qk_rope_head_dim") if get("kv_lora_rank") else 0, get("q_lora_rank"),
        sum("full" in kind for kind in kinds) if "linear_attention" in kinds else 0,
        bool(config.get("tie_word_embeddings", not gated)), _weight_bytes(config), "its config.json",
    )  # fmt: skip


def _weight_bytes(config: Mapping[str, Any]) -> float:
    how = config.get("quantization_config") or {}
    words = f"{how.get('quant_method', '')} {how.get('fmt', '')} {how.get('bits', '')}-bit"
    bits = next((bits for pattern, bits in BITS if how and re.search(pattern, words)), 16.0)
    return bits / 8


def _of_row(row: Mapping[str, str]) -> Architecture:
    """From a row of the table, whose empty cells are zeros."""
    numbers = {
        field.name: int(row[field.name]) for field in fields(Architecture) if field.type == "int" and row[field.name]
    }
    weight_bytes = float(row["weight_bytes"] or 2)
    members = {"d_ff": 0} | numbers
    return Architecture(
        row["name"], **members, tied=row["tied"] == "1", weight_bytes=weight_bytes, source=row["source"]
    )
