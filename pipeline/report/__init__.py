"""One page for people: what readiness, progress and audit found, as a single HTML file without anything beside it."""
