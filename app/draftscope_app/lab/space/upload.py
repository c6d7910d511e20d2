"""Uploads a built folder to the hub. The token comes from the environment only and is never shown."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import HfApi
from huggingface_hub.errors import HfHubHTTPError, HFValidationError, HTTPError  # type: ignore[attr-defined]
from huggingface_hub.utils import validate_repo_id  # type: ignore[attr-defined]

from draftscope.base.errors import DraftscopeError
from draftscope_app.lab.space.folder import Target
from draftscope_app.lab.space.variables import Variables

TOKEN = "HF_TOKEN"
REFUSALS = {
    401: f"The hub does not know the token in {TOKEN}; set a valid one.",
    403: f"The token in {TOKEN} has no write access to Spaces of '{{owner}}'; set one that has it.",
    404: f"The hub knows no owner '{{owner}}', or the token in {TOKEN} has no access to it; choose another owner.",
    409: "'{name}' exists already; choose another name, or upload into it with --update.",
}


def check_name(name: str) -> None:
    """Raises `DraftscopeError` for a name that no Space can have."""
    try:
        validate_repo_id(name)
    except HFValidationError as error:
        raise DraftscopeError(f"'{name}' cannot be a Space's name ({str(error).split('. ')[0]}).") from None
    if "/" not in name:
        raise DraftscopeError(f"'{name}' names no owner; write OWNER/{name}.")


def read_token() -> str:
    """The token. Raises `DraftscopeError` where none is set."""
    token = Variables.read().token.strip()
    if not token:
        raise DraftscopeError(f"{TOKEN} is not set; set it to a token with write access.")
    return token


def push(folder: Path, target: Target, name: str, update: bool) -> str:
    """Creates the Space, or with `update` uploads into an existing one, and returns its address.

    Raises `DraftscopeError` for what the hub refuses, or a hub that cannot be reached.
    """
    hub = HfApi(token=read_token(), library_name="draftscope")
    hardware = None if update else target.hardware
    try:
        hub.whoami()
        made = hub.create_repo(
            name, repo_type="space", space_sdk=target.sdk, exist_ok=update, space_hardware=hardware  # type: ignore
        )  # fmt: skip
        hub.upload_folder(
            repo_id=name, repo_type="space", folder_path=folder, delete_patterns="*" if update else None,
            commit_message="Built from space.yaml",
        )  # fmt: skip
    except HfHubHTTPError as error:
        status = error.response.status_code if error.response is not None else 0
        refusal = REFUSALS.get(status, f"The hub refused '{{name}}' (HTTP {status}); try again later.")
        raise DraftscopeError(refusal.format(name=name, owner=name.partition("/")[0])) from None
    except ValueError as error:  # from the hub's check of the front matter
        reason = " ".join(str(error).split())[:200]
        raise DraftscopeError(f"The hub refused the folder ({reason}); correct space.yaml.") from None
    except (HTTPError, OSError) as error:
        raise DraftscopeError(f"The hub cannot be reached ({type(error).__name__}); try again later.") from None
    return str(made)
