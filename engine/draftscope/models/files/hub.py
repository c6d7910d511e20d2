"""Asks the hub about a model before anything is downloaded, so that a wrong id is reported at once and plainly."""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import HfApi, hf_hub_download, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from draftscope.base.errors import DraftscopeError
from draftscope.models.files.contents import INDEX, refuse_size

PATIENCE_S = 5.0
# No network, no name service, a timeout, an overloaded hub, offline mode: errors of the hub's HTTP client (httpx or
# httpx2, by version) and of the system. And a proxy's page instead of JSON.
NO_ANSWER: tuple[type[BaseException], ...] = (*HfHubHTTPError.__bases__, json.JSONDecodeError)
LOG = logging.getLogger(__name__)


@dataclass(frozen=True)
class Listing:
    """The hub's information about a model: its files, and its number of values by stored dtype, if known."""

    files: tuple[str, ...]
    stored: Counter[str] = field(default_factory=Counter)


def listing(repo: str, revision: str | None) -> Listing | None:
    """The hub's answer about a model; None if the hub does not answer, so that only its local cache can be used.

    Raises `DraftscopeError` if the id or revision does not exist, access is not permitted, or a file is too large to be
    read whole.
    """
    try:
        info = HfApi().model_info(repo, revision=revision, timeout=PATIENCE_S, files_metadata=True)
    except HFValidationError:
        raise DraftscopeError(f"'{repo}' is neither a folder nor a hub id such as 'owner/name'; check it.") from None
    except GatedRepoError:
        raise DraftscopeError(gated(repo)) from None
    except RevisionNotFoundError:
        raise DraftscopeError(f"'{repo}' has no revision '{revision}'; name a branch, a tag or a commit.") from None
    except RepositoryNotFoundError:
        raise DraftscopeError(
            f"There is no model '{repo}' on the hub, or it is private; check the spelling or log in: 'hf auth login'."
        ) from None
    except NO_ANSWER as error:
        LOG.info("The hub did not answer for '%s'.", repo, exc_info=error)
        return None
    for sibling in info.siblings or ():
        refuse_size(Path(repo, sibling.rfilename), sibling.size or 0)
    files = tuple(sibling.rfilename for sibling in info.siblings or ())
    return Listing(files, Counter(info.safetensors.parameters if info.safetensors else {}))


def indices(repo: str, revision: str | None, files: Iterable[str]) -> list[Path]:
    """The indices of weights in several files among `files`, downloaded."""
    names = [name for name in files if name.endswith(INDEX) and "/" not in name]
    try:
        return [Path(hf_hub_download(repo, name, revision=revision)) for name in names]
    except GatedRepoError:
        raise DraftscopeError(gated(repo)) from None
    except (OSError, HfHubHTTPError, json.JSONDecodeError) as error:
        LOG.info("The index of '%s' could not be downloaded.", repo, exc_info=error)
        raise DraftscopeError(f"'{repo}' could not be downloaded; check the network and the disk.") from None


def gated(repo: str) -> str:
    """The error message for a gated model."""
    return (
        f"'{repo}' is gated: accept its licence at https://huggingface.co/{repo}, then log in with 'hf auth login' and "
        "load it again."
    )


def cached(repo: str, revision: str | None) -> Path | None:
    """The folder of a model in the hub's cache on this machine; None if it is not cached."""
    path = try_to_load_from_cache(repo, "config.json", revision=revision)
    return Path(path).parent if isinstance(path, str) else None


def file(repo: str, name: str, revision: str | None, online: bool) -> Path | None:
    """A file of a model, downloaded if the hub may be asked; None if it cannot be had, or there is none."""
    try:
        return Path(hf_hub_download(repo, name, revision=revision, local_files_only=not online))
    except (OSError, HfHubHTTPError, HFValidationError, json.JSONDecodeError) as error:
        LOG.info("'%s' of '%s' could not be had.", name, repo, exc_info=error)
        return None
