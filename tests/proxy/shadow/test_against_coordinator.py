"""Given a run, the shadow has the targets of the embedded coordinator, which gets the same requests at the same times.

The coordinator is compared with Kafka's by scenarios (tests/coordinator), the shadow with Kafka's own in
test_against_kafka.py.
"""

import random

import pytest

from coordinator.config import CoordinatorConfig
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.group_coordinator import GroupCoordinator
from coordinator.replay import replay
from coordinator.shard import Call
from coordinator.uuids import SeededUuids
from protocol_codecs import ErrorCode, records
from protocol_codecs.message import Message
from protocol_codecs.messages import ConsumerGroupHeartbeatRequest, LeaveGroupRequest, MemberIdentity
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_assignment,
    encode_subscription,
)
from proxy.shadow.group import ClassicGroup, Client
from proxy.shadow.run import Join, Run, play
from proxy.shadow.sampling import draw
from tests.proxy.shadow.groups import random_group
from tests.proxy.shadow.oracle import Targets, as_text

GROUP = "group"
INTERVAL_MS = 1_000


class Played:
    """A run on the coordinator. The assignment interval passes exactly where the run says so."""

    def __init__(self, group: ClassicGroup, run: Run) -> None:
        self._group = group
        self._now_ms = 1_000_000
        config = CoordinatorConfig(
            consumer_assignment_interval_ms=INTERVAL_MS,
            consumer_assignor_moves_epoch=run.assignor_moves_epoch,
        )
        self._coordinator = GroupCoordinator(config, uuids=SeededUuids(1), image=group.image)
        if group.moves_at_once is None:
            self._replay_classic_group()
        self._joined: dict[int, str] = {}
        is_due = False
        for change in run.changes:
            is_due = not change.computes
            client = group.clients[change.client]
            if isinstance(change, Join):
                self._now_ms += INTERVAL_MS if change.computes else 0
                self._heartbeat(change.member_id, client, 0)
                self._joined[change.client] = change.member_id
            else:
                self._leave(client)
                if change.computes:
                    self._compute()
        if is_due:
            self._compute()

    @property
    def targets(self) -> Targets:
        return as_text(self._consumer_group.target_assignment)

    @property
    def _consumer_group(self) -> ConsumerGroup:
        group = self._coordinator.shard.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def _compute(self) -> None:
        self._now_ms += INTERVAL_MS
        number, member_id = next(iter(self._joined.items()))
        epoch = self._consumer_group.members[member_id].member_epoch
        self._heartbeat(member_id, self._group.clients[number], epoch)

    def _heartbeat(self, member_id: str, client: Client, epoch: int) -> None:
        joins = epoch == 0
        self._ask(
            ConsumerGroupHeartbeatRequest(
                group_id=GROUP,
                member_id=member_id,
                member_epoch=epoch,
                instance_id=client.instance_id,
                rebalance_timeout_ms=60_000 if joins else -1,
                subscribed_topic_names=client.topics if joins else None,
                server_assignor=self._group.assignor if joins else None,
                topic_partitions=() if joins else None,
            ),
            1,
        )

    def _leave(self, client: Client) -> None:
        identity = MemberIdentity(member_id=client.member_id, group_instance_id=client.instance_id)
        self._ask(LeaveGroupRequest(group_id=GROUP, members=(identity,)), 5)

    def _ask(self, request: Message, version: int) -> None:
        (reply,) = self._coordinator.handle(request, Call(1, version, "c", "/h"), self._now_ms)
        assert reply.response.error_code == ErrorCode.NONE, reply  # type: ignore[attr-defined]

    def _replay_classic_group(self) -> None:
        names = {topic.topic_id: topic.name for topic in self._group.image.topics.values()}
        members = []
        for client in self._group.clients:
            assigned = tuple(
                ConsumerProtocolTopicPartition(topic=names[topic], partitions=numbers)
                for topic, numbers in client.assigned.items()
            )
            members.append(
                records.GroupMetadataMember(
                    member_id=client.member_id,
                    group_instance_id=client.instance_id,
                    client_id="c",
                    client_host="/h",
                    rebalance_timeout=60_000,
                    session_timeout=45_000,
                    subscription=encode_subscription(ConsumerProtocolSubscription(topics=client.topics), 1),
                    assignment=encode_assignment(ConsumerProtocolAssignment(assigned_partitions=assigned), 1),
                )
            )
        value = records.GroupMetadataValue(
            protocol_type="consumer",
            generation=3,
            protocol="range",
            leader=members[0].member_id,
            current_state_timestamp=self._now_ms,
            members=tuple(members),
        )
        record = records.CoordinatorRecord(records.GroupMetadataKey(group=GROUP), value)
        replay(self._coordinator.shard, record)


@pytest.mark.parametrize(
    "seeds", [range(200), pytest.param(range(200, 3_000), marks=pytest.mark.long)], ids=len
)
def test_targets_are_the_coordinator_s(seeds: range):
    different = []
    for seed in seeds:
        group = random_group(seed)
        run = draw(group, random.Random(seed), 1.0)  # noqa: S311  the same ones in every run
        *_, last = play(group, run)
        if as_text(last.targets) != Played(group, run).targets:
            different.append(seed)
    assert different == []
