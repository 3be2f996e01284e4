"""Preflight: whether the brokers' settings let groups move, and back (``group.consumer.migration.policy``):
DescribeConfigs of every broker.
"""

from collections.abc import Iterator, Mapping

from proxy.admin.preflight_report import Finding, Source
from proxy.preflight.checks.check import Check, Found, count, nodes
from proxy.preflight.facts import Facts, Group, Kind, Unknown, names, number
from translation.policy.assignors import map_assignor
from translation.policy.policy import Mode

_POLICY = "group.consumer.migration.policy"
_SESSION = "group.consumer.session.timeout.ms"
_HEARTBEAT = "group.consumer.heartbeat.interval.ms"
_UNLIMITED = 2**31 - 1
_DECIDING = (
    "group.coordinator.rebalance.protocols",
    "group.consumer.migration.policy",
    "group.consumer.assignors",
    "group.consumer.max.size",
    "group.consumer.session.timeout.ms",
    "group.consumer.heartbeat.interval.ms",
    "group.consumer.min.session.timeout.ms",
    "group.consumer.max.session.timeout.ms",
    "group.consumer.assignment.interval.ms",
    "group.max.size",
    "group.min.session.timeout.ms",
    "group.max.session.timeout.ms",
)
"""Settings that decide how a group behaves; which broker's counts follows from where its coordinator is."""

TOLD: Mapping[str, tuple[str, ...]] = {
    "settings_differ": (_POLICY, "group.consumer.assignors", "group.consumer.max.size", _SESSION, _HEARTBEAT),
    "rebalance_protocols": ("group.coordinator.rebalance.protocols",),
    "migration_policy": ("group.consumer.migration.policy",),
    "assignors": ("group.consumer.assignors",),
    "max_size": ("group.consumer.max.size",),
    "group_bounds": (
        "group.consumer.min.session.timeout.ms",
        "group.consumer.max.session.timeout.ms",
        "group.consumer.min.heartbeat.interval.ms",
        "group.consumer.max.heartbeat.interval.ms",
    ),
    "heartbeat_interval": ("group.consumer.session.timeout.ms", "group.consumer.heartbeat.interval.ms"),
    "connections_per_ip": ("max.connections.per.ip",),
    "session_bounds": ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
    "way_back": ("group.max.size",),
    "failover": ("group.consumer.session.timeout.ms",),
    "client_sessions": ("group.consumer.session.timeout.ms",),
    "bug_full_group": ("group.consumer.max.size",),
}
"""By check the settings that every broker of Kafka 4 tells. One that leaves them out (a managed one may) is not judged
by their defaults."""

_WITHOUT = {
    "disabled": "live groups can neither move nor come back",
    "upgrade": "a group that has moved can't come back while it has members",
    "downgrade": "a live group can't move",
}
_OWN = "org.apache.kafka.coordinator.group.assignor."
_LONGEST_ASSIGNMENT_MS = 5_000
"""A third of what a JoinGroup waits for partitions (``TranslatorSettings.join_wait_s``)."""


def _by_value(facts: Facts, name: str) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for node, settings in facts.settings().items():
        if name in settings:
            found.setdefault(settings[name], []).append(node)
    return found


def _by_number(facts: Facts, name: str) -> list[tuple[int, list[int]]]:
    """The values of a setting that is a number, in order, each with the brokers that have it."""
    found: dict[int, list[int]] = {}
    for node, settings in facts.settings().items():
        if (value := number(settings, name)) is not None:
            found.setdefault(value, []).append(node)
    return sorted(found.items())


def _ids(groups: Iterator[Group] | tuple[Group, ...]) -> tuple[str, ...]:
    return tuple(sorted(group.group_id for group in groups))


def _differ(facts: Facts) -> Found:
    for name in _DECIDING:
        values = _by_value(facts, name)
        if len(values) > 1:
            said = ", ".join(f"{value or 'nothing'} at {nodes(ids)}" for value, ids in sorted(values.items()))
            yield Finding(
                check="settings_differ",
                what=f"{name} is {said}: what holds for a group changes when its coordinator moves",
                do=f"give all brokers the same {name}",
            )


def _protocols(facts: Facts) -> Found:
    name = "group.coordinator.rebalance.protocols"
    lacking = [
        node
        for node, settings in facts.settings().items()
        if "consumer" not in (names(settings, name) or ("consumer",))
    ]
    if lacking:
        yield Finding(
            check="rebalance_protocols",
            what=f"{name} of {nodes(lacking)} does not have `consumer`: the new protocol is off there",
            do=f"add `consumer` to {name}, and restart these brokers",
        )


def _migration(facts: Facts) -> Found:
    for value, ids in sorted(_by_value(facts, _POLICY).items()):
        if value.lower() in _WITHOUT:
            yield Finding(
                check="migration_policy",
                what=f"{_POLICY} is {value} at {nodes(ids)}: {_WITHOUT[value.lower()]}",
                groups=_ids(facts.to_move),
                do=f"set {_POLICY}=bidirectional on every broker, and restart them",
            )


def _assignors(facts: Facts) -> Found:
    wanted: dict[str, list[str]] = {}
    for rule in facts.policy.rules:
        if rule.mode is Mode.TRANSLATE and rule.assignor is not None:
            wanted.setdefault(rule.assignor, [])
    for group in facts.to_move:
        assignor = facts.rule(group.group_id).assignor
        if assignor is None and group.classic is not None and group.classic.protocol_data:
            assignor = map_assignor([group.classic.protocol_data])
        if assignor is not None:
            wanted.setdefault(assignor, []).append(group.group_id)
    for assignor, groups in sorted(wanted.items()):
        has = {node: _has(assignor, settings) for node, settings in facts.settings().items()}
        lacking = [node for node, answer in has.items() if answer is False]
        if lacking:
            yield Finding(
                check="assignors",
                what=f"{nodes(lacking)} without the assignor {assignor}: its members' heartbeats are refused there",
                groups=tuple(sorted(groups)),
                do=f"add {assignor} to group.consumer.assignors on every broker, or name another in the policy's rule",
            )
        elif None in has.values():
            yield Finding(
                check="assignors",
                unknown=True,
                what=f"whether brokers have the assignor {assignor}: group.consumer.assignors names classes, which "
                "may call themselves anything",
                groups=tuple(sorted(groups)),
                do="ask whoever made the class for its name()",
                checks=("assignors",),
            )


def _has(assignor: str, settings: Mapping[str, str]) -> bool | None:
    """Whether a broker has an assignor; None if its classes do not tell their names."""
    listed = names(settings, "group.consumer.assignors")
    if listed is None or assignor in listed:
        return True
    if assignor in ("range", "uniform"):  # up to Kafka 4.0 the setting has the classes of these too
        return f"{_OWN}{assignor.capitalize()}Assignor" in listed
    return None if any("." in name and not name.startswith(_OWN) for name in listed) else False


def _size(facts: Facts) -> Found:
    for limit, ids in _by_number(facts, "group.consumer.max.size"):
        full = tuple(one for one in facts.to_move if one.size + (one.kind is Kind.CLASSIC) > limit)
        if full:
            most = max(group.size for group in full)
            yield Finding(
                check="max_size",
                what=f"group.consumer.max.size is {limit} at {nodes(ids)}, and these groups have so many members "
                f"or more (up to {most}): there is no place for the helper that converts a group, so they stay classic",
                groups=_ids(full),
                do=f"raise group.consumer.max.size to at least {most + 1} on every broker, and restart them",
            )


def _session_of_group(facts: Facts) -> Found:
    own = ("consumer.session.timeout.ms", "consumer.heartbeat.interval.ms", "consumer.assignment.interval.ms")
    outside: dict[tuple[str, int, int, int], list[str]] = {}
    at: dict[tuple[str, int, int, int], set[int]] = {}
    for group in facts.to_move:
        if isinstance(group.settings, Unknown):
            continue
        for name in own:
            value = number(group.settings, name)
            if value is None:
                continue
            for node, settings in facts.settings().items():
                short = name.removeprefix("consumer.")
                low = number(settings, f"group.consumer.min.{short}")
                high = number(settings, f"group.consumer.max.{short}")
                if low is not None and high is not None and not low <= value <= high:
                    key = (name, value, low, high)
                    outside.setdefault(key, []).append(group.group_id)
                    at.setdefault(key, set()).add(node)
    for (name, value, low, high), groups in sorted(outside.items()):
        yield Finding(
            check="group_bounds",
            what=f"{name} of these groups is {value}, and {nodes(at[name, value, low, high])} have bounds of {low} to "
            f"{high}: another value may hold there",
            groups=tuple(sorted(set(groups))),
            do=f"kafka-configs.sh --alter --entity-type groups --entity-name GROUP --add-config {name}=VALUE within "
            "the bounds, or widen the bounds on every broker",
        )


def _heartbeats(facts: Facts) -> Found:
    for node, settings in sorted(facts.settings().items()):
        session, interval = number(settings, _SESSION), number(settings, _HEARTBEAT)
        if session is not None and interval is not None and session < 2 * interval:
            yield Finding(
                check="heartbeat_interval",
                what=f"broker {node} has {_HEARTBEAT}={interval} and {_SESSION}={session}: a member is out of its "
                "group after one late heartbeat",
                do=f"make {_SESSION} at least three times {_HEARTBEAT}",
            )
    short: dict[tuple[int, int], set[str]] = {}
    for group in facts.to_move:
        own = {} if isinstance(group.settings, Unknown) else group.settings
        for settings in facts.settings().values() if own else ():
            session = number(own, "consumer.session.timeout.ms") or number(settings, _SESSION)
            interval = number(own, "consumer.heartbeat.interval.ms") or number(settings, _HEARTBEAT)
            if session is not None and interval is not None and session < 2 * interval:
                short.setdefault((interval, session), set()).add(group.group_id)
                break
    for (interval, session), groups in sorted(short.items()):
        yield Finding(
            check="heartbeat_interval",
            what=f"their own settings make the heartbeat interval of these groups {interval} ms and the session "
            f"timeout {session} ms: a member is out of its group after one late heartbeat",
            groups=tuple(sorted(groups)),
            do="make consumer.session.timeout.ms of each group at least three times its heartbeat interval",
        )


def _assignment_interval(facts: Facts) -> Found:
    name = "group.consumer.assignment.interval.ms"
    for value, ids in _by_number(facts, name):
        if value > _LONGEST_ASSIGNMENT_MS:
            yield Finding(
                check="assignment_interval",
                what=f"{name} is {value} at {nodes(ids)}: whoever joins a group waits so long for partitions, longer "
                "than a JoinGroup waits for them here",
                do=f"set {name} to 1000 (Kafka's default)",
            )


def _connections(facts: Facts) -> Found:
    limited = {
        node: limit
        for node, settings in facts.settings().items()
        if (limit := number(settings, "max.connections.per.ip")) is not None and limit < _UNLIMITED
    }
    if limited:
        members = sum(group.size for group in facts.to_move)
        yield Finding(
            check="connections_per_ip",
            what=f"max.connections.per.ip is {min(limited.values())} at {nodes(limited)}, and every client of the "
            f"proxy comes from the proxy's address ({count(members, 'member')} in groups that are to move)",
            do="name the proxy's addresses in max.connections.per.ip.overrides of every broker (a dynamic setting); "
            "limits.max_connections_per_address of the proxy limits the clients instead",
        )


def _session_bounds(facts: Facts) -> Found:
    config = facts.config
    if config is None:
        return
    limits = config.limits
    for kind, ours in (("min", limits.session_timeout_min_ms), ("max", limits.session_timeout_max_ms)):
        name = f"group.{kind}.session.timeout.ms"
        for theirs, ids in _by_number(facts, name):
            if theirs < ours if kind == "min" else theirs > ours:
                yield Finding(
                    check="session_bounds",
                    what=f"{name} is {theirs} at {nodes(ids)} and {ours} at the proxy: clients with a session timeout "
                    "between them work now, and get INVALID_SESSION_TIMEOUT in a translated group",
                    groups=_with_session(facts, *sorted((theirs, ours))),
                    do=f"limits.session_timeout_{kind}_ms: {theirs} in the proxy's configuration",
                )


def _with_session(facts: Facts, low: int, high: int) -> tuple[str, ...]:
    """The groups that a proxy knows to have such clients; empty if none was asked."""
    if facts.proxy is None or isinstance(facts.proxy, Unknown):
        return ()
    return tuple(
        group.id
        for group in facts.proxy.groups
        if any(low <= member.session_timeout_ms <= high for member in group.members)
    )


def shortest_session_ms(facts: Facts, group_id: str) -> int | None:
    """The session timeout by which a broker ends a member of this group; None if it is not known."""
    group = facts.by_id.get(group_id)
    if group is not None and not isinstance(group.settings, Unknown):
        own = number(group.settings, "consumer.session.timeout.ms")
        if own is not None:
            return own
    of_brokers = [number(settings, _SESSION) for settings in facts.settings().values()]
    return min((value for value in of_brokers if value is not None), default=None)


_SETTINGS = frozenset({Source.BROKERS, Source.SETTINGS})
_WITH_GROUPS = _SETTINGS | {Source.GROUPS}
CHECKS = (
    Check("settings_differ", "All brokers have the same settings of groups.", _SETTINGS, _differ),
    Check(
        "rebalance_protocols",
        "`group.coordinator.rebalance.protocols` has `consumer`.",
        _SETTINGS,
        _protocols,
    ),
    Check(
        "migration_policy",
        "`group.consumer.migration.policy` is `bidirectional`, so that live groups move and come back.",
        _SETTINGS,
        _migration,
    ),
    Check(
        "assignors",
        "Brokers have the assignors that the groups will ask for (`group.consumer.assignors`).",
        _WITH_GROUPS,
        _assignors,
    ),
    Check("max_size", "Each group has a place left below `group.consumer.max.size`.", _WITH_GROUPS, _size),
    Check(
        "group_bounds",
        "The groups' own settings are within the brokers' bounds of session timeout, heartbeat and assignment "
        "interval.",
        _WITH_GROUPS | {Source.GROUP_SETTINGS},
        _session_of_group,
    ),
    Check(
        "heartbeat_interval",
        "The session timeout of the new protocol outlasts a late heartbeat.",
        _WITH_GROUPS | {Source.GROUP_SETTINGS},
        _heartbeats,
    ),
    Check(
        "assignment_interval",
        "`group.consumer.assignment.interval.ms` is not longer than a JoinGroup waits.",
        _SETTINGS,
        _assignment_interval,
    ),
    Check(
        "connections_per_ip",
        "Brokers do not limit the connections of one address, which will be the proxy's.",
        _SETTINGS,
        _connections,
    ),
    Check(
        "session_bounds",
        "The proxy takes every session timeout that the brokers take (`limits.session_timeout_min_ms` and `_max_ms`).",
        _SETTINGS | {Source.CONFIGURATION},
        _session_bounds,
    ),
)
