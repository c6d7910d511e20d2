"""The rounds of a server, as the recorder inside it saw them."""

from draftscope_app.doors.door import Command, Task

SUMMARY = "Run a prompt on a vLLM, and see every decision inside it."
TASK = Task("Inside", 4, Command("inside", "Servers of other programs", SUMMARY))
