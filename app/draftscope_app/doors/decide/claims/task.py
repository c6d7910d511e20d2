"""24 claims that people make, put to the test."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("claims", "How fast?", "Judge what people say by your own results; loads no model.")
TASK = Task("Claims", 7, COMMAND)
