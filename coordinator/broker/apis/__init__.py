"""One file an API, or a few that belong together: what the small broker answers."""
