"""Tests of the embedded coordinator: by itself, against Kafka recorded and live, with real clients."""
