"""Observes members whose calls pass through to the broker, and reports what happens to them."""
