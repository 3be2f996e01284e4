"""Models of consumers: old ones with their vices, and members of the new protocol."""
