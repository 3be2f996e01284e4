"""The settings of the coordinator, with Kafka's names and Kafka 4.4's defaults."""

from enum import StrEnum

import msgspec

from coordinator.errors import RequestRefused
from protocol_codecs.error_code import ErrorCode

_MINUTE_MS = 60_000
MAX_INT = 0x7FFFFFFF


class MigrationPolicy(StrEnum):
    """``group.consumer.migration.policy``: the conversions of live groups that are allowed."""

    BIDIRECTIONAL = "bidirectional"
    UPGRADE = "upgrade"
    DOWNGRADE = "downgrade"
    DISABLED = "disabled"

    @property
    def upgrade_enabled(self) -> bool:
        """Whether a new-protocol member may join a live classic group."""
        return self in {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.UPGRADE}

    @property
    def downgrade_enabled(self) -> bool:
        """Whether a group becomes classic again when its last new-protocol member leaves."""
        return self in {MigrationPolicy.BIDIRECTIONAL, MigrationPolicy.DOWNGRADE}


class CoordinatorConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Static settings of a coordinator. Times are in milliseconds."""

    consumer_session_timeout_ms: int = 45_000
    """``group.consumer.session.timeout.ms``; the next two bound it for single groups."""
    consumer_min_session_timeout_ms: int = 45_000
    consumer_max_session_timeout_ms: int = 60_000
    consumer_heartbeat_interval_ms: int = 5_000
    """``group.consumer.heartbeat.interval.ms``; the next two bound it for single groups."""
    consumer_min_heartbeat_interval_ms: int = 5_000
    consumer_max_heartbeat_interval_ms: int = 15_000
    consumer_assignment_interval_ms: int = 1_000
    """``group.consumer.assignment.interval.ms`` (KIP-1263); the next two bound it for single groups."""
    consumer_min_assignment_interval_ms: int = 0
    consumer_max_assignment_interval_ms: int = 15_000
    consumer_max_size: int = MAX_INT
    """``group.consumer.max.size``."""
    consumer_assignors: tuple[str, ...] = ("uniform", "range")
    """``group.consumer.assignors``; the first is the default."""
    consumer_assignor_moves_epoch: bool = True
    """Whether the group epoch moves when another assignor has most votes (KAFKA-20434): since Kafka 4.4, not before."""
    consumer_describes_pending_revocation: bool = True
    """Whether ConsumerGroupDescribe shows what a member is to revoke as its own (KAFKA-20431): since Kafka 4.3. Before
    that it is left out."""
    consumer_migration_policy: MigrationPolicy = MigrationPolicy.BIDIRECTIONAL
    share_session_timeout_ms: int = 45_000
    """``group.share.session.timeout.ms``; the next two bound it for single groups."""
    share_min_session_timeout_ms: int = 45_000
    share_max_session_timeout_ms: int = 60_000
    share_heartbeat_interval_ms: int = 5_000
    """``group.share.heartbeat.interval.ms``; the next two bound it for single groups."""
    share_min_heartbeat_interval_ms: int = 5_000
    share_max_heartbeat_interval_ms: int = 15_000
    share_assignment_interval_ms: int = 1_000
    """``group.share.assignment.interval.ms`` (KIP-1263); the next two bound it for single groups."""
    share_min_assignment_interval_ms: int = 0
    share_max_assignment_interval_ms: int = 15_000
    share_max_size: int = 200
    """``group.share.max.size``."""
    share_initialize_retry_interval_ms: int = 30_000
    """``group.share.initialize.retry.interval.ms``."""
    share_snapshot_update_records: int = 500
    """``share.coordinator.snapshot.update.records.per.snapshot``."""
    consumer_regex_refresh_interval_ms: int = 10 * _MINUTE_MS
    """``group.consumer.regex.refresh.interval.ms``."""
    classic_min_session_timeout_ms: int = 6_000
    """``group.min.session.timeout.ms``."""
    classic_max_session_timeout_ms: int = 30 * _MINUTE_MS
    """``group.max.session.timeout.ms``."""
    classic_initial_rebalance_delay_ms: int = 3_000
    """``group.initial.rebalance.delay.ms``."""
    classic_max_size: int = MAX_INT
    """``group.max.size``."""
    classic_new_member_join_timeout_ms: int = 5 * _MINUTE_MS
    """How long the coordinator holds a JoinGroup of a new member; a constant in Kafka."""
    offset_metadata_max_size: int = 4_096
    """``offset.metadata.max.bytes``."""
    offsets_retention_ms: int = 7 * 24 * 60 * _MINUTE_MS
    """``offsets.retention.minutes``."""
    offsets_retention_check_interval_ms: int = 10 * _MINUTE_MS
    """``offsets.retention.check.interval.ms``."""


SESSION_TIMEOUT = "consumer.session.timeout.ms"
HEARTBEAT_INTERVAL = "consumer.heartbeat.interval.ms"
ASSIGNMENT_INTERVAL = "consumer.assignment.interval.ms"
SHARE_SESSION_TIMEOUT = "share.session.timeout.ms"
SHARE_HEARTBEAT_INTERVAL = "share.heartbeat.interval.ms"
SHARE_ASSIGNMENT_INTERVAL = "share.assignment.interval.ms"


class GroupConfig(msgspec.Struct, frozen=True):
    """Settings of one group, set by IncrementalAlterConfigs; None means the coordinator's setting."""

    consumer_session_timeout_ms: int | None = None
    consumer_heartbeat_interval_ms: int | None = None
    consumer_assignment_interval_ms: int | None = None
    share_session_timeout_ms: int | None = None
    share_heartbeat_interval_ms: int | None = None
    share_assignment_interval_ms: int | None = None


GROUP_SETTINGS: dict[str, str] = {
    SESSION_TIMEOUT: "consumer_session_timeout_ms",
    HEARTBEAT_INTERVAL: "consumer_heartbeat_interval_ms",
    ASSIGNMENT_INTERVAL: "consumer_assignment_interval_ms",
    SHARE_SESSION_TIMEOUT: "share_session_timeout_ms",
    SHARE_HEARTBEAT_INTERVAL: "share_heartbeat_interval_ms",
    SHARE_ASSIGNMENT_INTERVAL: "share_assignment_interval_ms",
}
"""The settings of a group by Kafka's names, without those of streams groups, and of what share consumers read."""


def broker_value(config: CoordinatorConfig, setting: str) -> int:
    """Return the coordinator's value of a group setting."""
    return int(getattr(config, GROUP_SETTINGS[setting]))


def parse_group_config(settings: dict[str, str], config: CoordinatorConfig) -> GroupConfig:
    """Parse the settings of a group. Raises RequestRefused with INVALID_CONFIG for what Kafka refuses."""
    values: dict[str, int] = {}
    for name, text in settings.items():
        if name not in GROUP_SETTINGS:
            raise RequestRefused(ErrorCode.INVALID_CONFIG, f"unknown group setting {name}")
        values[name] = _bounded(name, text, config)
    for session, heartbeat in (
        (SESSION_TIMEOUT, HEARTBEAT_INTERVAL),
        (SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL),
    ):
        timeout_ms, interval_ms = (values.get(n, broker_value(config, n)) for n in (session, heartbeat))
        if timeout_ms <= interval_ms:
            raise RequestRefused(ErrorCode.INVALID_CONFIG, f"{session} is not above {heartbeat}")
    return GroupConfig(**{GROUP_SETTINGS[name]: value for name, value in values.items()})


def _bounded(name: str, text: str, config: CoordinatorConfig) -> int:
    try:
        value = int(text.strip())
    except ValueError as error:
        raise RequestRefused(ErrorCode.INVALID_CONFIG, f"{name}: {text!r} is no number") from error
    kind, _, field = GROUP_SETTINGS[name].partition("_")
    low = int(getattr(config, f"{kind}_min_{field}"))
    high = int(getattr(config, f"{kind}_max_{field}"))
    if not low <= value <= high:
        raise RequestRefused(ErrorCode.INVALID_CONFIG, f"{name}: {value} is not between {low} and {high}")
    return value
