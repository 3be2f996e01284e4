"""Waiting until Kafka's group coordinator has seen a change of topics or settings.

The broker knows a topic before its coordinator does. A probe is a new group on the same partition of the offsets topic
as the group under test, so the same part of the coordinator serves it: what its first member is told is what that part
knows.
"""

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from coordinator.java_order import absolute, text_hash
from protocol_codecs import ErrorCode, Uuid
from protocol_codecs import all_messages as m

TIMEOUT_S = 30
PAUSE_S = 0.005
OFFSETS_TOPIC = "__consumer_offsets"
INTERVAL = "consumer.heartbeat.interval.ms"
Call = Callable[[Any, int], Any]

STILL_COMING = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
    }
)
"""What a broker answers for a while after its start."""


class Propagation:
    """The probes of one group's coordinator. ``call`` sends a request and returns its answer."""

    def __init__(self, call: Call, group_id: str) -> None:
        self._call = call
        self._names = self._probe_names(group_id)

    def wait_for_topic(self, name: str, topic_id: Uuid, partitions: int) -> None:
        """Wait until members are assigned so many partitions of the topic; 0 means that it is gone."""
        self._wait_for(lambda: self._assigned(name, topic_id) == partitions)

    def wait_for_configs(self) -> None:
        """Wait until settings that were changed before are in force: a probe's, changed now, are."""
        group_id = next(self._names)
        answer = self._call(alter_group(group_id, {INTERVAL: "777"}), 1).responses[0]
        assert answer.error_code == 0, answer.error_message
        self._wait_for(lambda: self._probe(group_id, OFFSETS_TOPIC).heartbeat_interval_ms == 777)

    def _assigned(self, name: str, topic_id: Uuid) -> int:
        assignment = self._probe(next(self._names), name).assignment
        return sum(len(t.partitions) for t in assignment.topic_partitions if t.topic_id == topic_id)

    def _probe(self, group_id: str, topic: str) -> Any:
        beat = m.ConsumerGroupHeartbeatRequest(
            group_id=group_id,
            member_id="probe",
            member_epoch=0,
            rebalance_timeout_ms=1000,
            subscribed_topic_names=(topic,),
            topic_partitions=(),
        )
        answers: list[Any] = []

        def is_answered() -> bool:
            answers.append(self._call(beat, 1))
            return answers[-1].error_code not in STILL_COMING

        self._wait_for(is_answered)
        response = answers[-1]
        assert response.error_code == 0, response
        self._call(m.ConsumerGroupHeartbeatRequest(group_id=group_id, member_id="probe", member_epoch=-1), 1)
        return response

    def _probe_names(self, group_id: str) -> Iterator[str]:
        partitions = self._offsets_partitions(group_id)
        wanted = absolute(text_hash(group_id)) % partitions
        for number in count():
            name = f"{group_id}-probe-{number}"
            if absolute(text_hash(name)) % partitions == wanted:
                yield name

    def _offsets_partitions(self, group_id: str) -> int:
        find = m.FindCoordinatorRequest(key_type=0, coordinator_keys=(group_id,))
        self._wait_for(lambda: self._call(find, 4).coordinators[0].error_code == 0)
        topics = (m.MetadataRequestTopic(name=OFFSETS_TOPIC),)
        described = self._call(m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), 12)
        return len(described.topics[0].partitions)

    def _wait_for(self, is_so: Callable[[], bool]) -> None:
        deadline = time.monotonic() + TIMEOUT_S
        while not is_so():
            assert time.monotonic() < deadline, "the coordinator has not seen the change"
            time.sleep(PAUSE_S)


def alter_group(group_id: str, settings: dict[str, str]) -> m.IncrementalAlterConfigsRequest:
    """A request that sets a group's settings."""
    return m.IncrementalAlterConfigsRequest(
        resources=(
            m.IncrementalAlterConfigsRequestResource(
                resource_type=32,
                resource_name=group_id,
                configs=tuple(
                    m.IncrementalAlterConfigsRequestConfig(name=name, config_operation=0, value=value)
                    for name, value in settings.items()
                ),
            ),
        )
    )
