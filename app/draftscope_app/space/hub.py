"""Uploads a built folder to the hub. The token comes from the environment only and is never shown."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from huggingface_hub import HfApi, SpaceHardware
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError  # type: ignore[attr-defined]
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from draftscope.base.errors import DraftscopeError
from draftscope_app.space.folder import Built

TOKEN = "HF_TOKEN"


def refuse_name(name: str) -> None:
    """Raises `DraftscopeError` for a name that no Space can have."""
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise DraftscopeError(f"'{name}' cannot be a Space's name ({str(error).split('. ')[0]}).") from None
    if "/" not in name:
        raise DraftscopeError(f"'{name}' names no owner; write OWNER/{name}.")


def refuse_hardware(name: str) -> None:
    """Raises `DraftscopeError` for hardware that the hub does not offer."""
    offered = [each.value for each in SpaceHardware]
    if name not in offered:
        raise DraftscopeError(
            f"hardware = '{name}': the hub offers no such hardware; choose from {', '.join(offered)}."
        )


def token() -> str:
    found = os.environ.get(TOKEN, "").strip()
    if not found:
        raise DraftscopeError(f"{TOKEN} is not set; set it to a token with write access.")
    return found


def push(built: Built, name: str, update: bool) -> str:
    """Creates the Space, or with `update` uploads into an existing one, and returns its address.

    Raises `DraftscopeError` for a token that is missing or refused, a name that is taken, or a hub that cannot be
    reached.
    """
    hub = HfApi(token=token(), library_name="draftscope")
    with _refusals(name):
        hub.whoami()
        made = hub.create_repo(
            name, repo_type="space", space_sdk=built.description.sdk, exist_ok=update,
            space_hardware=None if update else built.description.hardware,  # type: ignore[arg-type]
        )  # fmt: skip
        hub.upload_folder(
            repo_id=name, repo_type="space", folder_path=built.folder, delete_patterns="*" if update else None,
            commit_message="Built from space.yaml",
        )  # fmt: skip
    return str(made)


@contextmanager
def _refusals(name: str) -> Iterator[None]:
    """Turns what the hub refuses into one sentence."""
    try:
        yield
    except HfHubHTTPError as error:
        raise DraftscopeError(_refusal(name, error.response.status_code if error.response is not None else 0)) from None
    except ValueError as error:  # from the hub's check of the front matter
        reason = " ".join(str(error).split())[:200]
        raise DraftscopeError(f"The hub refused the folder ({reason}); correct space.yaml.") from None
    except (HTTPError, OSError) as error:
        raise DraftscopeError(f"The hub cannot be reached ({type(error).__name__}); try again later.") from None


def _refusal(name: str, status: int) -> str:
    owner = name.partition("/")[0]
    return {
        401: f"The hub does not know the token in {TOKEN}; set a valid one.",
        403: f"The token in {TOKEN} has no write access to Spaces of '{owner}'; set one that has it.",
        404: f"The hub knows no owner '{owner}', or the token in {TOKEN} has no access to it; choose another owner.",
        409: f"'{name}' exists already; choose another name, or upload into it with --update.",
    }.get(status, f"The hub refused '{name}' (HTTP {status}); try again later.")
