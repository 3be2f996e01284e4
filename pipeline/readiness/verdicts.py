"""Decides whether a group can move, from the broker's data about it. Plain Python, one group at a time.

A reason blocks the migration or is only a remark. The blocking reasons are cases that the proxy does not translate
(docs/explanation/translation.md): such a group passes through it unchanged.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from pipeline.readiness.cluster import BrokerSettings
from pipeline.readiness.output import NOT_READY, READY, REMARK
from protocol_codecs.classic_clients import (
    KNOWN_ASSIGNORS,
    OPTIONS,
    RACKS_IGNORED,
    Offer,
    Refusal,
    Refused,
    is_rack_aware,
    refusal,
)

_CODES: Mapping[Refusal, str] = {
    Refusal.NO_PROTOCOL: "assignor",
    Refusal.CONNECT: "connect",
    Refusal.SCHEMA_REGISTRY: "schema_registry",
    Refusal.PROTOCOL_TYPE: "protocol_type",
    Refusal.STREAMS: "streams",
    Refusal.UNKNOWN_ASSIGNOR: "assignor",
    Refusal.SUBSCRIPTION_USER_DATA: "subscription_user_data",
    Refusal.ASSIGNMENT_USER_DATA: "assignment_user_data",
}
NEWEST_EMBEDDED_VERSION = 3
AT_ONCE = frozenset({"assignment_user_data", "subscription_cut_short"})
"""Codes of remarks on groups that brokers convert only while they are empty: all their members move together."""
_FEW = 3

Member = Mapping[str, Any]
Group = Mapping[str, Any]


class Reason(NamedTuple):
    """Why a group can't move, or what to know before it does."""

    code: str
    blocks: bool
    text: str


def _blocks(code: str, text: str) -> Reason:
    return Reason(code, blocks=True, text=text)


def _remark(code: str, text: str) -> Reason:
    return Reason(code, blocks=False, text=text)


class Library(NamedTuple):
    """A client library with a known problem: the prefix of its default client ids, and its software name."""

    name: str
    client_ids: tuple[str, ...]
    software: tuple[str, ...]
    text: str


LIBRARIES = (
    Library(
        "sarama", ("sarama",), ("sarama/",), "it claims nothing on rejoining, so all its rebalances are eager"
    ),
    Library("kafkajs", ("kafkajs",), (), "its other fetchers may still work while it rejoins"),
    Library("aiokafka", ("aiokafka-",), ("aiokafka/",), "it ends on an assignment outside its subscription"),
    Library(
        "kafka-python",
        ("kafka-python-",),
        ("kafka-python/",),
        "with a cooperative assignor it claims more than it holds",
    ),
    Library(
        "kafka-go",
        ("kafka-go", "github.com/segmentio/kafka-go"),
        (),
        "it gives up its id on every JoinGroup error",
    ),
    Library("franz-go", ("kgo",), ("kgo/",), "it may claim topics that it has just unsubscribed from"),
)
"""Those without software do not tell what they are."""


def judge(
    group: Group,
    members: Sequence[Member],
    broker: BrokerSettings,
    allowed: frozenset[str] = frozenset(),
) -> tuple[str, list[Reason]]:
    """Return the verdict and every reason. ``allowed`` are assignors that the operator has approved.

    ``group`` and ``members`` have the columns of their tables.
    """
    reasons = [*_of_group(group, broker)]
    if group["kind"] in ("classic", "consumer"):
        reasons += _of_assignors(group, members, allowed)
        reasons += _of_members(members, broker)
        reasons += _of_clients(group, members)
    if any(reason.blocks for reason in reasons):
        return NOT_READY, reasons
    return (REMARK if reasons else READY), reasons


def _of_group(group: Group, broker: BrokerSettings) -> Iterable[Reason]:
    kind = group["kind"]
    if group["unreadable_records"]:
        count = group["unreadable_records"]
        yield _blocks("unreadable_records", f"{count} of its newest records cannot be read (see quarantine)")
    if kind in ("share", "streams"):
        yield _blocks("group_type", f"a {kind} group has its own protocol and does not need to move")
    elif kind == "consumer":
        yield _remark("already_new", "the group is of the new protocol already")
    elif kind == "classic" and group["protocol_type"] not in ("consumer", ""):
        refused = refusal(group["protocol_type"], (), frozenset(), assignor_is_set=False)
        if refused is not None:
            yield _refused(refused)
    elif kind == "simple":
        yield _remark("simple", "offsets are committed without a membership: nothing changes for it")
    if kind == "classic" and group["protocol_type"] == "consumer" and group["members"]:
        yield from _of_migration_policy(broker.group_consumer_migration_policy.lower())
    if kind == "classic" and (group["members"] or 0) > broker.group_consumer_max_size:
        limit = broker.group_consumer_max_size
        yield _blocks("too_large", f"{group['members']} members, but group.consumer.max.size is {limit}")


def _of_migration_policy(policy: str) -> Iterable[Reason]:
    """Return what the broker's migration policy means for a group with members."""
    setting = f"group.consumer.migration.policy is {policy}"
    if policy not in ("bidirectional", "upgrade"):
        yield _blocks("migration_policy", f"{setting}: the broker converts no group that has members")
    elif policy == "upgrade":
        yield _remark("migration_policy", f"{setting}: the group can't go back while it has members")


def _of_assignors(group: Group, members: Sequence[Member], allowed: frozenset[str]) -> Iterable[Reason]:
    if group["protocol_type"] != "consumer":
        return
    classic = [member for member in members if member["protocol"] == "classic"]
    offered = {name for member in classic for name in member["assignors"] or ()}
    offers = [_offer(name, classic) for name in sorted(offered)]
    for offer in offers:
        refused = refusal("consumer", (offer,), allowed, assignor_is_set=False)
        if refused is not None:
            yield _refused(refused)
    if any(is_rack_aware(offers, member["rack"]) for member in classic):
        yield _remark("racks", RACKS_IGNORED)
    if group["kind"] == "consumer" and classic:
        text = f"{len(classic)} of {len(members)} members still speak the classic protocol"
        yield _remark("mixed_protocols", text)
    if len({tuple(member["assignors"] or ()) for member in classic}) > 1:
        yield _remark("mixed_assignors", f"members offer different assignors: {', '.join(sorted(offered))}")


def _offer(name: str, members: Iterable[Member]) -> Offer:
    """An assignor that some of these members offer, with where they have user data."""
    theirs = [member for member in members if name in (member["assignors"] or ())]
    given = [member["assignment_user_data_bytes"] or 0 for member in theirs]
    in_all = [member["user_data_bytes"] or 0 for member in theirs]
    return Offer(
        name,
        subscription_user_data=any(both > its for both, its in zip(in_all, given, strict=True)),
        assignment_user_data=any(given),
    )


def _refused(refused: Refused) -> Reason:
    return _blocks(_CODES[refused.kind], "; ".join(filter(None, (refused.text, OPTIONS[refused.kind]))))


def _of_members(members: Sequence[Member], broker: BrokerSettings) -> Iterable[Reason]:
    unreadable = [member["member_id"] for member in members if member["problem"]]
    if unreadable:
        yield _blocks("embedded_unreadable", f"the subscription of {_some(unreadable)} cannot be read")
    versions = {member["embedded_version"] for member in members} - {None}
    if len(versions) > 1:
        listed = ", ".join(f"v{version}" for version in sorted(versions))
        yield _remark("embedded_versions", f"members embed different versions ({listed}): a rolling upgrade")
    if any(version > NEWEST_EMBEDDED_VERSION for version in versions):
        yield _remark("embedded_version", f"embedded version {max(versions)} is read as v3")
    counted = Counter(member["instance_id"] for member in members if member["instance_id"] is not None)
    doubled = sorted(name for name, count in counted.items() if count > 1)
    if doubled:
        yield _blocks("static_duplicates", f"instance id {_some(doubled)} is used by several members")
    longest = max((member["session_timeout_ms"] or 0 for member in members), default=0)
    if longest > broker.group_consumer_session_timeout_ms:
        limit = broker.group_consumer_session_timeout_ms
        text = f"session timeout {longest} ms is beyond the broker's {limit} ms, which holds while no proxy is there"
        yield _remark("session_timeout", text)
    if any(
        member["protocol"] == "classic"
        and member["assignment_user_data_bytes"]
        and KNOWN_ASSIGNORS.issuperset(member["assignors"] or ())
        for member in members
    ):
        text = "its assignment carries user data, with which brokers do not convert a live group: move it while empty"
        yield _remark("assignment_user_data", text)
    if any(member["lacks_owned_partitions"] for member in members):
        text = "brokers can't read its subscriptions beside members of the new protocol: all members move together"
        yield _remark("subscription_cut_short", text)


def _of_clients(group: Group, members: Sequence[Member]) -> Iterable[Reason]:
    """Return reasons about the client software, as it names itself or as default client ids suggest."""
    told = group["software"] or ()
    client_ids = [member["client_id"] or "" for member in members]
    for library in LIBRARIES:
        versions = [name for name in told if name.startswith(library.software)]
        if versions:
            yield _remark("client_software", f"{', '.join(versions)}: {library.text}")
        elif any(name.startswith(library.client_ids) for name in client_ids):
            yield _remark("client_software", f"{library.name}, by its client id: {library.text}")


def _some(names: Sequence[str]) -> str:
    listed = ", ".join(map(repr, names[:_FEW]))
    return listed if len(names) <= _FEW else f"{listed} and {len(names) - _FEW} more"
