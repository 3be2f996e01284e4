"""Exporters of others, kafka_exporter and Burrow, which ours is compared with."""
