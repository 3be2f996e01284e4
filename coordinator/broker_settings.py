"""The coordinator's settings by the names of a Kafka broker, as ``python -m coordinator.broker --set`` takes them.

Which values are allowed follows Kafka 4.4: each setting has a range, the default of a group lies between its bounds,
and a session timeout is longer than the heartbeat interval.
"""

from collections.abc import Mapping

import msgspec

from coordinator.assignors import ASSIGNORS
from coordinator.config import CoordinatorConfig, MigrationPolicy
from protocol_codecs.bounds import MAX_INT

ASSIGNORS_SETTING = "group.consumer.assignors"
POLICY_SETTING = "group.consumer.migration.policy"

RANGES: dict[str, tuple[int, int]] = {
    "group.consumer.assignment.interval.ms": (0, MAX_INT),
    "group.consumer.min.assignment.interval.ms": (0, MAX_INT),
    "group.consumer.max.assignment.interval.ms": (0, MAX_INT),
    "group.consumer.heartbeat.interval.ms": (1, MAX_INT),
    "group.consumer.min.heartbeat.interval.ms": (1, MAX_INT),
    "group.consumer.max.heartbeat.interval.ms": (1, MAX_INT),
    "group.consumer.max.size": (1, MAX_INT),
    "group.consumer.regex.refresh.interval.ms": (10_000, MAX_INT),
    "group.consumer.session.timeout.ms": (1, MAX_INT),
    "group.consumer.min.session.timeout.ms": (1, MAX_INT),
    "group.consumer.max.session.timeout.ms": (1, MAX_INT),
    "group.share.assignment.interval.ms": (0, MAX_INT),
    "group.share.min.assignment.interval.ms": (0, MAX_INT),
    "group.share.max.assignment.interval.ms": (0, MAX_INT),
    "group.share.delivery.count.limit": (2, 10),
    "group.share.min.delivery.count.limit": (2, 5),
    "group.share.max.delivery.count.limit": (5, 25),
    "group.share.heartbeat.interval.ms": (1, MAX_INT),
    "group.share.min.heartbeat.interval.ms": (1, MAX_INT),
    "group.share.max.heartbeat.interval.ms": (1, MAX_INT),
    "group.share.initialize.retry.interval.ms": (1, MAX_INT),
    "group.share.max.share.sessions": (1, MAX_INT),
    "group.share.max.size": (1, 1_000),
    "group.share.partition.max.record.locks": (100, 10_000),
    "group.share.min.partition.max.record.locks": (100, 2_000),
    "group.share.max.partition.max.record.locks": (2_000, 10_000),
    "group.share.record.lock.duration.ms": (1_000, 3_600_000),
    "group.share.min.record.lock.duration.ms": (1_000, 30_000),
    "group.share.max.record.lock.duration.ms": (30_000, 3_600_000),
    "group.share.session.timeout.ms": (1, MAX_INT),
    "group.share.min.session.timeout.ms": (1, MAX_INT),
    "group.share.max.session.timeout.ms": (1, MAX_INT),
}
"""The numbers, with the least and the largest that Kafka allows."""

NAMES = (ASSIGNORS_SETTING, POLICY_SETTING, *RANGES)


def with_settings(config: CoordinatorConfig, settings: Mapping[str, str]) -> CoordinatorConfig:
    """Return the configuration with these settings. Raises ValueError for what Kafka would not start with."""
    changed = msgspec.structs.replace(
        config, **{_field(name): _parsed(name, text) for name, text in settings.items()}
    )
    for name in RANGES:
        _check_bounds(changed, name)
    for kind in ("consumer", "share"):
        session, heartbeat = f"group.{kind}.session.timeout.ms", f"group.{kind}.heartbeat.interval.ms"
        if value_of(changed, session) <= value_of(changed, heartbeat):
            raise ValueError(f"{session} is not above {heartbeat}")
    return changed


def value_of(config: CoordinatorConfig, name: str) -> int:
    """Return the value of a setting that is a number."""
    return int(getattr(config, _field(name)))


def described() -> str:
    """Return the names with their defaults and ranges, one a line."""
    default = CoordinatorConfig()
    lines = [
        f"{ASSIGNORS_SETTING}={','.join(default.consumer_assignors)}",
        f"{POLICY_SETTING}={default.consumer_migration_policy}",
    ]
    lines += [
        f"{name}={value_of(default, name)}  ({low} {'or more' if high == MAX_INT else f'to {high}'})"
        for name, (low, high) in RANGES.items()
    ]
    return "\n".join(f"  {line}" for line in lines)


def _field(name: str) -> str:
    if name not in NAMES:
        raise ValueError(f"unknown setting {name}")
    if name == "group.share.max.share.sessions":
        return "share_max_sessions"
    return name.removeprefix("group.").replace(".", "_")


def _parsed(name: str, text: str) -> int | MigrationPolicy | tuple[str, ...]:
    if name == POLICY_SETTING:
        if text.lower() not in list(MigrationPolicy):
            raise ValueError(f"{name}: {text!r} is none of {', '.join(MigrationPolicy)}")
        return MigrationPolicy(text.lower())
    if name == ASSIGNORS_SETTING:
        assignors = tuple(part.strip() for part in text.split(","))
        if unknown := sorted(set(assignors) - ASSIGNORS.keys()):
            raise ValueError(f"{name}: {unknown[0]!r} is none of {', '.join(ASSIGNORS)}")
        return assignors
    low, high = RANGES[name]
    try:
        value = int(text)
    except ValueError:
        raise ValueError(f"{name}: {text!r} is no number") from None
    if not low <= value <= high:
        raise ValueError(f"{name}: {value} is not between {low} and {high}")
    return value


def _check_bounds(config: CoordinatorConfig, name: str) -> None:
    """Raise ValueError unless min <= value <= max, for a setting that has these two."""
    prefix, kind, rest = name.split(".", 2)
    least, most = f"{prefix}.{kind}.min.{rest}", f"{prefix}.{kind}.max.{rest}"
    if least in RANGES and not value_of(config, least) <= value_of(config, name) <= value_of(config, most):
        raise ValueError(f"{name} is not between {least} and {most}")
