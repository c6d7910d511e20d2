"""The error for mistakes a user can fix: the command line prints its message and exits."""


class DraftscopeError(Exception):
    """Something the user can fix; the message names the value and the remedy."""
