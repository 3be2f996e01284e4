"""The log: all that a coordinator knows after a restart, and what is on the wire and in records."""

import pytest

from coordinator.connect_groups.replay import replay
from coordinator.errors import BrokenInvariant
from protocol_codecs import connect_groups as c
from protocol_codecs.api_key import ApiKey
from protocol_codecs.codec import decode, encode
from protocol_codecs.error_code import ErrorCode
from protocol_codecs.records import CONSUMER_OFFSETS, CoordinatorRecord
from protocol_codecs.registry import APIS
from tests.coordinator.connect_groups.state import state_of
from tests.coordinator.connect_groups.talk import COMPATIBLE, SESSION_MS, Talk

ALL = "a a-0 a-1"


def history(after_each) -> Talk:
    """A group's life, with a call after each step."""
    talk = Talk()
    steps = [
        lambda: talk.join("w1", ALL, 7),
        lambda: talk.compute("w1", {"w1": ALL}),
        lambda: talk.beat("w1", runs=""),
        lambda: talk.join("w2", ALL, 7),
        lambda: talk.compute("w1", {"w1": "a", "w2": "a-0 a-1"}),
        lambda: talk.beat("w1", runs=ALL),
        lambda: talk.beat("w2", runs=""),
        lambda: talk.beat("w1", runs="a"),
        lambda: talk.beat("w2", runs=""),
        lambda: talk.leave("w1"),
        lambda: talk.compute("w2", {"w2": ALL}),
        lambda: talk.beat("w2", runs="a-0 a-1"),
        lambda: talk.wait(SESSION_MS),
    ]
    for step in steps:
        step()
        after_each(talk)
    return talk


def test_a_restart_after_every_change_finds_the_same_state():
    def restarted(talk: Talk) -> None:
        before = state_of(talk.coordinator.shard.groups)
        talk.restart()
        assert state_of(talk.coordinator.shard.groups) == before

    history(restarted)


def test_every_beginning_of_the_log_can_be_replayed_record_by_record():
    talk = history(lambda _: None)
    records = [record for batch in talk.log.read() for record in batch.records]
    for end in range(len(records) + 1):
        groups: dict = {}
        for record in records[:end]:
            replay(groups, record)
        for group in groups.values():
            held = [work for member in group.members.values() for work in member.holds]
            assert sorted(held) == sorted(set(held)) == sorted(group.owners)
    assert groups == {}


def test_a_record_without_its_group_is_a_broken_log():
    key = c.ConnectWorkerGroupTargetAssignmentKey(group_id="g")

    with pytest.raises(BrokenInvariant):
        replay({}, CoordinatorRecord(key, c.ConnectWorkerGroupTargetAssignmentValue()))


def test_consumer_groups_skip_these_records():
    talk = history(lambda _: None)
    records = [record for batch in talk.log.read() for record in batch.records]

    assert {type(record.key) for record in records} >= {
        c.ConnectWorkerGroupMetadataKey,
        c.ConnectWorkerGroupConnectorsTasksMetadataKey,
        c.ConnectWorkerGroupMemberMetadataKey,
        c.ConnectWorkerGroupTargetAssignmentKey,
        c.ConnectWorkerGroupCurrentMemberAssignmentKey,
    }
    for record in records:
        key, value = c.CONNECT_GROUPS.encode_key(record.key), c.CONNECT_GROUPS.encode_value(record)
        assert CONSUMER_OFFSETS.decode(key, value) is None
        assert c.CONNECT_GROUPS.decode(key, value) == record


def test_kafkas_registry_and_error_codes_know_nothing_of_it():
    assert not set(c.CONNECT_APIS) & (set(APIS) | {key.value for key in ApiKey})
    assert not {code.value for code in c.ConnectErrorCode} & {code.value for code in ErrorCode}


LISTS = (
    c.ConnectorsAndTasks(connectors=("a", "b"), tasks=(c.ConnectorTaskId(connector="a", task=3),)),
    c.ConnectorsAndTasks(tasks=(c.ConnectorTaskId(connector="b", task=0),)),
)
FULL = [
    c.ConnectGroupHeartbeatRequest(
        group_id="g",
        member_id="m",
        member_epoch=4,
        instance_id="i",
        rebalance_timeout_ms=5,
        server_assignor="s",
        client_assignors=(COMPATIBLE,),
        connectors_and_tasks=LISTS,
        config_offset=2**40,
        configured=LISTS,
    ),
    c.ConnectGroupHeartbeatResponse(
        throttle_time_ms=1,
        error_code=3,
        error_message="no",
        member_epoch=4,
        heartbeat_interval_ms=5,
        assignment=c.ConnectGroupHeartbeatResponseAssignment(
            error=-1, connectors_and_tasks=LISTS, version=2, metadata=b"m"
        ),
        should_compute_assignment=True,
    ),
    c.ConnectGroupPrepareAssignmentRequest(group_id="g", member_id="m", member_epoch=4),
    c.ConnectGroupPrepareAssignmentResponse(
        throttle_time_ms=1,
        error_code=3,
        error_message="no",
        group_epoch=4,
        assignor_name="x",
        members=(
            c.ConnectGroupPrepareAssignmentResponseMember(
                member_id="m",
                member_epoch=4,
                instance_id="i",
                assignor=c.ConnectGroupPrepareAssignmentResponseAssignor(version=1, reason=2, metadata=b"m"),
                connectors_and_tasks=LISTS,
            ),
        ),
        topics=(c.ConnectGroupPrepareAssignmentResponseTopicMetadata(num_partitions=3),),
        configured=LISTS,
        config_offset=9,
    ),
    c.ConnectGroupInstallAssignmentRequest(
        group_id="g",
        member_id="m",
        member_epoch=4,
        group_epoch=5,
        error=1,
        members=(
            c.ConnectGroupInstallAssignmentRequestMember(
                member_id="m", connectors_and_tasks=LISTS, version=70_000, metadata=b"m"
            ),
        ),
    ),
    c.ConnectGroupInstallAssignmentResponse(throttle_time_ms=1, error_code=3, error_message="no"),
]


@pytest.mark.parametrize("message", FULL, ids=lambda message: type(message).__name__)
def test_every_field_travels(message):
    assert decode(type(message), c.VERSION, encode(message, c.VERSION)) == message


def test_the_bytes_of_an_assignment_are_those_of_the_kip():
    message = c.ConnectGroupInstallAssignmentRequest(
        group_id="g",
        member_id="m",
        member_epoch=4,
        group_epoch=5,
        members=(
            c.ConnectGroupInstallAssignmentRequestMember(
                member_id="n", connectors_and_tasks=LISTS[1:], version=1, metadata=b"x"
            ),
        ),
    )

    assert encode(message, 0) == (
        b"\x02g\x02m\0\0\0\x04\0\0\0\x05\0"  # ids, epochs, error
        b"\x02\x02n"  # one member
        b"\x02\x01\x02\x02b\0\0\0\0\0\0"  # one list: no connectors, task b-0, with their tagged fields
        b"\0\0\0\x01\x02x\0\0"  # version, metadata, tagged fields of the member and of the request
    )
