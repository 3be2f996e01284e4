"""A client goes on at another replica, or on another connection, without a rejoin: what has to agree for that."""

from typing import Any

import msgspec
import pytest

from protocol_codecs import ApiKey, ErrorCode, Uuid
from protocol_codecs.messages.consumer_group_describe import (
    ConsumerGroupDescribeResponse,
    ConsumerGroupDescribeResponseAssignment,
    ConsumerGroupDescribeResponseDescribedGroup,
    ConsumerGroupDescribeResponseMember,
    ConsumerGroupDescribeResponseTopicPartitions,
)
from protocol_codecs.messages.consumer_protocol import decode_assignment
from protocol_codecs.messages.metadata import MetadataResponse
from tests.translation.answers import A, described
from tests.translation.bench import GROUP, OTHER_TOPIC, TOPIC, TOPIC_ID, Bench, owned
from tests.translation.live_groups import OBSERVE_ALL
from tests.translation.member_log.bench import Replica, SharedLog
from translation.actions import Connection, ConnectionId, EventKind, RequestId
from translation.engine import member_log_view
from translation.engine.classic_members import ClassicMember
from translation.engine.member_log_view import snapshot_of
from translation.member_log.records import Kind, MemberRecord, Writer, member_key
from translation.member_log.snapshots import (
    LONGEST_SNAPSHOT,
    NO_SNAPSHOT,
    Snapshot,
    decode_snapshot,
    encode_snapshot,
)
from translation.members.member_state import MemberState

KEY = member_key(GROUP, A)
SNAPSHOT = Snapshot(
    generation=1,
    member_epoch=2,
    assignment=((bytes(TOPIC_ID), (0,)),),
    subscription=(TOPIC,),
    protocol_type="consumer",
    protocol_name="range",
    embedded_version=3,
    cooperative=False,
    mapped_assignor="range",
    assignor="range",
)


@pytest.fixture
def log() -> SharedLog:
    return SharedLog()


def group_of_a(
    *,
    epoch: int = 1,
    assignment_epoch: int = 1,
    group_epoch: int = 1,
    topics: tuple[str, ...] = (TOPIC,),
    partitions: tuple[int, ...] = (0, 1),
    topic_id: Uuid = TOPIC_ID,
) -> ConsumerGroupDescribeResponse:
    """What the broker says of the group of member A."""
    assigned = ConsumerGroupDescribeResponseTopicPartitions(
        topic_id=topic_id, topic_name=TOPIC, partitions=partitions
    )
    found = ConsumerGroupDescribeResponseMember(
        member_id=A,
        member_epoch=epoch,
        subscribed_topic_names=topics,
        assignment=ConsumerGroupDescribeResponseAssignment(topic_partitions=(assigned,)),
        member_type=1,
    )
    group = ConsumerGroupDescribeResponseDescribedGroup(
        group_id=GROUP, group_epoch=group_epoch, assignment_epoch=assignment_epoch, members=(found,)
    )
    return ConsumerGroupDescribeResponse(groups=(group,))


def stable_at(replica: Replica) -> Connection:
    """The member A with partitions 0 and 1 is Stable at this replica; its connection."""
    connection = replica.connect()
    replica._new_group = True
    replica.stable_member(connection, (0, 1))
    replica._new_group = False
    return connection


def member_of(replica: Bench) -> Any:
    return replica.translator._context.registry.find(GROUP, A)


def two_replicas(log: SharedLog) -> tuple[Replica, Replica]:
    one, other = log.replica(resumes=True), log.replica(resumes=True)
    stable_at(one)
    return one, other


def assert_joins_again(replica: Replica, heartbeat: RequestId, *, epoch: int = 1) -> None:
    """The member is adopted, its heartbeat goes out, and its client is told to rejoin."""
    replica.beat(epoch)
    assert replica.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    assert member_of(replica).adopted


# -- at another replica ------------------------------------------------------------------------------------------------


def test_a_client_goes_on_at_another_replica_without_a_rejoin(log: SharedLog) -> None:
    _, other = two_replicas(log)
    connection = other.connect()
    heartbeat = other.heartbeat(connection, A, 1)
    barrier = other.heartbeat_call().message
    assert (barrier.member_epoch, barrier.topic_partitions, barrier.subscribed_topic_names) == (1, None, None)
    other.beat(1)
    other.reply(group_of_a())
    other.reply_names()
    first = other.heartbeat_call().message
    assert (first.member_epoch, owned(first)) == (1, {TOPIC: (0, 1)})
    other.beat(1, orders=(0, 1))
    assert other.error(heartbeat) == ErrorCode.NONE
    assert member_of(other).state is MemberState.STABLE
    assert [event.owned for event in other.events if event.kind is EventKind.ADOPTED] != [None]
    again = other.heartbeat(connection, A, 1)
    other.beat(1)
    assert other.error(again) == ErrorCode.NONE


def test_a_client_that_lost_the_answer_to_its_sync_group_repeats_it_at_another_replica(
    log: SharedLog,
) -> None:
    _, other = two_replicas(log)
    sync = other.sync(other.connect(), A, 1)
    other.beat(1)
    other.reply(group_of_a())
    other.reply_names()
    assert other.error(sync) == ErrorCode.NONE
    assert decode_assignment(other.answers[sync].assignment)[1].assigned_partitions[0].partitions == (0, 1)


@pytest.mark.parametrize(
    "differs",
    [
        {"epoch": 2, "assignment_epoch": 2, "group_epoch": 2},
        {"group_epoch": 2},
        {"group_epoch": 2, "assignment_epoch": 2},
        {"partitions": (0,)},
        {"partitions": (0, 1, 2)},
        {"topics": (TOPIC, OTHER_TOPIC)},
        {"topic_id": Uuid(b"orders, made anew")},
    ],
)
def test_what_the_broker_describes_otherwise_costs_a_rejoin(log: SharedLog, differs: dict[str, Any]) -> None:
    _, other = two_replicas(log)
    heartbeat = other.heartbeat(other.connect(), A, 1)
    other.beat(1)
    other.reply(group_of_a(**differs))
    assert_joins_again(other, heartbeat, epoch=differs.get("epoch", 1))


@pytest.mark.parametrize(
    ("epoch", "code", "assigned"),
    [
        (2, ErrorCode.NONE, {}),
        (1, ErrorCode.NONE, {TOPIC: (0,)}),
        (0, ErrorCode.FENCED_MEMBER_EPOCH, {}),
        (0, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {}),
    ],
)
def test_a_heartbeat_at_the_epoch_of_the_log_that_changes_something_costs_a_rejoin(
    log: SharedLog, epoch: int, code: ErrorCode, assigned: dict[str, tuple[int, ...]]
) -> None:
    """The description may show what was before it."""
    _, other = two_replicas(log)
    heartbeat = other.heartbeat(other.connect(), A, 1)
    other.beat(epoch, code, **assigned)
    other.reply(group_of_a())
    assert_joins_again(other, heartbeat)


def test_a_client_with_another_generation_than_the_logs_joins_again(log: SharedLog) -> None:
    """Its newest JoinGroup was answered, and its SyncGroup was not."""
    one, other = two_replicas(log)
    connection = one.connect()
    one.join(connection, A, claims=(0, 1))
    one.reply(group_of_a())
    one.beat(2, orders=(0, 1))
    heartbeat = other.heartbeat(other.connect(), A, 2)
    assert [call.api_key for call in other.calls] == [
        ApiKey.CONSUMER_GROUP_DESCRIBE
    ]  # no heartbeat before it
    other.reply(group_of_a(epoch=2, assignment_epoch=2, group_epoch=2))
    assert_joins_again(other, heartbeat, epoch=2)


def test_a_principal_that_may_not_see_the_topics_of_the_assignment_joins_again(log: SharedLog) -> None:
    _, other = two_replicas(log)
    heartbeat = other.heartbeat(other.connect(), A, 1)
    other.beat(1)
    other.reply(group_of_a())
    other.reply(MetadataResponse(topics=()))
    assert_joins_again(other, heartbeat)


def test_a_join_group_says_itself_what_its_client_has(log: SharedLog) -> None:
    _, other = two_replicas(log)
    other.join(other.connect(), A, claims=(0,))
    assert [call.api_key for call in other.calls] == [ApiKey.CONSUMER_GROUP_DESCRIBE]


def test_a_member_that_a_third_replica_takes_meanwhile_is_not_resumed(log: SharedLog) -> None:
    _, other = two_replicas(log)
    third = log.replica(resumes=True)
    heartbeat = other.heartbeat(other.connect(), A, 1)
    other.beat(1)
    third.heartbeat(third.connect(), A, 1)
    other.reply(group_of_a())
    assert other.error(heartbeat) == ErrorCode.COORDINATOR_NOT_AVAILABLE


# -- at the same replica -----------------------------------------------------------------------------------------------


def away_and_back(replica: Replica, connection: Connection) -> RequestId:
    """The client's connection ends, and it heartbeats on another."""
    replica.client_disconnected(connection)
    return replica.heartbeat(replica.connect(), A, 1)


def test_a_client_that_comes_back_to_its_replica_goes_on_without_a_rejoin(log: SharedLog) -> None:
    one = log.replica(resumes=True)
    heartbeat = away_and_back(one, stable_at(one))
    one.beat(1)
    one.reply(group_of_a())
    one.beat(1, orders=(0, 1))
    assert one.error(heartbeat) == ErrorCode.NONE
    assert EventKind.ADOPTED not in one.kinds()


@pytest.mark.parametrize("code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.NOT_COORDINATOR])
@pytest.mark.parametrize("call", ["heartbeat", "description"])
def test_a_client_that_comes_back_while_its_group_is_loaded_asks_again(
    log: SharedLog, code: ErrorCode, call: str
) -> None:
    """The description that follows may come when it has been loaded; a rejoin would cost the client its partitions."""
    one = log.replica(resumes=True)
    heartbeat = away_and_back(one, stable_at(one))
    if call == "heartbeat":
        one.beat(1, code)
    else:
        one.beat(1)
        one.reply(described(error=code))
    assert one.error(heartbeat) == ErrorCode.COORDINATOR_NOT_AVAILABLE
    again = one.heartbeat(one.connect(), A, 1)
    one.beat(1)
    one.reply(group_of_a())
    one.beat(1, orders=(0, 1))
    assert one.error(again) == ErrorCode.NONE
    assert EventKind.ADOPTED not in one.kinds()


def test_a_client_that_comes_back_to_a_member_that_has_changed_joins_again(log: SharedLog) -> None:
    one = log.replica(resumes=True)
    heartbeat = away_and_back(one, stable_at(one))
    one.beat(1)
    one.reply(group_of_a(group_epoch=2))
    one.reply(group_of_a(group_epoch=2))
    assert one.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    assert member_of(one).adopted


def test_a_client_that_loses_each_connection_rejoins_to_go_back_to_the_classic_protocol(
    log: SharedLog,
) -> None:
    """Another process may have served it each time, so the broker is asked first at that Heartbeat."""
    one = log.replica(resumes=True)
    connection = stable_at(one)
    one._do(one.translator.set_policy(one.now, OBSERVE_ALL))
    heartbeat = away_and_back(one, connection)
    one.beat(1)
    one.reply(group_of_a())
    assert one.error(heartbeat) == ErrorCode.REBALANCE_IN_PROGRESS
    assert one.kinds().count(EventKind.POLICY_CHANGED) == 1


# -- what is written ---------------------------------------------------------------------------------------------------


def snapshots(log: SharedLog) -> list[Snapshot | None]:
    """What the log has of the member A, each change once."""
    said = [decode_snapshot(record.snapshot) for key, _, record in log.records if record and key == KEY]
    return [one for number, one in enumerate(said) if number == 0 or said[number - 1] != one]


def test_a_snapshot_is_written_after_sync_group_and_when_the_epoch_moves(log: SharedLog) -> None:
    one = log.replica(resumes=True)
    connection = stable_at(one)
    one.heartbeat(connection, A, 1)
    one.beat(3)
    first, second, third = snapshots(log)
    assert first is None
    assert second is not None
    assert (second.generation, second.member_epoch, second.assignment) == (1, 1, ((bytes(TOPIC_ID), (0, 1)),))
    assert third == msgspec.structs.replace(second, member_epoch=3)


def test_who_takes_a_member_over_keeps_its_snapshot_in_the_log(log: SharedLog) -> None:
    _, other = two_replicas(log)
    before = snapshots(log)
    other.heartbeat(other.connect(), A, 1)
    assert snapshots(log) == before


def test_a_member_that_is_to_give_something_up_has_no_snapshot(log: SharedLog) -> None:
    one = log.replica(resumes=True)
    connection = stable_at(one)
    assert snapshot_of(member_of(one)) is not None
    one.heartbeat(connection, A, 1)
    one.beat(1, orders=(0,))
    assert member_log_view.snapshot_of(member_of(one)) is None


def test_a_snapshot_that_is_too_long_is_none() -> None:
    topics = tuple(f"topic-{number:050}" for number in range(LONGEST_SNAPSHOT // 50))
    snapshot = msgspec.structs.replace(SNAPSHOT, subscription=topics)
    assert encode_snapshot(snapshot) == NO_SNAPSHOT


FIELDS = msgspec.to_builtins(SNAPSHOT, builtin_types=(bytes,))


@pytest.mark.parametrize(
    "data",
    [
        NO_SNAPSHOT, b"\xc1", b"\x90", msgspec.msgpack.encode({"generation": 1}),
        b"\x91" * 3_000, encode_snapshot(SNAPSHOT)[:-1] + b"\x91" * 3_000, encode_snapshot(SNAPSHOT) + bytes(8_192),
        *(
            msgspec.msgpack.encode([*FIELDS[:at], bad, *FIELDS[at + 1 :]])
            for at, bad in (
                (0, -1), (0, 2**31), (1, -1), (1, 2**63), (2, [[b"short", [0]]]), (2, [[bytes(16), [-1]]]),
                (2, [[bytes(16), [2**31]]]), (3, [1]), (4, "connect"), (4, ""), (6, 4), (6, -1), (7, 1),
            )
        ),
    ],
    ids=lambda data: repr(data)[:40],
)  # fmt: skip
def test_what_is_no_snapshot_is_none(data: bytes) -> None:
    assert decode_snapshot(data) is None
    assert decode_snapshot(msgspec.msgpack.encode(FIELDS)) == SNAPSHOT


def forge(log: SharedLog, snapshot: bytes) -> None:
    """Somebody writes a record of the member with this snapshot, and everybody reads it."""
    forged = MemberRecord(Kind.SERVED, len(log.records), generation=1, snapshot=snapshot)
    log.records.append((KEY, Writer(b"somebody"), forged))
    for replica in log.replicas:
        replica.read()


OWN = dict(zip(SNAPSHOT.__struct_fields__, FIELDS, strict=True)) | {
    "member_epoch": 1,
    "assignment": [[bytes(TOPIC_ID), [0, 1]]],
}
"""The member's own snapshot, as it may be copied."""


@pytest.mark.parametrize("call", ["heartbeat", "sync"])
@pytest.mark.parametrize(
    "changed",
    [
        None,
        {"embedded_version": 4},
        {"embedded_version": -1},
        {"embedded_version": 2**15 - 1},
        {"protocol_type": "connect"},
        {"protocol_type": ""},
        {"mapped_assignor": "nobody has it"},
    ],
)
def test_a_client_whose_snapshot_is_forged_is_answered_and_rejoins(
    log: SharedLog, changed: dict[str, object] | None, call: str
) -> None:
    """None: nested 3,000 deep. Its decoder would run out of stack, and nobody would answer the call."""
    _, other = two_replicas(log)
    forge(log, b"\x91" * 3_000 if changed is None else msgspec.msgpack.encode(list((OWN | changed).values())))
    connection = other.connect()
    request = other.heartbeat(connection, A, 1) if call == "heartbeat" else other.sync(connection, A, 1)
    other.reply(group_of_a())
    if call == "heartbeat":
        other.beat(1)
    assert other.error(request) == ErrorCode.REBALANCE_IN_PROGRESS


@pytest.mark.parametrize(("name", "resumes"), [("sticky", False), ("range", True), (None, True)])
def test_a_sync_group_that_names_another_assignor_than_its_snapshot_rejoins(
    log: SharedLog, name: str | None, *, resumes: bool
) -> None:
    """It would be refused for ever by what somebody has forged."""
    _, other = two_replicas(log)
    forge(log, msgspec.msgpack.encode(list(OWN.values())))
    sync = other.sync(other.connect(), A, 1, protocol_name=name)
    if resumes:
        other.beat(1)
    other.reply(group_of_a())
    if resumes:
        other.reply_names()
    assert other.error(sync) == (ErrorCode.NONE if resumes else ErrorCode.REBALANCE_IN_PROGRESS)


def test_a_snapshot_with_a_field_of_a_later_version_is_read() -> None:
    later = [*msgspec.msgpack.decode(encode_snapshot(SNAPSHOT)), None, "more"]
    assert decode_snapshot(msgspec.msgpack.encode(later)) == SNAPSHOT


def test_without_resuming_nothing_is_written_and_nothing_used(log: SharedLog) -> None:
    one, other = log.replica(), log.replica(resumes=True)
    stable_at(one)
    assert snapshots(log) == [None]
    other.heartbeat(other.connect(), A, 1)
    assert [call.api_key for call in other.calls] == [ApiKey.CONSUMER_GROUP_DESCRIBE]


# -- a client that was classic here, and is translated elsewhere since -----------------------------------------------


def classic_here(replica: Replica) -> None:
    """Epochgate relayed the JoinGroup and SyncGroup of A here, in a generation that it may have once more elsewhere."""
    known = replica.translator._context.classic_members
    known.joined(
        GROUP,
        ClassicMember(
            member_id=A,
            instance_id=None,
            client_id="app",
            client_host="",
            joined_on=ConnectionId(1),
            protocol_type="consumer",
            protocol_name="range",
            offered=("range",),
            metadata=b"",
            session_timeout_ms=45_000,
            rebalance_timeout_ms=60_000,
            generation=1,
        ),
    )
    known.synced(GROUP, A, 1, b"")


def test_what_is_known_of_a_classic_member_does_not_outlive_the_record_of_another_replica(
    log: SharedLog,
) -> None:
    one, other = log.replica(resumes=True), log.replica(resumes=True)
    classic_here(other)
    stable_at(one)
    assert other.translator._context.classic_members.find(GROUP, A) is None


def test_nor_does_it_if_the_record_is_read_when_the_log_is_replayed(log: SharedLog) -> None:
    one, other = two_replicas(log)
    for replica in (one, other):
        classic_here(replica)
        replica.log.lose(0, Writer(replica.log._members.writer + b"2"), log.now)
        replica._position = 0
        replica.read()
        replica.log.replay_to(0, len(log.records), log.now)
    log.settle()
    assert other.translator._context.classic_members.find(GROUP, A) is None
    assert one.translator._context.classic_members.find(GROUP, A) is not None


def test_a_timer_of_the_broker_outlives_the_record_of_another_replica(log: SharedLog) -> None:
    one, other = log.replica(resumes=True), log.replica(resumes=True)
    classic_here(other)
    known = other.translator._context.classic_members
    known.rebalance_announced(GROUP, A, other.now)
    stable_at(one)
    member = known.find(GROUP, A)
    assert member is not None
    assert member.assignment is None
    assert member.timers_until > other.now
