"""The test driver on kafkajs, and what installs the library."""
