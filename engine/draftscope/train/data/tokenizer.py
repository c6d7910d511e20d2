"""A byte-level BPE of 4,096 entries with single digits, trained on all domains equally.

It is small on purpose: at width 384 the embedding is a tenth of the target, and a softmax over 4,096 entries keeps the
one-layer draft cheap. `tokenizer(text)` prepends one `<|endoftext|>`, because every training document starts with it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers
from transformers import PreTrainedTokenizerFast

from draftscope.base.errors import DraftscopeError

END_TEXT, END = "<|endoftext|>", 0  # starts every document and ends generated text
PAD_TEXT, PAD = "<|pad|>", 1


def train_tokenizer(texts: Iterable[str], entries: int) -> Tokenizer:
    """Trains a tokenizer of `entries` entries on `texts`."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=entries,
        special_tokens=[END_TEXT, PAD_TEXT],
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    tokenizer.train_from_iterator(texts, trainer)
    if (size := tokenizer.get_vocab_size()) < entries:
        raise DraftscopeError(f"Too little text for a tokenizer of {entries} entries (found {size}): add more text.")
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{END_TEXT} $A", pair=f"{END_TEXT} $A $B", special_tokens=[(END_TEXT, END)]
    )
    return tokenizer


def save_tokenizer(tokenizer: Tokenizer, folder: Path, positions: int) -> None:
    """Writes a folder that `AutoTokenizer.from_pretrained` loads."""
    PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        bos_token=END_TEXT,
        eos_token=END_TEXT,
        pad_token=PAD_TEXT,
        model_max_length=positions,
        clean_up_tokenization_spaces=False,
    ).save_pretrained(folder)


def load_tokenizer(folder: Path) -> Tokenizer:
    """The tokenizer of a model folder, as the tokenizers library loads it."""
    return Tokenizer.from_file(str(folder / "tokenizer.json"))
