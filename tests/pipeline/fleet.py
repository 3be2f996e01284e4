"""More than thirty groups of every kind on a real broker, made by real clients."""

import datetime as dt
import time
from collections.abc import Callable
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from kio.schema.join_group.v5.request import JoinGroupRequest, JoinGroupRequestProtocol
from kio.schema.sync_group.v3.request import SyncGroupRequest, SyncGroupRequestAssignment
from support import raw
from support.broker import Kafka
from support.clients import JAVA, KAFKA_PYTHON
from support.consumers import Consumers

DELETED = ("deleted-0", "deleted-1")
MEMBER_ID_REQUIRED = 79
_TIMEOUT_S = 120.0
_PATIENT = {"session_timeout_ms": 300_000, "max_poll_interval_ms": 600_000}


class Fleet:
    """The groups; the clients in this process live until ``close``."""

    def __init__(self, kafka: Kafka, consumers: Consumers) -> None:
        self._kafka = kafka
        self._own: list[Consumer] = []
        self._raw: list[raw.RawConnection] = []
        self.topics = [kafka.new_topic(f"fleet{number}", partitions=4) for number in range(2)]
        kafka.produce(self.topics[0], 40)
        processes = [
            consumers.start(
                KAFKA_PYTHON, kafka.bootstrap, f"sticky-{number}", self.topics[0], "sticky", **_PATIENT
            )
            for number in range(2)
        ]
        processes.append(
            consumers.start(
                JAVA,
                kafka.bootstrap,
                "java-cooperative",
                self.topics,
                "cooperative-sticky",
                rack="r1",
                **_PATIENT,
            )
        )
        self._classic()
        self._new_protocol()
        self._connect()
        self._empty_and_deleted()
        for consumer in processes:
            consumer.wait_until(consumer.owned, f"{consumer.name} owns something", timeout_s=_TIMEOUT_S)
            consumer.commit()
            consumer.freeze()  # what follows looks at a fleet where nothing moves; sessions outlast it

    def close(self) -> None:
        """Let all go."""
        for consumer in self._own:
            consumer.close()
        for connection in self._raw:
            connection.close()

    def _classic(self) -> None:
        for number in range(6):
            self._join(f"range-{number}", "range", count=1 + number % 2)
        for number in range(4):
            self._join(f"roundrobin-{number}", "roundrobin")
            self._join(f"cooperative-{number}", "cooperative-sticky", count=2 if number == 0 else 1)
            self._join(f"static-{number}", "range", **{"group.instance.id": f"instance-{number}"})
        self._join("patient", "range", **{"session.timeout.ms": 300_000, "max.poll.interval.ms": 600_000})

    def _new_protocol(self) -> None:
        for number in range(6):
            extra = {"group.instance.id": "new-0"} if number == 0 else {"group.remote.assignor": "range"}
            if number > 1:
                extra = {}
            self._start(
                f"new-{number}", {"group.protocol": "consumer", **extra}, count=2 if number == 2 else 1
            )
        self._settle(lambda consumer: bool(consumer.assignment()))

    def _join(self, group: str, assignor: str, *, count: int = 1, **extra: Any) -> None:
        settings = {"partition.assignment.strategy": assignor, "session.timeout.ms": 120_000, **extra}
        self._start(group, settings, count=count)

    def _start(self, group: str, settings: dict[str, Any], *, count: int) -> None:
        for number in range(count):
            consumer = Consumer(
                {
                    "bootstrap.servers": self._kafka.bootstrap,
                    "group.id": group,
                    "client.id": f"{group}-client-{number}",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "earliest",
                    "log_level": 0,
                    **settings,
                }
            )
            consumer.subscribe(self.topics)
            self._own.append(consumer)

    def _settle(self, has_settled: Callable[[Consumer], bool]) -> None:
        """Poll all clients until each has an assignment, and then for a while, so that no rebalance is left."""
        deadline = time.monotonic() + _TIMEOUT_S
        quiet_since = time.monotonic()
        before: list[Any] = []
        while time.monotonic() - quiet_since < 4:
            assert time.monotonic() < deadline, "the fleet does not settle"
            for consumer in self._own:
                consumer.poll(0.005)
            now = [sorted((at.topic, at.partition) for at in consumer.assignment()) for consumer in self._own]
            if now != before or not all(map(has_settled, self._own)):
                before, quiet_since = now, time.monotonic()
        for number, consumer in enumerate(self._own):
            at = [
                TopicPartition(at.topic, at.partition, 3 + number, f"note {number}")
                for at in consumer.assignment()
            ]
            consumer.commit(offsets=at, asynchronous=False)
            consumer.pause(consumer.assignment())

    def _connect(self) -> None:
        for number in range(3):
            group = f"connect-{number}"
            connection = raw.to_coordinator(self._kafka.bootstrap, group, client_id="connect-worker")
            self._raw.append(connection)
            joined = connection.call(_connect_join(group, ""))
            assert joined.error_code == MEMBER_ID_REQUIRED
            joined = connection.call(_connect_join(group, joined.member_id))
            share = SyncGroupRequestAssignment(member_id=joined.member_id, assignment=b"\x00\x01work")
            synced = connection.call(
                SyncGroupRequest(
                    group_id=group,
                    generation_id=joined.generation_id,
                    member_id=joined.member_id,
                    assignments=(share,),
                )
            )
            assert synced.error_code == 0

    def _empty_and_deleted(self) -> None:
        for number in range(3):
            self._kafka.commit(f"simple-{number}", {(self.topics[0], number): 7})
        for group in DELETED:
            self._kafka.commit(group, {(self.topics[0], 0): 1})
            self._kafka.admin.delete_consumer_groups([group])[group].result(timeout=15)
        kept = len(self._own)
        self._join("emptied", "range")
        gone = self._own[-1]
        deadline = time.monotonic() + _TIMEOUT_S
        while not gone.assignment():
            assert time.monotonic() < deadline
            gone.poll(0.05)
        gone.commit(offsets=[TopicPartition(self.topics[0], 0, 5)], asynchronous=False)
        gone.close()
        del self._own[kept:]


def _connect_join(group: str, member_id: str) -> JoinGroupRequest:
    return JoinGroupRequest(
        group_id=group,
        session_timeout=dt.timedelta(minutes=5),
        rebalance_timeout=dt.timedelta(minutes=5),
        member_id=member_id,
        group_instance_id=None,
        protocol_type="connect",
        protocols=(JoinGroupRequestProtocol(name="sessioned", metadata=b"\x00\x02http://worker"),),
    )
