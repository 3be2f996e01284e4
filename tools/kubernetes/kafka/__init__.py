"""A real Kafka in pods, laid out as Strimzi does it: what the walkthrough and the tests on Kubernetes migrate."""
