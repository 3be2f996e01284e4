"""The requests that the embedded broker serves, besides those of groups: one file an API, or a few related ones."""
