"""Given a run, the shadow has the targets of the embedded coordinator, which gets the same requests at the same times.

The coordinator is compared with Kafka's by scenarios (tests/coordinator), the shadow with Kafka's own in
test_against_kafka.py.
"""

import random
from typing import Any

import pytest

from coordinator.config import CoordinatorConfig
from coordinator.consumer_groups.group import ConsumerGroup
from coordinator.group_coordinator import GroupCoordinator
from coordinator.replay import replay
from coordinator.shard import Call
from coordinator.uuids import SeededUuids
from protocol_codecs import ErrorCode, records
from protocol_codecs.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatRequestTopicPartitions,
)
from protocol_codecs.messages.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ConsumerProtocolTopicPartition,
    encode_assignment,
    encode_subscription,
)
from proxy.shadow.group import ClassicGroup, Client
from proxy.shadow.run import Run, play
from proxy.shadow.sampling import draw
from tests.proxy.shadow.groups import random_group
from tests.proxy.shadow.oracle import Targets, as_text

GROUP = "group"
INTERVAL_MS = 1_000
GENERATION = 3


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
        is_in_place = group.moves_at_once is None
        if is_in_place:
            self._replay_classic_group()
            self._ask(
                member_id="helper",
                member_epoch=0,
                rebalance_timeout_ms=60_000,
                subscribed_topic_names=(),
                topic_partitions=(),
            )
        for join in run.joins:
            self._now_ms += INTERVAL_MS if join.computes else 0
            self._join(join.member_id, group.clients[join.client], in_place=is_in_place)
        if is_in_place:
            self._ask(member_id="helper", member_epoch=-1)
        self._now_ms += INTERVAL_MS
        first = run.joins[0].member_id
        self._ask(member_id=first, member_epoch=self._consumer_group.members[first].member_epoch)

    @property
    def targets(self) -> Targets:
        return as_text(self._consumer_group.target_assignment)

    @property
    def _consumer_group(self) -> ConsumerGroup:
        group = self._coordinator.shard.groups[GROUP]
        assert isinstance(group, ConsumerGroup)
        return group

    def _join(self, member_id: str, client: Client, *, in_place: bool) -> None:
        owned = tuple(
            ConsumerGroupHeartbeatRequestTopicPartitions(topic_id=topic, partitions=numbers)
            for topic, numbers in client.assigned.items()
        )
        self._ask(
            member_id=member_id,
            member_epoch=GENERATION if in_place else 0,
            instance_id=client.instance_id,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=client.topics,
            server_assignor=self._group.assignor,
            topic_partitions=owned if in_place else (),
        )

    def _ask(self, **fields: Any) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, **fields)
        (reply,) = self._coordinator.handle(request, Call(1, 1, "c", "/h"), self._now_ms)
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
            generation=GENERATION,
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
        run = draw(group, random.Random(seed))  # noqa: S311  the same ones in every run
        *_, last = play(group, run)
        if as_text(last) != Played(group, run).targets:
            different.append(seed)
    assert different == []
