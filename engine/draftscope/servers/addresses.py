"""Which addresses may be called: loopback, and those that whoever started the program listed."""

from __future__ import annotations

import os
from collections.abc import Sequence
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from draftscope.base.errors import quoted
from draftscope.servers.adapter import ServerError

LISTED = "DRAFTSCOPE_SERVERS"  # NAME=URL or URL, separated by commas or spaces
PORTS = {"http": 80, "https": 443}


def permitted(url: str, listed: Sequence[str] = ()) -> str:
    """The URL without a trailing slash and `/v1`. Raises `ServerError` if it is no web address or may not be called."""
    parts = _split(url)
    origins = {_origin(_split(address)) for address in (*listed, *(url for _, url in from_environment()))}
    if not _loopback(parts.hostname or "") and _origin(parts) not in origins:
        raise ServerError(
            f"{quoted(url)} is not on this computer and not listed; list it in {LISTED} or on the command line."
        )
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    path = parts.path.rstrip("/").removesuffix("/v1")
    return f"{parts.scheme}://{host}:{parts.port or PORTS[parts.scheme]}{path}"


def from_environment() -> tuple[tuple[str, str], ...]:
    """(name, URL) of every server in `DRAFTSCOPE_SERVERS`; one without a name is called by its host and port."""
    return tuple(named(address) for address in os.environ.get(LISTED, "").replace(",", " ").split())


def named(written: str) -> tuple[str, str]:
    """(name, URL) of `NAME=URL` or `URL`."""
    name, equals, url = written.partition("=")
    if not equals or "://" in name:
        name, url = "", written
    if not url.strip():
        raise ServerError(f"'{quoted(written)}' has no address; write NAME=http://HOST:PORT.")
    return name.strip() or _split(url).netloc, url.strip()


def _split(url: str) -> SplitResult:
    try:
        parts = urlsplit(url)
        _ = parts.port  # reads it: a port that is no number is an error only here
    except ValueError as error:
        raise ServerError(f"{quoted(url)} is no address ({error}); write http://HOST:PORT.") from None
    if parts.scheme not in PORTS or not parts.hostname:
        raise ServerError(f"{quoted(url)} is no http address; write http://HOST:PORT.")
    if not url.isascii():
        raise ServerError(f"{quoted(url)} is not ASCII; write the host as xn--... or as its number.")
    if parts.username or parts.password or parts.query or parts.fragment:
        raise ServerError(f"{quoted(parts.hostname)}: an address has no password, query or fragment here.")
    return parts


def _origin(parts: SplitResult) -> tuple[str, str, int]:
    return parts.scheme, (parts.hostname or "").lower(), parts.port or PORTS[parts.scheme]


def _loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"
