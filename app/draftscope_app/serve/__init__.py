"""The server: the page on a port, health checks, the API."""
