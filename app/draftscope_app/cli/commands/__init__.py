"""One command a module: `app` is a Typer app with the command's function, which returns the exit code.

None imports torch before its function runs, so that `--help` is quick.
"""
