"""Should the target that is loaded here speculate on these prompts? Measured and proven."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("advise", "How fast?", "Decide: speculate or not, with what, and what it saves.")
TASK = Task("Advice", 4, COMMAND)
