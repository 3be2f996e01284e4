"""What a deposed coordinator still answers (:mod:`tests.simulation.deposed`)."""

from typing import Any

import pytest

from coordinator.config import CoordinatorConfig
from coordinator.group_coordinator import GroupCoordinator
from coordinator.image import MetadataImage, TopicImage
from coordinator.shard import Call
from coordinator.uuids import SeededUuids
from protocol_codecs import ApiKey, ErrorCode, Uuid
from protocol_codecs.all_messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    LeaveGroupRequest,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from tests.simulation.broker import Log
from tests.simulation.deposed import Deposed
from tests.simulation.wire import GROUP, Ask

TOPIC = Uuid(bytes(15) + b"\x01")


@pytest.fixture
def coordinator() -> GroupCoordinator:
    """A coordinator with a settled group of one member."""
    config = CoordinatorConfig(consumer_assignment_interval_ms=0)
    image = MetadataImage().with_topic(TopicImage(TOPIC, "orders", 2))
    made = GroupCoordinator(config, uuids=SeededUuids(1), log=Log(), image=image)
    made.handle(heartbeat("a", 0).message, Call(1, 1, "client", "/proxy"), 0)
    return made


def heartbeat(member_id: str, epoch: int) -> Ask:
    begins = epoch == 0
    request = ConsumerGroupHeartbeatRequest(
        group_id=GROUP,
        member_id=member_id,
        member_epoch=epoch,
        rebalance_timeout_ms=10_000 if begins else -1,
        subscribed_topic_names=("orders",) if begins else None,
        topic_partitions=() if begins else None,
    )
    return Ask(1, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, "client", request)


def described(deposed: Deposed) -> Any:
    request = ConsumerGroupDescribeRequest(group_ids=(GROUP,))
    (group,) = deposed.serve(Ask(1, ApiKey.CONSUMER_GROUP_DESCRIBE, 1, "client", request), 0).groups
    return group


@pytest.mark.parametrize("knows", [True, False])
def test_reads_and_heartbeats_that_change_nothing_are_answered_from_what_was(
    coordinator: GroupCoordinator, knows: bool
) -> None:
    deposed = Deposed(coordinator, knows=knows)
    coordinator.handle(heartbeat("b", 0).message, Call(2, 1, "client", "/proxy"), 1)  # at the new one
    epoch = coordinator.shard.consumer_group(GROUP).members["a"].member_epoch

    assert [member.member_id for member in described(deposed).members] == ["a"]
    assert deposed.serve(heartbeat("a", epoch), 1).member_epoch == epoch
    assert deposed.serve(heartbeat("b", 3), 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    fetch = OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id=GROUP),))
    assert deposed.serve(Ask(1, ApiKey.OFFSET_FETCH, 9, "client", fetch), 1).groups[0].error_code == 0


def test_one_that_knows_refuses_what_it_would_have_to_write(coordinator: GroupCoordinator) -> None:
    deposed = Deposed(coordinator, knows=True)
    written = len(coordinator.shard.log.changes)
    leave = Ask(1, ApiKey.LEAVE_GROUP, 3, "client", LeaveGroupRequest(group_id=GROUP))

    assert deposed.serve(heartbeat("b", 0), 1) is ErrorCode.NOT_COORDINATOR
    assert deposed.serve(leave, 1) is ErrorCode.NOT_COORDINATOR

    assert deposed.serve(heartbeat("a", 2), 1).error_code == ErrorCode.NONE, "it has written nothing"
    assert [member.member_id for member in described(deposed).members] == ["a"]
    assert len(coordinator.shard.log.changes) == written


def test_one_that_does_not_know_answers_no_heartbeat_after_what_is_never_committed(
    coordinator: GroupCoordinator,
) -> None:
    deposed = Deposed(coordinator, knows=False)

    assert deposed.serve(heartbeat("b", 0), 1) is None

    assert deposed.serve(heartbeat("a", 2), 1) is None
    assert deposed.serve(heartbeat("c", 2), 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert [member.member_id for member in described(deposed).members] == ["a"], "the rest is not committed"
