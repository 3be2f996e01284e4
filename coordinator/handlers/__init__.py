"""One file an API: checks a request before it reaches a group, and builds the answer."""
