"""The error for mistakes a user can fix: the command line prints its message and exits."""

MOST_QUOTED = 80  # characters of what somebody wrote that a message repeats


class DraftscopeError(Exception):
    """Something the user can fix; the message names the value and the remedy."""


def quoted(value: object, most: int = MOST_QUOTED) -> str:
    """The value as a message repeats it: cut, and without characters that no terminal or file can take."""
    text = value if isinstance(value, str) else repr(value)
    text = text if len(text) <= most else text[:most] + "..."
    return text.encode("utf-8", "backslashreplace").decode()
