"""Check: sampled runs of a drafter compared with the target's distribution."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("check", "Is it exact?", "Compare a drafter's output with plain decoding.")
TASK = Task("Check", 2, COMMAND)
