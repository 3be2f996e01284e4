"""The demo's own requests to the cluster, which bypass the proxy: topics, and descriptions of groups."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import trio
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, ConfigResource
from confluent_kafka.cimpl import NewTopic

from proxy.config.schema import Address
from proxy.demo.failure import DemoFailed

_TIMEOUT_S = 15.0
_CONNECT_S = 5.0
_DESCRIBE_TIMEOUT_S = 30.0
_RETRY_S = 0.5
_SESSION = "group.consumer.session.timeout.ms"
_QUIET = {"log_level": 0}
"""Without it librdkafka writes log lines to the terminal. Errors still come as exceptions."""

T = TypeVar("T")


class BrokerView(msgspec.Struct, frozen=True):
    """A group as the broker describes it."""

    type: str
    """``classic`` or ``consumer`` (the new protocol)."""

    state: str
    members: int


class Kafka:
    """A cluster, accessed by librdkafka's admin client."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})

    async def node_ids(self) -> list[int]:
        """Return the ids of the brokers.

        :raises DemoFailed: no broker answers.
        """
        what = f"reach a Kafka broker on {self.bootstrap}"
        await self._connect(what)  # fails at once if nothing listens there; librdkafka would retry
        cluster = await _result(what, self._admin.describe_cluster())
        return sorted(node.id for node in cluster.nodes)

    async def _connect(self, what: str) -> None:
        problem = ""
        for text in self.bootstrap.split(","):
            try:
                address = Address.parse(text)
                with trio.fail_after(_CONNECT_S):
                    await (await trio.open_tcp_stream(address.host, address.port)).aclose()
            except (OSError, ValueError, trio.TooSlowError) as error:
                problem = str(error) or f"no answer within {_CONNECT_S:g} s"
            else:
                return
        raise DemoFailed(f"can't {what}: {problem}")

    async def consumer_session_s(self, node_id: int) -> float | None:
        """Return ``group.consumer.session.timeout.ms`` in seconds; None if the broker does not say."""
        resource = ConfigResource(ConfigResource.Type.BROKER, str(node_id))
        future = self._admin.describe_configs([resource])[resource]
        with suppress(DemoFailed):
            entry = (await _result(f"describe broker {node_id}", future)).get(_SESSION)
            return None if entry is None else int(entry.value) / 1000
        return None

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with the cluster's default replication."""
        futures = self._admin.create_topics([NewTopic(topic, num_partitions=partitions)])
        await _result(f"create topic {topic}", futures[topic])

    async def describe(self, group_ids: Sequence[str]) -> dict[str, BrokerView]:
        """Describe these groups, with retries while their coordinator is moving or unavailable.

        :raises DemoFailed: there was no answer in time.
        """
        deadline = trio.current_time() + _DESCRIBE_TIMEOUT_S
        while True:
            try:
                return {group_id: await self._describe(group_id) for group_id in group_ids}
            except DemoFailed:
                if trio.current_time() > deadline:
                    raise
            await trio.sleep(_RETRY_S)

    async def _describe(self, group_id: str) -> BrokerView:
        future = self._admin.describe_consumer_groups([group_id])[group_id]
        return _view(await _result(f"describe group {group_id}", future))

    async def remove(self, topic: str, group_ids: Sequence[str]) -> None:
        """Delete the demo's topic and groups where the brokers allow it: a group that still has members stays."""
        futures = {
            **self._admin.delete_consumer_groups(list(group_ids)),
            **self._admin.delete_topics([topic]),
        }
        for name, future in futures.items():
            with suppress(DemoFailed):
                await _result(f"remove {name}", future)


def _view(description: Any) -> BrokerView:
    return BrokerView(
        type=description.type.name.lower(),
        state=description.state.name.lower(),
        members=len(description.members),
    )


async def _result(what: str, future: "Future[Any]") -> Any:
    return await _run_blocking(what, lambda: future.result(_TIMEOUT_S))


async def _run_blocking(what: str, call: Callable[[], T]) -> T:
    try:
        return await trio.to_thread.run_sync(call, abandon_on_cancel=True)
    except (KafkaException, TimeoutError) as error:
        raise DemoFailed(f"can't {what}: {error}") from error
