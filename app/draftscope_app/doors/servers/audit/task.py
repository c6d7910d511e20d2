"""Is a server's text still distributed as its target's?"""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("audit", "Is it exact?", "Ask whether a server's output is still its target's.")
TASK = Task("Audit", 3, COMMAND)
