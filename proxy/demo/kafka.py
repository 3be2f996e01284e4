"""What the demo asks of the cluster itself, past the proxy: topics, and what the broker says of a group."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

import msgspec
import trio
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from proxy.config.schema import Address
from proxy.demo.failure import DemoFailed

_ANSWER_S = 15.0
_CONNECT_S = 5.0
_PATIENCE_S = 30.0
_ASK_AGAIN_S = 0.5
_QUIET = {"log_level": 0}
"""librdkafka writes its own log lines into the terminal otherwise; what matters comes as an exception."""

T = TypeVar("T")


class BrokerView(msgspec.Struct, frozen=True):
    """A group as the broker describes it to its own tools."""

    type: str
    """``classic`` or ``consumer`` (the new protocol)."""

    state: str
    members: int


class Kafka:
    """A cluster, by librdkafka's admin client."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self._admin = AdminClient({"bootstrap.servers": bootstrap, **_QUIET})

    async def node_ids(self) -> list[int]:
        """The ids of its brokers.

        :raises DemoFailed: nobody answers.
        """
        what = f"reach a Kafka broker on {self.bootstrap}"
        await self._connect(what)  # fails at once where nobody listens; librdkafka would go on trying
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

    async def create_topic(self, topic: str, partitions: int) -> None:
        """Create a topic with the cluster's default replication."""
        futures = self._admin.create_topics([NewTopic(topic, num_partitions=partitions)])
        await _result(f"create topic {topic}", futures[topic])

    async def describe(self, group_ids: Sequence[str]) -> dict[str, BrokerView]:
        """What the broker says of each of these groups; asked again while their coordinator moves or is away.

        :raises DemoFailed: it did not say anything in time.
        """
        deadline = trio.current_time() + _PATIENCE_S
        while True:
            try:
                return {group_id: await self._describe(group_id) for group_id in group_ids}
            except DemoFailed:
                if trio.current_time() > deadline:
                    raise
            await trio.sleep(_ASK_AGAIN_S)

    async def _describe(self, group_id: str) -> BrokerView:
        future = self._admin.describe_consumer_groups([group_id])[group_id]
        return _view(await _result(f"describe group {group_id}", future))

    async def remove(self, topic: str, group_ids: Sequence[str]) -> None:
        """Remove what the demo has made, as far as the brokers let it: a group that still has members stays."""
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
    return await _ask(what, lambda: future.result(_ANSWER_S))


async def _ask(what: str, question: Callable[[], T]) -> T:
    try:
        return await trio.to_thread.run_sync(question, abandon_on_cancel=True)
    except (KafkaException, TimeoutError) as error:
        raise DemoFailed(f"can't {what}: {error}") from error
