"""An application on kafka-python. See line_protocol.py."""

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable

import kafka
from kafka import AsyncConsumerRebalanceListener, KafkaConsumer, TopicPartition
from kafka.coordinator.assignors.cooperative_sticky import CooperativeStickyAssignor
from kafka.coordinator.assignors.range import ConsumerProtocolSubscription, RangePartitionAssignor
from kafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from kafka.coordinator.assignors.sticky.sticky_assignor import StickyPartitionAssignor
from kafka.errors import KafkaConnectionError, KafkaError
from kafka.structs import OffsetAndMetadata
from line_protocol import (
    Events,
    Progress,
    Spec,
    asked_offsets,
    by_topic,
    command_queue,
    grouped,
    next_command,
)


class LookAlike(RangePartitionAssignor):
    """A custom assignor that is range under another name."""

    name = "look-alike"


class WithUserData(RangePartitionAssignor):
    """A custom assignor whose clients tell the leader something."""

    name = "with-user-data"

    @classmethod
    def metadata(cls, topics):
        return ConsumerProtocolSubscription(cls.version, list(topics), b"its load")


ASSIGNORS = {
    "look-alike": LookAlike,
    "with-user-data": WithUserData,
    "range": RangePartitionAssignor,
    "roundrobin": RoundRobinPartitionAssignor,
    "sticky": StickyPartitionAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}


class Listener(AsyncConsumerRebalanceListener):
    """Reports what the client tells its application; awaited in the client's own thread, which must not be blocked."""

    def __init__(
        self,
        events: Events,
        progress: Progress,
        commit: Callable[[list[tuple[str, int, int]]], Awaitable[None]],
        *,
        incremental: bool,
    ) -> None:
        self._events = events
        self._progress = progress
        self._commit = commit
        self._incremental = incremental

    async def on_partitions_assigned(self, assigned: Iterable[TopicPartition]) -> None:
        self._write("assigned", assigned)

    async def on_partitions_revoked(self, revoked: Iterable[TopicPartition]) -> None:
        await self._commit(self._progress.open(revoked))
        self._progress.forget(revoked)
        self._write("revoked", revoked)

    async def on_partitions_lost(self, lost: Iterable[TopicPartition]) -> None:
        self._progress.forget(lost)
        self._write("lost", lost)

    def _write(self, event: str, partitions: Iterable[TopicPartition]) -> None:
        self._events.write(event, partitions=grouped(partitions), incremental=self._incremental)


class Moved(logging.Handler):
    """Reports what the client says when it moves a position by itself: at a reset, a truncation, a bad offset."""

    SAYS = ("Resetting offset", "Truncation detected", "diverged at epoch", "is out of range")

    def __init__(self, events: Events) -> None:
        super().__init__(logging.INFO)
        self._events = events

    def emit(self, record: logging.LogRecord) -> None:
        """Write it between the other events."""
        text = record.getMessage()
        if any(says in text for says in self.SAYS):
            self._events.write("position_moved", text=text)


class Application:
    """Polls, reports, obeys."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._events = Events()
        self._commands = command_queue()
        self._progress = Progress(spec.commit_every_ms)

    def run(self) -> None:
        """Until it is told to close, or the client raises."""
        self._events.started("kafka-python", kafka.__version__)
        fetcher = logging.getLogger("kafka.consumer.fetcher")
        fetcher.setLevel(min(logging.INFO, fetcher.getEffectiveLevel()))
        fetcher.addHandler(Moved(self._events))
        try:
            self._work()
        except KafkaError as crash:
            self._events.write("failed", error=repr(crash))
            os._exit(1)

    def _work(self) -> None:
        spec = self._spec
        consumer = KafkaConsumer(
            bootstrap_servers=spec.bootstrap.split(","),
            group_id=spec.group,
            client_id=spec.client_id,
            group_instance_id=spec.instance_id,
            client_rack=spec.rack or "",
            session_timeout_ms=spec.session_timeout_ms,
            heartbeat_interval_ms=spec.heartbeat_interval_ms,
            max_poll_interval_ms=spec.max_poll_interval_ms,
            enable_auto_commit=spec.auto_commit,
            auto_commit_interval_ms=spec.auto_commit_interval_ms,
            metadata_max_age_ms=spec.metadata_max_age_ms,
            auto_offset_reset="earliest",
            fetch_max_wait_ms=100,
            partition_assignment_strategy=[ASSIGNORS[name] for name in spec.assignors],
            **spec.own_settings,
        )
        self._listener = Listener(
            self._events,
            self._progress,
            lambda offsets: self._commit_in_callback(consumer, offsets),
            incremental="cooperative-sticky" in spec.assignors,
        )
        self._subscribe(consumer, spec.topics)
        while True:
            command = next_command(self._commands)
            if command is not None and command["command"] == "close":
                break
            if command is not None:
                self._obey(consumer, command)
            self._poll(consumer)
            if self._progress.is_due:
                self._commit_offsets(consumer, self._progress.open())
        self._commit_offsets(consumer, self._progress.open())
        self._events.write("closing")
        consumer.close()
        self._events.write("closed")

    def _poll(self, consumer: KafkaConsumer) -> None:
        """Poll again after a lost connection, which kafka-python 3.0 raises now and then.

        Seen with one of a hundred consumers at a broker's restart, straight at the broker too.
        """
        try:
            polled = consumer.poll(timeout_ms=50)
        except KafkaConnectionError as lost:
            self._events.write("error", error=repr(lost), fatal=False)
            return
        for records in polled.values():
            self._events.records((at.topic, at.partition, at.offset, at.value.decode()) for at in records)
            for at in records:
                self._progress.read(at.topic, at.partition, at.offset)

    def _subscribe(self, consumer: KafkaConsumer, topics: list[str]) -> None:
        """Subscribe, and know the partitions before joining: kafka-python 3.0 can get stuck otherwise.

        A leader that learns of partitions only after it joined joins again. If a poll times out between that
        JoinGroup and its SyncGroup, `need_rejoin` is false by then, nobody awaits the join any more,
        and the consumer stays outside of the group, silent, for ever.
        """
        consumer.subscribe(topics, listener=self._listener)
        for topic in topics:
            consumer.partitions_for_topic(topic)

    def _obey(self, consumer: KafkaConsumer, command: dict) -> None:
        match command["command"]:
            case "commit":
                self._commit(consumer, command)
            case "subscribe":
                self._subscribe(consumer, command["topics"])
            case "unsubscribe":
                consumer.unsubscribe()
            case "stall":
                time.sleep(command["ms"] / 1000)
            case unknown:
                raise ValueError(f"unknown command {unknown}")

    def _commit(self, consumer: KafkaConsumer, command: dict) -> None:
        asked = asked_offsets(command)
        if asked is None:
            asked = [(at.topic, at.partition, consumer.position(at)) for at in consumer.assignment()]
        self._commit_offsets(consumer, asked)
        if not asked:
            self._events.committed(())

    def _commit_offsets(self, consumer: KafkaConsumer, asked: list[tuple[str, int, int]]) -> None:
        if not asked:
            return
        try:
            consumer.commit(_commit_request(asked))
        except KafkaError as refusal:
            self._refused(asked, refusal)
        else:
            self._accepted(asked)

    async def _commit_in_callback(self, consumer: KafkaConsumer, asked: list[tuple[str, int, int]]) -> None:
        if not asked:
            return
        try:
            await consumer.commit_async(_commit_request(asked))
        except KafkaError as refusal:
            self._refused(asked, refusal)
        else:
            self._accepted(asked)

    def _accepted(self, asked: list[tuple[str, int, int]]) -> None:
        self._events.committed(asked)
        self._progress.done(asked)

    def _refused(self, asked: list[tuple[str, int, int]], refusal: KafkaError) -> None:
        self._events.write("commit_failed", error=repr(refusal), offsets=by_topic(asked))


def _commit_request(asked: list[tuple[str, int, int]]) -> dict[TopicPartition, OffsetAndMetadata]:
    return {
        TopicPartition(topic, partition): OffsetAndMetadata(offset, "", -1)
        for topic, partition, offset in asked
    }


if __name__ == "__main__":
    logging.basicConfig(level=os.environ.get("DRIVER_LOG", "WARNING"))
    Application(Spec.from_arguments()).run()
