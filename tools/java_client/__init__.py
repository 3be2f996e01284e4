"""A small application on Kafka's own Java client, compiled against the jars of a broker."""
