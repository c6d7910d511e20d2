"""Text of others that is shown: a name in a file or a server's word must not steer a terminal or break a line."""

from __future__ import annotations

import re

# Control characters, escape sequences among them; what reverses or breaks a line; halves of a character.
STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def printable(text: str, keep: str = "") -> str:
    r"""The text with each such character as its escape, such as \x1b; those of `keep` stay."""
    return STEERING.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def _escaped(character: str) -> str:
    return character.encode("unicode_escape").decode()
