"""The requests that the translation sends to the broker for its members (KIP-848), and what the answers mean."""
