"""Which partitions of a group nobody is assigned, by the broker's descriptions, and when something is done about it."""
