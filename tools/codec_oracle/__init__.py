"""Compares our encoding with Kafka's own Java classes."""
