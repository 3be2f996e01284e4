"""Test drivers on franz-go, sarama and kafka-go, one Go module, and what builds them."""
