"""One command a module: `add_arguments(parser)` and `run(args)`, which returns the exit code.

None imports torch before `run`, so that `--help` is quick.
"""
