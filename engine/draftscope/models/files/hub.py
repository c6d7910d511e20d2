"""The hub, asked once and quickly before anything is fetched, so that what is wrong with an id is one sentence."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from huggingface_hub import HfApi, try_to_load_from_cache
from huggingface_hub.errors import (
    GatedRepoError,
    HFValidationError,
    RepositoryNotFoundError,
    RevisionNotFoundError,
)

from draftscope.base.errors import DraftscopeError

PATIENCE_S = 5.0


@dataclass(frozen=True)
class Listing:
    """What the hub says of a model: its files, and values by stored dtype where it knows them."""

    files: tuple[str, ...]
    stored: Counter[str] = field(default_factory=Counter)


def listing(repo: str, revision: str | None) -> Listing | None:
    """The hub's own answer; None where it does not answer, which leaves what lies in its cache on this machine.

    Raises `DraftscopeError` for an id, a revision or a permission that is not there.
    """
    try:
        info = HfApi().model_info(repo, revision=revision, timeout=PATIENCE_S)
    except HFValidationError:
        raise DraftscopeError(f"'{repo}' is no folder here and no hub id such as 'owner/name'; check it.") from None
    except GatedRepoError:
        raise DraftscopeError(gated(repo)) from None
    except RevisionNotFoundError:
        raise DraftscopeError(f"'{repo}' has no revision '{revision}'; name a branch, a tag or a commit.") from None
    except RepositoryNotFoundError:
        raise DraftscopeError(
            f"There is no model '{repo}' on the hub, or it is private; check the spelling or log in: 'hf auth login'."
        ) from None
    except Exception:  # no network, no name service, a proxy's page, a timeout: all mean that there is no answer
        return None
    files = tuple(sibling.rfilename for sibling in info.siblings or ())
    return Listing(files, Counter(info.safetensors.parameters if info.safetensors else {}))


def gated(repo: str) -> str:
    """The sentence for a model behind a licence."""
    return (
        f"'{repo}' is gated: accept its licence at https://huggingface.co/{repo}, then log in with 'hf auth login' and "
        "load it again."
    )


def cached(repo: str, revision: str | None) -> Path | None:
    """The folder of a model in the hub's cache on this machine, None where it is not there."""
    found = try_to_load_from_cache(repo, "config.json", revision=revision)
    return Path(found).parent if isinstance(found, str) else None
