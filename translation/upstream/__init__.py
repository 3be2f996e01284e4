"""The requests that the translation sends to the broker for its members: ConsumerGroupHeartbeat (KIP-848)."""
