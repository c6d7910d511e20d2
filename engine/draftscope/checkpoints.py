"""Loading models: a hub id or a folder in, a `Model` and its tokenizer out, every failure one sentence.

Nothing but safetensors is read and no remote code is run.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.utils import logging

from draftscope.assets import assets
from draftscope.errors import DraftscopeError
from draftscope.model import Model

DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
EMBEDDED_TARGET, EMBEDDED_DRAFT = "llama-draftscope-15m", "llama-draftscope-draft-1m"


def embedded(name: str) -> Path:
    """The folder of an embedded model."""
    return assets() / "models" / name


def pick_device(name: str) -> torch.device:
    """'auto' is CUDA where there is one, else the CPU."""
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise DraftscopeError(f"There is no device '{name}'; choose auto, cpu or cuda.") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise DraftscopeError(f"Device '{name}' was asked for and this machine has no CUDA; choose cpu or auto.")
    return device


def pick_dtype(name: str, device: torch.device) -> torch.dtype:
    """'auto' is bfloat16 where the device multiplies it natively (there it is the fastest plain), else float32."""
    if name == "auto":
        native = device.type == "cuda" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
        return torch.bfloat16 if native else torch.float32
    if name not in DTYPES:
        raise DraftscopeError(f"dtype = '{name}': choose auto, {', '.join(DTYPES)}.")
    return DTYPES[name]


def load_model(source: str | Path, dtype: torch.dtype, device: torch.device) -> Model:
    """A causal language model from a folder or a hub id."""
    _look(source)
    network = _loaded(AutoModelForCausalLM, source, dtype=dtype, use_safetensors=True, attn_implementation="sdpa")
    return Model(network.to(device), _display_name(source), _digest(source))


def load_tokenizer(source: str | Path) -> Any:
    """The tokenizer beside a model."""
    return _loaded(AutoTokenizer, source)


def end_of_text(model: Model, tokenizer: Any) -> frozenset[int]:
    """The EOS *set*: what the generation config says, and the tokenizer's own."""
    ids = model.network.generation_config.eos_token_id
    listed = ids if isinstance(ids, list) else [ids]
    return frozenset(token for token in [*listed, tokenizer.eos_token_id] if token is not None)


def refuse_other_vocabulary(target: Any, draft: Any) -> None:
    """Vocabularies are compatible when their token -> id maps agree; sizes of embeddings say nothing."""
    ours, theirs = target.get_vocab(), draft.get_vocab()
    if ours == theirs:
        return
    differing = [token for token in ours if theirs.get(token) != ours[token]] or [t for t in theirs if t not in ours]
    raise DraftscopeError(
        f"The draft's vocabulary is not the target's: {len(differing):,} tokens differ, '{differing[0]}' for one; "
        "choose a draft that was trained with the target's tokenizer."
    )


def _loaded(kind: Any, source: str | Path, **options: Any) -> Any:
    """`from_pretrained`, with what it raises turned into one sentence."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        return kind.from_pretrained(source, trust_remote_code=False, **options)
    except SafetensorError as error:
        raise DraftscopeError(f"The weights in '{source}' are damaged ({error}); fetch or write them again.") from None
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = str(error).strip().split("\n")[0][:200]
        raise DraftscopeError(f"'{source}' cannot be loaded ({reason}); check the id or the folder.") from None
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


def _look(source: str | Path) -> None:
    """Says plainly what is wrong with a folder before transformers is asked."""
    folder = Path(source)
    if not folder.is_dir():
        if folder.is_absolute() or str(source).startswith((".", "~")):
            raise DraftscopeError(f"There is no model folder '{source}'; check the path.")
        return  # a hub id
    if not (folder / "config.json").is_file():
        raise DraftscopeError(f"'{source}' has no config.json; name a folder written by save_pretrained.")
    if list(folder.glob("*.safetensors")):
        return
    pickles = sorted([*folder.glob("*.bin"), *folder.glob("*.pt"), *folder.glob("*.pth")])
    if pickles:
        raise DraftscopeError(
            f"'{source}' holds '{pickles[0].name}', a pickle that could run code; convert it to safetensors first."
        )
    raise DraftscopeError(f"'{source}' holds no *.safetensors weights; fetch or write them again.")


def _display_name(source: str | Path) -> str:
    path = Path(source)
    return path.name if path.is_dir() else str(source)


def _digest(source: str | Path) -> str:
    """A short SHA-256 over every weight file's size, beginning and end; empty for weights that lie in a hub's cache."""
    digest, edge = hashlib.sha256(), 16 * 2**20
    files = sorted(Path(source).glob("*.safetensors")) if Path(source).is_dir() else []
    for path in files:
        size = path.stat().st_size
        digest.update(str(size).encode())
        with path.open("rb") as file:
            digest.update(file.read(edge))
            file.seek(max(0, size - edge))
            digest.update(file.read(edge))
    return digest.hexdigest()[:12] if files else ""
