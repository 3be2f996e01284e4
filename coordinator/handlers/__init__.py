"""One file an API: what is checked of a request before a group sees it, and the shape of its answer."""
