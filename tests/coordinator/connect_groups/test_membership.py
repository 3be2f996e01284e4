"""Joining, declaring, leaving and fencing: what moves the group epoch, and what is refused."""

import msgspec
import pytest

from coordinator.classic_groups.group import ClassicGroup
from coordinator.config import CoordinatorConfig
from coordinator.connect_groups.work import as_message
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.shard import Shard
from coordinator.uuids import SeededUuids
from protocol_codecs import ErrorCode
from protocol_codecs import connect_groups as c
from tests.coordinator.connect_groups.talk import (
    COMPATIBLE,
    GROUP,
    SESSION_MS,
    SESSIONED,
    SETTINGS,
    Talk,
    told,
    works,
)

WELL_FORMED = {"rebalance_timeout_ms": 1, "client_assignors": (COMPATIBLE,)}


def two_workers() -> Talk:
    talk = Talk()
    talk.join("w1", "a a-0 a-1", 7)
    talk.join("w2", "a a-0 a-1", 7)
    talk.compute("w1", {"w1": "a a-0", "w2": "a-1"})
    assert told(talk.beat("w1", runs="")) == "a a-0"
    assert told(talk.beat("w2", runs="")) == "a-1"
    return talk


def test_a_worker_that_joins_moves_the_group_epoch_and_is_at_the_targets():
    talk = Talk()

    response = talk.join("w1", "a a-0", 7)

    assert (response.error_code, response.member_epoch, talk.group.group_epoch) == (0, 1, 2)
    assert told(response) == ""
    assert response.heartbeat_interval_ms == SETTINGS.heartbeat_interval_ms


def test_a_heartbeat_that_says_nothing_new_moves_nothing():
    talk = two_workers()
    batches = len(talk.log.batches)

    response = talk.beat("w1", runs="a a-0")

    assert (response.error_code, response.assignment, talk.group.group_epoch) == (0, None, 3)
    assert len(talk.log.batches) == batches


def test_what_a_worker_runs_does_not_move_the_group_epoch():
    talk = two_workers()

    talk.beat("w1", runs="a")

    assert talk.group.group_epoch == 3


@pytest.mark.parametrize(
    "assignor",
    [
        msgspec.structs.replace(COMPATIBLE, metadata=b"new"),
        msgspec.structs.replace(COMPATIBLE, version=2),
        msgspec.structs.replace(COMPATIBLE, reason=1),
    ],
)
def test_a_changed_assignor_moves_the_group_epoch(assignor: c.ConnectAssignor):
    talk = two_workers()

    talk.beat("w2", client_assignors=(assignor,))

    assert talk.group.group_epoch == 4


def test_a_reason_moves_the_group_epoch_each_time_it_is_given():
    talk = two_workers()

    for _ in range(2):
        talk.beat("w2", client_assignors=(msgspec.structs.replace(COMPATIBLE, reason=1),))

    assert talk.group.group_epoch == 5


def test_the_newest_reading_of_the_configurations_decides():
    talk = two_workers()

    talk.beat("w2", **reading("a a-0 b", 9))
    talk.beat("w1", **reading("a", 8))

    assert talk.group.group_epoch == 4
    assert {work.connector for work in talk.group.configured} == {"a", "b"}
    assert talk.group.config_offset == 9


def test_a_newer_reading_of_the_same_moves_the_offset_only():
    talk = two_workers()

    talk.beat("w2", **reading("a a-0 a-1", 9))

    assert (talk.group.group_epoch, talk.group.config_offset) == (3, 9)


def test_two_workers_that_read_different_things_up_to_one_offset_are_not_believed_both():
    talk = two_workers()

    response = talk.beat("w2", **reading("a", 7))

    assert response.error_code == ErrorCode.INVALID_REQUEST
    assert talk.group.group_epoch == 3


def test_a_worker_that_leaves_moves_the_group_epoch_and_frees_what_it_had():
    talk = two_workers()

    response = talk.leave("w2")

    assert (response.error_code, response.member_epoch) == (0, -1)
    assert talk.group.group_epoch == 4
    assert {"w2"} not in talk.group.owners.values()


def test_a_group_ends_with_its_last_worker():
    talk = two_workers()

    talk.leave("w1")
    talk.leave("w2")
    assert talk.coordinator.shard.groups == {}
    talk.restart()

    assert talk.coordinator.shard.groups == {}
    assert talk.coordinator.next_deadline_ms() is None


def test_a_worker_that_is_not_heard_of_is_fenced_after_the_session_timeout():
    talk = two_workers()

    talk.wait(SESSION_MS - 1)
    talk.beat("w1")
    assert set(talk.group.members) == {"w1", "w2"}
    talk.wait(1)

    assert set(talk.group.members) == {"w1"}
    assert talk.beat("w2").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_worker_comes_back_under_its_id_with_epoch_0_and_gets_its_part_again():
    talk = two_workers()

    response = talk.join("w2", "a a-0 a-1", 7)

    assert (response.member_epoch, told(response), talk.group.group_epoch) == (3, "a-1", 3)


def test_another_epoch_is_fenced_and_the_worker_keeps_its_tasks_until_it_comes_back():
    talk = two_workers()

    assert talk.beat("w2", epoch=2).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert talk.beat("w2", epoch=9).error_code == ErrorCode.FENCED_MEMBER_EPOCH

    assert set(talk.group.owners.values()) == {frozenset({"w1"}), frozenset({"w2"})}


def test_the_previous_epoch_is_valid_if_the_answer_was_lost():
    talk = Talk()
    talk.join("w1", "a a-0", 7)
    talk.compute("w1", {"w1": "a a-0"})
    lost = talk.beat("w1", runs="")
    assert lost.member_epoch == 2

    response = talk.beat("w1", epoch=1, runs="")

    assert (response.error_code, response.member_epoch, told(response)) == (0, 2, "a a-0")


@pytest.mark.parametrize("runs", [None, "a b"])
def test_the_previous_epoch_is_fenced_if_the_worker_may_run_more_than_its_assignment(runs: str | None):
    talk = Talk()
    talk.join("w1", "a a-0", 7)
    talk.compute("w1", {"w1": "a a-0"})
    talk.beat("w1", runs="")

    assert talk.beat("w1", epoch=1, runs=runs).error_code == ErrorCode.FENCED_MEMBER_EPOCH


@pytest.mark.parametrize(
    ("fields", "error"),
    [
        ({"rebalance_timeout_ms": -1}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": 0}, ErrorCode.INVALID_REQUEST),
        ({"rebalance_timeout_ms": 2**31 - 1}, ErrorCode.INVALID_REQUEST),
        ({"client_assignors": None}, ErrorCode.INVALID_REQUEST),
        ({"client_assignors": ()}, ErrorCode.INVALID_REQUEST),
        ({"client_assignors": (COMPATIBLE, COMPATIBLE)}, ErrorCode.INVALID_REQUEST),
        ({"client_assignors": (COMPATIBLE,) * 17}, ErrorCode.INVALID_REQUEST),
        ({"client_assignors": (msgspec.structs.replace(COMPATIBLE, name=""),)}, ErrorCode.INVALID_REQUEST),
        (
            {"client_assignors": (msgspec.structs.replace(COMPATIBLE, minimum_version=-2),)},
            ErrorCode.INVALID_REQUEST,
        ),
        (
            {"client_assignors": (msgspec.structs.replace(COMPATIBLE, minimum_version=3),)},
            ErrorCode.INVALID_REQUEST,
        ),
        ({"client_assignors": (msgspec.structs.replace(COMPATIBLE, version=3),)}, ErrorCode.INVALID_REQUEST),
        (
            {"client_assignors": (msgspec.structs.replace(COMPATIBLE, metadata=bytes((1 << 20) + 1)),)},
            ErrorCode.INVALID_REQUEST,
        ),
        ({"server_assignor": "uniform"}, ErrorCode.UNSUPPORTED_ASSIGNOR),
        ({"instance_id": "i"}, ErrorCode.INVALID_REQUEST),
        ({"configured": (), "config_offset": -1}, ErrorCode.INVALID_REQUEST),
        ({"config_offset": -2}, ErrorCode.INVALID_REQUEST),
        (
            {"config_offset": 1, "configured": (c.ConnectorsAndTasks(connectors=("a", "a")),)},
            ErrorCode.INVALID_REQUEST,
        ),
        (
            {"config_offset": 1, "configured": (c.ConnectorsAndTasks(connectors=("",)),)},
            ErrorCode.INVALID_REQUEST,
        ),
        (
            {
                "config_offset": 1,
                "configured": (c.ConnectorsAndTasks(tasks=(c.ConnectorTaskId(connector="a", task=-1),)),),
            },
            ErrorCode.INVALID_REQUEST,
        ),
    ],
)
def test_a_malformed_join_is_refused_and_leaves_nothing(fields: dict[str, object], error: ErrorCode):
    talk = Talk()

    response = talk.beat("w1", 0, "", **{**WELL_FORMED, **fields})

    assert response.error_code == error
    assert response.error_message
    assert (talk.coordinator.shard.groups, talk.log.batches) == ({}, [])


def test_a_worker_that_joins_runs_nothing_and_says_so():
    talk = Talk()

    assert talk.beat("w1", 0, "a", **WELL_FORMED).error_code == ErrorCode.INVALID_REQUEST
    assert talk.beat("w1", 0, None, **WELL_FORMED).error_code == ErrorCode.INVALID_REQUEST


@pytest.mark.parametrize(
    ("group_id", "member_id", "epoch"), [("", "w", 1), ("g", "", 1), ("g", "w" * 256, 1), ("g", "w", -2)]
)
def test_ids_and_epochs_that_nobody_can_have(group_id: str, member_id: str, epoch: int):
    request = c.ConnectGroupHeartbeatRequest(group_id=group_id, member_id=member_id, member_epoch=epoch)

    assert Talk().send(request).error_code == ErrorCode.INVALID_REQUEST


def test_a_group_that_is_not_there_has_no_members():
    talk = Talk()

    assert talk.beat("w1", 3).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert talk.leave("w1").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_group_has_no_more_workers_than_it_may():
    talk = Talk()
    for number in range(4):
        talk.join(f"w{number}")

    assert talk.join("w4").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert talk.join("w3").error_code == 0


def test_there_are_no_more_groups_and_no_more_works_than_there_may_be():
    talk = Talk(msgspec.structs.replace(SETTINGS, max_groups=0))
    assert talk.join("w1").error_code == ErrorCode.GROUP_MAX_SIZE_REACHED

    talk = Talk(msgspec.structs.replace(SETTINGS, max_configured=2))
    assert talk.join("w1", "a a-0 a-1", 7).error_code == ErrorCode.INVALID_REQUEST
    assert talk.join("w1", "a a-0", 7).error_code == 0


def test_a_worker_with_no_assignor_in_common_is_refused():
    talk = two_workers()

    assert talk.join("w3", client_assignors=(SESSIONED,)).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR
    assert talk.beat("w2", client_assignors=(SESSIONED,)).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR

    assert talk.group.group_epoch == 3


def test_an_assignor_that_does_not_read_what_all_declare_is_not_in_common():
    talk = two_workers()
    newer = msgspec.structs.replace(COMPATIBLE, minimum_version=2, version=2)

    assert talk.join("w3", client_assignors=(newer,)).error_code == ErrorCode.UNSUPPORTED_ASSIGNOR


def test_the_assignor_that_most_prefer_is_chosen():
    talk = Talk()
    talk.join("w1", client_assignors=(SESSIONED, COMPATIBLE))
    talk.join("w2", client_assignors=(SESSIONED, COMPATIBLE))
    talk.join("w3", client_assignors=(COMPATIBLE, SESSIONED))

    assert talk.prepare("w1").assignor_name == "sessioned"


def test_a_group_begins_with_the_generation_of_an_empty_classic_group():
    others = Shard(CoordinatorConfig(), uuids=SeededUuids(1))
    others.groups[GROUP] = ClassicGroup(GROUP, now_ms=0)
    others.groups[GROUP].generation = 41
    talk = Talk(others=others)

    assert talk.join("w1").member_epoch == 41
    assert talk.group.group_epoch == 42


def test_a_group_with_members_of_another_protocol_is_left_alone():
    others = Shard(CoordinatorConfig(), uuids=SeededUuids(1))
    others.groups[GROUP] = ConsumerGroup(GROUP)
    talk = Talk(others=others)

    assert talk.join("w1").error_code == ErrorCode.INCONSISTENT_GROUP_PROTOCOL
    assert GROUP not in talk.coordinator.shard.groups


def reading(configured: str, offset: int) -> dict[str, object]:

    return {"configured": as_message(works(configured)), "config_offset": offset}
