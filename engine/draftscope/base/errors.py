"""The one error a user can cause: the command line prints its sentence and stops."""


class DraftscopeError(Exception):
    """Something the user can put right; the message names the value and the remedy."""
