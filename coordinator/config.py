"""The settings of the coordinator, with Kafka's names and Kafka 4.4's defaults."""

from enum import StrEnum

import msgspec

from coordinator.errors import RequestRefused
from protocol_codecs.bounds import MAX_INT
from protocol_codecs.error_code import ErrorCode

_MINUTE_MS = 60_000


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
    experimental_client_assignors: bool = False
    """Whether members may compute the assignment (KIP-848's client-side assignors): an experiment that no Kafka has."""
    experimental_connect_groups: bool = False
    """Whether groups of Connect workers (KIP-848) are served: an experiment that no Kafka has."""
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
    share_record_lock_duration_ms: int = 30_000
    """``group.share.record.lock.duration.ms``; the next two bound it for single groups."""
    share_min_record_lock_duration_ms: int = 15_000
    share_max_record_lock_duration_ms: int = 60_000
    share_delivery_count_limit: int = 5
    """``group.share.delivery.count.limit``; the next two bound it for single groups."""
    share_min_delivery_count_limit: int = 2
    share_max_delivery_count_limit: int = 10
    share_partition_max_record_locks: int = 2_000
    """``group.share.partition.max.record.locks``; the next two bound it for single groups."""
    share_min_partition_max_record_locks: int = 100
    share_max_partition_max_record_locks: int = 4_000
    share_auto_offset_reset: str = "latest"
    """``share.auto.offset.reset`` of groups that do not set it; as the next two, a constant in Kafka."""
    share_isolation_level: str = "read_uncommitted"
    share_renew_acknowledge_enable: bool = True
    share_max_sessions: int = 2_000
    """``group.share.max.share.sessions``, of each node."""
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
SHARE_RECORD_LOCK_DURATION = "share.record.lock.duration.ms"
SHARE_DELIVERY_COUNT_LIMIT = "share.delivery.count.limit"
SHARE_PARTITION_MAX_RECORD_LOCKS = "share.partition.max.record.locks"
SHARE_AUTO_OFFSET_RESET = "share.auto.offset.reset"
SHARE_ISOLATION_LEVEL = "share.isolation.level"
SHARE_RENEW_ACKNOWLEDGE_ENABLE = "share.renew.acknowledge.enable"
LATEST, EARLIEST = "latest", "earliest"
"""The values of ``share.auto.offset.reset``. Kafka's third, ``by_duration``, is refused."""


class GroupConfig(msgspec.Struct, frozen=True):
    """Settings of one group, set by IncrementalAlterConfigs; None means the coordinator's setting."""

    consumer_session_timeout_ms: int | None = None
    consumer_heartbeat_interval_ms: int | None = None
    consumer_assignment_interval_ms: int | None = None
    share_session_timeout_ms: int | None = None
    share_heartbeat_interval_ms: int | None = None
    share_assignment_interval_ms: int | None = None
    share_record_lock_duration_ms: int | None = None
    share_delivery_count_limit: int | None = None
    share_partition_max_record_locks: int | None = None
    share_auto_offset_reset: str | None = None
    share_isolation_level: str | None = None
    share_renew_acknowledge_enable: bool | None = None


GROUP_SETTINGS: dict[str, str] = {
    SESSION_TIMEOUT: "consumer_session_timeout_ms",
    HEARTBEAT_INTERVAL: "consumer_heartbeat_interval_ms",
    ASSIGNMENT_INTERVAL: "consumer_assignment_interval_ms",
    SHARE_SESSION_TIMEOUT: "share_session_timeout_ms",
    SHARE_HEARTBEAT_INTERVAL: "share_heartbeat_interval_ms",
    SHARE_ASSIGNMENT_INTERVAL: "share_assignment_interval_ms",
    SHARE_RECORD_LOCK_DURATION: "share_record_lock_duration_ms",
    SHARE_DELIVERY_COUNT_LIMIT: "share_delivery_count_limit",
    SHARE_PARTITION_MAX_RECORD_LOCKS: "share_partition_max_record_locks",
    SHARE_AUTO_OFFSET_RESET: "share_auto_offset_reset",
    SHARE_ISOLATION_LEVEL: "share_isolation_level",
    SHARE_RENEW_ACKNOWLEDGE_ENABLE: "share_renew_acknowledge_enable",
}
"""The settings of a group by Kafka's names, without those of streams groups and of dead-letter queues."""

_ALLOWED: dict[str, frozenset[str]] = {
    SHARE_AUTO_OFFSET_RESET: frozenset({LATEST, EARLIEST}),
    SHARE_ISOLATION_LEVEL: frozenset({"read_uncommitted", "read_committed"}),
}
_BOOLEANS = {"true": True, "false": False}


def broker_value(config: CoordinatorConfig, setting: str) -> int | str | bool:
    """Return the coordinator's value of a group setting."""
    value: int | str | bool = getattr(config, GROUP_SETTINGS[setting])
    return value


def setting_of(config: CoordinatorConfig, group: GroupConfig | None, field: str) -> int | str | bool:
    """Return a group's own setting, else the coordinator's, by its name in both of them."""
    own: int | str | bool | None = getattr(group, field, None)
    value: int | str | bool = getattr(config, field) if own is None else own
    return value


def parse_group_config(settings: dict[str, str], config: CoordinatorConfig) -> GroupConfig:
    """Parse the settings of a group. Raises RequestRefused with INVALID_CONFIG for what Kafka refuses."""
    values: dict[str, int | str | bool] = {}
    for name, text in settings.items():
        if name not in GROUP_SETTINGS:
            raise _invalid(f"unknown group setting {name}")
        values[name] = _parsed(name, text.strip(), config)
    for session, heartbeat in (
        (SESSION_TIMEOUT, HEARTBEAT_INTERVAL),
        (SHARE_SESSION_TIMEOUT, SHARE_HEARTBEAT_INTERVAL),
    ):
        timeout_ms, interval_ms = (
            int(values.get(name, broker_value(config, name))) for name in (session, heartbeat)
        )
        if timeout_ms <= interval_ms:
            raise _invalid(f"{session} is not above {heartbeat}")
    return msgspec.convert({GROUP_SETTINGS[name]: value for name, value in values.items()}, GroupConfig)


def _parsed(name: str, text: str, config: CoordinatorConfig) -> int | str | bool:
    if name in _ALLOWED:
        if text not in _ALLOWED[name]:
            raise _invalid(f"{name}: {text!r} is none of {', '.join(sorted(_ALLOWED[name]))}")
        return text
    if name == SHARE_RENEW_ACKNOWLEDGE_ENABLE:
        if text.lower() not in _BOOLEANS:
            raise _invalid(f"{name}: {text!r} is neither true nor false")
        return _BOOLEANS[text.lower()]
    return _bounded(name, text, config)


def _bounded(name: str, text: str, config: CoordinatorConfig) -> int:
    try:
        value = int(text)
    except ValueError as error:
        raise _invalid(f"{name}: {text!r} is no number") from error
    kind, _, field = GROUP_SETTINGS[name].partition("_")
    low = int(getattr(config, f"{kind}_min_{field}"))
    high = int(getattr(config, f"{kind}_max_{field}"))
    if not low <= value <= high:
        raise _invalid(f"{name}: {value} is not between {low} and {high}")
    return value


def _invalid(reason: str) -> RequestRefused:
    return RequestRefused(ErrorCode.INVALID_CONFIG, reason)
