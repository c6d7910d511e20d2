"""GGUF files of small networks, written with the package `gguf` as llama.cpp's converter writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from torch import Tensor
from transformers import LlamaTokenizer, PreTrainedTokenizerFast

KINDS = gguf.GGMLQuantizationType
ADDING = {
    str: gguf.GGUFWriter.add_string,
    bool: gguf.GGUFWriter.add_bool,
    int: gguf.GGUFWriter.add_uint32,
    float: gguf.GGUFWriter.add_float32,
}
CHAT = (
    "{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def write(
    path: Path,
    network: Any,
    tokenizer: Any = None,
    kind: gguf.GGMLQuantizationType = KINDS.F32,
    pre: str = "gpt-2",
    architecture: str = "",
    more: dict[str, Any] | None = None,
    tensors: dict[str, Tensor] | None = None,
    layers: int | None = None,
    in_part: int = 0,
) -> Path:
    """`network` as a GGUF file whose matrices have the type `kind`. `more` are numbers and texts of the metadata,
    `tensors` are written beside the network's own, `layers` is what the file claims instead of the truth. With
    `in_part` tensors in a part, it becomes several files; returns the first."""
    config = network.config
    name = architecture or config.model_type.removesuffix("_text")
    file = gguf.GGUFWriter(str(path), name, split_max_tensors=in_part)
    _write_shape(file, config, config.num_hidden_layers if layers is None else layers)
    if isinstance(tokenizer, LlamaTokenizer):
        _write_sentencepiece(file, tokenizer)
    elif tokenizer is not None:
        _write_tokenizer(file, tokenizer, pre)
    for key, value in (more or {}).items():
        ADDING[type(value)](file, key, value)
    for tensor, weight in (stored(network) | (tensors or {})).items():
        own = kind if weight.ndim > 1 else KINDS.F32
        file.add_tensor(tensor, quantized(weight, own), raw_dtype=own)
    file.write_header_to_file()
    file.write_kv_data_to_file()
    file.write_tensors_to_file()
    file.close()
    return next(path.parent.glob(f"{path.stem}-00001-of-*.gguf")) if in_part else path


def stored(network: Any) -> dict[str, Tensor]:
    """Every weight by llama.cpp's name and in its form: Llama's rotary pairs side by side, Gemma's norms plus 1."""
    config = network.config
    kind = config.model_type.removesuffix("_text")
    architecture = next(key for key, value in gguf.MODEL_ARCH_NAMES.items() if value == kind)
    names = gguf.get_tensor_name_map(architecture, config.num_hidden_layers)
    found = {}
    for name, weight in network.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        if kind == "llama" and name.endswith(("q_proj.weight", "k_proj.weight")):
            heads = config.num_attention_heads if "q_proj" in name else config.num_key_value_heads
            weight = weight.view(heads, 2, -1, weight.shape[1]).transpose(1, 2).reshape(weight.shape)
        if kind.startswith("gemma") and "norm" in name:
            weight = weight + 1
        stem, _, suffix = name.rpartition(".")
        mapped = names.get_name(stem)
        assert mapped is not None, name
        found[f"{mapped}.{suffix}"] = weight
    return found


def tokenizer_with_merges() -> PreTrainedTokenizerFast:
    """A byte-level BPE as GPT-2's, with a chat template; '<e>' ends a text."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    trainer = trainers.BpeTrainer(
        vocab_size=288, special_tokens=["<e>", "<user>", "<assistant>"], initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(["the cat and the hat, then the others\n\n and more\n\n"] * 4, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, bos_token="<e>", eos_token="<e>", pad_token="<e>",
        extra_special_tokens=["<user>", "<assistant>"], chat_template=CHAT,
    )  # fmt: skip


def quantized(weight: Tensor, kind: gguf.GGMLQuantizationType) -> Any:
    """In blocks of this type; of one that the package `gguf` only reads, made-up blocks."""
    values = weight.detach().float().numpy()
    try:
        return gguf.quants.quantize(values, kind)
    except NotImplementedError:
        count, size = gguf.GGML_QUANT_SIZES[kind]
        shape = (len(values), values.shape[1] // count * size)
        return np.random.default_rng(0).integers(0, 60, shape, np.uint8)  # every float16 among them is below 1


def dequantized(weight: Tensor, kind: gguf.GGMLQuantizationType) -> Tensor:
    """What a reader gets back."""
    values = np.ascontiguousarray(weight.detach().float().numpy())
    return torch.from_numpy(gguf.quants.dequantize(gguf.quants.quantize(values, kind), kind))


def _write_shape(file: gguf.GGUFWriter, config: Any, layers: int) -> None:
    width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    file.add_block_count(layers)
    file.add_context_length(config.max_position_embeddings)
    file.add_embedding_length(config.hidden_size)
    file.add_feed_forward_length(config.intermediate_size)
    file.add_head_count(config.num_attention_heads)
    file.add_head_count_kv(config.num_key_value_heads)
    file.add_key_length(width)
    file.add_value_length(width)
    file.add_rope_dimension_count(width)
    file.add_layer_norm_rms_eps(config.rms_norm_eps)
    file.add_vocab_size(config.vocab_size)
    rotary = config.rope_parameters.get("full_attention") or config.rope_parameters
    file.add_rope_freq_base(rotary["rope_theta"])
    if rotary["rope_type"] in ("linear", "yarn"):
        file.add_rope_scaling_type(gguf.RopeScalingType(rotary["rope_type"]))
        file.add_rope_scaling_factor(rotary["factor"])
    if "original_max_position_embeddings" in rotary:
        file.add_rope_scaling_orig_ctx_len(rotary["original_max_position_embeddings"])
    if getattr(config, "sliding_window", None):
        file.add_sliding_window(config.sliding_window)


def _write_tokenizer(file: gguf.GGUFWriter, tokenizer: Any, pre: str) -> None:
    """A byte-level BPE; its special tokens are control tokens."""
    vocabulary = sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])
    special = set(tokenizer.all_special_ids)
    merges = [" ".join(pair) for pair in _merges(tokenizer)]
    file.add_tokenizer_model("gpt2")
    if pre:
        file.add_tokenizer_pre(pre)
    file.add_token_list([token for token, _ in vocabulary])
    file.add_token_types([3 if index in special else 1 for _, index in vocabulary])
    file.add_token_merges(merges)
    file.add_add_bos_token(False)
    if tokenizer.eos_token_id is not None:
        file.add_eos_token_id(tokenizer.eos_token_id)
        file.add_bos_token_id(tokenizer.bos_token_id)
    if tokenizer.chat_template:
        file.add_chat_template(tokenizer.chat_template)


def _write_sentencepiece(file: gguf.GGUFWriter, tokenizer: LlamaTokenizer) -> None:
    """As Llama 2's: scores instead of merges, the best first; three special tokens, then the bytes."""
    vocabulary = [token for token, _ in sorted(tokenizer.get_vocab().items(), key=lambda item: item[1])]
    file.add_tokenizer_model("llama")
    file.add_token_list(vocabulary)
    file.add_token_scores([-float(index) for index in range(len(vocabulary))])
    file.add_token_types([2, 3, 3, *[6] * 256, *[1] * (len(vocabulary) - 259)])
    file.add_unk_token_id(0)
    file.add_bos_token_id(1)
    file.add_eos_token_id(2)
    file.add_add_bos_token(True)


def _merges(tokenizer: Any) -> list[list[str]]:
    merges = json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]
    return [merge.split(" ") if isinstance(merge, str) else merge for merge in merges]
