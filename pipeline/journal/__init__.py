"""Reads the proxy's journal (docs/reference/journal.md) from files or a topic, and checks each line and for losses."""
