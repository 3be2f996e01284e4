"""Asks Kafka's own classes who a client with a certificate is."""
