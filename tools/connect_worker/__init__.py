"""Workers of Kafka Connect: their jars, and a connector that needs nothing outside."""
