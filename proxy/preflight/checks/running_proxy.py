"""Preflight: what a running proxy sees of its clients that no broker shows."""

from collections import defaultdict
from itertools import chain

from proxy.admin.preflight_report import Finding, Source
from proxy.groups.snapshot import GroupView, Snapshot
from proxy.preflight.checks.check import Check, Found, count
from proxy.preflight.checks.settings import shortest_session_ms
from proxy.preflight.facts import Facts, Unknown

_FLAPPING_IDS = 4
_FLAPPING_US = 600 * 1_000_000
"""So many members with one instance id in ten minutes are no restarts: a rolling one makes two."""
_SETTLED_S = 30.0
"""A group without events for so long has settled: longer than brokers and proxies are asked one after the other."""
_JOINED = ("joined", "fenced")


def _snapshot(facts: Facts) -> Snapshot | None:
    return None if facts.proxy is None or isinstance(facts.proxy, Unknown) else facts.proxy


def _state(facts: Facts) -> Found:
    snapshot = _snapshot(facts)
    if snapshot is None:
        return
    if not snapshot.ready:
        yield Finding(
            check="proxy_state",
            what=f"the proxy is not ready: {snapshot.not_ready_reason}",
            do="see its log and docs/how-to/troubleshooting.md",
        )
    if not snapshot.policy_is_current:
        yield Finding(
            check="proxy_state",
            what="the proxy has refused its policy file, and runs with the one before",
            do="epochgate policy check FILE says what is wrong with it",
        )
    if snapshot.fleet is not None and snapshot.fleet.state != "ready":
        yield Finding(
            check="proxy_state",
            what=f"the member log is {snapshot.fleet.state}{'' if not snapshot.fleet.reason else ': '}"
            f"{snapshot.fleet.reason or ''}",
            do="see docs/how-to/fleet.md; move nothing until it is ready",
        )
    stuck = [group for group in snapshot.groups if group.stuck]
    if stuck:
        yield Finding(
            check="proxy_state",
            what=f"these groups are stuck already, for example {stuck[0].stuck}",
            groups=tuple(sorted(group.id for group in stuck)),
            do="mend them before anything moves: epochgate status GROUP shows where they stand",
        )


def _duplicates(facts: Facts) -> Found:
    snapshot = _snapshot(facts)
    found = {} if snapshot is None else {group.id: _flapping(group) for group in snapshot.groups}
    doubled = {group: names for group, names in found.items() if names}
    if doubled:
        named = "; ".join(f"{names[0]!r} in {group}" for group, names in sorted(doubled.items())[:3])
        yield Finding(
            check="static_duplicates",
            what="several processes use one group.instance.id and put each other out of the group, again and again: "
            + named,
            groups=tuple(sorted(doubled)),
            do="give each process an instance id of its own",
        )


def _flapping(group: GroupView) -> list[str]:
    """The instance ids that too many members had in a short time."""
    seen: dict[str, dict[str, int]] = defaultdict(dict)
    for event in group.events:
        if event.instance is not None and event.member and event.kind in _JOINED:
            seen[event.instance].setdefault(event.member, event.time_us)
    found = []
    for instance, members in seen.items():
        times = sorted(members.values())
        if any(
            later - first <= _FLAPPING_US
            for first, later in zip(times, times[_FLAPPING_IDS - 1 :], strict=False)
        ):
            found.append(instance)
    return sorted(found)


def _past(facts: Facts) -> Found:
    snapshot = _snapshot(facts)
    if snapshot is None:
        return
    through = {group.id: _known(group) for group in snapshot.groups}
    not_listed = {group.id for group in snapshot.groups if group.fleet is not None and group.fleet.left_out}
    past: dict[str, int] = {}
    for group in facts.to_move:
        if isinstance(group.members, Unknown):
            continue
        unknown = [
            one for one in group.members if one.member_id not in through.get(group.group_id, frozenset())
        ]
        if unknown:
            past[group.group_id] = len(unknown)
    moving = {
        group.id for group in snapshot.groups if group.id in past and _is_in_motion(group, snapshot.time)
    }
    if moving:
        yield Finding(
            check="past_the_proxy",
            unknown=True,
            what="the members of these groups changed while brokers and proxy were asked one after the other",
            groups=tuple(sorted(moving)),
            do="run the preflight again when these groups have settled; the running proxy does so itself",
            checks=("past_the_proxy",),
        )
    past = {group: members for group, members in past.items() if group not in moving}
    unclear = {group for group in past if facts.complete_proxy is not None or group in not_listed}
    known = past.keys() - unclear
    if known:
        yield Finding(
            check="past_the_proxy",
            what=f"{count(sum(past[group] for group in known), 'member')} of these groups come to the brokers past the "
            "proxy (or through another replica that was not asked): no policy moves them, and each keeps its group "
            "mixed",
            groups=tuple(sorted(known)),
            do="point bootstrap.servers of these clients to the proxy; with several replicas that are no fleet, name "
            "each by a --proxy",
        )
    if unclear:
        yield Finding(
            check="past_the_proxy",
            unknown=True,
            what=f"whether {count(sum(past[group] for group in unclear), 'member')} of these groups come past the "
            "proxy or through replicas that were not asked",
            groups=tuple(sorted(unclear)),
            do="ask all replicas: each by a --proxy, or all of them by --replicas",
            checks=("past_the_proxy",),
        )


def _is_in_motion(group: GroupView, now_s: float) -> bool:
    """Whether the group's members may have other ids at the brokers than a short time ago."""
    if group.state == "Rebalancing" or group.protocol == "mixed":
        return True
    if group.move is not None and group.move.goes_on and not group.move.settled:
        return True
    return any(0 <= now_s - event.time_us / 1_000_000 < _SETTLED_S for event in group.events)


def _known(group: GroupView) -> frozenset[str]:
    here = (member.id for member in group.members)
    elsewhere = () if group.fleet is None else (member.id for member in group.fleet.elsewhere)
    return frozenset(chain(here, elsewhere))


def _sessions(facts: Facts) -> Found:
    snapshot = _snapshot(facts)
    longer: dict[str, int] = {}
    limits: set[int] = set()
    for group in () if snapshot is None else snapshot.groups:
        limit = shortest_session_ms(facts, group.id)
        longest = max((member.session_timeout_ms for member in group.members), default=-1)
        if limit is not None and longest > limit:
            longer[group.id] = longest
            limits.add(limit)
    if longer:
        yield Finding(
            check="client_sessions",
            what=f"clients of these groups have session timeouts of up to {max(longer.values())} ms, and brokers end a "
            f"member of the new protocol after {min(limits)} ms: that holds while no proxy heartbeats for it (a "
            "restart, a broken network)",
            groups=tuple(sorted(longer)),
            do="raise consumer.session.timeout.ms of these groups (kafka-configs.sh --entity-type groups), or "
            "group.consumer.session.timeout.ms and its maximum on the brokers",
        )


_SOURCES = frozenset({Source.PROXY})
CHECKS = (
    Check("proxy_state", "The running proxy is ready, and no group is stuck in it.", _SOURCES, _state),
    Check("static_duplicates", "No two processes share a group.instance.id.", _SOURCES, _duplicates),
    Check(
        "past_the_proxy",
        "All members of the groups that are to move come through the proxy.",
        _SOURCES | {Source.GROUPS},
        _past,
    ),
    Check(
        "client_sessions",
        "No client's session timeout is longer than the brokers' for the new protocol.",
        _SOURCES | {Source.BROKERS, Source.SETTINGS, Source.GROUPS, Source.GROUP_SETTINGS},
        _sessions,
    ),
)
