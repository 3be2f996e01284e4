"""What they call: every group API, in the versions in which it says something else, with everything that is known."""

import datetime as dt
import uuid
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Literal

from .target import WATCHED_PARTITION, Known, Target, join_group, message

Kind = Literal["classic", "native"]
Script = Callable[[Target], Generator[Any, Any, None]]
"""Yields requests and is sent their answers; the last answer counts."""

MEMBER_ID_REQUIRED = 79
STRANGERS_OFFSET = 7
"""What callers commit."""
WRONG = 1_000
"""How far a wrong generation is from the right one."""


@dataclass(frozen=True)
class Call:
    """One row of the matrix, played at a group of classic members (`native`: of members of the new protocol)."""

    api: str
    title: str
    script: Script
    kind: Kind = "classic"


def once(build: Callable[[Target], Any]) -> Script:
    """A single request."""

    def script(at: Target) -> Generator[Any, Any, None]:
        yield build(at)

    return script


# -- classic membership --------------------------------------------------------------------------------------


def join(title: str, *versions: int, **fields: Any) -> list[Call]:
    """JoinGroup rows; a field that is a function is asked for its value with the target."""

    def build(at: Target, version: int) -> Any:
        known = {key: value(at) if callable(value) else value for key, value in fields.items()}
        return join_group(at.group, version, known.pop("topics", [at.topic]), **known)

    return [
        Call("JoinGroup", f"v{version}, {title}", once(lambda at, version=version: build(at, version)))
        for version in versions
    ]


def join_as_told(at: Target) -> Generator[Any, Any, None]:
    """JoinGroup as a new client sends it: without a member id, and then with the one that it is given."""
    answer = yield join_group(at.group, 5, [at.topic])
    if answer.error_code == MEMBER_ID_REQUIRED:
        yield join_group(at.group, 5, [at.topic], member_id=answer.member_id)


def dynamic_id(at: Target) -> str:
    """The dynamic member's id."""
    return at.dynamic.member_id


def static_id(at: Target) -> str:
    """The static member's member id."""
    return at.static.member_id


def instance_id(at: Target) -> str | None:
    """The static member's instance id."""
    return at.static.instance_id


JOINS = [
    *join("no member id", 0, 2, 5, 9),
    Call("JoinGroup", "v5, no member id, then the one that it was given", join_as_told),
    *join("a member id that nobody has", 5, member_id="nobody"),
    *join("a member id of Epochgate's form that nobody has", 5, member_id="epochgate-AAAAAAAAAAAAAAAAAAAAAA"),
    *join("the dynamic member's id", 2, 5, 9, member_id=dynamic_id),
    *join("the static member's ids", 5, member_id=static_id, instance_id=instance_id),
    *join("no member id, the static member's instance id", 5, 9, instance_id=instance_id),
    *join(
        "the dynamic member's id, the static one's instance id",
        5,
        member_id=dynamic_id,
        instance_id=instance_id,
    ),
    *join("no member id, session timeout 1 ms", 5, session_timeout_ms=1),
    *join("the dynamic member's id, session timeout 1 ms", 5, member_id=dynamic_id, session_timeout_ms=1),
    *join(
        "the dynamic member's id, another topic", 5, member_id=dynamic_id, topics=lambda at: [at.other_topic]
    ),
    *join("the dynamic member's id, an unknown topic", 5, member_id=dynamic_id, topics=["nowhere"]),
    *join("no member id, protocol type connect", 5, protocol_type="connect"),
    *join("the dynamic member's id, protocol type connect", 5, member_id=dynamic_id, protocol_type="connect"),
]


def sync(version: int, who: Known, group: str, *, off_by: int = 0) -> Any:
    """SyncGroup that gives no assignments."""
    return message(
        "sync_group",
        version,
        group_id=group,
        generation_id=who.generation + off_by,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
        protocol_type="consumer",
        protocol_name="range",
        assignments=(),
    )


def heartbeat(version: int, who: Known, group: str, *, off_by: int = 0, instance: str | None = None) -> Any:
    """Heartbeat."""
    return message(
        "heartbeat",
        version,
        group_id=group,
        generation_id=who.generation + off_by,
        member_id=who.member_id,
        group_instance_id=instance or who.instance_id,
    )


def leave(version: int, group: str, *, member_id: str = "", instance: str | None = None) -> Any:
    """LeaveGroup of one member."""
    if version <= 2:
        return message("leave_group", version, group_id=group, member_id=member_id)
    who = message("leave_group", version, "MemberIdentity", member_id=member_id, group_instance_id=instance)
    return message("leave_group", version, group_id=group, members=(who,))


CLASSIC = [
    Call("SyncGroup", "v3, the dynamic member's id", once(lambda at: sync(3, at.dynamic, at.group))),
    Call("SyncGroup", "v5, the dynamic member's id", once(lambda at: sync(5, at.dynamic, at.group))),
    Call(
        "SyncGroup", "v5, the dynamic member's id, wrong generation",
        once(lambda at: sync(5, at.dynamic, at.group, off_by=WRONG)),
    ),
    Call("Heartbeat", "v0, the dynamic member's id", once(lambda at: heartbeat(0, at.dynamic, at.group))),
    Call("Heartbeat", "v4, the dynamic member's id", once(lambda at: heartbeat(4, at.dynamic, at.group))),
    Call(
        "Heartbeat", "v4, the dynamic member's id, wrong generation",
        once(lambda at: heartbeat(4, at.dynamic, at.group, off_by=WRONG)),
    ),
    Call(
        "Heartbeat", "v4, a member id that nobody has",
        once(lambda at: heartbeat(4, Known("nobody", at.dynamic.generation), at.group)),
    ),
    Call("Heartbeat", "v4, the static member's ids", once(lambda at: heartbeat(4, at.static, at.group))),
    Call(
        "Heartbeat", "v4, a member id that nobody has, the static member's instance id",
        once(lambda at: heartbeat(4, Known("nobody", 1, at.static.instance_id), at.group)),
    ),
    Call("LeaveGroup", "v2, the dynamic member's id", once(lambda at: leave(2, at.group, member_id=dynamic_id(at)))),
    Call("LeaveGroup", "v5, the dynamic member's id", once(lambda at: leave(5, at.group, member_id=dynamic_id(at)))),
    Call("LeaveGroup", "v5, a member id that nobody has", once(lambda at: leave(5, at.group, member_id="nobody"))),
    Call(
        "LeaveGroup", "v5, the static member's instance id",
        once(lambda at: leave(5, at.group, instance=at.static.instance_id)),
    ),
]  # fmt: skip


# -- offsets -------------------------------------------------------------------------------------------------


def offset_commit(version: int, at: Target, who: Known, *, off_by: int = 0) -> Any:
    """OffsetCommit for one partition; nobody in particular is Known("", -1)."""
    partition = message(
        "offset_commit",
        version,
        "OffsetCommitRequestPartition",
        partition_index=WATCHED_PARTITION,
        committed_offset=STRANGERS_OFFSET,
        committed_metadata=None,
    )
    topic = message(
        "offset_commit",
        version,
        "OffsetCommitRequestTopic",
        name=at.topic,
        topic_id=at.topic_id,
        partitions=(partition,),
    )
    return message(
        "offset_commit",
        version,
        group_id=at.group,
        generation_id_or_member_epoch=who.generation + off_by,
        member_id=who.member_id,
        group_instance_id=who.instance_id,
        topics=(topic,),
    )


def txn_offset_commit(who: Callable[[Target], Known]) -> Script:
    """A transaction's commit of offsets, with all that comes before it."""

    def script(at: Target) -> Generator[Any, Any, None]:
        transactional_id = f"{at.key}-{uuid.uuid4().hex[:8]}"
        producer = yield message(
            "init_producer_id",
            4,
            transactional_id=transactional_id,
            transaction_timeout=dt.timedelta(seconds=60),
        )
        known = {
            "transactional_id": transactional_id,
            "group_id": at.group,
            "producer_id": max(producer.producer_id, 0),
            "producer_epoch": max(producer.producer_epoch, 0),
        }
        yield message("add_offsets_to_txn", 3, **known)
        partition = message(
            "txn_offset_commit",
            3,
            "TxnOffsetCommitRequestPartition",
            partition_index=WATCHED_PARTITION,
            committed_offset=STRANGERS_OFFSET,
            committed_metadata=None,
        )
        topic = message(
            "txn_offset_commit", 3, "TxnOffsetCommitRequestTopic", name=at.topic, partitions=(partition,)
        )
        member = who(at)
        yield message(
            "txn_offset_commit",
            3,
            **known,
            generation_id=member.generation,
            member_id=member.member_id,
            group_instance_id=member.instance_id,
            topics=(topic,),
        )

    return script


def offset_fetch(version: int, at: Target, who: Known | None = None, *, off_by: int = 0) -> Any:
    """OffsetFetch of one partition; from v9 on with the member's fields, if one is given."""
    one_group = version <= 7
    topic = message(
        "offset_fetch",
        version,
        "OffsetFetchRequestTopic" if one_group else "OffsetFetchRequestTopics",
        name=at.topic,
        partition_indexes=(WATCHED_PARTITION,),
    )
    if one_group:
        return message("offset_fetch", version, group_id=at.group, topics=(topic,))
    of_member = {} if who is None else {"member_id": who.member_id, "member_epoch": who.generation + off_by}
    group = message(
        "offset_fetch", version, "OffsetFetchRequestGroup", group_id=at.group, topics=(topic,), **of_member
    )
    return message("offset_fetch", version, groups=(group,))


def offset_delete(at: Target) -> Any:
    """OffsetDelete of one partition."""
    partition = message("offset_delete", 0, "OffsetDeleteRequestPartition", partition_index=WATCHED_PARTITION)
    topic = message("offset_delete", 0, "OffsetDeleteRequestTopic", name=at.topic, partitions=(partition,))
    return message("offset_delete", 0, group_id=at.group, topics=(topic,))


NOBODY = Known("", -1)

OFFSETS = [
    *(
        Call(
            "OffsetCommit", f"v{version}, the dynamic member's id",
            once(lambda at, version=version: offset_commit(version, at, at.dynamic)),
        )
        for version in (2, 7, 9, 10)
    ),
    Call(
        "OffsetCommit", "v7, the dynamic member's id, wrong generation",
        once(lambda at: offset_commit(7, at, at.dynamic, off_by=WRONG)),
    ),
    Call(
        "OffsetCommit", "v7, a member id that nobody has",
        once(lambda at: offset_commit(7, at, Known("nobody", at.dynamic.generation))),
    ),
    Call("OffsetCommit", "v7, the static member's ids", once(lambda at: offset_commit(7, at, at.static))),
    Call("OffsetCommit", "v7, no member", once(lambda at: offset_commit(7, at, NOBODY))),
    Call("TxnOffsetCommit", "v3, the dynamic member's id", txn_offset_commit(lambda at: at.dynamic)),
    Call(
        "TxnOffsetCommit", "v3, the dynamic member's id, wrong generation",
        txn_offset_commit(lambda at: Known(at.dynamic.member_id, at.dynamic.generation + WRONG)),
    ),
    Call("TxnOffsetCommit", "v3, no member", txn_offset_commit(lambda _: NOBODY)),
    Call("OffsetFetch", "v1", once(lambda at: offset_fetch(1, at))),
    Call("OffsetFetch", "v5", once(lambda at: offset_fetch(5, at))),
    Call("OffsetFetch", "v8", once(lambda at: offset_fetch(8, at))),
    Call("OffsetFetch", "v9, the dynamic member's id", once(lambda at: offset_fetch(9, at, at.dynamic))),
    Call(
        "OffsetFetch", "v9, the dynamic member's id, wrong epoch",
        once(lambda at: offset_fetch(9, at, at.dynamic, off_by=WRONG)),
    ),
    Call("OffsetDelete", "v0", once(offset_delete)),
]  # fmt: skip


# -- what is asked about groups ------------------------------------------------------------------------------

GROUPS = [
    *(
        Call(
            "DescribeGroups", f"v{version}",
            once(
                lambda at, version=version: message(
                    "describe_groups", version, groups=(at.group,), include_authorized_operations=False
                )
            ),
        )
        for version in (0, 5, 6)
    ),
    *(Call("ListGroups", f"v{version}", once(lambda _, version=version: message("list_groups", version)))
      for version in (0, 4)),
    Call("FindCoordinator", "v4", once(lambda at: message("find_coordinator", 4, coordinator_keys=(at.group,)))),
    Call("DeleteGroups", "v2", once(lambda at: message("delete_groups", 2, groups_names=(at.group,)))),
]  # fmt: skip


# -- the new protocol ----------------------------------------------------------------------------------------


def new_heartbeat(
    at: Target, member_id: str, epoch: int, *, topics: tuple[str, ...] | None = None, **fields: Any
) -> Any:
    """ConsumerGroupHeartbeat; with topics it is a full one that owns nothing."""
    full = {} if topics is None else {
        "rebalance_timeout": dt.timedelta(seconds=30), "subscribed_topic_names": topics, "topic_partitions": ()
    }  # fmt: skip
    return message(
        "consumer_group_heartbeat",
        1,
        **{
            "group_id": at.group,
            "member_id": member_id,
            "member_epoch": epoch,
            "topic_partitions": None,
            **full,
            **fields,
        },
    )


def native(title: str, build: Callable[[Target], Any]) -> Call:
    """A row of ConsumerGroupHeartbeat."""
    return Call("ConsumerGroupHeartbeat", title, once(build), "native")


NEW_PROTOCOL = [
    native("epoch 0, a member id that nobody has", lambda at: new_heartbeat(at, "nobody", 0, topics=(at.topic,))),
    native("epoch 0, the dynamic member's id", lambda at: new_heartbeat(at, dynamic_id(at), 0, topics=(at.topic,))),
    native(
        "epoch 0, another member id, the static member's instance id",
        lambda at: new_heartbeat(at, "nobody", 0, topics=(at.topic,), instance_id=instance_id(at)),
    ),
    native(
        "the current epoch, the dynamic member's id",
        lambda at: new_heartbeat(at, dynamic_id(at), at.dynamic.generation),
    ),
    native(
        "the current epoch, the dynamic member's id, another topic",
        lambda at: new_heartbeat(at, dynamic_id(at), at.dynamic.generation, topics=(at.other_topic,)),
    ),
    native(
        "a wrong epoch, the dynamic member's id",
        lambda at: new_heartbeat(at, dynamic_id(at), at.dynamic.generation + WRONG),
    ),
    native("epoch -1, the dynamic member's id", lambda at: new_heartbeat(at, dynamic_id(at), -1)),
    native(
        "epoch -2, the static member's ids",
        lambda at: new_heartbeat(at, static_id(at), -2, instance_id=instance_id(at)),
    ),
    *(
        Call(
            "ConsumerGroupDescribe", f"v{version}",
            once(
                lambda at, version=version: message(
                    "consumer_group_describe", version, group_ids=(at.group,), include_authorized_operations=False
                )
            ),
            "native",
        )
        for version in (0, 1)
    ),
]  # fmt: skip


# -- delegation tokens ---------------------------------------------------------------------------------------

TOKENS = [
    Call(
        "CreateDelegationToken", "v3",
        once(
            lambda _: message(
                "create_delegation_token", 3, owner_principal_type=None, owner_principal_name=None, renewers=(),
                max_lifetime=dt.timedelta(hours=1),
            )
        ),
    ),
    Call(
        "RenewDelegationToken", "v2, an unknown token",
        once(lambda _: message("renew_delegation_token", 2, hmac=b"none", renew_period=dt.timedelta(hours=1))),
    ),
    Call(
        "ExpireDelegationToken", "v2, an unknown token",
        once(lambda _: message("expire_delegation_token", 2, hmac=b"none", expiry_time_period=dt.timedelta(0))),
    ),
    Call("DescribeDelegationToken", "v3", once(lambda _: message("describe_delegation_token", 3, owners=None))),
]  # fmt: skip

CALLS: tuple[Call, ...] = (*JOINS, *CLASSIC, *OFFSETS, *GROUPS, *NEW_PROTOCOL, *TOKENS)
