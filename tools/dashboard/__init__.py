"""Draws the dashboard for the docs: from the JSON that Grafana gets, and the answers of a real Prometheus."""
