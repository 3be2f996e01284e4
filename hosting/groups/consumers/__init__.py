"""Protocol type ``consumer``: what its members' JoinGroups say, and the consumer group of KIP-848 that has them."""
