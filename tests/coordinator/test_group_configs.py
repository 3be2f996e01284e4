"""Settings of groups through the admin APIs: Kafka and the embedded broker answer the same, request by request."""

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
import trio

from coordinator.broker import EmbeddedCluster, serve
from coordinator.config import GROUP_SETTINGS
from coordinator.errors import RequestRefused
from protocol_codecs import ErrorCode
from protocol_codecs import all_messages as m
from tests.coordinator.core_backend import CONFIG
from tests.coordinator.kafka_backend import Connection

GROUP = 32
SET, DELETE, APPEND = 0, 1, 2
SESSION, HEARTBEAT, INTERVAL, _, _, _, LOCK, DELIVERIES, LOCKS, RESET, ISOLATION, RENEWAL = GROUP_SETTINGS
Ask = Callable[[Any, int], Any]
Changes = tuple[tuple[str, int, str | None], ...]

ALTERATIONS: list[Changes] = [
    ((SESSION, SET, "7000"),),
    ((SESSION, SET, "7000"), (HEARTBEAT, SET, "700"), (INTERVAL, SET, "0")),
    ((SESSION, SET, "999"),),
    ((SESSION, SET, "60001"),),
    ((SESSION, SET, " 8000 "),),
    ((HEARTBEAT, SET, "8000"),),
    ((HEARTBEAT, SET, "99"),),
    ((INTERVAL, SET, "-1"),),
    ((INTERVAL, SET, "15001"),),
    ((SESSION, SET, "soon"),),
    ((SESSION, SET, ""),),
    (("consumer.nonsense", SET, "1"),),
    ((SESSION, APPEND, "1"),),
    ((SESSION, DELETE, None),),
    ((HEARTBEAT, DELETE, None), (INTERVAL, SET, "5")),
    ((LOCK, SET, "20000"), (DELIVERIES, SET, "2"), (LOCKS, SET, "100")),
    ((LOCK, SET, "999"),),
    ((LOCK, SET, "60001"),),
    ((DELIVERIES, SET, "1"),),
    ((DELIVERIES, SET, "11"),),
    ((LOCKS, SET, "99"),),
    ((LOCKS, SET, "4001"),),
    ((RESET, SET, "earliest"), (ISOLATION, SET, "read_committed"), (RENEWAL, SET, "False")),
    ((RESET, SET, "Latest"),),
    ((RESET, SET, "none"),),
    ((ISOLATION, SET, "serializable"),),
    ((RENEWAL, SET, "no"),),
    ((RESET, SET, " latest "), (RENEWAL, DELETE, None)),
]
"""Not ``by_duration``, which the embedded broker refuses."""


def alter(ask: Ask, group_id: str, changes: Changes, *, validate_only: bool = False) -> str:
    configs = tuple(
        m.IncrementalAlterConfigsRequestConfig(name=name, config_operation=operation, value=value)
        for name, operation, value in changes
    )
    resource = m.IncrementalAlterConfigsRequestResource(
        resource_type=GROUP, resource_name=group_id, configs=configs
    )
    request = m.IncrementalAlterConfigsRequest(resources=(resource,), validate_only=validate_only)
    return ErrorCode(ask(request, 1).responses[0].error_code).name


def describe(ask: Ask, group_id: str) -> dict[str, tuple[str | None, int, int]]:
    """Of each setting the value, where it comes from, and its type."""
    resource = m.DescribeConfigsRequestResource(
        resource_type=GROUP, resource_name=group_id, configuration_keys=tuple(GROUP_SETTINGS)
    )
    result = ask(m.DescribeConfigsRequest(resources=(resource,)), 4).results[0]
    assert result.error_code == 0, result
    return {c.name: (c.value, c.config_source, c.config_type) for c in result.configs}


def answers(ask: Ask, group_id: str, settled: Callable[[int, Any], Any]) -> list[object]:
    """All requests, one after the other; ``settled`` takes a description when it has come to rest."""
    found: list[object] = []
    for number, changes in enumerate(ALTERATIONS):
        error = alter(ask, group_id, changes)
        found.append((changes, error, settled(number, partial(describe, ask, group_id))))
    found.append(alter(ask, group_id, ((SESSION, SET, "9000"),), validate_only=True))
    found.append(settled(len(ALTERATIONS), partial(describe, ask, group_id)))
    found.append(alter(ask, "", ((SESSION, SET, "9000"),)))
    return found


T = TypeVar("T")


async def asked_of_the_embedded_broker(play: Callable[[Ask], T]) -> T:
    async with serve(EmbeddedCluster(coordinator=CONFIG)) as cluster:

        def talk() -> T:
            host, _, port = cluster.bootstrap.rpartition(":")
            connection = Connection(host, int(port), "configs")
            try:
                return play(connection.call)
            finally:
                connection.close()

        return await trio.to_thread.run_sync(talk)


async def of_the_embedded_broker(group_id: str) -> list[object]:
    return await asked_of_the_embedded_broker(
        lambda ask: answers(ask, group_id, lambda _number, look: look())
    )


async def test_a_group_is_configured_by_requests():
    def play(ask: Ask) -> tuple[str, str | None, str | None]:
        error = alter(ask, "g", ((SESSION, SET, "7000"),))
        found = describe(ask, "g")
        return error, found[SESSION][0], found[HEARTBEAT][0]

    assert await asked_of_the_embedded_broker(play) == (
        "NONE",
        "7000",
        str(CONFIG.consumer_heartbeat_interval_ms),
    )


@pytest.mark.kafka
async def test_kafka_answers_the_same(kafka_bootstrap: str):
    group_id = f"configs-{time.time_ns()}"
    ours = await of_the_embedded_broker(group_id)

    def settled(number: int, look: Callable[[], object]) -> object:
        """A broker learns of a change a moment after it was made."""
        answer = ours[number]
        expected = answer[2] if isinstance(answer, tuple) else ours[len(ALTERATIONS) + 1]
        deadline = time.monotonic() + 5
        while (seen := look()) != expected and time.monotonic() < deadline:
            time.sleep(0.02)
        return seen

    def talk() -> list[object]:
        host, _, port = kafka_bootstrap.split(",", maxsplit=1)[0].rpartition(":")
        connection = Connection(host, int(port), "configs")
        try:
            return answers(connection.call, group_id, settled)
        finally:
            connection.close()

    theirs = await trio.to_thread.run_sync(talk)

    assert ours == theirs


async def test_a_group_can_not_begin_so_long_ago():
    """Kafka lets it."""
    async with serve(EmbeddedCluster(coordinator=CONFIG)) as cluster:
        with pytest.raises(RequestRefused) as refused:
            cluster.set_group_settings("g", {RESET: "by_duration:PT1H"})
        assert refused.value.code is ErrorCode.INVALID_CONFIG


def joining(group_id: str) -> m.ConsumerGroupHeartbeatRequest:
    return m.ConsumerGroupHeartbeatRequest(
        group_id=group_id,
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=1000,
        subscribed_topic_names=("foo",),
        topic_partitions=(),
    )


async def test_a_group_lives_by_its_settings():
    async with serve(EmbeddedCluster(coordinator=CONFIG)) as cluster:
        cluster.set_group_settings("g", {HEARTBEAT: "300"})

        answer = await cluster.shard_of("g").call(joining("g"), 1, "client", "/127.0.0.1")

        assert isinstance(answer, m.ConsumerGroupHeartbeatResponse)
        assert answer.heartbeat_interval_ms == 300


async def test_settings_of_a_group_come_before_it_and_outlive_it(tmp_path: Path):
    async with serve(EmbeddedCluster(coordinator=CONFIG, log_directory=tmp_path)) as cluster:
        cluster.set_group_settings("g", {HEARTBEAT: "300"})
        shard = cluster.shard_of("g")
        await shard.call(m.OffsetCommitRequest(group_id="g"), 9, "client", "/127.0.0.1")
        await shard.call(m.DeleteGroupsRequest(groups_names=("g",)), 2, "client", "/127.0.0.1")
        assert cluster.group_settings["g"] == {HEARTBEAT: "300"}

    async with serve(EmbeddedCluster(coordinator=CONFIG, log_directory=tmp_path)) as cluster:
        answer = await cluster.shard_of("g").call(joining("g"), 1, "client", "/127.0.0.1")

    assert answer.heartbeat_interval_ms == 300
