"""What Kafka's own admin client says of all groups of a cluster, as JSON."""
