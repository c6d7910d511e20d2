"""How often strangers may try something: so many times at once, then one now and then; of one address, and in all."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass

EVERYBODY = ""  # in place of an address
UNKNOWN, MAX_ADDRESS = "unknown", 64  # characters
IPV6_HOST = 64  # bits of an address that its holder chooses freely


@dataclass(frozen=True)
class Rate:
    """`at_once` tries, and one more each `every_s` seconds."""

    at_once: int
    every_s: float


class Allowance:
    """The tries of strangers: `by_address` is the rate of one address, `in_all` that of all of them together."""

    def __init__(self, by_address: Rate, in_all: Rate, clock: Callable[[], float]) -> None:
        self._by_address, self._in_all, self._clock = by_address, in_all, clock
        self._whole_at: dict[str, float] = {}  # address -> when it has all of its tries again

    def wait_s(self, address: str) -> float:
        """Seconds until this address has a try; 0 if it has one."""
        return max(self._wait_s(network_of(address), self._by_address), self._wait_s(EVERYBODY, self._in_all))

    def take(self, address: str) -> None:
        """One try of this address is used up."""
        now = self._clock()
        self._whole_at = {name: at for name, at in self._whole_at.items() if at > now}
        for name, rate in ((network_of(address), self._by_address), (EVERYBODY, self._in_all)):
            whole_at = self._whole_at.get(name, now) + rate.every_s
            self._whole_at[name] = min(whole_at, now + rate.at_once * rate.every_s)

    def _wait_s(self, name: str, rate: Rate) -> float:
        missing_s = self._whole_at.get(name, 0.0) - self._clock()
        return max(0.0, missing_s - (rate.at_once - 1) * rate.every_s)


def network_of(address: str) -> str:
    """The address that counts as one visitor: of IPv6 the half that its holder cannot choose."""
    try:
        ip = ipaddress.ip_address(address)
    except ValueError:
        return address[:MAX_ADDRESS] or UNKNOWN
    if isinstance(ip, ipaddress.IPv4Address):
        return str(ip)
    return str(ip.ipv4_mapped or f"{int(ip) >> IPV6_HOST:x}::/{IPV6_HOST}")
