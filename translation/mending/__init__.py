"""Which partitions of a group no member is assigned, by the broker's descriptions, and when that is mended."""
