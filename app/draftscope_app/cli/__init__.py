"""The command line: `main` starts it, `commands` has a module for each command.

`fields` turns the fields of a model into options, `options` lists those that several commands share, `terminal` prints
tables and progress. This room needs typer and rich; the engine needs neither.
"""
