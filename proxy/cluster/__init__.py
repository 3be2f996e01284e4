"""The Kafka cluster behind the proxy: which nodes it has, which of them can be reached, and how to connect to one."""
