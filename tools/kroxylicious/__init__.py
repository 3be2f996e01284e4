"""Kroxylicious, another Kafka proxy, for tests that run it in front of Epochgate or behind it."""
