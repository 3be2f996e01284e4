"""Writes the findings of readiness, progress and audit as a single self-contained HTML file."""
