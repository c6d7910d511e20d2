"""What a run did: typed events, files, metrics, tables and an HTML page. Imports no torch."""
