"""Servers of other programs, and this engine, on the same tokens."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("race", "Servers of other programs", "Race servers such as vLLM and llama.cpp on the same tokens.")
TASK = Task("Race", 1, COMMAND)
