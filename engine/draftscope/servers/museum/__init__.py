"""Published bugs that change what is written or reported, rebuilt small: `exhibits` has them, `server` writes with
them, `tour` audits each one as it was and as it was mended.
"""
