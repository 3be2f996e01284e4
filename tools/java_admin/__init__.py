"""Lists all groups of a cluster with Kafka's own admin client, as JSON."""
