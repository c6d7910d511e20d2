"""Lessons on recorded runs, and a class that predicts."""

from draftscope_app.doors.door import Door

DOOR = Door(
    "learn",
    "Learn",
    3,
    "Short lessons on real recorded rounds. Each shows what happened, asks a question, then lets you try.",
)
