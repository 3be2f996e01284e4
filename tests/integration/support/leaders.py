"""Moves the leaders of a topic, or the coordinators of groups, from broker to broker."""

import datetime as dt

from confluent_kafka.admin import AdminClient
from kio.schema.alter_partition_reassignments.v0.request import (
    AlterPartitionReassignmentsRequest,
    ReassignablePartition,
    ReassignableTopic,
)
from kio.schema.elect_leaders.v2.request import ElectLeadersRequest, TopicPartitions
from kio.schema.find_coordinator.v4.request import FindCoordinatorRequest

from support.broker import Kafka
from support.raw import RawConnection
from support.waiting import eventually

_OFFSETS = "__consumer_offsets"
_TIMEOUT = dt.timedelta(seconds=20)
_PREFERRED, _NONE, _NOT_NEEDED = 0, 0, 84


def leaders_of(admin: AdminClient, topic: str) -> dict[int, int]:
    """{partition: node id}."""
    partitions = admin.list_topics(topic, timeout=60).topics[topic].partitions
    return {number: at.leader for number, at in partitions.items()}


def move_leaders(
    bootstrap: str, admin: AdminClient, topic: str, leaders: dict[int, int], nodes: list[int]
) -> None:
    """Let these nodes lead; returns when they do. Replicas stay on `nodes`, in another order."""
    with RawConnection(bootstrap.split(",", maxsplit=1)[0]) as connection:
        asked = AlterPartitionReassignmentsRequest(
            timeout=_TIMEOUT,
            topics=(
                ReassignableTopic(
                    name=topic,
                    partitions=tuple(
                        ReassignablePartition(
                            partition_index=partition,
                            replicas=(leader, *(node for node in nodes if node != leader)),
                        )
                        for partition, leader in leaders.items()
                    ),
                ),
            ),
        )
        answer = connection.call(asked)
        refused = [at for one in answer.responses for at in one.partitions if at.error_code]
        assert not answer.error_code, answer
        assert not refused, refused

        def elected() -> dict[int, int]:
            election = ElectLeadersRequest(
                election_type=_PREFERRED,
                topic_partitions=(TopicPartitions(topic=topic, partitions=tuple(leaders)),),
                timeout=_TIMEOUT,
            )
            connection.call(election)
            return leaders_of(admin, topic)

        eventually(
            elected, lambda now: now == leaders, what=f"{leaders} lead {topic}", timeout_s=60, between_s=0.3
        )


def move_coordinators(kafka: Kafka) -> None:
    """Let the next node coordinate each group; returns when the nodes lead, which is before they have loaded them."""
    now = leaders_of(kafka.admin, _OFFSETS)
    nodes = sorted(kafka.admin.list_topics(timeout=60).brokers)
    following = dict(zip(nodes, [*nodes[1:], nodes[0]], strict=True))
    leaders = {partition: following[leader] for partition, leader in now.items()}
    move_leaders(kafka.bootstrap, kafka.admin, _OFFSETS, leaders, nodes)


def coordinator_of(kafka: Kafka, group: str) -> str:
    """Its host and port, as the first node knows it."""
    with RawConnection(kafka.bootstrap.split(",", maxsplit=1)[0]) as connection:
        (found,) = connection.call(FindCoordinatorRequest(key_type=0, coordinator_keys=(group,))).coordinators
    return f"{found.host}:{found.port}"
