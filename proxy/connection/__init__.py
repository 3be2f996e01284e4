"""One client connection: its bytes and tasks, the broker behind it, the translator that it shares, and its end."""
