"""What a share group's configuration says about the records it has in flight."""

import math

import msgspec

_LEAST_THROTTLE_LIMIT = 2


class ShareSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The settings of one share group, or those of the broker where the group has none of its own."""

    delivery_count_limit: int = 5
    """How often a record is delivered before it is archived: ``share.delivery.count.limit``."""
    record_lock_duration_ms: int = 30_000
    """How long a record stays acquired: ``share.record.lock.duration.ms``."""
    max_record_locks: int = 2_000
    """How many records are in flight at most: ``share.partition.max.record.locks``."""
    renew_enabled: bool = True
    """Whether locks can be renewed: ``share.renew.acknowledge.enable`` (KIP-1222)."""

    @property
    def throttle_limit(self) -> int:
        """From this delivery count on, records are delivered in ever smaller numbers, apart from others."""
        return max(_LEAST_THROTTLE_LIMIT, math.ceil(self.delivery_count_limit / 2))
