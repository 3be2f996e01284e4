"""An application on confluent-kafka (librdkafka). See line_protocol.py."""

import os
import time

import confluent_kafka
from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
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

BATCH = 500
POLL_S = 0.05


class Application:
    """Polls, reports, obeys."""

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._events = Events()
        self._commands = command_queue()
        self._batch: list[tuple[str, int, int, str]] = []
        self._progress = Progress(spec.commit_every_ms)
        self._incremental = spec.group_protocol == "consumer" or "cooperative-sticky" in spec.assignors
        self._consumer = Consumer(self._settings())

    def run(self) -> None:
        """Until it is told to close, or the client raises."""
        library = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
        self._events.started("confluent-kafka", library)
        try:
            self._work()
        except KafkaException as crash:
            self._events.write("failed", error=repr(crash))
            os._exit(1)

    def _work(self) -> None:
        self._subscribe(self._spec.topics)
        while True:
            command = next_command(self._commands)
            if command is not None and command["command"] == "close":
                break
            if command is not None:
                self._obey(command)
            self._poll()
            if self._progress.is_due:
                self._commit_offsets(self._progress.open())
        self._commit_offsets(self._progress.open())
        self._events.write("closing")
        self._consumer.close()
        self._events.write("closed")

    def _settings(self) -> dict[str, object]:
        spec = self._spec
        settings: dict[str, object] = {
            "bootstrap.servers": spec.bootstrap,
            "group.id": spec.group,
            "client.id": spec.client_id,
            "group.protocol": spec.group_protocol,
            "max.poll.interval.ms": spec.max_poll_interval_ms,
            "enable.auto.commit": spec.auto_commit,
            "auto.commit.interval.ms": spec.auto_commit_interval_ms,
            "auto.offset.reset": "earliest",
            "fetch.wait.max.ms": 100,
            "metadata.max.age.ms": spec.metadata_max_age_ms,
            "error_cb": self._on_error,
        }
        if spec.group_protocol == "classic":
            settings["partition.assignment.strategy"] = ",".join(spec.assignors)
            settings["session.timeout.ms"] = spec.session_timeout_ms
            settings["heartbeat.interval.ms"] = spec.heartbeat_interval_ms
        elif spec.assignors:
            settings["group.remote.assignor"] = spec.assignors[0]
        if spec.instance_id is not None:
            settings["group.instance.id"] = spec.instance_id
        if spec.rack is not None:
            settings["client.rack"] = spec.rack
        if os.environ.get("DRIVER_LOG") == "DEBUG":
            settings["debug"] = "broker,cgrp,metadata,protocol"
        return {**settings, **spec.own_settings}

    def _subscribe(self, topics: list[str]) -> None:
        self._consumer.subscribe(
            topics, on_assign=self._on_assign, on_revoke=self._on_revoke, on_lost=self._on_lost
        )

    def _poll(self) -> None:
        """One message at a time: a larger batch could cross a rebalance inside the client."""
        message = self._consumer.poll(POLL_S)
        while message is not None:
            error = message.error()
            if error is None:
                value = message.value().decode()
                self._batch.append((message.topic(), message.partition(), message.offset(), value))
            else:
                self._on_error(error)
            message = self._consumer.poll(0) if len(self._batch) < BATCH else None
        self._flush()

    def _flush(self) -> None:
        self._events.records(self._batch)
        for topic, partition, offset, _ in self._batch:
            self._progress.read(topic, partition, offset)
        self._batch.clear()

    def _on_assign(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._flush()
        self._events.write("assigned", partitions=grouped(partitions), incremental=self._incremental)
        if self._incremental:
            consumer.incremental_assign(partitions)
        else:
            consumer.assign(partitions)

    def _on_revoke(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._flush()
        self._commit_offsets(self._progress.open(partitions))
        self._let_go("revoked", consumer, partitions)

    def _on_lost(self, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._let_go("lost", consumer, partitions)

    def _let_go(self, event: str, consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self._flush()
        self._progress.forget(partitions)
        # Before librdkafka lets go: from then on its own thread may join again, and others get the partitions.
        self._events.write(event, partitions=grouped(partitions), incremental=self._incremental)
        if self._incremental:
            consumer.incremental_unassign(partitions)
        else:
            consumer.unassign()

    def _on_error(self, error: KafkaError) -> None:
        # The callback gets an error that only names the fatal one, and is not fatal itself.
        fatal = error.fatal() or error.code() == KafkaError._FATAL
        self._events.write("error", error=f"{error.name()}: {error.str()}", fatal=fatal)

    def _obey(self, command: dict) -> None:
        match command["command"]:
            case "commit":
                self._commit(command)
            case "subscribe":
                self._subscribe(command["topics"])
            case "unsubscribe":
                self._consumer.unsubscribe()
            case "stall":
                time.sleep(command["ms"] / 1000)
            case unknown:
                raise ValueError(f"unknown command {unknown}")

    def _commit(self, command: dict) -> None:
        asked = asked_offsets(command)
        if asked is None:
            positions = self._consumer.position(self._consumer.assignment())
            asked = [(at.topic, at.partition, at.offset) for at in positions if at.offset >= 0]
        if not asked:
            self._events.committed(())
        self._commit_offsets(asked)

    def _commit_offsets(self, asked: list[tuple[str, int, int]]) -> None:
        if not asked:
            return
        try:
            offsets = [TopicPartition(*where) for where in asked]
            answer = self._consumer.commit(offsets=offsets, asynchronous=False)
        except KafkaException as failure:
            error = failure.args[0]
            self._events.write(
                "commit_failed", error=f"{error.name()}: {error.str()}", offsets=by_topic(asked)
            )
            return
        refused = [one.error for one in answer if one.error is not None]
        if refused:
            why = f"{refused[0].name()}: {refused[0].str()}"
            self._events.write("commit_failed", error=why, offsets=by_topic(asked))
        else:
            self._events.committed((one.topic, one.partition, one.offset) for one in answer)
            self._progress.done(asked)


if __name__ == "__main__":
    Application(Spec.from_arguments()).run()
