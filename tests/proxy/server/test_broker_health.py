"""A node that refuses loses its port at once; one that is only slow keeps it as long as it answers anywhere."""

import errno
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import structlog
import trio
import trio.testing

from proxy.config.schema import Address
from proxy.metrics.registry import Metrics
from proxy.server.broker_health import BrokerHealth
from proxy.transport.dialer import Dialer, UnreachableError
from proxy.transport.listeners import BindError
from proxy.transport.node_table import NodeTable

_TIMEOUT_S = 10.0
_SLOW = UnreachableError("kafka-0:9092: no answer within 10 s", timed_out=True)


class Node:
    """A broker that takes a connection, refuses it, or leaves it unanswered; ``ports`` tells what came of its port."""

    def __init__(self) -> None:
        self.behaviour = "takes"
        self.attempts = 0
        self.taken = 0  # how often somebody else has the port
        self.ports: list[str] = []
        metrics = Metrics()
        address = Address("kafka-0", 9092)
        self.dialer = Dialer((address,), NodeTable(), _TIMEOUT_S, metrics, self._open)
        self.broker_health = BrokerHealth(self.dialer, metrics)

    def start(self, nursery: trio.Nursery) -> None:
        self.broker_health.start(
            nursery, on_unreachable=lambda _: self.ports.append("suspended"), on_reachable=self._found
        )

    def _found(self, _node_id: int | None) -> None:
        if self.taken:
            self.taken -= 1
            raise BindError("the port is taken")
        self.ports.append("open")

    async def _open(self, _host: str, _port: int) -> trio.abc.Stream:
        self.attempts += 1
        if self.behaviour == "refuses":
            raise ConnectionRefusedError
        if self.behaviour == "is beyond descriptors":
            raise OSError(errno.EMFILE, "Too many open files")
        if self.behaviour == "has no name":
            ("a" * 64).encode("idna")
        if self.behaviour == "is slow":
            await trio.sleep_forever()
        return trio.testing.memory_stream_pair()[0]


@asynccontextmanager
async def a_node(behaviour: str) -> AsyncIterator[Node]:
    node = Node()
    node.behaviour = behaviour
    async with trio.open_nursery() as nursery:
        node.start(nursery)
        yield node
        nursery.cancel_scope.cancel()


async def test_a_refusal_takes_the_port_away_at_once(autojump_clock: trio.testing.MockClock) -> None:
    async with a_node("refuses") as node:
        node.broker_health.connect_failed(None, UnreachableError("kafka-0:9092: Connection refused"))

        assert node.ports == ["suspended"]


async def test_a_node_keeps_its_port_when_this_process_has_nothing_left_to_connect_with(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with a_node("is beyond descriptors") as node:
        with pytest.raises(UnreachableError, match="kafka-0:9092: Too many open files") as caught:
            await node.dialer.dial(None)
        node.broker_health.connect_failed(None, caught.value)
        node.broker_health.connect_failed(None, _SLOW)
        await trio.sleep(_TIMEOUT_S + 1)

        assert node.attempts == 2
        assert node.ports == []


async def test_a_name_that_can_not_be_is_a_node_that_can_not_be_reached() -> None:
    async with a_node("has no name") as node:
        with pytest.raises(UnreachableError, match="label too long"):
            await node.dialer.dial(None)


async def test_a_port_that_somebody_took_meanwhile_is_named_and_tried_again(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with a_node("takes") as node:
        node.taken = 3
        with structlog.testing.capture_logs() as lines:
            node.broker_health.connect_failed(None, UnreachableError("kafka-0:9092: Connection refused"))
            await trio.sleep(60)

        assert node.ports == ["suspended", "open"]
        assert [line["reason"] for line in lines if line["log_level"] == "error"] == ["the port is taken"]


async def test_a_node_that_was_away_for_a_minute_has_its_port_again_within_half_a_second(
    autojump_clock: trio.testing.MockClock,
) -> None:
    """Clients dial again after a second at most."""
    async with a_node("refuses") as node:
        node.broker_health.connect_failed(None, UnreachableError("kafka-0:9092: Connection refused"))
        await trio.sleep(60)
        node.behaviour = "takes"
        await trio.sleep(0.51)

        assert node.ports == ["suspended", "open"]


async def test_a_slow_node_that_takes_the_second_attempt_keeps_its_port(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with a_node("takes") as node:
        node.broker_health.connect_failed(None, _SLOW)
        await trio.testing.wait_all_tasks_blocked()

        assert node.attempts == 1
        assert node.ports == []


async def test_a_slow_node_that_answers_on_another_connection_keeps_its_port(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with a_node("is slow") as node:
        node.broker_health.connect_failed(None, _SLOW)
        await trio.testing.wait_all_tasks_blocked()
        node.broker_health.read_counter(None).value += 1
        await trio.sleep(_TIMEOUT_S + 1)

        assert node.attempts == 1
        assert node.ports == []


async def test_a_node_that_says_nothing_at_all_loses_its_port(autojump_clock: trio.testing.MockClock) -> None:
    async with a_node("is slow") as node:
        node.broker_health.connect_failed(None, _SLOW)
        await trio.testing.wait_all_tasks_blocked()
        assert node.ports == []
        await trio.sleep(_TIMEOUT_S + 1)

        assert node.ports == ["suspended"]


async def test_clients_that_fail_together_cause_one_second_attempt(
    autojump_clock: trio.testing.MockClock,
) -> None:
    async with a_node("takes") as node:
        for _ in range(100):
            node.broker_health.connect_failed(None, _SLOW)
        await trio.testing.wait_all_tasks_blocked()

        assert node.attempts == 1


async def test_what_another_node_says_proves_nothing(autojump_clock: trio.testing.MockClock) -> None:
    async with a_node("is slow") as node:
        node.broker_health.connect_failed(0, _SLOW)
        await trio.testing.wait_all_tasks_blocked()
        node.broker_health.read_counter(1).value += 1
        await trio.sleep(_TIMEOUT_S + 1)

        assert node.ports == ["suspended"]
