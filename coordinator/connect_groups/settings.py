"""Settings and limits of Connect groups. Times are in milliseconds."""

import msgspec

MAX_ID_LENGTH = 255
MAX_ASSIGNORS = 16
"""Of one worker; Connect has three."""
MAX_METADATA_BYTES = 1 << 20
"""Of one assignor of one worker, and of what an assignor says to one worker."""


class ConnectGroupSettings(msgspec.Struct, frozen=True, kw_only=True):
    """As those of consumer groups, and with their defaults. Limits keep what one worker says from growing for ever."""

    session_timeout_ms: int = 45_000
    heartbeat_interval_ms: int = 5_000
    max_size: int = 1_000
    """The workers of one group."""
    max_groups: int = 1_000
    max_configured: int = 100_000
    """The connectors and tasks of one group, and of one declaration."""
    max_rebalance_timeout_ms: int = 60 * 60 * 1_000
    min_computation_timeout_ms: int = 1_000
    """The shortest turn of a computing member: timers must not keep the coordinator busy."""
