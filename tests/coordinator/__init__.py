"""Tests of the embedded coordinator: by itself, against recordings of Kafka, against a live Kafka, with real clients."""
