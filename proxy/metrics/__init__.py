"""Prometheus metrics of one process: the registry, cheap counters for the request path, the text format."""
