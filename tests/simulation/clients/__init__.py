"""Models of consumers: classic clients with their libraries' quirks, and members of the new protocol."""
