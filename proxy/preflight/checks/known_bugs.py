"""Preflight: known behaviour of releases of Kafka that harms some groups (``preflight.kafka_version``). The operator
names the release: brokers do not.

Only what has a source is here: a row of docs/evidence/facts.md, or Kafka's sources where the row says so. ``since`` and
``until`` are the first and the last release that have it, as far as it was tried.
"""

from collections.abc import Callable, Iterator
from functools import partial
from typing import NamedTuple

from protocol_codecs import CodecError
from protocol_codecs.messages.consumer_protocol import lacks_owned_partitions
from proxy.admin.preflight_report import Finding, Source
from proxy.preflight.checks.check import Check, Found
from proxy.preflight.facts import Facts, Group, Kind, Unknown, Version, number


class Bug(NamedTuple):
    """A behaviour: in which releases, which groups it can harm, and what to do.

    ``concerned`` gives these groups; None if it concerns the cluster, whatever its groups are.
    """

    name: str
    since: Version
    until: Version | None
    what: str
    do: str
    source: str
    concerned: Callable[[Facts], Iterator[Group]] | None


def _static_at_limit(facts: Facts) -> Iterator[Group]:
    limits = [number(settings, "group.consumer.max.size") for settings in facts.settings().values()]
    limit = min((one for one in limits if one is not None), default=None)
    for group in facts.to_move:
        if limit is not None and group.size >= limit and any(_instances(group)):
            yield group


def _instances(group: Group) -> list[bool]:
    """For each member whether it is static."""
    return (
        [] if isinstance(group.members, Unknown) else [one.instance_id is not None for one in group.members]
    )


def _only_static(facts: Facts) -> Iterator[Group]:
    for group in facts.to_move:
        static = _instances(group)
        if group.kind is Kind.CLASSIC and static and all(static):
            yield group


def _two_votes(facts: Facts) -> Iterator[Group]:
    if facts.several_processes():
        for group in facts.to_move:
            if group.size == 2 and facts.rule(group.group_id).assignor is None:
                yield group


def _cut_short(facts: Facts) -> Iterator[Group]:
    for group in facts.to_move:
        members = () if group.classic is None else group.classic.members
        if any(_is_cut_short(member.member_metadata) for member in members):
            yield group


def _is_cut_short(metadata: bytes) -> bool:
    try:
        return lacks_owned_partitions(metadata)
    except CodecError:
        return False


def _without_type(facts: Facts) -> Iterator[Group]:
    for group in () if isinstance(facts.groups, Unknown) else facts.groups:
        if group.kind is Kind.OTHER and facts.rule(group.group_id).type is None:
            yield group


def _other(facts: Facts) -> Iterator[Group]:
    for group in () if isinstance(facts.groups, Unknown) else facts.groups:
        if group.kind is Kind.OTHER:
            yield group


BUGS = (
    Bug(
        "bug_join_versions",
        Version(4, 0, 0),
        Version(4, 0, 0),
        "brokers lack JoinGroup v0 and v1: clients that have nothing newer work through the proxy, which raises their "
        "calls, and not straight at a broker",
        "upgrade the brokers to 4.0.1 or newer, so that such clients can go back past the proxy",
        "facts: JoinGroup v0 and v1 are missing in 4.0.0 only",
        None,
    ),
    Bug(
        "bug_describe_pending",
        Version(4, 0, 0),
        Version(4, 2, 999),
        "ConsumerGroupDescribe leaves out partitions whose revocation is pending (KAFKA-20431): while a group "
        "rebalances, tools show partitions without an owner that still have one",
        "read descriptions while the group is Stable, or upgrade the brokers to 4.3",
        "facts: ConsumerGroupDescribe of 4.0 to 4.2 leaves out partitions pending revocation",
        None,
    ),
    Bug(
        "bug_full_group",
        Version(4, 0, 0),
        Version(4, 3, 1),
        "a static member that comes back to a group at group.consumer.max.size is refused with GROUP_MAX_SIZE_REACHED, "
        "and these groups are at the limit",
        "raise group.consumer.max.size above the number of their members",
        "facts: a static member may come back under another id while the group is full (4.4)",
        _static_at_limit,
    ),
    Bug(
        "bug_cut_short",
        Version(4, 0, 0),
        Version(4, 3, 1),
        "a classic member whose subscription is cut short (kafka-go's) is answered UNKNOWN_SERVER_ERROR by a group of "
        "the new protocol (KAFKA-20662), which its client may retry for ever",
        "let no client of these groups come past the proxy once they have moved",
        "facts: the conversion is refused while a member's subscription ends before its owned partitions",
        _cut_short,
    ),
    Bug(
        "bug_static_unassigned",
        Version(4, 3, 0),
        None,
        "if a topic gets partitions shortly before one of these groups moves, whose members are all static, the new "
        "partitions stay with nobody until the group or the topic changes again",
        "add no partitions in the minutes (metadata.max.age.ms of the clients) before they move",
        "facts: a static member that is converted in its own place, after a topic grew",
        _only_static,
    ),
    Bug(
        "bug_tied_assignors",
        Version(4, 4, 0),
        None,
        "a group with one vote for each of two assignors never settles (KAFKA-20434): the two members of these groups "
        "may vote for two, if two processes serve them and their clients list different assignors first",
        "set `assignor` in the rule of these groups, or run the processes as one fleet",
        "facts: with one vote for range and one for uniform",
        _two_votes,
    ),
    Bug(
        "bug_streams_deleted",
        Version(4, 2, 0),
        None,
        "a classic consumer that joins with the id of a streams group without members deletes that group, and these "
        "share or streams groups have no rule that keeps consumers out",
        "give them a rule with `type: streams` or `type: share`",
        "facts: a classic consumer that joins with the id of a streams group without members deletes it",
        _without_type,
    ),
    Bug(
        "bug_share_session",
        Version(4, 1, 0),
        Version(4, 1, 999),
        "when the old connection of a share consumer ends after it has opened a new one, the broker drops the new "
        "session too, which costs its locked records a delivery attempt",
        "upgrade the brokers to 4.2 before share consumers come through a proxy",
        "read in the sources of 4.1 (ShareSessionCache has no mark for a session that was replaced); 4.2 has it",
        _other,
    ),
)


def _look(bug: Bug, facts: Facts) -> Found:
    version = facts.version
    if version is None or version < bug.since or (bug.until is not None and version > bug.until):
        return
    groups = () if bug.concerned is None else tuple(sorted(one.group_id for one in bug.concerned(facts)))
    if groups or bug.concerned is None:
        yield Finding(check=bug.name, what=f"Kafka {version}: {bug.what}", groups=groups, do=bug.do)


def _check(bug: Bug) -> Check:
    until = "on" if bug.until is None else f"to {_release(bug.until)}"
    meaning = f"From Kafka {_release(bug.since)} {until}: {bug.source}."
    needed = {Source.VERSION} | (set() if bug.concerned is None else {Source.GROUPS})
    if bug.concerned is _static_at_limit:
        needed |= {Source.BROKERS, Source.SETTINGS}
    return Check(bug.name, meaning, frozenset(needed), partial(_look, bug))


def _release(version: Version) -> str:
    return f"{version.major}.{version.minor}" if version.patch > 99 else str(version)


CHECKS = tuple(_check(bug) for bug in BUGS)
