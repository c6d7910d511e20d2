"""A Llama-shaped model as a GGUF file, for llama.cpp and OpenVINO GenAI.

Tokens are given by id, so the file needs no tokenizer; a program that does not start without a vocabulary gets one of
made-up words: read its ids, not its text.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import torch
from torch import Tensor

from draftscope.base.errors import DraftscopeError
from draftscope.measure.bench.systems import MissingPeerError, needed
from draftscope.models.files.gguf_file import inspected
from draftscope.models.forward.lean import covers
from draftscope.models.loading.sources import file_of
from draftscope.models.model import Model

MAX_BYTES = 4_000_000_000  # of weights to write to a temporary folder
BYTES = 256
LLAMAS = ("llama", "mistral")  # written as llama.cpp's "llama", which has neither biases nor norms of heads
KINDS = {torch.float32: "F32", torch.bfloat16: "BF16", torch.float16: "F16"}
NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


class GgufWeights(NamedTuple):
    """A file, its most frequent tensor type, and where its weights are from."""

    path: Path
    kind: str
    origin: str


def original(model: Model) -> GgufWeights | None:
    """The model's own file; None if it has none, or one that is not quantised."""
    try:
        path = file_of(Path(model.network.name_or_path))
        quantized = inspected(path).quantized if path is not None else []
    except DraftscopeError:  # it cannot be downloaded again
        return None
    if path is None or not quantized:
        return None
    return GgufWeights(path, quantized[0], f"{path.name} ({path.stat().st_size / 1e6:.0f} MB)")


def why_not(model: Model) -> str | None:
    """Why this model cannot be written; None for plain Llama models on a CPU with ordinary rotary angles."""
    config = model.network.config
    if model.device.type != "cpu":
        return f"it is measured on a CPU only, and the models are on {model.device}"
    if (
        not covers(model.network)
        or config.model_type not in LLAMAS
        or config.rope_parameters["rope_type"] != "default"
        or model.dtype not in KINDS
    ):
        return f"only plain Llama models are converted, and '{model.name}' is not one"
    if (size := model.parameters * model.dtype.itemsize) > MAX_BYTES:
        return f"its copy of '{model.name}' would be a file of {size / 1e9:.1f} GB"
    return None


def file_for(peer: str, model: Model, open_until: ExitStack) -> Path:
    """Where to write this model for a program, in a folder that is removed in the end. Raises `MissingPeerError`, also
    where the package that writes it is missing."""
    needed("gguf", peer, "pip install gguf")
    if (why := why_not(model)) is not None:
        raise MissingPeerError(f"{peer} was skipped: {why}.")
    return Path(open_until.enter_context(TemporaryDirectory())) / "target.gguf"


def no_words(file: Any, _count: int) -> None:
    """For programs that need no vocabulary."""
    file.add_tokenizer_model("no_vocab")


def byte_words(file: Any, count: int) -> None:
    """For llama.cpp's server. The first words are the bytes, without which it cannot read any text."""
    from gguf import TokenType

    file.add_tokenizer_model("llama")
    file.add_token_list([f"<0x{i:02X}>" if i < BYTES else f"<{i}>" for i in range(count)])
    file.add_token_scores([0.0] * count)
    file.add_token_types([TokenType.BYTE if i < BYTES else TokenType.NORMAL for i in range(count)])
    file.add_add_bos_token(False)


def merged_words(file: Any, count: int) -> None:
    """For OpenVINO GenAI, which reads byte-pair vocabularies only, and none without a merge and an end of text."""
    from gguf import TokenType

    file.add_tokenizer_model("gpt2")
    file.add_tokenizer_pre("default")
    file.add_token_list([f"<{i}>" for i in range(count)])
    file.add_token_types([TokenType.CONTROL] + [TokenType.NORMAL] * (count - 1))
    file.add_token_merges(["a b"])
    file.add_eos_token_id(0)


def write(
    network: Any,
    path: Path,
    add_words: Callable[[Any, int], None] = no_words,
    stored: str = "",
) -> None:
    """Writes `network`. Matrices keep their dtype, unless `stored` is another tensor type."""
    from gguf import GGMLQuantizationType, GGUFWriter, quants

    config = network.config
    file = GGUFWriter(str(path), "llama")
    width = network.model.layers[0].self_attn.head_dim
    file.add_block_count(config.num_hidden_layers)
    file.add_context_length(config.max_position_embeddings)
    file.add_embedding_length(config.hidden_size)
    file.add_feed_forward_length(config.intermediate_size)
    file.add_head_count(config.num_attention_heads)
    file.add_head_count_kv(config.num_key_value_heads)
    file.add_key_length(width)
    file.add_value_length(width)
    file.add_rope_dimension_count(width)
    file.add_rope_freq_base(config.rope_parameters["rope_theta"])
    file.add_layer_norm_rms_eps(config.rms_norm_eps)
    file.add_vocab_size(config.vocab_size)
    add_words(file, config.vocab_size)
    matrices = GGMLQuantizationType[stored or KINDS[network.dtype]]
    for name, weight in _weights(network):
        form = matrices if weight.ndim > 1 else GGMLQuantizationType.F32
        file.add_tensor(name, quants.quantize(weight.float().numpy(), form), raw_dtype=form)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()


def _weights(network: Any) -> list[tuple[str, Tensor]]:
    """Every weight by llama.cpp's name. Its rotary embedding pairs neighbours, that of transformers pairs halves."""
    config, body = network.config, network.model
    heads = {"attn_q": config.num_attention_heads, "attn_k": config.num_key_value_heads}
    weights = [("token_embd.weight", body.embed_tokens.weight), ("output_norm.weight", body.norm.weight)]
    if not config.tie_word_embeddings:
        weights.append(("output.weight", network.lm_head.weight))
    for number, layer in enumerate(body.layers):
        for theirs, ours in NAMES.items():
            weight = layer.get_submodule(theirs).weight
            if ours in heads:
                weight = weight.view(heads[ours], 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
            weights.append((f"blk.{number}.{ours}.weight", weight))
    return [(name, weight.detach().contiguous()) for name, weight in weights]
