"""An application on confluent-kafka's share consumer (librdkafka, KIP-932).

Its argument, its modes and its events are those of tools/java_client/ShareConsumerDriver.java; ``renew`` it does not
have.
"""

import json
import os
import sys
from collections.abc import Collection, Mapping

import confluent_kafka
from confluent_kafka import AcknowledgeType, KafkaException, Message, ShareConsumer, TopicPartition
from line_protocol import Events, command_queue, next_command

POLL_S = 0.1


class Application:
    """Polls, acknowledges, reports, obeys."""

    def __init__(self, spec: dict[str, str]) -> None:
        self._mode = spec["mode"]
        self._topic = spec["topic"]
        self._events = Events()
        self._commands = command_queue()
        self._consumer = ShareConsumer(
            {
                "bootstrap.servers": spec["bootstrap"],
                "group.id": spec["group"],
                "client.id": spec["client_id"],
                "share.acknowledgement.mode": "implicit" if self._mode == "implicit" else "explicit",
            }
        )

    def run(self) -> None:
        """Until it is told to close, or the client raises."""
        library = f"{confluent_kafka.__version__} (librdkafka {confluent_kafka.libversion()[0]})"
        self._events.started("confluent-kafka share consumer", library)
        self._consumer.set_acknowledgement_commit_callback(self._acknowledged)
        try:
            self._consumer.subscribe([self._topic])
            held = False
            while not self._is_to_close(wait=held):
                held = self._work([one for one in self._consumer.poll(POLL_S) if not one.error()])
            self._consumer.close()
        except KafkaException as crash:
            self._events.write("failed", error=repr(crash))
            os._exit(1)
        self._events.write("closed")

    def _is_to_close(self, *, wait: bool) -> bool:
        command = self._commands.get() if wait else next_command(self._commands)
        return command is not None and command["command"] == "close"

    def _work(self, polled: list[Message]) -> bool:
        """Report what was polled and acknowledge it; return whether it is to be held instead."""
        by_partition: dict[int, list[Message]] = {}
        for message in polled:
            by_partition.setdefault(message.partition(), []).append(message)
        for partition, read in by_partition.items():
            self._events.write(
                "records",
                topic=self._topic,
                partition=partition,
                first=read[0].offset(),
                last=read[-1].offset(),
                offsets=[one.offset() for one in read],
                values=[one.value().decode() for one in read],
                deliveries=[one.delivery_count() for one in read],
            )
        if self._mode not in {"implicit", "hold"} and polled:
            for message in polled:
                self._consumer.acknowledge(message, self._becomes(message))
            self._consumer.commit_sync(30.0)
        return self._mode == "hold" and bool(polled)

    def _becomes(self, message: Message) -> AcknowledgeType:
        is_released = self._mode == "give-up" or (self._mode == "release" and message.delivery_count() == 1)
        return AcknowledgeType.RELEASE if is_released else AcknowledgeType.ACCEPT

    def _acknowledged(
        self, offsets: Mapping[TopicPartition, Collection[int]], refusal: KafkaException | None
    ) -> None:
        for at, those in offsets.items():
            self._events.write(
                "acknowledged",
                topic=at.topic,
                partition=at.partition,
                offsets=sorted(those),
                error=None if refusal is None else str(refusal),
            )


if __name__ == "__main__":
    Application(json.loads(sys.argv[1])).run()
