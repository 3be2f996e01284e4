"""An application on aiokafka. See line_protocol.py."""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Iterable

import aiokafka
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from aiokafka.errors import KafkaError
from line_protocol import Events, Progress, Spec, asked_offsets, by_topic, grouped, read_commands

ASSIGNORS = {
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
}


class Listener(ConsumerRebalanceListener):
    """Reports what the client tells its application. aiokafka has no callback for a lost membership."""

    def __init__(
        self,
        events: Events,
        progress: Progress,
        commit: Callable[[list[tuple[str, int, int]]], Awaitable[None]],
    ) -> None:
        self._events = events
        self._progress = progress
        self._commit = commit

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._events.write("assigned", partitions=grouped(assigned), incremental=False)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._commit(self._progress.open(revoked))
        self._progress.forget(revoked)
        self._events.write("revoked", partitions=grouped(revoked), incremental=False)


class Application:
    """Polls, reports, obeys."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._events = Events()
        self._progress = Progress(spec.commit_every_ms)
        self._commands: asyncio.Queue[dict] = asyncio.Queue()

    async def run(self) -> None:
        """Until it is told to close, or the client raises."""
        loop = asyncio.get_running_loop()
        read_commands(lambda command: loop.call_soon_threadsafe(self._commands.put_nowait, command))
        self._events.started("aiokafka", aiokafka.__version__)
        try:
            await self._work()
        except KafkaError as crash:
            self._events.write("failed", error=repr(crash))
            os._exit(1)

    async def _work(self) -> None:
        spec = self._spec
        consumer = AIOKafkaConsumer(
            bootstrap_servers=spec.bootstrap.split(","),
            group_id=spec.group,
            client_id=spec.client_id,
            group_instance_id=spec.instance_id,
            client_rack=spec.rack,
            session_timeout_ms=spec.session_timeout_ms,
            heartbeat_interval_ms=spec.heartbeat_interval_ms,
            max_poll_interval_ms=spec.max_poll_interval_ms,
            enable_auto_commit=spec.auto_commit,
            auto_commit_interval_ms=spec.auto_commit_interval_ms,
            metadata_max_age_ms=spec.metadata_max_age_ms,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            partition_assignment_strategy=[ASSIGNORS[name] for name in spec.assignors],
        )
        self._listener = Listener(
            self._events, self._progress, lambda offsets: self._commit_offsets(consumer, offsets)
        )
        consumer.subscribe(spec.topics, listener=self._listener)
        await consumer.start()
        while True:
            command = None if self._commands.empty() else self._commands.get_nowait()
            if command is not None and command["command"] == "close":
                break
            if command is not None:
                await self._obey(consumer, command)
            for records in (await consumer.getmany(timeout_ms=50)).values():
                self._events.records((at.topic, at.partition, at.offset, at.value.decode()) for at in records)
                for at in records:
                    self._progress.read(at.topic, at.partition, at.offset)
            if self._progress.is_due:
                await self._commit_offsets(consumer, self._progress.open())
        await self._commit_offsets(consumer, self._progress.open())
        self._events.write("closing")
        await consumer.stop()
        self._events.write("closed")

    async def _obey(self, consumer: AIOKafkaConsumer, command: dict) -> None:
        match command["command"]:
            case "commit":
                await self._commit(consumer, command)
            case "subscribe":
                consumer.subscribe(command["topics"], listener=self._listener)
            case "unsubscribe":
                consumer.unsubscribe()
            case "stall":
                await asyncio.sleep(command["ms"] / 1000)
            case unknown:
                raise ValueError(f"unknown command {unknown}")

    async def _commit(self, consumer: AIOKafkaConsumer, command: dict) -> None:
        asked = asked_offsets(command)
        if asked is None:
            asked = [(at.topic, at.partition, await consumer.position(at)) for at in consumer.assignment()]
        await self._commit_offsets(consumer, asked)
        if not asked:
            self._events.committed(())

    async def _commit_offsets(self, consumer: AIOKafkaConsumer, asked: list[tuple[str, int, int]]) -> None:
        if not asked:
            return
        try:
            await consumer.commit(
                {TopicPartition(topic, partition): offset for topic, partition, offset in asked}
            )
        except KafkaError as refusal:
            self._events.write("commit_failed", error=repr(refusal), offsets=by_topic(asked))
        else:
            self._events.committed(asked)
            self._progress.done(asked)


if __name__ == "__main__":
    logging.basicConfig(level=os.environ.get("DRIVER_LOG", "WARNING"))
    asyncio.run(Application(Spec.from_arguments()).run())
