"""Under which address other machines reach the server."""

from __future__ import annotations

import ipaddress
import socket

EVERYWHERE = ("0.0.0.0", "::")  # hosts that mean every interface of this machine
SOMEWHERE = ("192.0.2.1", 9)  # an address for documentation: the route to it is asked for, and nothing is sent


def network_address(host: str, port: int) -> str:
    """The page's address for other machines; empty where it is served to this machine alone, or without a network."""
    name = _own_address() if host in EVERYWHERE else host
    if not name or name == "localhost" or (is_ip(name) and ipaddress.ip_address(name).is_loopback):
        return ""
    return f"http://[{name}]:{port}/" if ":" in name else f"http://{name}:{port}/"


def local_address(host: str, port: int) -> str:
    """The page's address on this machine. A browser may refuse 0.0.0.0, which names no machine."""
    name = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(host, host)
    return f"http://[{name}]:{port}" if ":" in name else f"http://{name}:{port}"


def _own_address() -> str:
    """This machine's address on the interface that leads to others."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        try:
            asking.connect(SOMEWHERE)
        except OSError:
            return ""
        return str(asking.getsockname()[0])


def is_ip(text: str) -> bool:
    """Whether a host is an address in digits."""
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True
