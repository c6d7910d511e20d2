"""The page as files: recorded runs, lessons, the calculator and a forecast, without a server."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("site", "Dashboard", "Build the dashboard as static files.")
TASK = Task("Site", 4, COMMAND)
