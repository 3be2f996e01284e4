"""Where share partitions begin, described, altered and deleted: Kafka and the embedded broker answer the same."""

import time
from collections.abc import Callable
from typing import Any

import pytest
import trio

from coordinator.broker import EmbeddedCluster, serve
from protocol_codecs import ErrorCode, Uuid
from protocol_codecs import all_messages as m
from protocol_codecs.uuids import ZERO_UUID
from tests.coordinator.core_backend import CONFIG
from tests.coordinator.kafka_backend import Connection

RETRIED = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
TIMEOUT_S = 30
MEMBER = "member"


class Talk:
    """What an operator and a member ask of a broker, the only one of its cluster, about a group of their own."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.split(",", maxsplit=1)[0].rpartition(":")
        self._connection = Connection(host, int(port), "offsets")
        self.name = f"offsets-{time.time_ns()}"
        self.topic_id = self._create_topic()
        _wait_for(self._is_known_to_the_coordinator)

    def close(self) -> None:
        self._connection.close()

    def describe(self, topics: tuple[tuple[str, tuple[int, ...]], ...] | None) -> object:
        """Of each topic its name, whether it has an id, and (partition, start offset, leader epoch, lag, error)."""
        asked = None
        if topics is not None:
            asked = tuple(
                m.DescribeShareGroupOffsetsRequestTopic(topic_name=topic, partitions=partitions)
                for topic, partitions in topics
            )
        request = m.DescribeShareGroupOffsetsRequest(
            groups=(m.DescribeShareGroupOffsetsRequestGroup(group_id=self.name, topics=asked),)
        )
        (group,) = self._call(request, 1).groups
        if group.error_code:
            return ErrorCode(group.error_code).name
        return [
            (
                self._plain(topic.topic_name),
                self._known(topic.topic_id),
                sorted(
                    (p.partition_index, p.start_offset, p.leader_epoch, p.lag, ErrorCode(p.error_code).name)
                    for p in topic.partitions
                ),
            )
            for topic in group.topics
        ]

    def alter(self, starts: dict[str, dict[int, int]], *, group_id: str | None = None) -> object:
        request = m.AlterShareGroupOffsetsRequest(
            group_id=self.name if group_id is None else group_id,
            topics=tuple(
                m.AlterShareGroupOffsetsRequestTopic(
                    topic_name=topic,
                    partitions=tuple(
                        m.AlterShareGroupOffsetsRequestPartition(partition_index=number, start_offset=start)
                        for number, start in partitions.items()
                    ),
                )
                for topic, partitions in starts.items()
            ),
        )
        answer = self._call(request, 0)
        return ErrorCode(answer.error_code).name, sorted(
            (
                self._plain(topic.topic_name),
                self._known(topic.topic_id),
                sorted((p.partition_index, ErrorCode(p.error_code).name) for p in topic.partitions),
            )
            for topic in answer.responses
        )

    def delete(self, *topics: str, group_id: str | None = None) -> object:
        request = m.DeleteShareGroupOffsetsRequest(
            group_id=self.name if group_id is None else group_id,
            topics=tuple(m.DeleteShareGroupOffsetsRequestTopic(topic_name=topic) for topic in topics),
        )
        answer = self._call(request, 0)
        return ErrorCode(answer.error_code).name, sorted(
            (self._plain(topic.topic_name), self._known(topic.topic_id), ErrorCode(topic.error_code).name)
            for topic in answer.responses
        )

    def join(self) -> None:
        """Have a member join, and wait until it is assigned both partitions."""
        epoch = 0

        def is_assigned() -> bool:
            nonlocal epoch
            answer = self._beat(epoch)
            epoch = answer.member_epoch
            given = answer.assignment.topic_partitions if answer.assignment else ()
            return sum(len(topic.partitions) for topic in given) == 2

        _wait_for(is_assigned)

    def leave(self) -> str:
        return ErrorCode(self._beat(-1).error_code).name

    def delete_group(self) -> str:
        request = m.DeleteGroupsRequest(groups_names=(self.name,))
        return ErrorCode(self._call(request, 2).results[0].error_code).name

    def _beat(self, epoch: int) -> Any:
        request = m.ShareGroupHeartbeatRequest(
            group_id=self.name, member_id=MEMBER, member_epoch=epoch, subscribed_topic_names=(self.name,)
        )
        return self._call(request, 1)

    def _is_known_to_the_coordinator(self) -> bool:
        """Whether it has heard of the topic, a moment after its controller."""
        return isinstance(found := self.describe(((self.name, (0,)),)), list) and found[0][1] == "its id"

    def _create_topic(self) -> Uuid:
        topic = m.CreateTopicsRequestTopic(name=self.name, num_partitions=2, replication_factor=1)
        made = self._connection.call(m.CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), 7).topics[0]
        assert made.error_code == 0, made
        topic_id: Uuid = made.topic_id
        return topic_id

    def _call(self, request: Any, version: int) -> Any:
        """Ask until the group's coordinator is there; a broker that has just started still makes one."""
        answer: Any = None

        def is_served() -> bool:
            nonlocal answer
            answer = self._connection.call(request, version)
            return getattr(answer, "error_code", 0) not in RETRIED

        _wait_for(is_served)
        return answer

    def _plain(self, topic: str) -> str:
        return topic.replace(self.name, "t")

    def _known(self, topic_id: Uuid) -> str:
        return {self.topic_id: "its id", ZERO_UUID: "no id"}.get(topic_id, "another id")


def _wait_for(is_so: Callable[[], bool]) -> None:
    deadline = time.monotonic() + TIMEOUT_S
    while not is_so():
        assert time.monotonic() < deadline, "not within the time"
        time.sleep(0.02)


def story(talk: Talk) -> dict[str, object]:
    """All answers, by what was done."""
    topic, missing = talk.name, f"{talk.name}-missing"
    told: dict[str, object] = {}
    told["nothing is known of a group that is none"] = talk.describe(None)
    told["nor of its topics"] = talk.describe(((topic, (0, 1)), (missing, (0,))))
    told["no topics are described"] = talk.describe(())
    told["a group that is none has nothing to delete"] = talk.delete(topic)
    told["a group without id can't be altered"] = talk.alter({topic: {0: 3}}, group_id="")
    told["a group without id has nothing to delete"] = talk.delete(topic, group_id="")
    told["a new group begins elsewhere"] = talk.alter({topic: {0: 3, 7: 1}, missing: {0: 2}})
    told["it is described"] = talk.describe(None)
    told["also where it has no state"] = talk.describe(((topic, (0, 1)), (missing, (0,))))
    talk.join()
    told["with a member it can't be altered"] = talk.alter({topic: {0: 5}})
    told["with a member nothing can be deleted"] = talk.delete(topic)
    told["all partitions have state"] = talk.describe(None)
    told["the member leaves"] = talk.leave()
    told["it begins elsewhere"] = talk.alter({topic: {0: 5, 1: 6}})
    told["it is described again"] = talk.describe(None)
    told["a topic is deleted from it"] = talk.delete(topic, missing)
    told["it has no state any more"] = talk.describe(None)
    told["a topic is deleted twice"] = talk.delete(topic)
    told["the group is deleted"] = talk.delete_group()
    told["a deleted group has nothing to delete"] = talk.delete(topic)
    return told


def asked(bootstrap: str) -> dict[str, object]:
    talk = Talk(bootstrap)
    try:
        return story(talk)
    finally:
        talk.close()


async def of_the_embedded_broker() -> dict[str, object]:
    async with serve(EmbeddedCluster(coordinator=CONFIG)) as cluster:
        return await trio.to_thread.run_sync(asked, cluster.bootstrap)


@pytest.mark.kafka
async def test_kafka_answers_the_same(kafka_bootstrap: str):
    assert await of_the_embedded_broker() == await trio.to_thread.run_sync(asked, kafka_bootstrap)


async def test_the_lag_is_what_has_come_without_what_was_altered_away():
    told = await of_the_embedded_broker()
    assert told["it is described again"] == [("t", "its id", [(0, 5, 0, -5, "NONE"), (1, 6, 0, -6, "NONE")])]
    assert told["with a member it can't be altered"] == ("NON_EMPTY_GROUP", [])
    assert told["it has no state any more"] == []
