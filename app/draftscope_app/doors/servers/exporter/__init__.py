"""Acceptance as Prometheus reads it, and a board for Grafana."""
