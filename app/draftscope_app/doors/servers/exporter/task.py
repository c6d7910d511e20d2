"""Acceptance as Prometheus reads it, and a board for Grafana."""

from draftscope_app.doors.door import Command, Task

COMMAND = Command("exporter", "Servers of other programs", "Say acceptance to Prometheus; write a board for Grafana.")
TASK = Task("Exporter", 7, COMMAND)
