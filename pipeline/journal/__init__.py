"""The proxy's journal (docs/journal.md): from files or a topic, judged line by line, looked over for losses."""
