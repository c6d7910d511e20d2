"""transformers' `from_pretrained` without log output, with its exceptions turned into one-sentence errors."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from textwrap import shorten
from typing import Any

import torch
import transformers
from huggingface_hub.utils import logging as hub_logging
from safetensors import SafetensorError
from transformers.utils import logging

from draftscope.base.errors import DraftscopeError, quoted
from draftscope.models.files import hub

NEWER = "install a newer one (pip install --upgrade transformers), or choose another model"
VARYING = re.compile(r"'(\w+)' is a per-layer attribute")
UNKNOWN = re.compile(r"model type [`']([^`']*)[`'] but Transformers does not recognize")


def loaded(kind: Any, source: str, progress: bool = False, shown: str = "", **options: Any) -> Any:
    """`kind.from_pretrained(source, **options)`; `progress` shows its bars. Raises `DraftscopeError` about `shown`, or
    else about `source`."""
    shown = shown or source
    try:
        with quiet(progress):
            return kind.from_pretrained(source, **options)
    except torch.OutOfMemoryError:
        raise DraftscopeError(
            f"'{shown}' does not fit in the device's memory; choose a smaller or quantised model or --device-map auto."
        ) from None
    except SafetensorError as error:
        raise DraftscopeError(
            f"The weights in '{shown}' are damaged ({error}); download or write them again."
        ) from None
    except Exception as error:  # of any kind: transformers trusts the types and values in a configuration
        raise DraftscopeError(_message(shown, error)) from None


def _message(source: str, error: Exception) -> str:
    text = str(error)
    if "gated repo" in text:
        return hub.gated(source)
    if "trust_remote_code" in text:
        return f"'{source}' runs its own code from the hub; read it, and use --trust-remote-code if you trust it."
    if "backend tokenizer" in text:
        return f"'{source}' has no readable tokenizer; put its tokenizer.json beside the model."
    if kind := UNKNOWN.search(text):
        here = transformers.__version__
        return f"'{source}' is a '{quoted(kind[1])}', which transformers {here} does not know; {NEWER}."
    if "Unrecognized model" in text:
        return f"'{source}' names no known model_type in its config.json; download or write its config.json again."
    if key := VARYING.match(text):
        return (
            f"'{source}' has layers that differ in '{key[1]}', which transformers {transformers.__version__} does not "
            "compute for this architecture; choose another model."
        )
    if isinstance(error, KeyError):
        return (
            f"'{source}' has a value in its configuration that transformers {transformers.__version__} does not know "
            f"({_first_line(error)}); {NEWER}."
        )
    if isinstance(error, ImportError) and "GPU" in text:
        return f"'{source}' cannot be loaded on this machine ({_first_line(error)}); choose the original checkpoint."
    if isinstance(error, ImportError) or "pip install" in text:
        return f"'{source}' needs a package that is not installed ({_first_line(error)}); install it and try again."
    return f"'{source}' cannot be loaded ({_first_line(error)}); check the id, the folder or the file."


def _first_line(error: Exception) -> str:
    first, *rest = str(error).strip().split("\n")
    whole = f"{first} {rest[0].strip()}" if rest and first.endswith(":") else first  # the reason follows
    return shorten(whole, 200, placeholder=" ...").rstrip(".")


@contextmanager
def quiet(progress: bool = False) -> Iterator[None]:
    """Silences transformers and the hub's client, except for progress bars if requested."""
    before, hub_before = logging.get_verbosity(), hub_logging.get_verbosity()
    logging.set_verbosity_error()
    hub_logging.set_verbosity(logging.ERROR)
    if not progress:
        logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(before)
        hub_logging.set_verbosity(hub_before)
        logging.enable_progress_bar()
