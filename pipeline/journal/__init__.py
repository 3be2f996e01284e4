"""The proxy's journal (docs/reference/journal.md): from files or a topic, checked line by line and for losses."""
