"""The fixtures of tasks, for the tests of whoever has installed draftscope."""

from __future__ import annotations

from draftscope_app.doors.door import tasks

pytest_plugins = [f"{folder.package}.fixtures" for folder in tasks() if folder.has("fixtures.py")]
