"""The test driver on kafkajs, and its installation."""
