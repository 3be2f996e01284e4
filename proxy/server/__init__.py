"""One serving process: accepts clients, runs their connections, and drives the translator."""
