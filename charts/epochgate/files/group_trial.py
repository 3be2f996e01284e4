"""Run by ``helm test``: two consumers share a topic through the proxy, one leaves, the other takes over.

Settings come from the environment, the clients' own from a JSON file and from a folder with one file for each (a
mounted Secret). Exit code 0 if every record was read, each partition had its owner, and the commits are there.
"""

import json
import os
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import (
    Consumer,
    ConsumerGroupTopicPartitions,
    KafkaError,
    KafkaException,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import AdminClient, NewTopic

BOOTSTRAP = os.environ["BOOTSTRAP"]
TOPIC = os.environ["TOPIC"]
GROUP = os.environ["GROUP"]
EXPECTED_TYPE = os.environ.get("EXPECTED_TYPE", "")
DEADLINE = time.monotonic() + float(os.environ.get("TIMEOUT_S", "90"))
PARTITIONS = 4
RECORDS = 40
SESSION_TIMEOUT_MS = 10_000


class TrialFailedError(Exception):
    """The message says which condition was not met."""


def settings() -> dict[str, str]:
    """Return the settings of all clients."""
    found = {"bootstrap.servers": BOOTSTRAP, "client.id": "epochgate-test"}
    if file := os.environ.get("PROPERTIES_FILE"):
        found |= {key: str(value) for key, value in json.loads(Path(file).read_text()).items()}
    if folder := os.environ.get("PROPERTIES_FOLDER"):
        found |= {
            at.name: at.read_text().strip() for at in Path(folder).iterdir() if at.name.count("..") == 0
        }
    return found


class Member:
    """A consumer, its assignment, and the records that it read."""

    def __init__(self, name: str, run: str) -> None:
        self.name = name
        self.owned: set[int] = set()
        self.read: set[str] = set()
        self._run = run
        group = {
            "group.id": GROUP,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": SESSION_TIMEOUT_MS,
            "heartbeat.interval.ms": 1000,
            "partition.assignment.strategy": "cooperative-sticky",
        }
        self._consumer = Consumer({**settings(), **group})
        self._consumer.subscribe([TOPIC], on_assign=self._assigned, on_revoke=self._revoked)

    def poll(self) -> None:
        """Poll records for a moment."""
        message = self._consumer.poll(0.1)
        if message is None:
            return
        if message.error():
            raise KafkaException(message.error())
        value = (message.value() or b"").decode(errors="replace")
        if value.startswith(self._run):
            self.read.add(value)

    def commit(self) -> None:
        """Commit the positions synchronously."""
        at = self._consumer.position([TopicPartition(TOPIC, number) for number in sorted(self.owned)])
        known = [one for one in at if one.offset >= 0]
        if known:
            self._consumer.commit(offsets=known, asynchronous=False)

    def close(self) -> None:
        """Leave the group."""
        self._consumer.close()

    def _assigned(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {at.partition for at in partitions}

    def _revoked(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {at.partition for at in partitions}


def poll_until(members: list[Member], is_so: Callable[[], bool], what: str) -> None:
    """Poll all members until the condition holds."""
    while not is_so():
        if time.monotonic() > DEADLINE:
            owned = {member.name: sorted(member.owned) for member in members}
            raise TrialFailedError(f"time is up before {what}; owned: {owned}")
        for member in members:
            member.poll()
    say(what)


def say(what: str) -> None:
    """Print one line for ``helm test``, which shows it."""
    print(f"ok: {what}", flush=True)


def repeated(call: Callable[[], Any]) -> Any:
    """Return what a call of an admin client returns; make it again if its connection ends, which librdkafka does not.

    A pod that has just started ends some: those on which a bootstrap broker stood in for a node, once the metadata of
    the first client have told where that node is.
    """
    while True:
        try:
            return call()
        except KafkaException as failure:
            if failure.args[0].code() != KafkaError._TRANSPORT or time.monotonic() > DEADLINE:  # noqa: SLF001 - its name
                raise
            print(f"again: {failure.args[0].str()}", flush=True)


def make_topic(admin: AdminClient) -> int:
    """Create the topic if it does not exist; return its number of partitions."""

    def partitions() -> int:
        topics = repeated(lambda: admin.list_topics(timeout=30)).topics
        return len(topics[TOPIC].partitions) if TOPIC in topics else 0

    def make() -> None:
        if not partitions():  # a call whose answer got lost may have made it
            admin.create_topics([NewTopic(TOPIC, PARTITIONS)])[TOPIC].result(timeout=30)

    if not partitions():
        repeated(make)
        say(f"topic {TOPIC} was made")
        while partitions() < PARTITIONS:
            if time.monotonic() > DEADLINE:
                raise TrialFailedError(f"time is up before {TOPIC} has its partitions")
    return partitions()


def produce(run: str, partitions: int) -> set[str]:
    """Write records to every partition; return those that were acknowledged."""
    producer = Producer(settings())
    acknowledged: set[str] = set()

    def delivered(error: object, message: object) -> None:
        if error is None:
            acknowledged.add(message.value().decode())  # type: ignore[attr-defined]  # confluent-kafka has no types

    for number in range(RECORDS):
        producer.produce(TOPIC, f"{run}/{number}", partition=number % partitions, on_delivery=delivered)
    producer.flush(30)
    if len(acknowledged) != RECORDS:
        raise TrialFailedError(f"only {len(acknowledged)} of {RECORDS} records were acknowledged")
    say(f"{RECORDS} records are written")
    return acknowledged


def type_of(admin: AdminClient) -> str:
    """Return the type that the broker reports for the group."""
    listed = repeated(lambda: admin.list_consumer_groups(request_timeout=30).result(timeout=30)).valid
    return next((one.type.name.lower() for one in listed if one.group_id == GROUP), "none")


def check_commits(admin: AdminClient, partitions: int) -> None:
    """Check that every partition has a committed offset of the group."""
    asked = ConsumerGroupTopicPartitions(
        GROUP, [TopicPartition(TOPIC, number) for number in range(partitions)]
    )
    answer = repeated(lambda: admin.list_consumer_group_offsets([asked])[GROUP].result(timeout=30))
    missing = [at.partition for at in answer.topic_partitions if at.offset < 0]
    if missing:
        raise TrialFailedError(f"no offset is committed for the partitions {missing}")
    say("the commits are there")


@contextmanager
def member(name: str, run: str) -> Iterator[Member]:
    """Provide a member that leaves at the end, even after an error."""
    one = Member(name, run)
    try:
        yield one
    finally:
        one.close()


def main() -> None:
    """Run the test."""
    run = uuid.uuid4().hex
    admin = AdminClient(settings())
    partitions = make_topic(admin)
    everything = set(range(partitions))
    written = produce(run, partitions)
    with member("first", run) as first:
        with member("second", run) as second:
            both = [first, second]
            share = lambda: first.owned | second.owned == everything and bool(first.owned and second.owned)  # noqa: E731
            poll_until(both, share, "two members share the partitions")
            poll_until(both, lambda: first.read | second.read == written, "every record was read")
            kind = type_of(admin)
            if EXPECTED_TYPE and kind != EXPECTED_TYPE:
                raise TrialFailedError(f"the broker shows the group as {kind}, not {EXPECTED_TYPE}")
            say(f"the broker shows the group as {kind}")
            first.commit()
            second.commit()
        poll_until([first], lambda: first.owned == everything, "one left, and the other took over")
        first.commit()
    check_commits(admin, partitions)


if __name__ == "__main__":
    try:
        main()
    except (TrialFailedError, KafkaException) as failure:
        sys.exit(f"failed: {failure}")
