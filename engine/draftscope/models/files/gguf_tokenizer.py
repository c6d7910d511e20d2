"""The tokenizer in a GGUF file's header: byte pairs as GPT-2's, or pieces as SentencePiece's."""

from __future__ import annotations

from typing import Any

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
)
from transformers import PreTrainedTokenizerFast

from draftscope.base.errors import DraftscopeError
from draftscope.models.files.gguf_file import END_TEXTS, GgufFile
from draftscope.models.files.gguf_header import damaged
from draftscope.models.files.tokenizer_file import without_panic

CONTROL, USER_DEFINED = 3, 4  # types of tokens that are whole wherever they stand in a text
NAMED = {"bos": "bos_token", "eos": "eos_token", "unknown": "unk_token", "padding": "pad_token"}
SPACE = "▁"  # as SentencePiece writes it

WORDS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+"
REST = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = WORDS + r"|\p{N}{1,3}" + REST
QWEN2 = WORDS + r"|\p{N}" + REST
UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASES = r"[^\r\n\p{L}\p{N}]?" + UPPER + "*" + LOWER + r"+%s|[^\r\n\p{L}\p{N}]?" + UPPER + "+" + LOWER + "*%s"
SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
TEKKEN = CASES % ("", "") + r"|\p{N}" + SIGNS
GPT4O = CASES % (("(?i:'s|'t|'re|'ve|'m|'ll|'d)?",) * 2) + r"|\p{N}{1,3}" + SIGNS
GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
DIGIT = r"\p{N}"
# llama.cpp's names of the ways to split text -> the patterns that split it, one after the other.
SPLITS = (
    dict.fromkeys(("gpt-2", "phi-2", "gpt2"), (GPT2,))
    | dict.fromkeys(("smollm", "starcoder", "refact", "command-r", "codeshell"), (DIGIT, GPT2))
    | dict.fromkeys(
        ("llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"), (LLAMA3,)
    )
    | dict.fromkeys(("dbrx", "smaug-bpe", "jina-v5-nano"), (LLAMA3,))
    | dict.fromkeys(("qwen2", "deepseek-r1-qwen", "kormo", "f2llmv2", "megrez"), (QWEN2,))
    | dict.fromkeys(("gpt-4o", "llama4", "kanana2", "talkie", "minimax-m2"), (GPT4O,))
    | {"tekken": (TEKKEN,)}
    | {"default": (r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]")}
)
WHOLE = ("llama3", "llama-v3", "llama-bpe", "tekken")  # a word that is a token needs no merges
COMPOSED = ("qwen2",)  # an accent and its letter are one character
DEFAULT = "default"
# Files of before llama.cpp named these ways have tokens, or an architecture, that tell which is meant.
BY_TOKEN = {"<|begin_of_text|>": "llama-bpe"}
BY_ARCHITECTURE = {"qwen2": "qwen2", "qwen3": "qwen2"}


def tokenizer_of(file: GgufFile) -> Any:
    """Raises DraftscopeError if the file's text would be split in another way than its model was trained with."""
    tokens = file.texts("tokenizer.ggml.tokens")
    kind = file.text("tokenizer.ggml.model")
    if kind not in BUILDERS:
        raise DraftscopeError(
            f"'{file.path}' has a tokenizer of the kind '{kind}', and those of {' and '.join(BUILDERS)} are read; name "
            "the original checkpoint, a folder or hub id with safetensors."
        )
    with without_panic(str(file.path)):
        try:
            tokenizer = BUILDERS[kind](file, tokens)
            _add_whole(tokenizer, file, tokens)
            return _in_transformers(tokenizer, file, tokens, add_bos=kind != "gpt2")
        except DraftscopeError:
            raise
        except Exception as error:  # `tokenizers` raises it for what no vocabulary and no merges are
            raise damaged(file.path, str(error).split("\n")[0][:120].rstrip(".")) from None


def _byte_pairs(file: GgufFile, tokens: list[str]) -> Tokenizer:
    way = _way(file, tokens)
    pairs = (merge.partition(" ") for merge in file.texts("tokenizer.ggml.merges"))
    merges = [(left, right) for left, _, right in pairs]
    vocabulary = {token: index for index, token in enumerate(tokens)}
    tokenizer = Tokenizer(models.BPE(vocabulary, merges, ignore_merges=way in WHOLE))
    if way in COMPOSED:
        tokenizer.normalizer = normalizers.NFC()
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in SPLITS[way]]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _way(file: GgufFile, tokens: list[str]) -> str:
    """How text is split into words."""
    way = file.text("tokenizer.ggml.pre") or DEFAULT
    if way == DEFAULT:
        by_token = (name for token, name in BY_TOKEN.items() if token in tokens)
        return next(by_token, BY_ARCHITECTURE.get(file.architecture, DEFAULT))
    if way not in SPLITS:
        raise DraftscopeError(
            f"'{file.path}' splits text in the way '{way}', which is not known here; name the original checkpoint, a "
            "folder or hub id with safetensors."
        )
    return way


def _pieces(file: GgufFile, tokens: list[str]) -> Tokenizer:
    """As llama.cpp reads SentencePiece: of two neighbours, those become one first whose piece has the best score."""
    gemma = file.architecture.startswith("gemma")
    if gemma:  # tokens of several spaces are stored as such
        tokens = [SPACE * len(token) if token and not token.strip(" ") else token for token in tokens]
    scores = file.numbers("tokenizer.ggml.scores")
    if len(scores) != len(tokens):
        raise ValueError(f"{len(tokens):,} tokens have {len(scores):,} scores")
    order = [-float(index) for index in range(len(tokens))] if gemma else scores  # Gemma's scores are in no order
    vocabulary = {token: index for index, token in enumerate(tokens)}
    unknown = tokens[int(file.number("tokenizer.ggml.unknown_token_id") or 0)]
    model = models.BPE(
        vocabulary, _merges(vocabulary, tokens, order), unk_token=unknown, fuse_unk=True, byte_fallback=True
    )
    tokenizer = Tokenizer(model)
    prefix = not gemma and file.values.get("tokenizer.ggml.add_space_prefix", True)
    begin = [normalizers.Prepend(SPACE)] if prefix else []
    tokenizer.normalizer = normalizers.Sequence([*begin, normalizers.Replace(" ", SPACE)])
    end = [decoders.Strip(" ", 1, 0)] if prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *end]
    )
    return tokenizer


def _merges(vocabulary: dict[str, int], tokens: list[str], scores: list[float]) -> list[tuple[str, str]]:
    """Every pair of pieces that is a piece together: the best first, and for one piece the longest left part."""
    merges = []
    for token, score in zip(tokens, scores, strict=True):
        for cut in range(len(token) - 1, 0, -1):
            left, right = token[:cut], token[cut:]
            if left in vocabulary and right in vocabulary:
                merges.append((score, cut, left, right))
    merges.sort(key=lambda merge: merge[:2], reverse=True)
    return [(left, right) for _, _, left, right in merges]


BUILDERS = {"gpt2": _byte_pairs, "llama": _pieces}


def _add_whole(tokenizer: Tokenizer, file: GgufFile, tokens: list[str]) -> None:
    """Tokens that a text holds whole, among them the ends that the file does not mark as such."""
    kinds = file.numbers("tokenizer.ggml.token_type") or [1] * len(tokens)
    marked = list(zip(tokens, kinds, strict=True))
    special = [token for token, kind in marked if kind == CONTROL or token in END_TEXTS]
    defined = [token for token, kind in marked if kind == USER_DEFINED and token not in END_TEXTS]
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special])
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in defined])


def _in_transformers(tokenizer: Tokenizer, file: GgufFile, tokens: list[str], add_bos: bool) -> Any:
    ids = {name: file.number(f"tokenizer.ggml.{key}_token_id") for key, name in NAMED.items()}
    named = {name: tokens[int(index)] for name, index in ids.items() if index is not None}
    return PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        chat_template=file.text("tokenizer.chat_template") or None,
        add_bos_token=bool(file.values.get("tokenizer.ggml.add_bos_token", add_bos)) and "bos_token" in named,
        add_eos_token=bool(file.values.get("tokenizer.ggml.add_eos_token", False)) and "eos_token" in named,
        clean_up_tokenization_spaces=False,
        **named,
    )
