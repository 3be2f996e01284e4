"""Clients in this process, each in a thread: librdkafka's consumers, and members of Connect and streams by hand."""

import contextlib
import threading
from abc import ABC, abstractmethod

from confluent_kafka import Consumer, KafkaException, ShareConsumer
from kio.schema.api_versions.v0.request import ApiVersionsRequest
from support.broker import QUIET
from support.raw_member import Offer, RawMember
from support.raw_streams_member import RawStreamsMember

from tests.truth.kafka_says import ClientId
from tests.truth.plan import Kind

SESSION_TIMEOUT_MS = 8_000
HEARTBEAT_MS = 1_000
CLOSES_WITHIN_S = 30.0


class Client(ABC):
    """One member of a group. It goes on trying while its entry is away, until it is closed."""

    def __init__(self, bootstrap: str, group: str, topic: str, client: ClientId) -> None:
        self.id = client
        self.group = group
        self.bootstrap = bootstrap
        self.topic = topic
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._work, name=str(client), daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Begin to leave the group."""
        self._ends.set()

    def wait_closed(self) -> None:
        """Wait until it has left, if its entry answers."""
        self._thread.join(CLOSES_WITHIN_S)

    @abstractmethod
    def _work(self) -> None:
        """Be a member until it is closed, and leave."""


class ConsumerClient(Client):
    """A consumer, classic or of the new protocol."""

    def _work(self) -> None:
        native = self.id.kind == Kind.NATIVE
        own = (
            {"group.protocol": "consumer"}
            if native
            else {
                "session.timeout.ms": SESSION_TIMEOUT_MS,
                "heartbeat.interval.ms": HEARTBEAT_MS,
                "partition.assignment.strategy": "range",
            }
        )
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "client.id": str(self.id),
            "enable.auto.commit": False,
            "fetch.wait.max.ms": 2_000,
            "reconnect.backoff.max.ms": 1_000,
        }
        consumer = Consumer(settings | own | QUIET)
        consumer.subscribe([self.topic])
        while not self._ends.is_set():
            consumer.poll(0.5)
        consumer.close()


class ShareClient(Client):
    """A share consumer of librdkafka."""

    def _work(self) -> None:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": self.group,
            "client.id": str(self.id),
            "reconnect.backoff.max.ms": 1_000,
        }
        consumer = ShareConsumer(settings | QUIET)
        consumer.subscribe([self.topic])
        while not self._ends.is_set():
            with contextlib.suppress(KafkaException):
                consumer.poll(0.5)
        consumer.close()


class ByHand(Client):
    """A member that sends its heartbeats itself, and joins again when its entry or the broker loses it."""

    def _work(self) -> None:
        while not self._ends.is_set():
            with contextlib.suppress(OSError, LookupError, AssertionError):
                self._be_a_member()
            self._ends.wait(0.5)

    @abstractmethod
    def _be_a_member(self) -> None:
        """Join, beat and leave."""


class StreamsClient(ByHand):
    """A member of a streams group."""

    def _be_a_member(self) -> None:
        member = RawStreamsMember(self.bootstrap, self.group, self.topic, client_id=str(self.id))
        with contextlib.closing(member):
            member.beat()
            while not self._ends.wait(HEARTBEAT_MS / 1000):
                member.beat()
            member.leave()


class ConnectClient(ByHand):
    """A member of a group of Kafka Connect's protocol type."""

    def _be_a_member(self) -> None:
        member = RawMember(
            self.bootstrap,
            self.group,
            self.topic,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            offer=Offer(protocol_type="connect"),
            client_id=str(self.id),
        )
        with member:
            member.call(ApiVersionsRequest())  # as every client does; before it the proxy observes nothing
            while not self._ends.is_set():
                member.join()
                member.sync()
                while member.heartbeat() == 0:
                    if self._ends.wait(HEARTBEAT_MS / 1000):
                        member.leave()
                        return


_CLIENTS: dict[str, type[Client]] = {
    Kind.CLASSIC: ConsumerClient,
    Kind.NATIVE: ConsumerClient,
    Kind.SHARE: ShareClient,
    Kind.STREAMS: StreamsClient,
    Kind.CONNECT: ConnectClient,
}


def started(bootstrap: str, group: str, topic: str, client: ClientId) -> Client:
    """Start a client of the kind that its id says."""
    return _CLIENTS[client.kind](bootstrap, group, topic, client)
