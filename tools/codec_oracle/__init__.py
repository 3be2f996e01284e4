"""Kafka's own Java classes as the judge of our bytes."""
